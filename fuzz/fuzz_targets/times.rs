//! Times. Any input is an error, after which nothing is appended, or the requested number of times. The first two
//! bytes are the count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_codec::decode_times;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[low, high], mut rest)) = bytes.split_first_chunk::<2>() else { return };
    let count = usize::from(u16::from_le_bytes([low, high])) % 4096;
    let mut times = vec![7];
    let appended = match decode_times(&mut rest, count, &mut times) {
        Ok(()) => count,
        Err(_) => 0,
    };
    assert_eq!(times.len(), 1 + appended);
});
