//! Intent record of a simulated array: the array's own rules and encoding, with record writes that take time.
//!
//! A record write has two steps, so that a power cut can come before, between and after them. Members that a power cut
//! left with different records are joined at the start, as an assembly does.

use crate::array::regions::Regions;
use crate::geometry::BLOCK_BYTES;
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
    /// Regions whose operations may begin when this record is durable.
    marks: Vec<u64>,
}

/// Intent record of an array, and the operations that wait for it.
pub struct Recorder<B> {
    region_stripes: u64,
    stripes: u64,
    regions: Regions<B>,
    /// Content of the next record.
    intent: Intent,
    changed: bool,
    /// Regions that the next record marks for the first time.
    marks: Vec<u64>,
    writing: Option<Writing>,
    /// Records on the members: several if a power cut left different ones.
    stored: Vec<Bytes>,
    /// Something was unsettled at the last upkeep.
    was_unsettled: bool,
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
            regions: Regions::new(region_stripes, stripes, intent.marked().clone()),
            intent,
            changed: false,
            marks: Vec::new(),
            writing: None,
            stored,
            was_unsettled: false,
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

    /// Regions that are marked, those of the next record included.
    pub fn marked(&self) -> &BTreeSet<u64> {
        self.intent.marked()
    }

    /// Region of a stripe.
    pub fn region(&self, stripe: u64) -> u64 {
        self.regions.of(stripe)
    }

    /// Returns the operation if its region is on record, and else keeps it until then.
    pub fn admit(&mut self, stripe: u64, operation: Operation<B>) -> Option<Operation<B>> {
        let admitted = self.regions.admit(stripe, operation);
        for region in self.regions.take_wanted() {
            self.intent.mark(region);
            self.marks.push(region);
            self.changed = true;
        }
        admitted
    }

    /// Returns all operations that wait for a region, before it is on record: a fault on purpose.
    pub fn admit_early(&mut self, stripe: u64) -> Vec<Operation<B>> {
        self.regions.mark(self.regions.of(stripe))
    }

    /// Tells whether [`Recorder::advance`] has something to do.
    pub fn is_pending(&self) -> bool {
        self.changed || self.writing.is_some()
    }

    /// Ends the record write that was begun, or begins one. Returns operations that may begin now.
    pub fn advance(&mut self) -> Vec<Operation<B>> {
        if let Some(writing) = self.writing.take() {
            self.stored = vec![writing.bytes];
            let regions = &mut self.regions;
            let marks = writing.marks.into_iter();
            return marks.flat_map(|region| regions.mark(region)).collect();
        }
        if std::mem::take(&mut self.changed) {
            self.intent.sequence += 1;
            self.writing = Some(Writing {
                bytes: Box::new(self.intent.encode(ARRAY)),
                marks: std::mem::take(&mut self.marks),
            });
        }
        Vec::new()
    }

    /// Does the upkeep: removes settled regions from the next record. Tells whether members are to be flushed.
    pub fn settle(&mut self, unsettled: &BTreeSet<u64>) -> bool {
        let flush = !unsettled.is_empty() && self.was_unsettled;
        self.was_unsettled = !unsettled.is_empty() && !flush;
        for region in self.regions.settle(unsettled) {
            self.intent.clear(region);
            self.changed = true;
        }
        flush
    }

    /// Stripes of the range that must be resynced, each returned once.
    pub fn take_unsynced(&mut self, stripes: Range<u64>) -> Vec<u64> {
        self.regions.take_unsynced(stripes)
    }

    /// Notes the end of a resync. The region of a stripe that was not `done` stays on record.
    pub fn resynced(&mut self, stripe: u64, done: bool) {
        self.regions.resynced(stripe, done);
    }
}
