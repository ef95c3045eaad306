//! What goes into the array and what comes out: requests and replies, operations of members and their outcomes.

use thiserror::Error;

/// Nanoseconds of the caller's clock, which never goes back.
pub type Nanos = u64;

/// The caller's name of a request.
pub type Token = u64;

/// What is asked of the volume. Addresses and lengths are in blocks of [`crate::BLOCK_BYTES`].
#[derive(Clone, Debug)]
pub enum Request<B> {
    /// Give me the blocks.
    Read {
        /// First block.
        start: u64,
        /// How many.
        blocks: u64,
    },
    /// Keep these blocks.
    Write {
        /// First block.
        start: u64,
        /// The blocks.
        data: Vec<B>,
        /// Acknowledge when it survives a power cut (*force unit access*).
        durable: bool,
    },
    /// Acknowledge when all writes acknowledged before survive a power cut.
    Flush,
    /// What these blocks hold matters no more. Stripes that lie whole among them hold zeroes afterwards; others stay.
    Trim {
        /// First block.
        start: u64,
        /// How many.
        blocks: u64,
    },
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// It reaches beyond the end of the volume, or asks for nothing.
    #[error("blocks {start} to {end} of a volume of {size}: ask for blocks within it")]
    OutOfRange {
        /// First block asked for.
        start: u64,
        /// The block after the last.
        end: u64,
        /// Blocks of the volume.
        size: u64,
    },
    /// More members are gone than the level bears.
    #[error("more members are gone than the level bears; bring them back, or restore from a copy")]
    Broken,
    /// The array is being stopped, or has been.
    #[error("the array has been stopped; assemble it again")]
    Stopped,
    /// Syndromes may not fit, after a power cut or before the first sync, and data are lost that they would have to give back.
    #[error(
        "stripe {stripe}: a member is lost, and a power cut came while it was written, or it was never synced since the array was created; write it whole, or restore from a copy"
    )]
    Doubtful {
        /// The stripe.
        stripe: u64,
    },
    /// Data and syndromes of a stripe do not fit, and nothing says which are wrong.
    #[error(
        "stripe {stripe}: data and syndromes do not fit, and nothing says which are wrong; compare with a copy, then write or resync it"
    )]
    Inconsistent {
        /// The stripe.
        stripe: u64,
    },
    /// More of a stripe is lost than its syndromes make good.
    #[error(
        "stripe {stripe}: more members or sectors are lost than the level bears; restore from a copy"
    )]
    Lost {
        /// The stripe.
        stripe: u64,
    },
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Reply<B> {
    /// The request's name.
    pub token: Token,
    /// Blocks read (none for writes and flushes), or why not.
    pub result: Result<Vec<B>, Failure>,
}

/// The array's name of a member's operation.
pub type OpId = usize;

/// What a member is to do. Addresses are in blocks of the member's room for data.
#[derive(Clone, Debug)]
pub enum Action<B> {
    /// Read blocks.
    Read {
        /// First block.
        start: u64,
        /// How many.
        blocks: u32,
    },
    /// Read blocks, and take what is there for true: whatever checksum they had is that of what is there afterwards.
    Adopt {
        /// First block.
        start: u64,
        /// How many.
        blocks: u32,
    },
    /// Let blocks hold zeroes, and give up their room if possible.
    Discard {
        /// First block.
        start: u64,
        /// How many.
        blocks: u64,
    },
    /// Write blocks, each of them whole or not at all.
    Write {
        /// First block.
        start: u64,
        /// The blocks.
        data: Vec<B>,
        /// To stable storage, not only to the member's cache.
        durable: bool,
    },
    /// Bring to stable storage what was written.
    Flush,
}

/// An operation of a member.
#[derive(Clone, Debug)]
pub struct Operation<B> {
    /// Its name, given back with the outcome.
    pub id: OpId,
    /// The member.
    pub member: usize,
    /// What to do.
    pub action: Action<B>,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub enum Outcome<B> {
    /// Blocks were read.
    Read(Vec<B>),
    /// A write or a flush succeeded.
    Done,
    /// Some of the blocks cannot be read; the member works.
    Unreadable,
    /// Some of the blocks are not what was written, by their checksums.
    Corrupt,
    /// The member does not answer, or refuses to write.
    Gone,
}

/// What the array wants after an event.
#[derive(Clone, Debug)]
pub struct Output<B> {
    /// Operations to start, in any order.
    pub operations: Vec<Operation<B>>,
    /// Requests that are answered.
    pub replies: Vec<Reply<B>>,
    /// Members that are no longer used: the other shards of the array must be told so.
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
