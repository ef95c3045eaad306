//! Network block device (NBD) server for any [`Export`].
//!
//! The protocol is a pure state machine ([`Session`]): bytes in, commands and bytes out. Each connection has a thread
//! that reads all bytes that have arrived and answers with one write. Any thread may complete commands, in any order.
//! `docs/format/nbd.md` lists the supported part of the protocol. No input of a client causes a panic, or uses more
//! memory than [`Limits`] permit.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod blockwise;
mod connection;
mod end;
mod export;
mod handshake;
mod link;
mod listen;
mod memory;
mod offer;
mod protocol;
mod ranges;
mod server;
mod session;
mod time;
mod transmission;
mod zeroing;

pub use end::End;
pub use export::{Command, Completion, Errno, Export, ExportShape, Fault};
pub use listen::{Address, ListenError};
pub use memory::Memory;
pub use offer::{Limits, Offer};
pub use server::Server;
pub use session::Session;
