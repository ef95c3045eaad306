//! Names files without checksums: opens any bytes, and calls every method. Any input is an error or an answer, never a
//! panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_names::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::names(bytes));
