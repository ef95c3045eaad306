//! Any bytes as a client of a network block device, in pieces. Shared with `crates/nbd/tests/pieces.rs`, which needs no fuzzer.

use seiner_nbd::{Limits, Memory, Offer, Session};
use std::sync::Arc;

/// What may wait to be sent: the limit, and one request beyond it.
const MOST_BYTES: usize = (1 << 20) + (64 << 10) + 1024;

/// Says the bytes. The first of them says how long the pieces are.
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
