//! Where a shard writes, and whether that is on record: no member is written in a region before the intent record says so.
//! And where syndromes may not fit after a crash: nothing is done with such a stripe before it has been resynced.
//!
//! Pure: the worker and the simulator do what this says.

use crate::request::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The regions of a shard.
pub struct Regions<B> {
    region_stripes: u64,
    stripes: u64,
    /// On record as being written.
    marked: BTreeSet<u64>,
    /// Operations that wait until their region is on record.
    held: BTreeMap<u64, Vec<Operation<B>>>,
    /// Regions that are to be put on record and were not asked for yet.
    wanted: Vec<u64>,
    /// Regions of which some stripes were not given to resync yet.
    unsynced: BTreeMap<u64, Unsynced>,
    /// Resyncs that have not ended.
    resyncing: usize,
    /// Regions of which a stripe could not be resynced.
    stuck: BTreeSet<u64>,
    /// Regions that were settled when last looked at.
    calm: BTreeSet<u64>,
}

/// A region with stripes that were not given to resync.
struct Unsynced {
    left: u64,
    /// A bit for each stripe that was; made when the first one is.
    done: Vec<u64>,
}

impl<B> Regions<B> {
    /// Regions of so many stripes of an array that has `stripes`. Those of `marked` are on record from before, so that
    /// syndromes there may not fit.
    pub fn new(region_stripes: u64, stripes: u64, marked: BTreeSet<u64>) -> Regions<B> {
        let mut regions = Regions {
            region_stripes,
            stripes,
            marked,
            held: BTreeMap::new(),
            wanted: Vec::new(),
            unsynced: BTreeMap::new(),
            resyncing: 0,
            stuck: BTreeSet::new(),
            calm: BTreeSet::new(),
        };
        for &region in &regions.marked {
            let range = regions.range(region);
            let left = range.end.saturating_sub(range.start);
            let done = Vec::new();
            regions.unsynced.insert(region, Unsynced { left, done });
        }
        regions.unsynced.retain(|_, region| region.left > 0);
        regions
    }

    /// The region of a stripe.
    pub fn of(&self, stripe: u64) -> u64 {
        stripe / self.region_stripes
    }

    /// The stripes of a region.
    fn range(&self, region: u64) -> Range<u64> {
        let start = region * self.region_stripes;
        start..self.stripes.min(start + self.region_stripes)
    }

    /// A member is to be written in a stripe: gives the operation back if it may begin.
    pub fn admit(&mut self, stripe: u64, operation: Operation<B>) -> Option<Operation<B>> {
        let region = self.of(stripe);
        self.calm.remove(&region);
        if self.marked.contains(&region) {
            return Some(operation);
        }
        let held = self.held.entry(region).or_default();
        if held.is_empty() {
            self.wanted.push(region);
        }
        held.push(operation);
        None
    }

    /// Regions to be put on record; each is given once.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.wanted)
    }

    /// A region is on record: gives the operations that waited for it.
    pub fn mark(&mut self, region: u64) -> Vec<Operation<B>> {
        self.marked.insert(region);
        self.held.remove(&region).unwrap_or_default()
    }

    /// Those of some stripes that must be resynced before anything else is done with them. They count as given to resync.
    pub fn take_unsynced(&mut self, stripes: Range<u64>) -> Vec<u64> {
        if self.unsynced.is_empty() {
            return Vec::new();
        }
        stripes.filter(|&stripe| self.take_one(stripe)).collect()
    }

    fn take_one(&mut self, stripe: u64) -> bool {
        let region = self.of(stripe);
        let range = self.range(region);
        let Some(unsynced) = self.unsynced.get_mut(&region) else {
            return false;
        };
        if unsynced.done.is_empty() {
            unsynced.done = vec![0; (range.end - range.start).div_ceil(64) as usize];
        }
        let at = stripe - range.start;
        let (word, bit) = (&mut unsynced.done[(at / 64) as usize], 1 << (at % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        unsynced.left -= 1;
        if unsynced.left == 0 {
            self.unsynced.remove(&region);
        }
        self.resyncing += 1;
        true
    }

    /// A resync has ended. What could not be done is left for the next start.
    pub fn resynced(&mut self, stripe: u64, done: bool) {
        self.resyncing -= 1;
        if !done {
            self.stuck.insert(self.of(stripe));
        }
    }

    /// Regions that need no longer be on record: they were settled when last looked at and are so still. `unsettled` are
    /// those in which something was written that may not be durable.
    pub fn settle(&mut self, unsettled: &BTreeSet<u64>) -> Vec<u64> {
        let settled = |region: &&u64| {
            self.resyncing == 0
                && !unsettled.contains(region)
                && !self.unsynced.contains_key(region)
                && !self.stuck.contains(region)
        };
        let now: BTreeSet<u64> = self.marked.iter().filter(settled).copied().collect();
        let cleared: Vec<u64> = now.intersection(&self.calm).copied().collect();
        self.calm = now;
        for region in &cleared {
            self.marked.remove(region);
            self.calm.remove(region);
        }
        cleared
    }

    /// Regions that must stay on record when the array is stopped and everything is durable that could be.
    pub fn left(&self, unsettled: &BTreeSet<u64>) -> BTreeSet<u64> {
        let unsynced = self.unsynced.keys().copied();
        unsynced
            .chain(self.stuck.iter().copied())
            .chain(unsettled.iter().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Weightless;
    use crate::request::Action;

    fn operation() -> Operation<Weightless> {
        Operation {
            id: 0,
            member: 0,
            action: Action::Flush,
        }
    }

    #[test]
    fn nothing_is_written_before_it_is_on_record_and_calm_regions_leave_it() {
        let mut regions = Regions::new(10, 95, BTreeSet::new());
        assert!(
            regions.admit(25, operation()).is_none() && regions.admit(29, operation()).is_none()
        );
        assert_eq!(
            (regions.take_wanted(), regions.take_wanted()),
            (vec![2], vec![])
        );
        assert_eq!(regions.mark(2).len(), 2);
        assert!(regions.admit(20, operation()).is_some());
        let unsettled = BTreeSet::from([2]);
        assert!(regions.settle(&unsettled).is_empty());
        assert!(
            regions.settle(&BTreeSet::new()).is_empty(),
            "seen calm once"
        );
        assert!(
            regions.admit(20, operation()).is_some(),
            "and written again"
        );
        assert!(regions.settle(&BTreeSet::new()).is_empty());
        assert_eq!(regions.settle(&BTreeSet::new()), [2]);
        assert!(regions.admit(20, operation()).is_none());
    }

    #[test]
    fn stripes_are_given_to_resync_once_and_their_region_stays_until_all_are_done() {
        let mut regions = Regions::<Weightless>::new(10, 95, BTreeSet::from([1, 9]));
        assert_eq!(regions.take_unsynced(8..12), [10, 11]);
        assert_eq!(regions.take_unsynced(10..12), []);
        assert_eq!(
            regions.take_unsynced(90..95).len(),
            5,
            "the last region is shorter"
        );
        for stripe in [10, 11, 90, 91, 92, 93, 94] {
            regions.resynced(stripe, stripe != 93);
        }
        for _ in 0..3 {
            assert!(
                regions.settle(&BTreeSet::new()).is_empty(),
                "one is unsynced, the other stuck"
            );
        }
        assert_eq!(regions.take_unsynced(0..95), (12..20).collect::<Vec<u64>>());
        assert_eq!(regions.left(&BTreeSet::from([4])), BTreeSet::from([4, 9]));
        (12..20).for_each(|stripe| regions.resynced(stripe, true));
        assert!(regions.settle(&BTreeSet::new()).is_empty());
        assert_eq!(regions.settle(&BTreeSet::new()), [1]);
    }
}
