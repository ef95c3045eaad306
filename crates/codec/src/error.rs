//! What can be wrong with bytes that are to be decoded.

use thiserror::Error;

/// The most values that one call decodes; a larger count is refused before anything is allocated.
pub const MAX_COUNT: usize = 1 << 20;

/// Bytes that no encoder of this crate wrote for that count and type. Offsets are in bytes from
/// the front of the slice that the decoder was given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("{what} at byte {offset} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts.
        offset: usize,
        /// How many bytes it needs, as far as is known.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A tag that names no codec of this type.
    #[error("codec tag {found} at byte {offset} is not one for {what}")]
    UnknownCodec {
        /// What was being read.
        what: &'static str,
        /// Where the tag is.
        offset: usize,
        /// The tag.
        found: u8,
    },
    /// Bytes that contradict themselves or the count.
    #[error("at byte {offset}: {what}")]
    Invalid {
        /// The rule that is broken.
        what: &'static str,
        /// Where the offending item starts or ends.
        offset: usize,
    },
    /// A count that no encoder is given.
    #[error("{count} values were asked for; a column holds at most {MAX_COUNT}")]
    TooMany {
        /// The count asked for.
        count: usize,
    },
}
