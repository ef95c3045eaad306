//! Any bytes as a client of a network block device, in pieces: no panic, and answers in proportion to requests.
//! The first byte says how long the pieces are.

#![no_main]

use libfuzzer_sys::fuzz_target;

mod client;

fuzz_target!(|bytes: &[u8]| client::talk(bytes));
