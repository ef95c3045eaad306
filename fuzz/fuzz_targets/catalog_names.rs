//! Any bytes as the keys and the layouts that catalog and journal register: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::names(bytes));
