//! Intent record of a simulated array: the array's own rules and encoding, with record writes that take time.
//!
//! A record write has two steps, so that a power cut can come before, between and after them. Members that a power cut
//! left with different records are joined at the start, as an assembly does.

use crate::array::marks::{Change, Marks};
use crate::geometry::BLOCK_BYTES;
use crate::mark::Mark;
use crate::record::{Intent, Uuid};
use crate::request::Operation;
use seiner_platform::sim::SimRng;
use std::collections::BTreeSet;
use std::ops::Range;

const ARRAY: Uuid = Uuid([7; 16]);

/// Bytes of a record as members store them.
type Bytes = Box<[u8; BLOCK_BYTES]>;

/// A record write that has not ended.
struct Writing {
    bytes: Bytes,
    /// Marks whose operations may begin when this record is durable.
    marks: Vec<Mark>,
    /// Number of changes of the doubtful stripes that this record has.
    doubt_changes: u64,
}

/// Intent record of an array, and the operations that wait for it.
pub struct Recorder<B> {
    region_stripes: u64,
    stripes: u64,
    marks: Marks<B>,
    /// Content of the next record.
    intent: Intent,
    changed: bool,
    /// Marks that the next record has for the first time.
    new_marks: Vec<Mark>,
    /// Number of changes of the doubtful stripes that were noted, and that are on record.
    doubt_changes: u64,
    recorded_doubt_changes: u64,
    writing: Option<Writing>,
    /// Records on the members: several if a power cut left different ones.
    stored: Vec<Bytes>,
    /// Something was dirty at the last upkeep.
    was_dirty: bool,
}

impl<B> Recorder<B> {
    /// Creates the record of an array of `stripes` stripes in which nothing is being written.
    pub fn new(region_stripes: u64, stripes: u64) -> Recorder<B> {
        let blank = Box::new(Intent::new(region_stripes).encode(ARRAY));
        Recorder::read(region_stripes, stripes, vec![blank])
    }

    /// Creates the record of an array whose members have these records.
    fn read(region_stripes: u64, stripes: u64, stored: Vec<Bytes>) -> Recorder<B> {
        let mut intent = Intent::new(region_stripes);
        for bytes in &stored {
            intent.join(&Intent::decode(bytes, ARRAY).expect("it was encoded here"));
        }
        Recorder {
            region_stripes,
            stripes,
            marks: Marks::new(region_stripes, stripes, intent.marks().clone()),
            intent,
            changed: false,
            new_marks: Vec::new(),
            doubt_changes: 0,
            recorded_doubt_changes: 0,
            writing: None,
            stored,
            was_dirty: false,
        }
    }

    /// Returns the record as a start after a power cut finds it. A record that was being written is on all members, on
    /// some or on none. Operations that waited are lost.
    pub fn after_cut(self, rng: &mut SimRng) -> Recorder<B> {
        let mut stored = self.stored;
        if let Some(writing) = self.writing {
            match rng.below(3) {
                0 => {}
                1 => stored.push(writing.bytes),
                _ => stored = vec![writing.bytes],
            }
        }
        Recorder::read(self.region_stripes, self.stripes, stored)
    }

    /// Returns the marks of the next record.
    pub fn marks(&self) -> &BTreeSet<Mark> {
        self.intent.marks()
    }

    /// Returns the doubtful stripes of the next record.
    pub fn doubts(&self) -> &BTreeSet<u64> {
        self.intent.doubts()
    }

    /// Returns the operation if its mark is on record, and else keeps it until then.
    pub fn admit(&mut self, mark: Mark, operation: Operation<B>) -> Option<Operation<B>> {
        self.marks.admit(mark, operation)
    }

    /// Puts the marks that operations wait for into the next record, without stripes that are no longer dirty.
    pub fn request(&mut self, dirty: impl FnOnce() -> BTreeSet<Mark>) {
        let change = self.marks.take_wanted(dirty);
        self.new_marks.extend(&change.marked);
        self.change(&change);
    }

    /// Returns all operations that wait for a mark, before it is on record: a fault on purpose.
    pub fn admit_early(&mut self, mark: Mark) -> Vec<Operation<B>> {
        self.marks.mark(mark)
    }

    fn change(&mut self, change: &Change) {
        let marked = change.marked.iter();
        marked.for_each(|&mark| self.intent.mark(mark));
        let cleared = change.cleared.iter();
        cleared.for_each(|&mark| self.intent.clear(mark));
        self.changed |= !change.is_empty();
    }

    /// Puts the doubtful stripes into the next record. `changes` is the number of their changes so far.
    pub fn note_doubts(&mut self, changes: u64, doubts: impl FnOnce() -> BTreeSet<u64>) {
        if changes != self.doubt_changes {
            self.doubt_changes = changes;
            self.intent.set_doubts(|_| true, doubts());
            self.changed = true;
        }
    }

    /// Returns whether all changes of the doubtful stripes are on record: before that, nothing is answered.
    pub fn has_doubts(&self) -> bool {
        self.recorded_doubt_changes == self.doubt_changes
    }

    /// Tells whether [`Recorder::advance`] has something to do.
    pub fn is_pending(&self) -> bool {
        self.changed || self.writing.is_some()
    }

    /// Ends the record write that was begun, or begins one. Returns operations that may begin now.
    pub fn advance(&mut self) -> Vec<Operation<B>> {
        if let Some(writing) = self.writing.take() {
            self.stored = vec![writing.bytes];
            self.recorded_doubt_changes = writing.doubt_changes;
            let marks = &mut self.marks;
            let new = writing.marks.into_iter();
            return new.flat_map(|mark| marks.mark(mark)).collect();
        }
        if std::mem::take(&mut self.changed) {
            self.intent.sequence += 1;
            self.writing = Some(Writing {
                bytes: Box::new(self.intent.encode(ARRAY)),
                marks: std::mem::take(&mut self.new_marks),
                doubt_changes: self.doubt_changes,
            });
        }
        Vec::new()
    }

    /// Does the upkeep: removes settled marks from the next record. Tells whether members are to be flushed.
    pub fn maintain(&mut self, dirty: &BTreeSet<Mark>) -> bool {
        let flush = !dirty.is_empty() && self.was_dirty;
        self.was_dirty = !dirty.is_empty() && !flush;
        let change = self.marks.clear_clean(dirty);
        self.change(&change);
        flush
    }

    /// Stripes of the range that must be resynced, each returned once.
    pub fn take_unsynced(&mut self, stripes: Range<u64>) -> Vec<u64> {
        self.marks.take_unsynced(stripes)
    }

    /// Notes the end of a resync. The mark of a stripe that was not `done` stays on record.
    pub fn resynced(&mut self, stripe: u64, done: bool) {
        self.marks.resynced(stripe, done);
    }
}
