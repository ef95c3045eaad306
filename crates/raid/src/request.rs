//! Inputs and outputs of the array: requests and replies, member operations and outcomes.

use thiserror::Error;

/// Time of the caller's monotonic clock, ns.
pub type Nanos = u64;

/// Caller's name of a request.
pub type Token = u64;

/// A request to the volume. Addresses and lengths are in blocks of [`crate::BLOCK_BYTES`].
#[derive(Clone, Debug)]
pub enum Request<B> {
    /// Reads blocks.
    Read {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
    },
    /// Writes blocks.
    Write {
        /// First block.
        start: u64,
        /// Contents of the blocks.
        data: Vec<B>,
        /// True to acknowledge only after the write survives a power cut (*force unit access*).
        durable: bool,
    },
    /// Acknowledges after all writes acknowledged before survive a power cut.
    Flush,
    /// Discards the contents of blocks. Whole stripes within the range read as zeroes afterwards. Other blocks
    /// keep their contents.
    Trim {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
    },
}

/// Reasons for the failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The request reaches beyond the end of the volume, or has no blocks.
    #[error("blocks {start} to {end} of a volume of {size}: request blocks within the volume")]
    OutOfRange {
        /// First block of the request.
        start: u64,
        /// Block after the last one of the request.
        end: u64,
        /// Number of blocks of the volume.
        size: u64,
    },
    /// More members are lost than the redundancy covers.
    #[error(
        "more members are lost than the level tolerates; reconnect them, or restore from a copy"
    )]
    Broken,
    /// The array is being stopped, or has been stopped.
    #[error("the array has been stopped; assemble it again")]
    Stopped,
    /// Lost data cannot be decoded, because the syndromes may not match after a power cut or before the first
    /// sync.
    #[error(
        "stripe {stripe}: a member is lost, and the stripe was being written at a power cut, or was never synced since the array was created; write the whole stripe, or restore from a copy"
    )]
    Doubtful {
        /// Number of the stripe.
        stripe: u64,
    },
    /// Data and syndromes of a stripe do not match, and the wrong blocks cannot be identified.
    #[error(
        "stripe {stripe}: data and syndromes do not match, and the wrong block cannot be identified; compare with a copy, then write or resync the stripe"
    )]
    Inconsistent {
        /// Number of the stripe.
        stripe: u64,
    },
    /// More of a stripe is lost than its syndromes can restore.
    #[error(
        "stripe {stripe}: more members or sectors are lost than the level tolerates; restore from a copy"
    )]
    Lost {
        /// Number of the stripe.
        stripe: u64,
    },
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Reply<B> {
    /// Name of the request.
    pub token: Token,
    /// Blocks read (none for writes and flushes), or the failure.
    pub result: Result<Vec<B>, Failure>,
}

/// Array's name of a member operation.
pub type OpId = usize;

/// A member operation. Addresses are in blocks of the member's data area.
#[derive(Clone, Debug)]
pub enum Action<B> {
    /// Reads blocks.
    Read {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Reads blocks and accepts their contents: their checksums are replaced by those of the contents.
    Adopt {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u32,
    },
    /// Makes blocks read as zeroes, and frees their space if possible.
    Discard {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
    },
    /// Writes blocks, each of them atomically.
    Write {
        /// First block.
        start: u64,
        /// Contents of the blocks.
        data: Vec<B>,
        /// True to write to stable storage rather than the member's cache.
        durable: bool,
    },
    /// Makes all earlier writes durable.
    Flush,
}

/// A member operation with its name.
#[derive(Clone, Debug)]
pub struct Operation<B> {
    /// Name of the operation, which is returned with the outcome.
    pub id: OpId,
    /// Number of the member.
    pub member: usize,
    /// Operation to execute.
    pub action: Action<B>,
}

/// Outcome of an operation.
#[derive(Clone, Debug)]
pub enum Outcome<B> {
    /// Blocks that were read.
    Read(Vec<B>),
    /// A write or a flush succeeded.
    Done,
    /// Some of the blocks cannot be read. The member works otherwise.
    Unreadable,
    /// Contents of some blocks do not match their checksums.
    Corrupt,
    /// The member does not respond, or rejects writes.
    Gone,
}

/// Output of the array after an event.
#[derive(Clone, Debug)]
pub struct Output<B> {
    /// Operations to start, in any order.
    pub operations: Vec<Operation<B>>,
    /// Answers to requests.
    pub replies: Vec<Reply<B>>,
    /// Members that are no longer used. The other shards of the array must be notified.
    pub lost_members: Vec<usize>,
}

impl<B> Default for Output<B> {
    fn default() -> Self {
        Output {
            operations: Vec::new(),
            replies: Vec::new(),
            lost_members: Vec::new(),
        }
    }
}
