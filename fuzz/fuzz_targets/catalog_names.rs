//! Keys and layouts, as catalog and journal register them. No input causes a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::names(bytes));
