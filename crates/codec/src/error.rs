//! Errors of decoding.

use thiserror::Error;

/// Maximum number of values that one call decodes. A larger count fails before any allocation.
pub const MAX_COUNT: usize = 1 << 20;

/// Error: bytes that no encoder of this crate writes for that type and count. Offsets are bytes from
/// the start of the slice given to the decoder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within a value.
    #[error("{what} at byte {offset} needs {needed} bytes, {left} are left")]
    Truncated {
        /// Name of the value that was read.
        what: &'static str,
        /// Offset of the value in bytes.
        offset: usize,
        /// Bytes that the value needs, as far as known.
        needed: usize,
        /// Bytes left in the slice.
        left: usize,
    },
    /// A tag that is not a codec of this type.
    #[error("codec tag {found} at byte {offset} is not one for {what}")]
    UnknownCodec {
        /// Name of the value that was read.
        what: &'static str,
        /// Offset of the tag in bytes.
        offset: usize,
        /// Tag that was found.
        found: u8,
    },
    /// Bytes that contradict each other or the count.
    #[error("at byte {offset}: {what}")]
    Invalid {
        /// Rule that the bytes break.
        what: &'static str,
        /// Offset in bytes at which the offending item starts or ends.
        offset: usize,
    },
    /// A count above [`MAX_COUNT`].
    #[error("{count} values were requested; a column holds at most {MAX_COUNT}")]
    TooMany {
        /// Count that was requested.
        count: usize,
    },
}
