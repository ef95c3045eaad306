//! The fisherman of *Riak* §3.0.4: with growing hunger it takes segments with a smaller dead share.

use super::{Deciding, Decision, Memory, MergePolicy, Policy, View};
use crate::SegmentStat;

/// Takes a segment when `D ≥ Dm`, with `Dm = min(1 − H, ewma(D))` while `H > 0` and 1 otherwise.
///
/// The average is over all segments taken (merged or dropped), including wholly dead segments.
#[derive(Clone, Copy, Debug)]
pub struct Fisherman {
    memory: Memory,
    weight: f64,
}

/// Weight of the latest taken segment in the average.
const WEIGHT: f64 = 0.1;

impl Default for Fisherman {
    fn default() -> Fisherman {
        Fisherman::new(WEIGHT)
    }
}

impl Fisherman {
    /// Creates a fisherman. `weight` is that of the latest taken segment in the average: above 0,
    /// at most 1.
    pub fn new(weight: f64) -> Fisherman {
        Fisherman {
            memory: Memory::default(),
            weight,
        }
    }

    fn take(&mut self, dead_share: f64) {
        let Memory {
            average_dead_share,
            taken,
        } = &mut self.memory;
        let weight = if *taken == 0 { 1.0 } else { self.weight };
        *average_dead_share += weight * (dead_share - *average_dead_share);
        *taken += 1;
    }

    /// Returns the least dead share that is merged at `hunger`, the papers' Dm.
    pub fn least_dead_share(&self, hunger: f64) -> f64 {
        match hunger > 0.0 {
            true if self.memory.taken == 0 => 1.0 - hunger,
            true => (1.0 - hunger).min(self.memory.average_dead_share),
            false => 1.0,
        }
    }
}

impl Policy for Fisherman {
    fn kind(&self) -> MergePolicy {
        MergePolicy::Fisherman
    }

    fn choose(&mut self, view: &View) -> Decision {
        let mut deciding = Deciding::new(view, MergePolicy::Fisherman);
        for _ in 0..deciding.decision.drop.len() {
            self.take(1.0);
        }
        let least = self.least_dead_share(deciding.hunger());
        let why = &mut deciding.decision.why;
        why.least_dead_share = Some(least);
        why.average_dead_share = Some(self.memory.average_dead_share);
        if least >= 1.0 {
            return deciding.decision;
        }
        for (dead_share, segment) in deciding.ranked(SegmentStat::dead_share) {
            if dead_share < least {
                break;
            }
            if deciding.take(dead_share, segment) {
                self.take(dead_share);
            }
        }
        deciding.decision
    }

    fn memory(&self) -> Memory {
        self.memory
    }

    fn recall(&mut self, memory: Memory) {
        self.memory = memory;
    }
}
