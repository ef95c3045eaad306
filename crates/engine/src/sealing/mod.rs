//! Sealing: buffers become blocks of the log, in three steps.
//!
//! 1. *Take*: a buffer leaves its source and joins the [`queue`]. This takes constant time under the
//!    store's lock, and readers find the rows in the queue.
//! 2. *Encode*: [`encode`] makes blocks of the rows, without a lock.
//! 3. *Append*: a block joins the open segment of its lane, and the buffer's memory is free again.
//!    This is done under the lock; it copies the bytes of the block.
//!
//! Buffers are encoded and appended in the order in which they were taken. So the blocks of a source
//! reach the log in the order of their numbers, and a block's predecessors are known when it is judged
//! whether it may overwrite one of them.

pub mod encode;
pub mod queue;
