//! Errors of reading and writing bundles.

use seiner_codec::DecodeError;
use thiserror::Error;

/// Error: bytes that are not a directory, or not the chunk that a directory describes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BundleError {
    /// Directory with another checksum.
    #[error("the directory's checksum is {found:08x}, its first bytes state {expected:08x}")]
    DirectoryChecksum {
        /// Checksum that the directory states.
        expected: u32,
        /// Checksum of its bytes.
        found: u32,
    },
    /// Directory of an unknown version.
    #[error("the directory has version {found}; this program reads version {expected}")]
    Version {
        /// Version that this program reads.
        expected: u8,
        /// Version that the directory states.
        found: u8,
    },
    /// Directory whose bytes contradict each other.
    #[error("in the directory: {0}")]
    Directory(DecodeError),
    /// Index of a chunk that the bundle does not have.
    #[error("chunk {chunk} was requested; the bundle has {chunks}")]
    NoChunk {
        /// Index that was requested.
        chunk: usize,
        /// Number of chunks.
        chunks: usize,
    },
    /// Chunk with another number of bytes.
    #[error(
        "chunk {chunk}, at byte {offset} of the data, has {found} bytes, the directory states {expected}"
    )]
    ChunkLength {
        /// Index of the chunk.
        chunk: usize,
        /// Offset of the chunk in the data.
        offset: u64,
        /// Bytes that the directory states.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// Chunk with another checksum.
    #[error(
        "the checksum of chunk {chunk}, at byte {offset} of the data, is {found:08x}, the directory states {expected:08x}"
    )]
    ChunkChecksum {
        /// Index of the chunk.
        chunk: usize,
        /// Offset of the chunk in the data.
        offset: u64,
        /// Checksum that the directory states.
        expected: u32,
        /// Checksum of the bytes.
        found: u32,
    },
    /// Chunk whose bytes contradict each other or the directory.
    #[error("in chunk {chunk}, at byte {offset} of the data: {error}")]
    Chunk {
        /// Index of the chunk.
        chunk: usize,
        /// Offset of the chunk in the data.
        offset: u64,
        /// Place within the chunk, and the rule that the bytes break.
        error: DecodeError,
    },
}

/// Error: rows that a bundle does not take. The writer is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PushError {
    /// Source that is not behind the one before.
    #[error(
        "source {id} follows source {before}; push sources in ascending order of their numbers"
    )]
    Order {
        /// Number of the source.
        id: u64,
        /// Number of the source before.
        before: u64,
    },
    /// Source without rows.
    #[error("source {id} has no rows; leave it out")]
    NoRows {
        /// Number of the source.
        id: u64,
    },
    /// Rows that are not in ascending order of time.
    #[error("row {row} of source {id} is older than the row before; sort the rows by time")]
    Times {
        /// Number of the source.
        id: u64,
        /// Index of the row.
        row: usize,
    },
    /// Columns that do not belong to the layout or to the rows.
    #[error("{what} of source {id}: {found} instead of {expected}")]
    Shape {
        /// Number of the source.
        id: u64,
        /// Name of the property.
        what: &'static str,
        /// Value that layout or rows demand.
        expected: usize,
        /// Value of the columns.
        found: usize,
    },
    /// Source that is too large for a bundle.
    #[error("source {id} has {found} {what}, a bundle takes {most}; write it as blocks")]
    TooLarge {
        /// Number of the source.
        id: u64,
        /// Unit of the limit.
        what: &'static str,
        /// Largest permitted number.
        most: usize,
        /// Number of the source.
        found: usize,
    },
}
