//! Bundles: a directory and its chunks, without checksums. Any input is an error or rows, never a panic. The first two
//! bytes are the length of the directory; the rest is data.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_bundle::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (directory, data) = rest.split_at(length);
    fuzzing::bundle(directory, data);
});
