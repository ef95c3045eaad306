//! A client of a network block device that sends any bytes in pieces. `crates/nbd/tests/pieces.rs` runs it without a
//! fuzzer.

use seiner_nbd::{Limits, Memory, Offer, Session};
use std::sync::Arc;

/// Maximum number of bytes that wait to be sent: the limit, and one more request.
const MOST_BYTES: usize = (1 << 20) + (64 << 10) + 1024;

/// Sends the bytes to a server. The first byte is the size of the pieces.
pub fn talk(bytes: &[u8]) {
    let Some((&length, bytes)) = bytes.split_first() else {
        return;
    };
    let disk = Memory::new(64 << 10, 4096).with(|shape| shape.zeroes = length % 2 == 0);
    let rom = Memory::new(4096, 512).with(|shape| shape.read_only = true);
    let offers = [
        Offer::new("d", "disk", Arc::new(disk)),
        Offer::new("r", "", Arc::new(rom)),
    ];
    let limits = Limits {
        bytes: 1 << 20,
        ..Limits::default()
    };
    let mut session = Session::new(offers.into(), limits).expect("descriptors are left");
    let mut waiting = Vec::new();
    for piece in bytes.chunks(1 + usize::from(length) * 8) {
        waiting.extend_from_slice(piece);
        match session.receive(&waiting) {
            Ok(used) => drop(waiting.drain(..used)),
            Err(_) => break,
        }
        assert!(session.take_output().len() <= MOST_BYTES);
    }
}
