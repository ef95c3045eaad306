//! Any bytes as the header of a journal file: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::journal_header(bytes));
