//! A server of network block devices: an array, or anything else that is an [`Export`], for clients that speak NBD.
//!
//! The protocol is a pure state machine ([`Session`]: bytes in, commands and bytes out); a connection has a thread that
//! takes in all that has arrived and answers with one write. Commands may be completed by any thread, in any order.
//! What is spoken, and what is not, stands in `docs/format/nbd.md`. No byte that a client sends makes the server panic
//! or take more memory than [`Limits`] say.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod array;
mod blockwise;
mod connection;
mod export;
mod handshake;
mod link;
mod listen;
mod memory;
mod protocol;
mod ranges;
mod server;
mod session;
mod transmission;
mod zeroing;

pub use export::{Command, Completion, Errno, Export, Fault, Shape};
pub use listen::{Address, ListenError};
pub use memory::Memory;
pub use server::{Limits, Offer, Server};
pub use session::{End, Session};
