//! What the keeper is told and asked.

use super::Refusal;
use crate::array::worker::Incarnation;
use crate::member::Member;
use crate::request::Failure;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What is asked of the array as a whole.
pub enum Order {
    /// A member is no longer to be used.
    Fail(usize),
    /// This device takes the place of a lost member.
    Replace(usize, Arc<dyn Member>),
    /// This device waits for a member to be lost.
    Spare(Arc<dyn Member>),
    /// Everything is to be read and compared.
    Scrub,
    /// No more of it.
    StopScrub,
}

/// What the keeper is told.
pub enum Word {
    /// A shard no longer uses a member.
    Lost {
        /// The shard, to be told when that is on record.
        shard: usize,
        /// The member.
        member: usize,
        /// Which device of the member's place.
        incarnation: Incarnation,
        /// It did not answer in time.
        silent: bool,
    },
    /// A shard is about to write in a region for which there is no record.
    Mark {
        /// The shard, to be told when there is.
        shard: usize,
        /// The region.
        region: u64,
    },
    /// All that was written in these regions is durable.
    Clear(Vec<u64>),
    /// The doubtful stripes of a shard are these now.
    Doubts {
        /// The shard, to be told when that is on record.
        shard: usize,
        /// The stripes.
        doubts: BTreeSet<u64>,
    },
    /// A shard uses the new device of a member.
    Installed(usize, Incarnation),
    /// A chore of a task is done.
    Chored {
        /// The task.
        task: u64,
        /// The stripe.
        stripe: u64,
        /// With success?
        result: Result<(), Failure>,
    },
    /// Something is asked of the array.
    Order(Order, Sender<Result<(), Refusal>>),
    /// Everything is to end; tell when it has.
    Stop(Sender<Result<(), Failure>>),
    /// All is durable, or not.
    Flushed(Result<(), Failure>),
    /// A shard has ended; these regions must stay on record.
    Finished(BTreeSet<u64>),
    /// End now.
    Halt,
}
