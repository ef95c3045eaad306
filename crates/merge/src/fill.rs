//! How full the store is, and what follows: hunger, planing, the writers' delay.

/// The room of a store and what is in it, all in bytes.
///
/// The budget is a promise: `used` counts everything that occupies room, open segments with all
/// that they may still take, and the output of a merge beside the segments it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// What the store may occupy, the papers' C.
    pub budget: u64,
    /// What it occupies: sealed and open segments, journal, everything.
    pub used: u64,
    /// Bytes of live blocks.
    pub live: u64,
    /// The part of the budget that writers leave alone, so that a merge always has room to write
    /// what it keeps before it frees what it read.
    pub reserved: u64,
    /// The fill at which merging begins, the papers' Um, 0 to 1.
    pub um: f64,
}

impl Fill {
    /// Used share of the budget, the papers' U.
    pub fn u(&self) -> f64 {
        share(self.used, self.budget)
    }

    /// Live share of the budget, the papers' V.
    pub fn v(&self) -> f64 {
        share(self.live, self.budget)
    }

    /// Hunger, `H = (U − Um)/(Uw − Um)` (*Riak*, the fisherman): not above 0 while there is no need
    /// to merge, 1 when writers have no room left. The paper's store is full at 1, ours at `Uw`, for
    /// writers leave the reserve alone: a policy that waits for a hunger of 1 would wait for ever.
    pub fn hunger(&self) -> f64 {
        self.hunger_at(self.used)
    }

    /// Hunger if so many bytes were used.
    pub fn hunger_at(&self, used: u64) -> f64 {
        let full = share(self.budget.saturating_sub(self.reserved), self.budget);
        (share(used, self.budget) - self.um) / (full - self.um).max(f64::EPSILON)
    }

    /// What may still be written for as long as nothing is freed: a merge's output must fit.
    pub fn room(&self) -> u64 {
        self.budget.saturating_sub(self.used)
    }

    /// What writers may take of the room: all but the reserve.
    pub fn room_for_writers(&self) -> u64 {
        self.room().saturating_sub(self.reserved)
    }

    /// Bytes above Um: what a merge has to free to be satisfied.
    pub fn excess(&self) -> u64 {
        self.used
            .saturating_sub((self.um * self.budget as f64) as u64)
    }

    /// The largest R at which segments of one lifetime die whole: see [`planing_segment_bytes`].
    pub fn planing_segment_bytes(&self) -> u64 {
        planing_segment_bytes(self.budget, self.um, self.v())
    }
}

/// The largest R at which one lane planes, `R ≤ C(Um − V)` (*Riak*, planing, with one log on C):
/// while Um is not reached there are always wholly dead segments, and merging costs nothing.
pub fn planing_segment_bytes(capacity: u64, um: f64, v: f64) -> u64 {
    (capacity as f64 * (um - v).max(0.0)) as u64
}

/// When writers are slowed: `T = max(0, (U − Ul)/(Uh − Ul))` seconds (*Riak*, the put throttle).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// The fill at which it begins, the papers' Ul.
    pub ul: f64,
    /// The fill at which it has reached a second, the papers' Uh.
    pub uh: f64,
}

impl Default for Throttle {
    /// The paper's 95 % and 100 %.
    fn default() -> Throttle {
        Throttle { ul: 0.95, uh: 1.0 }
    }
}

impl Throttle {
    /// The delay at fill U, in seconds.
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
        // Ci = 100 GB on 64 vnodes, Um = 0.8: a file of 1 GB planes up to V = 0.16.
        let vnode = 100_000_000_000 / 64;
        assert!(planing_segment_bytes(vnode, 0.8, 0.15) > 1_000_000_000);
        assert!(planing_segment_bytes(vnode, 0.8, 0.17) < 1_000_000_000);
        assert_eq!(planing_segment_bytes(vnode, 0.8, 0.9), 0);
    }

    #[test]
    fn fill_and_hunger() {
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
            (fill.room(), fill.room_for_writers(), fill.excess()),
            (100, 60, 100)
        );
        assert!((99..=100).contains(&fill.planing_segment_bytes()));
    }
}
