//! Records for the catalog: deletes, floors and rules. A start reads them.

use crate::bytes::{Cursor, Short, put_sources, put_text};
use crate::retention::class::{Classes, Keep, get_classes, put_classes};
use crate::retention::{Floor, Retention, Tombstone};
use crate::segment::Entry;
use roaring::RoaringBitmap;
use seiner_codec::varint;
use seiner_model::{Interval, SourceKey};
use std::sync::Arc;

/// Kinds of records in the catalog.
const TOMBSTONE: u8 = 1;
const FLOOR: u8 = 2;
const RULES: u8 = 3;
const PAST: u8 = 4;
pub(super) const MADE: u8 = 5;
pub(super) const OLDER: u8 = 6;
pub(super) const ROLLED_UP: u8 = 7;
const LEDGER: u8 = 8;

/// Rows of a source that are past the end of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub source: u32,
    /// Rows of the source up to the last dead one, since the source was registered.
    pub ordinal: u64,
}

impl Retention {
    /// Returns whether any record is not yet in the catalog.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Removes and returns the records that are not yet in the catalog.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Adds a record of a class's new floor for the catalog. [`Retention::raise`] applies the
    /// floor.
    pub fn note_floor(&mut self, class: u8, number: u64) {
        self.pending.push(FLOOR);
        put_text(&self.classes.list()[class as usize].name, &mut self.pending);
        varint::put_u64(number, &mut self.pending);
    }

    /// Returns the ordinal up to which the rows of a ring are dead, if this block is the only one
    /// that proves it.
    pub fn past_of(&self, entry: &Entry) -> Option<Past> {
        let class = self.class_of(entry.source) as usize;
        let ring = self.classes.list()[class].keep.rows?;
        let rows = self.durable_rows.get(entry.source);
        let proves = entry.ordinal == rows && rows > ring;
        proves.then(|| Past {
            source: entry.source,
            ordinal: rows - ring,
        })
    }

    /// Adds a record that rows of rings are dead, for the catalog. Needed if the blocks that prove
    /// this are about to be dropped.
    pub fn note_past(&mut self, past: &[Past]) {
        put_past(past, &mut self.pending);
        for &Past { source, ordinal } in past {
            self.raise_past(source, ordinal);
        }
    }

    /// Reads the records in a frame of the catalog.
    pub fn read_records(&mut self, records: &[u8]) -> Result<(), Short> {
        let mut cursor = Cursor(records);
        while !cursor.is_empty() {
            match cursor.u8()? {
                TOMBSTONE => {
                    let tombstone = get_tombstone(&mut cursor)?;
                    self.tombstones.push(tombstone);
                }
                FLOOR => {
                    let name = cursor.text()?.to_string();
                    let floor = self.known_floors.entry(name).or_default();
                    *floor = cursor.varint()?.max(*floor);
                }
                RULES => {
                    self.known_rules = Some(get_classes(&mut cursor)?);
                    // Floors of other rules were converted into deletes.
                    self.known_floors.clear();
                    self.known_made.clear();
                }
                MADE => {
                    let name = cursor.text()?.to_string();
                    let made = self.known_made.entry(name).or_insert(i64::MIN);
                    *made = cursor.signed()?.max(*made);
                }
                OLDER => {
                    let older = self.older.entry(cursor.varint()?).or_insert(i64::MIN);
                    *older = cursor.signed()?.max(*older);
                }
                ROLLED_UP => {
                    let time = cursor.signed()?;
                    let sources = cursor.sources()?;
                    Arc::make_mut(&mut self.rolled_up).push((sources, time));
                }
                LEDGER => self.has_ledger = true,
                PAST => {
                    for _ in 0..cursor.count(u32::MAX as usize)? {
                        let source = cursor.count(u32::MAX as usize)? as u32;
                        let ordinal = cursor.varint()?;
                        if source >= self.members.count() {
                            return Err(Short);
                        }
                        self.raise_past(source, ordinal);
                    }
                }
                _ => return Err(Short),
            }
        }
        Ok(())
    }

    /// Removes sources without any data from all records: their numbers may get other names.
    pub fn forget_sources(&mut self, sources: &RoaringBitmap) {
        let deletes = self.tombstones.iter().map(|tombstone| tombstone.before);
        let last = deletes.max();
        self.tombstones.retain_mut(|tombstone| {
            tombstone.sources -= sources;
            // New blocks get no lower numbers than the last delete.
            !tombstone.sources.is_empty() || Some(tombstone.before) == last
        });
        if !self.rolled_up.is_empty() {
            for (of, _) in Arc::make_mut(&mut self.rolled_up) {
                *of -= sources;
            }
        }
        for source in sources {
            self.past.remove(&source);
            self.late.remove(&source);
            self.late_and_open.remove(&source);
        }
    }

    /// Returns whether the catalog records that the store has a ledger.
    pub fn has_ledger(&self) -> bool {
        self.has_ledger
    }

    /// Adds a record for the catalog that the store has a ledger.
    pub fn note_ledger(&mut self) {
        if !std::mem::replace(&mut self.has_ledger, true) {
            self.pending.push(LEDGER);
        }
    }

    /// Returns sources with the ordinal up to which blocks are dead under any rules. The sources
    /// have had at least that many rows.
    pub fn pasts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.past
            .iter()
            .map(|(&source, &ordinal)| (source, ordinal))
    }

    fn raise_past(&mut self, source: u32, ordinal: u64) {
        let past = self.past.entry(source).or_default();
        *past = (*past).max(ordinal);
    }

    /// Returns whether the rules differ from those when the store was last open.
    pub fn rules_change(&self) -> bool {
        let bytes = |classes: &Classes| {
            let mut bytes = Vec::new();
            put_classes(classes.named(), &mut bytes);
            bytes
        };
        let new = bytes(&self.classes);
        self.known_rules
            .as_ref()
            .is_some_and(|old| bytes(old) != new)
    }

    /// Returns whether [`Retention::change_rules`] reads the keys of all sources.
    pub fn reads_keys(&self) -> bool {
        self.rules_change() || self.known_rules.is_none() && !self.known_floors.is_empty()
    }

    /// Applies rules that may have changed since the store was last open. Data that is dead under
    /// the old rules stays dead: it is recorded in a form that no rule changes. All sources must be
    /// known, and the total number of rows of each source in blocks on disk.
    pub fn change_rules(
        &mut self,
        key_of: impl Fn(u32) -> Option<SourceKey>,
        rows_of: impl Fn(u32) -> u64,
        next_block: u64,
    ) {
        let mut new = Vec::new();
        put_classes(self.classes.named(), &mut new);
        let old = match self.known_rules.take() {
            Some(old) => old,
            // Without rules, data dies only by a handover.
            None if !self.known_floors.is_empty() => Classes::default(),
            None => {
                // A store without rules has nothing to record.
                if !matches!(self.classes.list(), [only] if only.keep == Keep::default()) {
                    self.pending.push(RULES);
                    self.pending.extend(new);
                }
                return;
            }
        };
        let mut known = Vec::new();
        put_classes(old.named(), &mut known);
        let floors = std::mem::take(&mut self.known_floors);
        let made = std::mem::take(&mut self.known_made);
        if known == new {
            let rules = self.classes.list().iter().zip(&self.next);
            for ((class, next), floor) in rules.zip(&mut self.floors) {
                floor.number = floors.get(&class.name).copied().unwrap_or(0);
                if let (Some(_), Some(&made)) = (next, made.get(&class.name)) {
                    floor.time = made;
                }
            }
            self.note_late();
            return;
        }
        let mut members = vec![RoaringBitmap::new(); old.list().len()];
        let mut past = Vec::new();
        for source in 0..self.members.count() {
            let Some(key) = key_of(source) else {
                continue;
            };
            let class = old.of(&key);
            members[class as usize].insert(source);
            let ring = old.list()[class as usize].keep.rows;
            let rows = rows_of(source);
            if let Some(ordinal) = ring
                .map(|ring| rows.saturating_sub(ring))
                .filter(|&ordinal| ordinal > 0)
            {
                past.push(Past { source, ordinal });
            }
        }
        for ((number, class), sources) in (0_u8..).zip(old.list()).zip(members) {
            let time = |age: std::time::Duration| self.now.saturating_sub(age.as_nanos() as i64);
            let made = made.get(&class.name).copied().unwrap_or(i64::MIN);
            let next = old.next_step(number);
            let floor = Floor {
                number: floors.get(&class.name).copied().unwrap_or(0),
                time: match next {
                    Some(_) => made,
                    None => class.keep.age.map_or(i64::MIN, time),
                },
            };
            if let (Some(step), Some(age), false) =
                (next, class.keep.age, self.members.levels() == 0)
            {
                // A pass may have been under way.
                self.note_older(step, made.max(time(age)));
            }
            if next.is_some() && made > i64::MIN && usize::from(number) < old.named().len() {
                self.note_rolled_up(sources.clone(), made);
            }
            self.delete_below(sources, floor, next_block);
        }
        self.note_past(&past);
        self.pending.push(RULES);
        self.pending.extend(new);
        self.note_late();
    }

    /// Converts the floor of a class into deletes.
    fn delete_below(&mut self, sources: RoaringBitmap, floor: Floor, next_block: u64) {
        if floor.number > 0 {
            self.delete(Tombstone {
                sources: sources.clone(),
                interval: Interval::new(i64::MIN, i64::MAX),
                before: floor.number,
            });
        }
        if let Some(end) = floor.time.checked_sub(1) {
            self.delete(Tombstone {
                sources,
                interval: Interval::new(i64::MIN, end),
                before: next_block,
            });
        }
    }
}

/// Records of a catalog that is written anew.
pub struct Compaction(Retention);

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction(Retention::of_unnamed(u32::MAX))
    }
}

impl Compaction {
    /// Adds the records of a frame.
    ///
    /// # Errors
    /// [`Short`] if they are malformed.
    pub fn add(&mut self, records: &[u8]) -> Result<(), Short> {
        self.0.read_records(records)
    }

    /// Leaves out sources that were forgotten.
    pub fn forget(&mut self, sources: &RoaringBitmap) {
        self.0.forget_sources(sources);
    }

    /// Returns records with the same effect as those that were added.
    pub fn put(&self) -> Vec<u8> {
        let Compaction(state) = self;
        let mut out = Vec::new();
        if let Some(rules) = &state.known_rules {
            out.push(RULES);
            put_classes(rules.named(), &mut out);
        }
        for (name, &number) in &state.known_floors {
            out.push(FLOOR);
            put_text(name, &mut out);
            varint::put_u64(number, &mut out);
        }
        for (name, &time) in &state.known_made {
            out.push(MADE);
            put_text(name, &mut out);
            varint::put_i64(time, &mut out);
        }
        for tombstone in &state.tombstones {
            put_tombstone(tombstone, &mut out);
        }
        for (&step, &time) in &state.older {
            out.push(OLDER);
            varint::put_u64(step, &mut out);
            varint::put_i64(time, &mut out);
        }
        for (sources, time) in state.rolled_up.iter() {
            put_rolled_up(sources, *time, &mut out);
        }
        if state.has_ledger {
            out.push(LEDGER);
        }
        let past = state.past.iter();
        let past = past.map(|(&source, &ordinal)| Past { source, ordinal });
        put_past(&past.collect::<Vec<Past>>(), &mut out);
        out
    }
}

/// Returns the rules in consecutive frames of a catalog.
pub fn rules_of<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Classes {
    let mut retention = Retention::of_unnamed(u32::MAX);
    for records in frames {
        // Damaged frames are skipped, as at a start.
        let _ = retention.read_records(records);
    }
    retention.known_rules.unwrap_or_default()
}

/// Decodes the deletes, floors and rules in a frame of the catalog, for a store with `sources`
/// sources.
///
/// # Errors
/// [`Short`] if the bytes are malformed.
pub fn check_records(records: &[u8], sources: u32) -> Result<(), Short> {
    let mut retention = Retention::of_unnamed(sources);
    retention.read_records(records)
}

/// Returns whether frames of a catalog record that the store has a ledger.
pub fn has_ledger<'a>(frames: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut retention = Retention::of_unnamed(u32::MAX);
    for records in frames {
        let _ = retention.read_records(records);
    }
    retention.has_ledger
}

pub(super) fn put_tombstone(tombstone: &Tombstone, out: &mut Vec<u8>) {
    out.push(TOMBSTONE);
    varint::put_u64(tombstone.before, out);
    varint::put_i64(tombstone.interval.start, out);
    varint::put_i64(tombstone.interval.end, out);
    put_sources(&tombstone.sources, out);
}

fn put_past(past: &[Past], out: &mut Vec<u8>) {
    if past.is_empty() {
        return;
    }
    out.push(PAST);
    varint::put_u64(past.len() as u64, out);
    for &Past { source, ordinal } in past {
        varint::put_u64(u64::from(source), out);
        varint::put_u64(ordinal, out);
    }
}

pub(super) fn put_rolled_up(sources: &RoaringBitmap, before: i64, out: &mut Vec<u8>) {
    out.push(ROLLED_UP);
    varint::put_i64(before, out);
    put_sources(sources, out);
}

fn get_tombstone(cursor: &mut Cursor<'_>) -> Result<Tombstone, Short> {
    let before = cursor.varint()?;
    let interval = Interval::new(cursor.signed()?, cursor.signed()?);
    Ok(Tombstone {
        sources: cursor.sources()?,
        interval,
        before,
    })
}
