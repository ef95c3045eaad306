//! Stripes and regions with writes since the last flush of the members. After a power cut, syndromes there may not
//! match.

use crate::mark::Mark;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of individually tracked stripes, over all shards of an array. The intent record has 123 places.
/// Doubtful stripes may need some of the places.
const MOST_STRIPES: usize = 96;

/// Writes of a shard that may not be durable.
pub struct DirtyStripes {
    region_stripes: u64,
    most_stripes: usize,
    /// Number of member flushes that were started.
    flushes: u64,
    /// Regions that were written, with the number of member flushes started before the last write.
    regions: BTreeMap<u64, u64>,
    /// Stripes that were written while a member was missing.
    stripes: BTreeMap<u64, Writes>,
}

/// Writes of a stripe.
struct Writes {
    /// Number of member flushes started before the last write.
    flushes: u64,
    /// True if an ended write needs a flush.
    volatile: bool,
}

impl DirtyStripes {
    /// Creates the state of one of `shards` shards in which nothing was written.
    pub fn new(region_stripes: u64, shards: usize) -> DirtyStripes {
        DirtyStripes {
            region_stripes,
            most_stripes: (MOST_STRIPES / shards).max(1),
            flushes: 0,
            regions: BTreeMap::new(),
            stripes: BTreeMap::new(),
        }
    }

    /// Notes the start of a write. With `alone`, the stripe is tracked instead of its region, as long as few
    /// stripes are.
    pub fn begin(&mut self, stripe: u64, alone: bool) {
        let few = self.stripes.len() < self.most_stripes;
        if alone && few && !self.stripes.contains_key(&stripe) {
            let (flushes, volatile) = (self.flushes, false);
            self.stripes.insert(stripe, Writes { flushes, volatile });
        } else {
            self.renew(stripe);
        }
    }

    /// Notes the start of a trim of several stripes, which marks their region.
    pub fn begin_trim(&mut self, stripe: u64) {
        self.stripes.remove(&stripe);
        self.renew(stripe);
    }

    /// Notes that a stripe is still being written. Flushes that were started before do not cover the write.
    pub fn renew(&mut self, stripe: u64) {
        match self.stripes.get_mut(&stripe) {
            Some(writes) => writes.flushes = self.flushes,
            None => {
                let region = stripe / self.region_stripes;
                self.regions.insert(region, self.flushes);
            }
        }
    }

    /// Notes the end of a write. A durable write needs no flush.
    pub fn end(&mut self, stripe: u64, durable: bool) {
        self.renew(stripe);
        if let Some(writes) = self.stripes.get_mut(&stripe) {
            writes.volatile |= !durable;
            if !writes.volatile {
                self.stripes.remove(&stripe);
            }
        }
    }

    /// Notes the start of a flush of all members. Returns its number.
    pub fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }

    /// Notes the end of a flush, which covers all writes that ended before its start. `busy` are the stripes that
    /// are being written.
    pub fn flushed(&mut self, flush: u64, busy: impl IntoIterator<Item = u64>) {
        busy.into_iter().for_each(|stripe| self.renew(stripe));
        self.regions.retain(|_, before| *before >= flush);
        self.stripes.retain(|_, writes| writes.flushes >= flush);
    }

    /// Returns the mark that a write to a stripe needs; `None` if no write was noted.
    pub fn mark(&self, stripe: u64) -> Option<Mark> {
        let region = stripe / self.region_stripes;
        match self.stripes.contains_key(&stripe) {
            true => Some(Mark::Stripe(stripe)),
            false => (self.regions.contains_key(&region)).then_some(Mark::Region(region)),
        }
    }

    /// Returns all marks that are needed.
    pub fn marks(&self) -> BTreeSet<Mark> {
        let regions = self.regions.keys().map(|&region| Mark::Region(region));
        let stripes = self.stripes.keys().map(|&stripe| Mark::Stripe(stripe));
        regions.chain(stripes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(dirty: &DirtyStripes) -> Vec<Mark> {
        dirty.marks().into_iter().collect()
    }

    #[test]
    fn a_region_is_clean_after_a_flush_that_began_after_its_last_write() {
        let mut dirty = DirtyStripes::new(10, 1);
        dirty.begin(25, false);
        let early = dirty.flush();
        dirty.flushed(early, [25]);
        assert_eq!(marks(&dirty), [Mark::Region(2)], "still being written");
        let early = dirty.flush();
        dirty.end(25, false);
        dirty.flushed(early, []);
        assert_eq!(dirty.mark(29), Some(Mark::Region(2)));
        let late = dirty.flush();
        dirty.flushed(late, []);
        assert_eq!(dirty.mark(25), None);
    }

    #[test]
    fn a_single_stripe_is_clean_after_its_durable_write_or_a_flush() {
        let mut dirty = DirtyStripes::new(10, 1);
        dirty.begin(25, true);
        dirty.begin(26, true);
        assert_eq!(dirty.mark(27), None);
        dirty.end(25, true);
        dirty.end(26, false);
        assert_eq!(marks(&dirty), [Mark::Stripe(26)]);
        dirty.begin(26, true);
        dirty.end(26, true);
        assert_eq!(
            marks(&dirty),
            [Mark::Stripe(26)],
            "the first write was not durable"
        );
        let flush = dirty.flush();
        dirty.flushed(flush, []);
        assert_eq!(marks(&dirty), []);
    }

    #[test]
    fn a_write_keeps_the_mark_that_it_began_with() {
        let mut dirty = DirtyStripes::new(10, 1);
        dirty.begin(25, true);
        dirty.begin(31, false);
        let flush = dirty.flush();
        // The array is whole for the first write and misses a member for the second one in the meantime.
        dirty.begin(25, false);
        dirty.flushed(flush, [25, 31]);
        assert_eq!(marks(&dirty), [Mark::Region(3), Mark::Stripe(25)]);
        dirty.begin(31, true);
        assert_eq!(dirty.mark(31), Some(Mark::Stripe(31)));
    }

    #[test]
    fn a_trim_needs_the_mark_of_its_region() {
        let mut dirty = DirtyStripes::new(10, 1);
        for stripe in [25, 26] {
            dirty.begin(stripe, true);
            dirty.end(stripe, false);
        }
        dirty.begin_trim(25);
        assert_eq!(dirty.mark(25), Some(Mark::Region(2)));
        let flush = dirty.flush();
        dirty.end(25, false);
        dirty.flushed(flush, []);
        assert_eq!(marks(&dirty), [Mark::Region(2)]);
    }

    #[test]
    fn many_stripes_are_tracked_by_their_regions() {
        let mut dirty = DirtyStripes::new(10, MOST_STRIPES / 2);
        for stripe in [1, 11, 21, 22, 1] {
            dirty.begin(stripe, true);
        }
        let expected = [Mark::Region(2), Mark::Stripe(1), Mark::Stripe(11)];
        assert_eq!(marks(&dirty), expected);
    }
}
