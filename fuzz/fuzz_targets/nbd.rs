//! A client of a network block device that sends its bytes in pieces. No input causes a panic, and the size of the
//! answers is proportional to the requests. The first byte is the size of the pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod client;

fuzz_target!(|bytes: &[u8]| client::talk(bytes));
