//! Messages to the coordinator.

use super::OrderError;
use crate::array::marks::Change;
use crate::array::message::Incarnation;
use crate::mark::Mark;
use crate::member::Member;
use crate::request::Failure;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// An order to the array as a whole.
pub enum Order {
    /// Takes a member out of use.
    Fail(usize),
    /// Puts a device in the place of a lost member.
    Replace(usize, Arc<dyn Member>),
    /// Adds a spare device.
    Spare(Arc<dyn Member>),
    /// Starts a scrub.
    Scrub,
    /// Stops the scrub.
    StopScrub,
}

/// A message to the coordinator.
pub enum CoordinatorMessage {
    /// A shard no longer uses a member.
    Lost {
        /// Shard to notify after the loss is recorded.
        shard: usize,
        /// Number of the member.
        member: usize,
        /// Incarnation of the device.
        incarnation: Incarnation,
        /// True if the device exceeded the time limit.
        silent: bool,
    },
    /// A shard needs to write where the record has no mark.
    RequestMarks {
        /// Shard to notify after the marks are recorded.
        shard: usize,
        /// Marks that the shard needs, and marks that it no longer needs.
        change: Change,
    },
    /// The marks of a shard have changed, and no write waits for the record.
    UpdateMarks(Change),
    /// The set of doubtful stripes of a shard has changed.
    Doubts {
        /// Shard to notify after the set is recorded.
        shard: usize,
        /// All doubtful stripes of the shard.
        doubts: BTreeSet<u64>,
    },
    /// A shard uses the new device of a member.
    Installed(usize, Incarnation),
    /// One stripe of a task is done.
    StripeDone {
        /// Number of the task.
        task: u64,
        /// Number of the stripe.
        stripe: u64,
        /// Result of the work on the stripe.
        result: Result<(), Failure>,
    },
    /// An order, with the channel for its answer.
    Order(Order, Sender<Result<(), OrderError>>),
    /// Stops the array, with the channel for the result.
    Stop(Sender<Result<(), Failure>>),
    /// Result of the last flush.
    Flushed(Result<(), Failure>),
    /// A shard has ended. These marks must stay in the record.
    Finished(BTreeSet<Mark>),
    /// Ends the thread at once.
    Halt,
}
