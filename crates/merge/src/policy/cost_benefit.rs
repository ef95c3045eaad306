//! Cost-benefit rule of log-structured file systems: old segments are cleaned sooner, because the
//! space freed in them stays free for longer.

use super::{Deciding, Decision, MergePolicy, Policy, View};

/// Takes the highest `(1 − u)·age/(1 + u)` first; u is the live share of the segment.
///
/// The numerator is the space freed times the age, which estimates how long the rest stays live.
/// The denominator is the cost: one segment read and u of a segment written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit;

impl Policy for CostBenefit {
    fn kind(&self) -> MergePolicy {
        MergePolicy::CostBenefit
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, MergePolicy::CostBenefit).take_until_sated(|segment| {
            let live = 1.0 - segment.dead_share();
            (1.0 - live) * segment.age(view.now) as f64 / (1.0 + live)
        })
    }
}
