//! Fill of the store and the values derived from it: hunger, planing, the delay of writers.

/// Budget of a store and its use, in bytes.
///
/// `used` includes all space that is or may become occupied: open segments with their full
/// reservation, and the output of a merge beside the segments that the merge reads. So a store that
/// keeps `used ≤ budget` never exceeds its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// Bytes that the store may occupy, the papers' C.
    pub budget: u64,
    /// Bytes that the store occupies: sealed and open segments, journal and all other files.
    pub used: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// Bytes of the budget that writers must not use. A merge writes its output into this reserve
    /// before it frees the segments it read.
    pub reserved: u64,
    /// Fill from which on segments are merged, the papers' Um, 0 to 1.
    pub um: f64,
}

impl Fill {
    /// Returns the used share of the budget, the papers' U.
    pub fn u(&self) -> f64 {
        share(self.used, self.budget)
    }

    /// Returns the live share of the budget, the papers' V.
    pub fn v(&self) -> f64 {
        share(self.live, self.budget)
    }

    /// Returns the hunger `H = (U − Um)/(Uw − Um)` (*Riak* §3.0.4, the fisherman).
    ///
    /// At 0 or below, no merge is needed. At 1, writers have no space left. `Uw` is the budget
    /// share without the reserve. The paper divides by `1 − Um` instead; with a reserve, its hunger
    /// would never reach 1.
    pub fn hunger(&self) -> f64 {
        self.hunger_at(self.used)
    }

    /// Returns the hunger for `used` used bytes.
    pub fn hunger_at(&self, used: u64) -> f64 {
        let full = share(self.budget.saturating_sub(self.reserved), self.budget);
        (share(used, self.budget) - self.um) / (full - self.um).max(f64::EPSILON)
    }

    /// Returns the unused bytes of the budget. The output of a merge must fit into them.
    pub fn free_space(&self) -> u64 {
        self.budget.saturating_sub(self.used)
    }

    /// Returns the bytes that writers may still use: the unused bytes without the reserve.
    pub fn headroom(&self) -> u64 {
        self.free_space().saturating_sub(self.reserved)
    }

    /// Returns the bytes above Um, which a merge has to free.
    pub fn excess(&self) -> u64 {
        self.used
            .saturating_sub((self.um * self.budget as f64) as u64)
    }

    /// Returns the largest R at which segments of one lifetime die whole:
    /// [`planing_segment_bytes`].
    pub fn planing_segment_bytes(&self) -> u64 {
        planing_segment_bytes(self.budget, self.um, self.v())
    }
}

/// Returns the largest R at which one lane planes, `R ≤ C(Um − V)` (*Riak* §4.2, planing, with one log
/// on C). With segments up to this size, some segments are dead before the fill reaches Um, so no
/// merge is needed.
pub fn planing_segment_bytes(capacity: u64, um: f64, v: f64) -> u64 {
    (capacity as f64 * (um - v).max(0.0)) as u64
}

/// Delay of writers by fill: `T = max(0, (U − Ul)/(Uh − Ul))` seconds (*Riak* §2.3, the put throttle).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Fill at which the delay begins, the papers' Ul.
    pub ul: f64,
    /// Fill at which the delay is one second, the papers' Uh.
    pub uh: f64,
}

impl Default for Throttle {
    /// Returns the paper's values, 95 % and 100 %.
    fn default() -> Throttle {
        Throttle { ul: 0.95, uh: 1.0 }
    }
}

impl Throttle {
    /// Returns the delay at fill `u`, in seconds.
    pub fn delay_s(&self, u: f64) -> f64 {
        ((u - self.ul) / (self.uh - self.ul).max(f64::EPSILON)).max(0.0)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_papers_throttle() {
        let throttle = Throttle::default();
        assert_eq!(throttle.delay_s(0.5), 0.0);
        assert_eq!(throttle.delay_s(0.95), 0.0);
        assert!(close(throttle.delay_s(0.96), 0.2));
        assert!(close(throttle.delay_s(1.0), 1.0));
    }

    #[test]
    fn the_papers_planing() {
        // C = 100 GB on 64 vnodes, Um = 0.8: a file of 1 GB planes up to V = 0.16.
        let vnode = 100_000_000_000 / 64;
        assert!(planing_segment_bytes(vnode, 0.8, 0.15) > 1_000_000_000);
        assert!(planing_segment_bytes(vnode, 0.8, 0.17) < 1_000_000_000);
        assert_eq!(planing_segment_bytes(vnode, 0.8, 0.9), 0);
    }

    #[test]
    fn shares_hunger_and_headroom_follow_from_the_fill() {
        let fill = Fill {
            budget: 1000,
            used: 900,
            live: 700,
            reserved: 40,
            um: 0.8,
        };
        assert!(close(fill.u(), 0.9) && close(fill.v(), 0.7));
        assert!(close(fill.hunger(), 0.625));
        assert!(close(fill.hunger_at(800), 0.0) && close(fill.hunger_at(960), 1.0));
        assert_eq!(
            (fill.free_space(), fill.headroom(), fill.excess()),
            (100, 60, 100)
        );
        assert!((99..=100).contains(&fill.planing_segment_bytes()));
    }
}
