//! Blocks of Prometheus (TSDB): the series of an index, chunks of samples, and tombstones.
//!
//! The decoders get bytes whose checksums the caller has compared. Nevertheless, no bytes cause a panic, or memory that
//! is not proportional to the bytes. Numbers that do not fit wrap around, as they do in Prometheus.

mod bits;
pub mod chunk;
mod cursor;
pub mod index;
pub mod tombstones;

/// Error for bytes that are no part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (byte {at} of this part)")]
pub struct TsdbError {
    /// Position in the decoded bytes.
    pub at: usize,
    /// Description of the fault.
    pub what: &'static str,
}
