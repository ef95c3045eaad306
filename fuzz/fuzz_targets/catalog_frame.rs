//! Any bytes as a frame of the catalog, compressed already or still to be: never a panic.
//! The first two bytes count the sources, the next two the layouts, and the fifth tells which.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[a, b, c, d, packed], rest)) = bytes.split_first_chunk::<5>() else { return };
    let (sources, layouts) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if packed & 1 == 1 {
        return fuzzing::frame(rest, 1 << 16, sources, layouts);
    }
    let body = zstd::bulk::compress(rest, 1).expect("zstd compresses into a buffer of its own");
    fuzzing::frame(&body, rest.len(), sources, layouts);
});
