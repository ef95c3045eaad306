//! Forgetting: sources without data lose their names, and their numbers are used again.
//!
//! The job ([`crate::jobs::forgetting`]) proceeds in steps, between which rows arrive:
//!
//! 1. Sources without buffered rows become *candidates*. A source that begins a block, or is
//!    registered again, is no candidate any more.
//! 2. Candidates without blocks on disk are recorded as forgotten in the catalog. If one of them gets
//!    a row before step 3, its name is recorded again under the same number.
//! 3. The names of the others are removed. The same name is a new source from now on.
//! 4. When no query refers to the old sources any more, new sources get their numbers. The journal may
//!    contain rows of both; a new source records the first record with rows of its own.

use super::Head;
use crate::catalog::Frame;
use crate::dictionary::Dictionary;
use crate::maps::HashMap;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Sources examined under one lock.
const SOURCES_A_LOCK: u32 = 16 << 10;
/// Names examined under one lock.
const NAMES_A_LOCK: u32 = 16 << 10;

/// Sources that may be forgotten, and numbers that are used again.
#[derive(Default)]
pub(super) struct Forgetting {
    candidates: RoaringBitmap,
    /// True if the candidates are recorded as forgotten.
    are_recorded: bool,
    /// Sources for the catalog to forget.
    recorded: RoaringBitmap,
    /// Record of the journal when the catalog last contained all names: it may have forgotten those in earlier records.
    pub(super) known_before: u64,
    /// Sources that are used through their numbers while the store is open.
    pinned: RoaringBitmap,
    /// Sources without a name whose numbers are not yet free.
    nameless: RoaringBitmap,
    /// Numbers without a name under which segments contain dead blocks: a copy of a store may be of a
    /// moment before they were dropped.
    occupied: RoaringBitmap,
    /// Number of times that names were removed.
    rounds: u64,
    /// Sources with names that the catalog does not yet contain, under numbers that it contains. Each
    /// with the first record of the journal that may contain its rows.
    pub(super) reused: BTreeMap<u32, u64>,
    /// First record of the journal that may contain rows of sources that get free numbers now.
    pub(super) first_record: u64,
    /// The same for sources that a start finds under numbers that were used before.
    pub(super) first_records: HashMap<u32, u64>,
}

impl Forgetting {
    /// Moves the sources that the next frame of the catalog forgets to the frame.
    pub fn move_recorded(&mut self, frame: &mut Frame) {
        frame.forgotten = std::mem::take(&mut self.recorded);
        if !frame.forgotten.is_empty() {
            frame.known_before = self.known_before;
        }
    }

    /// Removes the sources from a set that are being forgotten, or whose names the catalog does not yet contain.
    pub fn retain_catalogued(&self, sources: &mut RoaringBitmap) {
        *sources -= &self.candidates;
        *sources -= &self.recorded;
        for source in self.reused.keys() {
            sources.remove(*source);
        }
    }
}

impl Head {
    /// Adds sources without buffered rows from `cursor` on to the candidates. Returns the next cursor,
    /// unless all sources were examined.
    pub fn add_candidates(&mut self, cursor: u32) -> Option<u32> {
        let known = self.catalogued.0.min(self.sources());
        let end = known.min(cursor.saturating_add(SOURCES_A_LOCK));
        let mut idle = RoaringBitmap::new();
        idle.insert_range(cursor..end);
        for source in cursor..end {
            if self.buffers.state(source).rows > 0 {
                idle.remove(source);
            }
        }
        let forgetting = &mut self.forgetting;
        idle -= &forgetting.pinned;
        for source in forgetting.reused.keys() {
            idle.remove(*source);
        }
        idle -= self.members.absent();
        forgetting.candidates |= idle;
        (end < known).then_some(end)
    }

    /// Returns the candidates.
    pub fn candidates(&self) -> &RoaringBitmap {
        &self.forgetting.candidates
    }

    /// Removes candidates that have data.
    pub fn drop_candidates(&mut self, found: &RoaringBitmap) {
        self.forgetting.candidates -= found;
    }

    /// Records the candidates as forgotten, for the next frame of the catalog, which contains all names in records of the
    /// journal before `sequence`.
    pub fn record_candidates(&mut self, sequence: u64) {
        let forgetting = &mut self.forgetting;
        forgetting.known_before = sequence;
        forgetting.recorded |= &forgetting.candidates;
        forgetting.are_recorded = !forgetting.candidates.is_empty();
    }

    /// Returns whether the catalog does not yet forget all recorded sources.
    pub fn has_recorded(&self) -> bool {
        !self.forgetting.recorded.is_empty() || self.frame_waits
    }

    /// Keeps a source that gets a row.
    #[inline(always)]
    pub(super) fn stays(&mut self, source: u32) {
        self.idle.remove(source);
        if !self.forgetting.candidates.is_empty() && self.forgetting.candidates.remove(source) {
            self.keep(source);
        }
    }

    #[cold]
    fn keep(&mut self, source: u32) {
        if self.forgetting.are_recorded {
            let dictionary = self.dictionary.clone();
            let dictionary = dictionary.read();
            let dictionary = dictionary.expect("no panic while the dictionary is locked");
            self.keep_recorded(&dictionary, source);
        }
    }

    /// Keeps a source that was found by another name.
    pub(super) fn touch(&mut self, dictionary: &Dictionary, source: u32) {
        self.idle.remove(source);
        if self.forgetting.candidates.remove(source) && self.forgetting.are_recorded {
            self.keep_recorded(dictionary, source);
        }
    }

    /// Records the name of a source again that the catalog forgets. It had no rows then: those under its number in
    /// earlier records of the journal are dead.
    fn keep_recorded(&mut self, dictionary: &Dictionary, source: u32) {
        self.record_again(dictionary, source, self.forgetting.known_before);
        self.position += 1;
    }

    /// Keeps sources while the store is open, because they are used through their numbers.
    pub fn pin(&mut self, sources: Range<u32>) {
        self.forgetting.pinned.insert_range(sources);
    }

    /// Returns whether a source has no name.
    pub fn is_absent(&self, source: u32) -> bool {
        source >= self.sources() || self.members.is_absent(source)
    }

    /// Returns how often names were removed: a source that was found before may have no name now.
    pub fn rounds(&self) -> u64 {
        self.forgetting.rounds
    }

    /// Lists the names of candidates, as pairs of source and number of the name, from the number
    /// `cursor` on. Returns the next cursor, unless all names were examined.
    pub fn list_names(&self, cursor: u32, found: &mut Vec<(u32, u32)>) -> Option<u32> {
        let candidates = &self.forgetting.candidates;
        self.names.list(cursor, NAMES_A_LOCK, candidates, found)
    }

    /// Removes the names of sources that are still candidates. `names` are pairs of source and number
    /// of the name. The pairs of a source are all in one call.
    pub fn remove_names(&mut self, names: &[(u32, u32)]) {
        let mut removed = RoaringBitmap::new();
        for &(source, number) in names {
            if self.forgetting.candidates.contains(source) {
                self.names.remove(number);
                removed.insert(source);
            }
        }
        let mut dictionary = self.dictionary.write();
        let hidden = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        for source in &removed {
            hidden.hide(source);
        }
        drop(dictionary);
        self.leave(&removed);
        self.counters.forgotten += removed.len();
        self.forgetting.candidates -= &removed;
        self.forgetting.nameless |= removed;
        self.forgetting.rounds += 1;
    }

    /// Counts sources as absent.
    pub(super) fn leave(&mut self, sources: &RoaringBitmap) {
        for source in sources
            .iter()
            .filter(|source| !self.members.is_level(*source))
        {
            let layout = self.layouts.get(self.buffers.layout(source));
            self.series -= layout.map_or(0, |layout| layout.columns()) as u64;
        }
        self.members.remove(sources);
    }

    /// Ends a round in which the catalog could not be written. Names that it may forget are recorded
    /// again.
    pub fn abandon_round(&mut self) {
        let forgetting = &mut self.forgetting;
        let unwritten = std::mem::take(&mut forgetting.recorded);
        let candidates = std::mem::take(&mut forgetting.candidates);
        if std::mem::take(&mut forgetting.are_recorded) {
            let dictionary = self.dictionary.clone();
            let dictionary = dictionary.read();
            let dictionary = dictionary.expect("no panic while the dictionary is locked");
            for source in candidates - unwritten {
                self.keep_recorded(&dictionary, source);
            }
        }
    }

    /// Ends a round. Returns the sources whose names were removed since the last call.
    pub fn end_round(&mut self) -> RoaringBitmap {
        let forgetting = &mut self.forgetting;
        forgetting.candidates = RoaringBitmap::new();
        forgetting.are_recorded = false;
        std::mem::take(&mut forgetting.nameless)
    }

    /// Records the numbers without a name under which a start found blocks. They stay unused.
    pub fn occupy(&mut self, sources: RoaringBitmap) {
        self.forgetting.occupied = sources;
    }

    /// Returns the numbers without a name that may be used again.
    pub fn unoccupied(&self) -> RoaringBitmap {
        self.members.absent() - &self.forgetting.occupied
    }

    /// Frees the numbers of some sources without names. Only records of the journal before
    /// `first_record` refer to them.
    pub fn free_numbers(&mut self, sources: &[u32], first_record: u64) {
        self.forgetting.first_record = first_record;
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        for &source in sources {
            dictionary.remove(source);
            dictionary.release(source);
            self.buffers.set_layout(source, 0);
            self.rows.set(source, 0);
        }
    }

    /// Returns the part of a list of names, sorted by source, that is removed under one lock.
    pub fn some_names(names: &[(u32, u32)], from: usize, most: usize) -> Range<usize> {
        let mut end = names.len().min(from + most);
        while end > from && end < names.len() && names[end].0 == names[end - 1].0 {
            end += 1;
        }
        from..end
    }
}
