//! Any bytes as a frame of the catalog, compressed already or still to be: never a panic.
//! The first byte counts the sources, the second the layouts, and the third tells which.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[sources, layouts, packed], rest)) = bytes.split_first_chunk::<3>() else { return };
    if packed & 1 == 1 {
        return fuzzing::frame(rest, 1 << 16, sources, layouts);
    }
    let body = zstd::bulk::compress(rest, 1).expect("zstd compresses into a buffer of its own");
    fuzzing::frame(&body, rest.len(), sources, layouts);
});
