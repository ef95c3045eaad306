//! The cost-benefit rule of log-structured file systems: old segments are worth cleaning sooner,
//! as what is free in them stays free for longer.

use super::{Deciding, Decision, Kind, Policy, View};

/// Highest `(1 − u)·age/(1 + u)` first, u being the live share: the room gained, for as long as it
/// was stable so far, over reading one segment and writing u of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit;

impl Policy for CostBenefit {
    fn kind(&self) -> Kind {
        Kind::CostBenefit
    }

    fn choose(&mut self, view: &View) -> Decision {
        Deciding::new(view, Kind::CostBenefit).take_until_sated(|segment| {
            let live = 1.0 - segment.dead_share();
            (1.0 - live) * segment.age(view.now) as f64 / (1.0 + live)
        })
    }
}
