//! Frames of the catalog, compressed or not. No input causes a panic. The first byte is the number of sources, the
//! second the number of layouts. The third byte chooses between the two forms.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[sources, layouts, packed], rest)) = bytes.split_first_chunk::<3>() else { return };
    if packed & 1 == 1 {
        return fuzzing::frame(rest, 1 << 16, sources, layouts);
    }
    let body = zstd::bulk::compress(rest, 1).expect("zstd allocates a large enough output buffer");
    fuzzing::frame(&body, rest.len(), sources, layouts);
});
