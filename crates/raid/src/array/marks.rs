//! Marks of the parts of the array that a shard is writing. A member is written in a stripe only after the intent
//! record contains the mark of the stripe. The module also lists the stripes whose syndromes may not match after a
//! crash: such a stripe is resynced before any other use.
//!
//! Pure: the worker and the simulator carry out the results.

use crate::mark::Mark;
use crate::request::Operation;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Marks of a shard.
pub struct Marks<B> {
    region_stripes: u64,
    stripes: u64,
    /// Marks in the intent record.
    marked: BTreeSet<Mark>,
    /// Operations that wait until the intent record contains their mark.
    held: BTreeMap<Mark, Vec<Operation<B>>>,
    /// Marks to record that were not requested yet.
    wanted: Vec<Mark>,
    /// Regions with stripes whose resync has not started.
    unsynced: BTreeMap<u64, Unsynced>,
    /// Number of resyncs that have not ended.
    resyncing: usize,
    /// Stripes that could not be resynced.
    stuck: BTreeSet<u64>,
    /// Marks that were clean at the last maintenance.
    was_clean: BTreeSet<Mark>,
}

/// Region with stripes whose resync has not started.
struct Unsynced {
    left: u64,
    /// One bit per stripe: 1 if its resync has started or is not needed. Empty if all bits are 0.
    done: Vec<u64>,
}

/// Change of the intent record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Marks to add to the record.
    pub marked: Vec<Mark>,
    /// Marks to remove from the record.
    pub cleared: Vec<Mark>,
}

impl Change {
    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.marked.is_empty() && self.cleared.is_empty()
    }
}

impl<B> Marks<B> {
    /// Creates the marks of a shard of an array with `stripes` stripes. `marked` are the recorded marks from before
    /// a crash: syndromes there may not match.
    pub fn new(region_stripes: u64, stripes: u64, marked: BTreeSet<Mark>) -> Marks<B> {
        let mut marks = Marks {
            region_stripes,
            stripes,
            marked,
            held: BTreeMap::new(),
            wanted: Vec::new(),
            unsynced: BTreeMap::new(),
            resyncing: 0,
            stuck: BTreeSet::new(),
            was_clean: BTreeSet::new(),
        };
        for mark in marks.marked.clone() {
            marks.unsync(mark);
        }
        marks
    }

    /// Registers the stripes of a mark for a resync. Regions must be registered before single stripes.
    fn unsync(&mut self, mark: Mark) {
        let region = mark.region(self.region_stripes);
        let whole = self.range(Mark::Region(region));
        let own = self.range(mark);
        match mark {
            Mark::Region(_) if !own.is_empty() => {
                let (left, done) = (own.end - own.start, Vec::new());
                self.unsynced.insert(region, Unsynced { left, done });
            }
            Mark::Stripe(stripe) if !own.is_empty() => {
                let words = (whole.end - whole.start).div_ceil(64) as usize;
                let unsynced = self.unsynced.entry(region).or_insert_with(|| Unsynced {
                    left: 0,
                    done: vec![u64::MAX; words],
                });
                // Without bits the whole region needs a resync, this stripe included.
                let at = stripe - whole.start;
                if let Some(word) = unsynced.done.get_mut((at / 64) as usize) {
                    *word &= !(1 << (at % 64));
                    unsynced.left += 1;
                }
            }
            _ => {}
        }
    }

    /// Returns the region of a stripe.
    fn region(&self, stripe: u64) -> u64 {
        stripe / self.region_stripes
    }

    /// Returns the stripes of a mark.
    fn range(&self, mark: Mark) -> Range<u64> {
        mark.stripes(self.region_stripes, self.stripes)
    }

    /// Returns the operation if its mark is recorded. Otherwise keeps it until then. A recorded region covers its
    /// stripes.
    pub fn admit(&mut self, mark: Mark, operation: Operation<B>) -> Option<Operation<B>> {
        self.was_clean.remove(&mark);
        let region = Mark::Region(mark.region(self.region_stripes));
        if self.marked.contains(&mark) || self.marked.contains(&region) {
            return Some(operation);
        }
        let held = self.held.entry(mark).or_default();
        if held.is_empty() {
            self.wanted.push(mark);
        }
        held.push(operation);
        None
    }

    /// Returns the change of the record for which operations wait, each mark once. On this occasion, stripes that
    /// are no longer `dirty` leave the record.
    pub fn take_wanted(&mut self, dirty: impl FnOnce() -> BTreeSet<Mark>) -> Change {
        if self.wanted.is_empty() {
            return Change::default();
        }
        let marked = std::mem::take(&mut self.wanted);
        let dirty = dirty();
        let is_stripe = |mark: &Mark| matches!(mark, Mark::Stripe(_));
        let mut cleared = self.clean(&dirty);
        cleared.retain(is_stripe);
        for mark in &cleared {
            self.marked.remove(mark);
            self.was_clean.remove(mark);
        }
        let cleared = cleared.into_iter().collect();
        Change { marked, cleared }
    }

    /// Notes that a mark is recorded. Returns the operations that waited for it.
    pub fn mark(&mut self, mark: Mark) -> Vec<Operation<B>> {
        self.marked.insert(mark);
        self.held.remove(&mark).unwrap_or_default()
    }

    /// Returns the stripes of a range that must be resynced before any other use. Their resync counts as started.
    pub fn take_unsynced(&mut self, stripes: Range<u64>) -> Vec<u64> {
        if self.unsynced.is_empty() {
            return Vec::new();
        }
        stripes.filter(|&stripe| self.take_one(stripe)).collect()
    }

    fn take_one(&mut self, stripe: u64) -> bool {
        let region = self.region(stripe);
        let range = self.range(Mark::Region(region));
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

    /// Notes the end of a resync. If it failed (`done` is false), the mark of the stripe stays in the record until
    /// the next start.
    pub fn resynced(&mut self, stripe: u64, done: bool) {
        self.resyncing -= 1;
        if !done {
            self.stuck.insert(stripe);
        }
    }

    /// Returns whether some stripe of a mark still needs a resync, or could not be resynced.
    fn is_unsynced(&self, mark: Mark) -> bool {
        let range = self.range(mark);
        if self.stuck.range(range.clone()).next().is_some() {
            return true;
        }
        let region = mark.region(self.region_stripes);
        let Some(unsynced) = self.unsynced.get(&region) else {
            return false;
        };
        let Mark::Stripe(stripe) = mark else {
            return true;
        };
        let at = stripe - self.range(Mark::Region(region)).start;
        let word = unsynced.done.get((at / 64) as usize);
        word.is_none_or(|word| word >> (at % 64) & 1 == 0)
    }

    /// Returns the recorded marks that could be cleared.
    fn clean(&self, dirty: &BTreeSet<Mark>) -> BTreeSet<Mark> {
        let clean =
            |mark: &Mark| self.resyncing == 0 && !dirty.contains(mark) && !self.is_unsynced(*mark);
        self.marked.iter().copied().filter(clean).collect()
    }

    /// Returns the change of the record for marks that are no longer needed: they were clean at the last
    /// maintenance and still are. `dirty` are the marks of all parts that may not be durable. Stripes that were
    /// written under the mark of their region get marks of their own when the region is cleared.
    pub fn clear_clean(&mut self, dirty: &BTreeSet<Mark>) -> Change {
        let now = self.clean(dirty);
        let cleared: BTreeSet<Mark> = now.intersection(&self.was_clean).copied().collect();
        self.was_clean = now;
        let covered = |mark: &Mark| {
            let region = Mark::Region(mark.region(self.region_stripes));
            *mark != region && cleared.contains(&region) && !self.marked.contains(mark)
        };
        let marked: Vec<Mark> = dirty.iter().copied().filter(covered).collect();
        for mark in &cleared {
            self.marked.remove(mark);
            self.was_clean.remove(mark);
        }
        self.marked.extend(&marked);
        let cleared = cleared.into_iter().collect();
        Change { marked, cleared }
    }

    /// Returns the marks that must stay in the record when the array is stopped and all writes that can be durable
    /// are.
    pub fn left(&self, dirty: &BTreeSet<Mark>) -> BTreeSet<Mark> {
        let unsynced = |mark: &Mark| self.is_unsynced(*mark);
        let marked = self.marked.iter().copied().filter(unsynced);
        marked.chain(dirty.iter().copied()).collect()
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

    fn cleared(marks: &[Mark]) -> Change {
        Change {
            marked: Vec::new(),
            cleared: marks.to_vec(),
        }
    }

    const REGION: Mark = Mark::Region(2);
    const STRIPE: Mark = Mark::Stripe(25);

    #[test]
    fn writes_wait_for_their_mark_and_clean_regions_are_cleared() {
        let none = BTreeSet::new();
        let mut marks = Marks::new(10, 95, none.clone());
        assert!(marks.admit(REGION, operation()).is_none());
        assert!(marks.admit(REGION, operation()).is_none());
        assert_eq!(marks.take_wanted(BTreeSet::new).marked, [REGION]);
        assert!(marks.take_wanted(BTreeSet::new).is_empty());
        assert_eq!(marks.mark(REGION).len(), 2);
        assert!(marks.admit(REGION, operation()).is_some());
        assert!(marks.clear_clean(&BTreeSet::from([REGION])).is_empty());
        assert!(
            marks.clear_clean(&none).is_empty(),
            "the region was clean only once"
        );
        assert!(
            marks.admit(REGION, operation()).is_some(),
            "a write during the count keeps the mark"
        );
        assert!(marks.clear_clean(&none).is_empty());
        assert_eq!(marks.clear_clean(&none), cleared(&[REGION]));
        assert!(marks.admit(REGION, operation()).is_none());
    }

    #[test]
    fn a_stripe_leaves_the_record_with_the_next_one() {
        let mut marks = Marks::new(10, 95, BTreeSet::new());
        let dirty = |stripes: &[u64]| stripes.iter().copied().map(Mark::Stripe).collect();
        for stripe in [25, 26] {
            assert!(marks.admit(Mark::Stripe(stripe), operation()).is_none());
            marks.take_wanted(|| dirty(&[25, 26]));
            assert_eq!(marks.mark(Mark::Stripe(stripe)).len(), 1);
        }
        assert!(
            marks.take_wanted(|| dirty(&[])).is_empty(),
            "no other stripe is dirty"
        );
        assert!(marks.admit(Mark::Stripe(27), operation()).is_none());
        let change = marks.take_wanted(|| dirty(&[26, 27]));
        assert_eq!(
            (change.marked, change.cleared),
            (vec![Mark::Stripe(27)], vec![STRIPE])
        );
        assert!(marks.admit(STRIPE, operation()).is_none());
    }

    #[test]
    fn stripes_replace_the_mark_of_their_region() {
        let mut marks = Marks::new(10, 95, BTreeSet::new());
        marks.mark(REGION);
        assert!(
            marks.admit(STRIPE, operation()).is_some(),
            "the mark of the region covers the stripe"
        );
        let dirty = BTreeSet::from([STRIPE]);
        assert!(marks.clear_clean(&dirty).is_empty());
        let change = marks.clear_clean(&dirty);
        assert_eq!(
            (change.marked, change.cleared),
            (vec![STRIPE], vec![REGION])
        );
        assert!(marks.admit(STRIPE, operation()).is_some());
        assert!(marks.admit(Mark::Stripe(26), operation()).is_none());
    }

    #[test]
    fn stripes_are_resynced_once_and_their_region_stays_until_all_are_done() {
        let on_record = BTreeSet::from([Mark::Region(1), Mark::Region(9)]);
        let mut marks = Marks::<Weightless>::new(10, 95, on_record);
        assert_eq!(marks.take_unsynced(8..12), [10, 11]);
        assert_eq!(marks.take_unsynced(10..12), []);
        let last = marks.take_unsynced(90..95);
        assert_eq!(last.len(), 5, "the last region is shorter");
        for stripe in [10, 11, 90, 91, 92, 93, 94] {
            marks.resynced(stripe, stripe != 93);
        }
        let none = BTreeSet::new();
        for _ in 0..3 {
            let change = marks.clear_clean(&none);
            assert!(change.is_empty(), "one region is unsynced, the other stuck");
        }
        assert_eq!(marks.take_unsynced(0..95), (12..20).collect::<Vec<u64>>());
        assert_eq!(
            marks.left(&BTreeSet::from([Mark::Region(4)])),
            BTreeSet::from([Mark::Region(4), Mark::Region(9)])
        );
        (12..20).for_each(|stripe| marks.resynced(stripe, true));
        assert!(marks.clear_clean(&none).is_empty());
        assert_eq!(marks.clear_clean(&none), cleared(&[Mark::Region(1)]));
    }

    #[test]
    fn only_recorded_stripes_are_resynced() {
        let on_record = [Mark::Region(1), Mark::Stripe(15), STRIPE, Mark::Stripe(29)];
        let mut marks = Marks::<Weightless>::new(10, 95, on_record.into());
        assert_eq!(marks.take_unsynced(0..12), [10, 11]);
        assert_eq!(marks.take_unsynced(15..95), [15, 16, 17, 18, 19, 25, 29]);
        assert_eq!(marks.take_unsynced(0..95), [12, 13, 14]);
        for stripe in (10..20).chain([25, 29]) {
            marks.resynced(stripe, stripe != 29);
        }
        assert_eq!(
            marks.left(&BTreeSet::new()),
            BTreeSet::from([Mark::Stripe(29)])
        );
    }
}
