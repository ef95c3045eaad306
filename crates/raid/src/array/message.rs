//! Messages to the thread of a shard.

use super::answer::Answer;
use crate::block::Page;
use crate::mark::Mark;
use crate::member::Member;
use crate::request::Request;
use crate::shard::Shard;
use std::sync::Arc;

/// Work on a stripe by a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Computes and writes the blocks that this member lacks.
    Rebuild(usize),
    /// Compares data with syndromes.
    Scrub,
    /// Makes the syndromes match the data.
    Resync,
}

/// Number of times that a member's place was given to a device. It distinguishes a device from its
/// predecessors.
pub type Incarnation = u64;

/// Callback that inspects a state machine.
pub type Inspection = Box<dyn FnOnce(&Shard<Page>) + Send>;

/// A message to the thread.
pub enum ShardMessage {
    /// A request for stripes of this shard.
    Request(Request<Page>, Answer),
    /// A job on a stripe of this shard.
    Job(Job, u64, Answer),
    /// Takes a member out of use, if it has this incarnation.
    Lose(usize, Incarnation),
    /// Puts a device in the place of a lost member. The device is complete in all stripes before the given one.
    Replace(usize, Incarnation, Arc<dyn Member>, u64),
    /// The last message to the coordinator was recorded.
    Recorded,
    /// The last message was not recorded because the array is broken. No write may be acknowledged.
    Unrecorded,
    /// These marks are recorded.
    Marked(Vec<Mark>),
    /// Runs a callback on the state machine.
    Inspect(Inspection),
    /// Ends the thread after all requests in flight.
    Finish,
    /// Ends the thread at once.
    Halt,
}
