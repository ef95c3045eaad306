//! Any bytes as a page of a segment's footer, as its sparse index and as its trailer: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::page(bytes);
    assert_eq!(fuzzing::sparse_index(bytes), bytes.len() / 16);
    fuzzing::trailer(bytes, 8192);
});
