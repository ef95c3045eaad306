//! Victims by dead share, largest first (*Riak* §3.0.1, the merge queue).

use super::{Deciding, Decision, MergePolicy, Policy, View};
use crate::SegmentStat;

/// Takes the largest D first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn kind(&self) -> MergePolicy {
        MergePolicy::Greedy
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, MergePolicy::Greedy).take_until_sated(SegmentStat::dead_share)
    }
}
