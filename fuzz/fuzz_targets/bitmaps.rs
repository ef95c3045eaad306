//! Bitmaps. Any input is an error, or a bitmap that survives encoding and decoding. The first two bytes are the
//! count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_codec::{decode_bitmap, encode_bitmap};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[low, high], mut rest)) = bytes.split_first_chunk::<2>() else { return };
    let count = usize::from(u16::from_le_bytes([low, high]));
    if let Ok(bitmap) = decode_bitmap(&mut rest, count) {
        let mut encoded = Vec::new();
        encode_bitmap(&bitmap, &mut encoded);
        assert_eq!(decode_bitmap(&mut encoded.as_slice(), count), Ok(bitmap));
    }
});
