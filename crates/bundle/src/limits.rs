//! Limits that writer and reader share. They bound the memory that hostile bytes can demand.

/// Largest number of cells (rows times fields) of a chunk, and so of a source.
pub(crate) const MAX_CELLS: usize = 1 << 20;
/// Largest number of bytes of the texts of a chunk, and so of a source.
pub(crate) const MAX_TEXT: usize = 1 << 24;
/// Samples of a chunk below which it is never cut, because the states and checksums of a small chunk
/// take too large a part.
pub(crate) const MIN_CHUNK: usize = 500;
/// Sources of a chunk after which it ends, so that one source of it does not take too long to read.
pub(crate) const CHUNK_SOURCES: usize = 1024;
/// Bytes of texts after which a chunk ends, so that one source of it does not cost too much to read.
pub(crate) const CHUNK_TEXT: usize = 1 << 18;
/// Bytes of texts of one field that a writer accepts.
pub(crate) const MAX_GROUP_TEXT: usize = 1 << 30;
/// Largest number of entries of a dictionary of texts.
pub(crate) const MAX_ENTRIES: usize = 1 << 16;
