//! Intent record of a simulated array: the rules and the encoding of the array, with record writes that take time.
//!
//! A record write has two steps, so that a power cut can come before, between and after them. If a power cut leaves
//! members with different records, the records are joined at the start, as in an assembly.

use crate::array::marks::{Change, Marks};
use crate::geometry::BLOCK_BYTES;
use crate::mark::Mark;
use crate::record::{Intent, Uuid};
use crate::request::Operation;
use seiner_platform::sim::Rng;
use std::collections::BTreeSet;
use std::ops::Range;

const ARRAY: Uuid = Uuid([7; 16]);

/// Bytes of a record as members store them.
type Bytes = Box<[u8; BLOCK_BYTES]>;

/// Record write in progress.
struct Writing {
    bytes: Bytes,
    /// Marks whose operations may start when this record is durable.
    marks: Vec<Mark>,
    /// Number of changes of the doubtful stripes that this record contains.
    doubt_changes: u64,
}

/// Intent record of an array, and the operations that wait for it.
pub struct Recorder<B> {
    region_stripes: u64,
    stripes: u64,
    marks: Marks<B>,
    /// Contents of the next record.
    intent: Intent,
    changed: bool,
    /// Marks that the next record contains for the first time.
    new_marks: Vec<Mark>,
    /// Number of noted changes of the doubtful stripes, and number of recorded ones.
    doubt_changes: u64,
    recorded_doubt_changes: u64,
    writing: Option<Writing>,
    /// Records on the members. After a power cut there may be different ones.
    stored: Vec<Bytes>,
    /// True if there were dirty marks at the last maintenance.
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
            intent.join(&Intent::decode(bytes, ARRAY).expect("the simulation encoded the record"));
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

    /// Returns the record that a start after a power cut finds. A record that was being written is on all members,
    /// on some, or on none. Waiting operations are lost.
    pub fn after_cut(self, rng: &mut Rng) -> Recorder<B> {
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

    /// Returns the operation if its mark is recorded. Otherwise keeps it until then.
    pub fn admit(&mut self, mark: Mark, operation: Operation<B>) -> Option<Operation<B>> {
        self.marks.admit(mark, operation)
    }

    /// Adds the marks for which operations wait to the next record, and removes stripes that are no longer dirty.
    pub fn request(&mut self, dirty: impl FnOnce() -> BTreeSet<Mark>) {
        let change = self.marks.take_wanted(dirty);
        self.new_marks.extend(&change.marked);
        self.change(&change);
    }

    /// Returns all operations that wait for a mark, before the mark is recorded: a deliberate fault.
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

    /// Adds the doubtful stripes to the next record. `changes` is the number of their changes so far.
    pub fn note_doubts(&mut self, changes: u64, doubts: impl FnOnce() -> BTreeSet<u64>) {
        if changes != self.doubt_changes {
            self.doubt_changes = changes;
            self.intent.set_doubts(|_| true, doubts());
            self.changed = true;
        }
    }

    /// Returns whether all changes of the doubtful stripes are recorded. Before that, no request is answered.
    pub fn has_doubts(&self) -> bool {
        self.recorded_doubt_changes == self.doubt_changes
    }

    /// Returns whether [`Recorder::advance`] has work to do.
    pub fn is_pending(&self) -> bool {
        self.changed || self.writing.is_some()
    }

    /// Ends the record write in progress, or starts one. Returns operations that may start now.
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

    /// Maintains the marks: removes clean marks from the next record. Returns whether the members must be flushed.
    pub fn maintain(&mut self, dirty: &BTreeSet<Mark>) -> bool {
        let flush = !dirty.is_empty() && self.was_dirty;
        self.was_dirty = !dirty.is_empty() && !flush;
        let change = self.marks.clear_clean(dirty);
        self.change(&change);
        flush
    }

    /// Returns the stripes of a range that must be resynced, each once.
    pub fn take_unsynced(&mut self, stripes: Range<u64>) -> Vec<u64> {
        self.marks.take_unsynced(stripes)
    }

    /// Notes the end of a resync. If it failed (`done` is false), the mark of the stripe stays in the record.
    pub fn resynced(&mut self, stripe: u64, done: bool) {
        self.marks.resynced(stripe, done);
    }
}
