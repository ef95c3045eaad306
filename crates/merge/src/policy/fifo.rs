//! Bitcask's rule, as the authors of *Riak* found it: rotated files are merged oldest first.

use super::{Deciding, Decision, MergePolicy, Policy, View};

/// Takes the oldest segment first, without regard to its live share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn kind(&self) -> MergePolicy {
        MergePolicy::Fifo
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, MergePolicy::Fifo).take_until_sated(|segment| -(segment.number as f64))
    }
}
