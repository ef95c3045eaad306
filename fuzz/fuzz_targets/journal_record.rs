//! Any bytes as the body of a journal record, with the names, layouts and rows in it: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::record(bytes));
