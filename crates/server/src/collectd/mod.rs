//! collectd: packets of its network plugin over UDP.
//!
//! A packet is a datagram, and nothing is acknowledged. The files with types and passwords are read at the start.

mod files;
mod ingest;

pub use files::packets;
pub use ingest::PACKETS;
