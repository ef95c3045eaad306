//! The state of a store: what a row passes through between its acceptance and a segment.
//!
//! Everything here is memory. The engine holds a lock around it ([`crate::shared`]) for the time of a
//! batch.

mod registry;
mod sealing;

use crate::buffer::row::{self, Row};
use crate::buffer::run::{self, Encoded, Floats};
use crate::buffer::{Buffers, NUMBER_BYTES, Number};
use crate::counters::Counters;
use crate::dictionary::Dictionary;
use crate::dictionary::layouts::{Layout, Layouts};
use crate::dictionary::names::Names;
use crate::error::{Error, Reason, Receipt};
use crate::journal::files::Pins;
use crate::journal::staging::{Staging, Start};
use crate::options::{Durability, Options};
use crate::retention::Retention;
use crate::sealing::queue::Queue;
use crate::segment::open::OpenSegment;
use crate::segment::sealed::Segment;
use crate::segment::tally::Tally;
use crate::space::{Debt, Space};
use crate::trouble::Troubles;
use crate::volume::Volume;
use crate::{MAX_FIELDS, MAX_TEXT_BYTES};
use roaring::RoaringBitmap;
use seiner_merge::{LaneSettings, Lanes};
use seiner_model::{Cell, FieldType, Value, duration_text};
use seiner_platform::{Clock, File};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, RwLock};

/// A layout of ten fields gets a larger buffer than one of one field, so that its columns still
/// have enough values to compress: the bytes of B for every so many columns.
const COLUMNS_PER_BLOCK: usize = 4;
/// A buffer never grows past this, whatever its columns.
const BUFFER_LIMIT: usize = 256 << 10;
/// A row's texts together may not be longer.
const ROW_TEXT_LIMIT: usize = 1 << 20;
/// The smallest segment is this part of R.
const LEAST_SHARE: u64 = 16;

/// See the module.
pub struct State {
    pub options: Options,
    /// What files take on the disk is a multiple of so many bytes.
    pub unit: u64,
    journalled: bool,
    pub volume: Arc<dyn Volume>,
    /// Locked for writing only while a new source is registered.
    pub dictionary: Arc<RwLock<Dictionary>>,
    pub layouts: Layouts,
    pub names: Names,
    pub buffers: Buffers,
    pub staging: Staging,
    pub pins: Pins,
    /// Segments being written, by number: one of each lane takes blocks, the others wait to be
    /// sealed.
    pub open: Vec<OpenSegment>,
    /// Which blocks go together.
    pub lanes: Lanes,
    /// What is kept how long, and what is dead.
    pub retention: Retention,
    /// Whether what is in open segments is to count, so that the journal can let go of it.
    pub chapter_due: bool,
    /// Sealed segments, by number.
    pub sealed: Arc<BTreeMap<u64, Arc<Segment>>>,
    /// Memory of their fences.
    pub fence_bytes: usize,
    /// Memory of what is known of sealed segments.
    pub tally_bytes: usize,
    /// Memory of the journal's record, as of the last one.
    pub journal_memory: usize,
    /// How many times free memory is to be given back yet, because something large was freed or will be.
    pub trims_due: u8,
    /// Whether the registry takes its share of the memory, and takes no more sources. As of the
    /// beginning of a batch.
    pub registry_full: bool,
    pub counters: Counters,
    /// Counts what was accepted, rows and registrations; tells what is durable.
    pub position: u64,
    pub next_block: u64,
    pub next_segment: u64,
    /// Slots claimed ahead, so that writers need not wait for a file to be made; and how many were
    /// taken since some were.
    pub ready: VecDeque<(u64, Arc<dyn File>)>,
    pub taken: usize,
    /// The journal's sequence, as of the last commit.
    pub sequence: u64,
    /// Sources and layouts that the catalog has.
    pub catalogued: (u32, u32),
    /// Sources in the catalog whose layout changed since.
    relinked: Vec<u32>,
    pub tick: u16,
    pub fullest_hand: u32,
    journal_hand: u32,
    journal_target: Option<u32>,
    /// Sources of which a block was begun lately, if somebody wants to know.
    pub begun: Option<RoaringBitmap>,
    /// Buffers on their way to the log, and the memory of who makes blocks of them.
    pub sealing: Queue,
    pub sealer_memory: usize,
    row: Row,
    encoded: Encoded,
    pub series: u64,
    pub poisoned: Option<String>,
    /// What is in the way of writing.
    pub troubles: Troubles,
    pub closed: bool,
    pub read_only: bool,
    /// Why coarser levels cannot be made.
    pub ageing_waits: Option<String>,
    /// What is known of sealed segments, by number.
    pub tallies: BTreeMap<u64, Tally>,
    /// Bytes of files on the disk, and the budget for them.
    pub space: Space,
    /// Whether a frame was taken that the catalog does not have yet.
    pub frame_waits: bool,
    /// Whether the ledger has entries that should be durable soon.
    pub loss_waits: bool,
    /// Delay that writers owe to the throttle.
    pub debt: Debt,
}

impl State {
    /// An empty store.
    pub fn new(options: Options, volume: Arc<dyn Volume>, names_seed: u64, unit: u64) -> State {
        let needs = options.needs(unit);
        State {
            unit,
            journalled: options.durability != Durability::Memory,
            volume,
            dictionary: Arc::default(),
            layouts: Layouts::new(),
            names: Names::new(names_seed),
            buffers: Buffers::default(),
            staging: Staging::default(),
            pins: Pins::default(),
            open: Vec::new(),
            lanes: Lanes::new(LaneSettings {
                lanes: needs.lanes(),
                segment_bytes: options.segment_bytes,
                least_bytes: (options.segment_bytes / LEAST_SHARE).max(needs.thrifty_segment()),
            }),
            retention: Retention::new(options.classes.clone(), options.disk),
            chapter_due: false,
            sealed: Arc::default(),
            fence_bytes: 0,
            tally_bytes: 0,
            journal_memory: 0,
            trims_due: 0,
            registry_full: false,
            counters: Counters::default(),
            position: 0,
            next_block: 1,
            next_segment: 1,
            ready: VecDeque::new(),
            taken: 0,
            sequence: 1,
            catalogued: (0, 1),
            relinked: Vec::new(),
            tick: 0,
            fullest_hand: 0,
            journal_hand: 0,
            journal_target: None,
            row: Row::default(),
            encoded: Encoded::default(),
            begun: None,
            sealing: Queue::default(),
            sealer_memory: 0,
            series: 0,
            poisoned: None,
            troubles: Troubles::default(),
            closed: false,
            read_only: false,
            ageing_waits: None,
            tallies: BTreeMap::new(),
            space: Space::new(needs),
            frame_waits: false,
            loss_waits: false,
            debt: Debt::default(),
            options,
        }
    }

    /// Refuses where nothing may be written any more.
    pub fn writable(&self) -> Result<(), Error> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None if self.closed => Err(Error::Closed),
            None if self.read_only => Err(Error::ReadOnly),
            None => Ok(()),
        }
    }

    /// Appends the row of a registered source. A refused row leaves no trace.
    #[inline]
    pub fn append<'a>(
        &mut self,
        source: u32,
        time: i64,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
        receipt: &mut Receipt,
    ) -> Result<(), Reason> {
        if time < self.retention.late_before()
            && let Some(reason) = self.too_old(source, time)
        {
            return Err(reason);
        }
        let layout = self
            .layouts
            .get(self.buffers.line(source).layout)
            .expect("lines bear layouts of the store");
        // The usual row: one field, known, of the same type.
        if let [cell] = cells
            && layout.is_only(cell.field, cell.value.field_type())
            && let Some(number) = Number::of(cell.value)
        {
            self.put_number(source, time, number);
        } else {
            let texts = row::text_bytes(cells);
            check_cells(cells, texts)?;
            let number = self.arrange(source, layout.clone(), cells, values)?;
            let bound = row::row_bound(values.len()) + texts;
            self.put_row(source, number, time, values.drain(..), bound);
        }
        receipt.rows += 1;
        receipt.samples += cells.len();
        Ok(())
    }

    /// Why a row would be hidden as it comes, if it would.
    #[cold]
    fn too_old(&mut self, source: u32, time: i64) -> Option<Reason> {
        let reason = match self.retention.too_old(source, time) {
            Some(class) => Reason::TooOld {
                class: class.name.clone(),
                age: duration_text(class.keep.age.unwrap_or_default().as_nanos() as u64),
            },
            None if self.retention.is_coarsened(source, time) => Reason::Coarsened,
            None => return None,
        };
        self.counters.too_old += 1;
        Some(reason)
    }

    /// Appends a row of a level: figures that the store made itself.
    pub fn append_level<'a>(
        &mut self,
        source: u32,
        time: i64,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
    ) -> Result<(), Reason> {
        let layout = self.layouts.get(self.buffers.line(source).layout);
        let layout = layout.expect("lines bear layouts of the store").clone();
        let number = self.arrange(source, layout, cells, values)?;
        let bound = row::row_bound(values.len()) + row::text_bytes(cells);
        self.put_row(source, number, time, values.drain(..), bound);
        self.counters.level_samples += cells.len() as u64;
        Ok(())
    }

    /// The source's layout, if the field is its only one.
    pub fn only_layout(&self, source: u32, field: &str, field_type: FieldType) -> Option<u32> {
        let layout = self.layouts.get(self.buffers.line(source).layout)?;
        layout
            .is_only(field.as_bytes(), field_type)
            .then(|| layout.number())
    }

    /// Whether a source has one column, and no text in it.
    pub fn has_one_number(&self, source: u32) -> bool {
        let layout = self.layouts.get(self.buffers.line(source).layout);
        layout.is_some_and(|layout| matches!(layout.types(), [only] if *only != FieldType::Str))
    }

    /// Puts cells in the order of the source's columns; new fields get new columns.
    fn arrange<'a>(
        &mut self,
        source: u32,
        layout: Arc<Layout>,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
    ) -> Result<u32, Reason> {
        values.clear();
        values.resize(layout.columns(), None);
        let mut new: Vec<&Cell<'a>> = Vec::new();
        for (expected, cell) in cells.iter().enumerate() {
            match layout.column(cell.field, expected) {
                Some(column) if layout.types()[column] != cell.value.field_type() => {
                    let field = String::from_utf8_lossy(cell.field).into_owned();
                    let (stored, sent) = (layout.types()[column], cell.value.field_type());
                    return Err(Reason::FieldType {
                        field,
                        stored,
                        sent,
                    });
                }
                Some(column) if values[column].is_some() => return Err(Reason::Fields),
                Some(column) => values[column] = Some(cell.value),
                None if new.iter().any(|other| other.field == cell.field) => {
                    return Err(Reason::Fields);
                }
                None => new.push(cell),
            }
        }
        if new.is_empty() {
            return Ok(layout.number());
        }
        if layout.columns() + new.len() > MAX_FIELDS {
            return Err(Reason::Fields);
        }
        self.seal(source);
        let mut number = layout.number();
        for cell in new {
            let name = std::str::from_utf8(cell.field).expect("names were checked");
            number = self.extend_layout(number, name, &cell.value);
            values.push(Some(cell.value));
        }
        self.relink(source, number);
        Ok(number)
    }

    /// Appends a row to a source whose only column is the number's.
    #[inline(always)]
    pub fn put_number(&mut self, source: u32, time: i64, number: Number) {
        let limit = self.options.block_bytes - NUMBER_BYTES as u32;
        self.position += 1;
        if let Some(coded) = self
            .buffers
            .append_number(source, self.tick, limit, time, number)
        {
            if self.journalled {
                self.staging.number(source, None, coded);
            }
            return;
        }
        self.put_number_slowly(source, time, number);
    }

    /// Appends rows to sources of one layout, whose only column is a float, as many as are usual.
    /// Answers how many these are; the next row is none, or has to be looked at.
    pub fn put_floats(&mut self, layout: u32, floats: Floats<'_>) -> usize {
        let limit = self.options.block_bytes - NUMBER_BYTES as u32;
        let mut done = 0;
        loop {
            let (rest, encoded) = (floats.from(done), &mut self.encoded);
            let rows = self
                .buffers
                .append_floats(layout, self.tick, limit, rest, encoded);
            if self.journalled {
                self.staging.run(&rest.sources[..rows], encoded);
            }
            done += rows;
            if rows < run::ROWS {
                self.position += done as u64;
                return done;
            }
        }
    }

    /// What [`State::put_number`] does where a block begins, ends, or needs more room.
    #[cold]
    fn put_number_slowly(&mut self, source: u32, time: i64, number: Number) {
        let limit = self.options.block_bytes - NUMBER_BYTES as u32;
        let line = self.buffers.line(source);
        if line.bytes > limit || line.rows == u16::MAX {
            self.seal(source);
        }
        let start = if self.buffers.line(source).rows == 0 {
            Some(self.begin_block(source))
        } else {
            None
        };
        let layout = self
            .layouts
            .get(self.buffers.line(source).layout)
            .expect("lines bear layouts of the store");
        self.buffers.make_room(source, layout);
        let coded = self
            .buffers
            .append_number(source, self.tick, limit, time, number);
        if self.journalled {
            self.staging
                .number(source, start, coded.expect("room was made"));
        }
    }

    /// Numbers the block that the source's next row begins.
    fn begin_block(&mut self, source: u32) -> Start {
        let line = self.buffers.line_mut(source);
        line.block = self.next_block;
        line.journal_file = self.pins.current();
        self.next_block += 1;
        if let Some(begun) = &mut self.begun {
            begun.insert(source);
        }
        if self.journalled {
            self.pins.pin(line.journal_file);
        }
        Start {
            block: line.block,
            layout: line.layout,
            before: self.retention.rows(source),
        }
    }

    #[inline]
    fn put_row<'a>(
        &mut self,
        source: u32,
        layout: u32,
        time: i64,
        values: impl Iterator<Item = Option<Value<'a>>>,
        bound: usize,
    ) {
        let line = self.buffers.line(source);
        if line.rows != 0
            && (line.bytes as usize + bound > self.buffer_limit(layout) || line.rows == u16::MAX)
        {
            self.seal(source);
        }
        let line = self.buffers.line_mut(source);
        line.touched = self.tick;
        let start = if line.rows == 0 {
            Some(self.begin_block(source))
        } else {
            None
        };
        let layout = self
            .layouts
            .get(layout)
            .expect("lines bear layouts of the store");
        self.buffers
            .append(source, layout, time, values, bound, &mut self.row);
        if self.journalled {
            self.staging.row(
                source,
                layout.columns(),
                start,
                &self.row.codes,
                &self.row.payload,
            );
        }
        self.position += 1;
    }

    #[inline]
    pub fn buffer_limit(&self, layout: u32) -> usize {
        let columns = self
            .layouts
            .get(layout)
            .map_or(0, |layout| layout.columns());
        let blocks = (columns / COLUMNS_PER_BLOCK).max(1);
        (self.options.block_bytes as usize * blocks).min(BUFFER_LIMIT)
    }

    /// The time goes on.
    pub fn advance(&mut self, clock: &dyn Clock) {
        self.retention.advance(clock, self.next_block);
    }
}

fn check_cells(cells: &[Cell<'_>], texts: usize) -> Result<(), Reason> {
    if cells.is_empty() || cells.len() > MAX_FIELDS {
        return Err(Reason::Fields);
    }
    if texts > ROW_TEXT_LIMIT {
        return Err(Reason::TextTooLong(texts));
    }
    for cell in cells {
        if cell.field.is_empty()
            || cell.field.len() > 1024
            || std::str::from_utf8(cell.field).is_err()
        {
            return Err(Reason::FieldName);
        }
        if let Value::Str(text) = cell.value
            && text.len() > MAX_TEXT_BYTES
        {
            return Err(Reason::TextTooLong(text.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
