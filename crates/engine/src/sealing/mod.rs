//! Sealing: converts buffers into blocks of the log, in three steps.
//!
//! 1. *Take*: a buffer leaves its source and is added to the [`queue`]. This takes constant time
//!    under the head's lock, and readers find the rows in the queue.
//! 2. *Encode*: [`encode`] converts the rows into a block, without a lock.
//! 3. *Append*: the block is copied to the open segment of its lane, under the log's lock. Then the
//!    buffer's memory is freed.
//!
//! Buffers are encoded and appended in the order in which they were taken. The blocks of a source
//! are therefore added to the log in the order of their numbers, and all earlier blocks are known
//! when a block is marked as late.

pub mod encode;
pub mod queue;
