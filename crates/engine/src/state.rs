//! The state of a store: what a row passes through between its acceptance and a segment.
//!
//! Everything here is memory; the one thing that touches the disk is claiming a slot for the next
//! segment. The engine holds a lock around it for the time of a batch.

use crate::block::{self, BlockHead};
use crate::buffer::decimals::Decimals;
use crate::buffer::row::{self, Row};
use crate::buffer::run::{self, Encoded, Floats};
use crate::buffer::{Buffers, NUMBER_BYTES, Number};
use crate::catalog::{Frame, put_key, put_layout};
use crate::dictionary::Dictionary;
use crate::dictionary::layouts::{Layout, Layouts};
use crate::dictionary::names::{NameHash, Names};
use crate::error::{Error, Reason, Receipt};
use crate::journal::files::Pins;
use crate::journal::staging::{Staging, Start};
use crate::memory;
use crate::options::{Durability, Options};
use crate::retention::Retention;
use crate::room;
use crate::segment::Entry;
use crate::segment::open::{OpenSegment, Resumed};
use crate::segment::sealed::Segment;
use crate::segment::tally::Tally;
use crate::trouble::{Path, Troubles};
use crate::volume::Volume;
use crate::{MAX_FIELDS, MAX_TEXT_BYTES};
use seiner_codec::{Effort, varint};
use seiner_merge::{LaneId, LaneSettings, Lanes};
use seiner_model::{Cell, Columns, FieldType, LevelId, Notation, SourceKey, Value, duration_text};
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
/// Free memory is given back so often after something large was freed: with the second time, what its
/// user took with it is free, too.
pub const TRIMS: u8 = 2;
/// Sources that are sealed, at most, before it is asked whether much waits to be written.
const SOURCES_A_LOOK: u32 = 1024;
/// Room that footer and trailer may need beside the blocks of a segment.
const FOOTER_SHARE: u64 = 16;

/// Counters since the store was opened.
#[derive(Default)]
pub struct Counters {
    /// Rows accepted.
    pub rows: u64,
    /// Values accepted.
    pub samples: u64,
    /// Rows refused.
    pub rejected: u64,
    /// Those of them that were too old for their class as they came.
    pub too_old: u64,
    /// Blocks sealed.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Their values.
    pub block_samples: u64,
    /// Bytes written to segments.
    pub segment_written: u64,
    /// Bytes written to the journal.
    pub journal_written: u64,
    /// Segments dropped, merged ones included.
    pub segments_dropped: u64,
    /// Segments merged.
    pub segments_merged: u64,
    /// Bytes of blocks that merges wrote again.
    pub merge_written: u64,
    /// Those of them that were written for the sake of reads alone.
    pub extra_written: u64,
    /// Bytes that merges read.
    pub merge_read: u64,
    /// Blocks that merges gathered in larger ones.
    pub gathered_blocks: u64,
    /// Rows that merges left out because later ones overwrite them.
    pub overwritten_rows: u64,
    /// Bytes that merges saved by compressing harder.
    pub squeezed_bytes: u64,
    /// Bytes that were let go because the budget was used up, about.
    pub shed_bytes: u64,
    /// Time that writers were made to wait for room, ns.
    pub waited_ns: u64,
    /// Blocks that a merge found damaged.
    pub damaged_blocks: u64,
    /// Samples that went into a coarser level.
    pub aged_samples: u64,
    /// Rows of coarser levels, and the values in them.
    pub level_rows: u64,
    pub level_samples: u64,
}

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
    row: Row,
    encoded: Encoded,
    decimals: Decimals,
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
    /// What sealed segments, segments that are out of service, files set aside, and the catalog take.
    pub sealed_bytes: u64,
    pub graveyard_bytes: u64,
    pub aside_bytes: u64,
    pub catalog_bytes: u64,
    /// What the ledger takes, its successor included.
    pub ledger_bytes: u64,
    /// Whether a frame was taken that the catalog does not have yet.
    pub frame_waits: bool,
    /// Whether the ledger has entries that should be durable soon.
    pub loss_waits: bool,
    /// What the store could take if the file system were its own.
    pub room_on_disk: u64,
    /// Seconds that writers owe to the throttle, and the bytes that they paid for.
    pub owed: f64,
    pub paid: u64,
}

impl State {
    /// An empty store.
    pub fn new(options: Options, volume: Arc<dyn Volume>, names_seed: u64, unit: u64) -> State {
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
                lanes: room::lanes(&options),
                segment_bytes: options.segment_bytes,
                least_bytes: (options.segment_bytes / LEAST_SHARE)
                    .max(room::thrifty_segment(&options, unit)),
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
            decimals: Decimals::default(),
            series: 0,
            poisoned: None,
            troubles: Troubles::default(),
            closed: false,
            read_only: false,
            ageing_waits: None,
            tallies: BTreeMap::new(),
            sealed_bytes: 0,
            graveyard_bytes: 0,
            aside_bytes: 0,
            catalog_bytes: 0,
            ledger_bytes: 0,
            frame_waits: false,
            loss_waits: false,
            room_on_disk: u64::MAX,
            owed: 0.0,
            paid: 0,
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

    // ---- registration

    /// The source of a key, registered where it is new.
    pub fn register(
        &mut self,
        dictionary: &mut Dictionary,
        key: &SourceKey,
    ) -> Result<u32, Reason> {
        if self.registry_full {
            let known = dictionary.find(&self.names, key);
            return known.ok_or(Reason::TooManySources);
        }
        let (source, new) = dictionary.intern(&mut self.names, key);
        if new {
            self.note_source(dictionary, source);
        }
        Ok(source)
    }

    /// The source of a name that is not known.
    pub fn register_name(
        &mut self,
        dictionary: &mut Dictionary,
        notation: &dyn Notation,
        name: &[u8],
        hash: NameHash,
    ) -> Result<u32, Reason> {
        if notation.id() == SourceKey::NOTATION
            && !self.registry_full
            && let Some((source, new)) = dictionary.intern_name(&mut self.names, name, hash)
        {
            if new {
                self.note_source(dictionary, source);
            }
            return Ok(source);
        }
        let key = notation.source_key(name)?;
        let source = self.register(dictionary, &key)?;
        // Unless it is the canonical name, which the source has now.
        if self.names.find(hash).is_none() {
            self.names.insert(hash, source);
        }
        Ok(source)
    }

    /// Makes room for a source that was just registered, and notes it for the journal.
    fn note_source(&mut self, dictionary: &Dictionary, source: u32) {
        self.buffers.add_source();
        let is_level = dictionary.is_level(source);
        self.retention.add_source(is_level, || {
            dictionary.key(source).expect("it was just registered")
        });
        if self.journalled {
            if self.staging.new_sources == 0 {
                self.staging.first_source = u64::from(source);
            }
            self.staging.new_sources += 1;
            put_key(dictionary.texts(source), &mut self.staging.names);
        }
        self.position += 1;
    }

    /// A layout with one field more, noted for the journal where it is new.
    fn extend_layout(&mut self, parent: u32, name: &str, value: &Value<'_>) -> u32 {
        let (number, new) = self.layouts.extend(parent, name, value.field_type());
        if new && self.journalled {
            if self.staging.new_layouts == 0 {
                self.staging.first_layout = u64::from(number);
            }
            self.staging.new_layouts += 1;
            let layout = self.layouts.get(number).expect("it was just added").clone();
            put_layout(&layout, &mut self.staging.layouts);
        }
        number
    }

    /// Gives a source another layout; its open block must be sealed.
    pub fn relink(&mut self, source: u32, layout: u32) {
        let line = self.buffers.line_mut(source);
        let columns = |number: u32| {
            self.layouts
                .get(number)
                .map_or(0, |layout| layout.columns()) as u64
        };
        // Levels have columns that are nobody's series.
        if !self.retention.is_level(source) {
            self.series += columns(layout).saturating_sub(columns(line.layout));
        }
        line.layout = layout;
        if source < self.catalogued.0 {
            self.relinked.push(source);
        }
    }

    // ---- appending

    /// Appends the row of a registered source. A refused row leaves no trace.
    #[inline]
    pub fn append<'a>(
        &mut self,
        source: u32,
        time: i64,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
        receipt: &mut Receipt,
    ) -> Result<Result<(), Reason>, Error> {
        if time < self.retention.late_before()
            && let Some(reason) = self.too_old(source, time)
        {
            return Ok(Err(reason));
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
            self.put_number(source, time, number)?;
        } else {
            let texts = row::text_bytes(cells);
            if let Err(reason) = check_cells(cells, texts) {
                return Ok(Err(reason));
            }
            let number = match self.arrange(source, layout.clone(), cells, values)? {
                Ok(number) => number,
                Err(reason) => return Ok(Err(reason)),
            };
            let bound = row::row_bound(values.len()) + texts;
            self.put_row(source, number, time, values.drain(..), bound)?;
        }
        receipt.rows += 1;
        receipt.samples += cells.len();
        Ok(Ok(()))
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
    ) -> Result<Result<(), Reason>, Error> {
        let layout = self.layouts.get(self.buffers.line(source).layout);
        let layout = layout.expect("lines bear layouts of the store").clone();
        let number = match self.arrange(source, layout, cells, values)? {
            Ok(number) => number,
            Err(reason) => return Ok(Err(reason)),
        };
        let bound = row::row_bound(values.len()) + row::text_bytes(cells);
        self.put_row(source, number, time, values.drain(..), bound)?;
        self.counters.level_samples += cells.len() as u64;
        Ok(Ok(()))
    }

    /// The levels of a source that there are, with their numbers, by their steps.
    pub fn levels_of(&self, source: u32) -> Vec<(LevelId, u32)> {
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        dictionary.levels_of(&self.names, source)
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
    ) -> Result<Result<u32, Reason>, Error> {
        values.clear();
        values.resize(layout.columns(), None);
        let mut new: Vec<&Cell<'a>> = Vec::new();
        for (expected, cell) in cells.iter().enumerate() {
            match layout.column(cell.field, expected) {
                Some(column) if layout.types()[column] != cell.value.field_type() => {
                    let field = String::from_utf8_lossy(cell.field).into_owned();
                    let (stored, sent) = (layout.types()[column], cell.value.field_type());
                    return Ok(Err(Reason::FieldType {
                        field,
                        stored,
                        sent,
                    }));
                }
                Some(column) if values[column].is_some() => return Ok(Err(Reason::Fields)),
                Some(column) => values[column] = Some(cell.value),
                None if new.iter().any(|other| other.field == cell.field) => {
                    return Ok(Err(Reason::Fields));
                }
                None => new.push(cell),
            }
        }
        if new.is_empty() {
            return Ok(Ok(layout.number()));
        }
        if layout.columns() + new.len() > MAX_FIELDS {
            return Ok(Err(Reason::Fields));
        }
        self.seal(source)?;
        let mut number = layout.number();
        for cell in new {
            let name = std::str::from_utf8(cell.field).expect("names were checked");
            number = self.extend_layout(number, name, &cell.value);
            values.push(Some(cell.value));
        }
        self.relink(source, number);
        Ok(Ok(number))
    }

    /// Appends a row to a source whose only column is the number's.
    #[inline(always)]
    pub fn put_number(&mut self, source: u32, time: i64, number: Number) -> Result<(), Error> {
        let limit = self.options.block_bytes - NUMBER_BYTES as u32;
        self.position += 1;
        if let Some(coded) = self
            .buffers
            .append_number(source, self.tick, limit, time, number)
        {
            if self.journalled {
                self.staging.number(source, None, coded);
            }
            return Ok(());
        }
        self.put_number_slowly(source, time, number)
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
    fn put_number_slowly(&mut self, source: u32, time: i64, number: Number) -> Result<(), Error> {
        let limit = self.options.block_bytes - NUMBER_BYTES as u32;
        let line = self.buffers.line(source);
        if line.bytes > limit || line.rows == u16::MAX {
            self.seal(source)?;
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
        Ok(())
    }

    /// Numbers the block that the source's next row begins.
    fn begin_block(&mut self, source: u32) -> Start {
        let line = self.buffers.line_mut(source);
        line.block = self.next_block;
        line.journal_file = self.pins.current();
        self.next_block += 1;
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
    ) -> Result<(), Error> {
        let line = self.buffers.line(source);
        if line.rows != 0
            && (line.bytes as usize + bound > self.buffer_limit(layout) || line.rows == u16::MAX)
        {
            self.seal(source)?;
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
        Ok(())
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

    // ---- sealing

    /// Seals a source's open block, if it has one, into the active segment.
    pub fn seal(&mut self, source: u32) -> Result<(), Error> {
        let line = self.buffers.line(source);
        if line.rows == 0 {
            return Ok(());
        }
        let (number, journal_file) = (line.block, line.journal_file);
        self.have_slot()?;
        let line = self.buffers.line(source);
        let (bytes, accepted) = (u64::from(line.bytes), u32::from(line.rows));
        let layout = self
            .layouts
            .get(line.layout)
            .expect("lines bear layouts of the store");
        let head = BlockHead {
            source,
            number,
            layout: layout.number(),
        };
        let decimal = layout.types() == [FieldType::F64]
            && self.buffers.drain_decimals(source, &mut self.decimals);
        let columns = match decimal {
            true => Columns::default(),
            false => block::sorted(self.buffers.drain(source, layout.types())),
        };
        let times = match decimal {
            true => &self.decimals.times,
            false => &columns.times,
        };
        let rows = times.len() as u32;
        let before_rows = self.retention.rows(source);
        // Rows that others of the block replace count as well, as they did in the buffer and as the journal
        // counts them. Fewer would return rows that the ring has expired.
        let ordinal = self.retention.count(source, accepted);
        let entry = Entry {
            source,
            number,
            first: times[0],
            last: *times.last().expect("a block has rows"),
            rows,
            ordinal,
            since: number,
            before: before_rows,
            late: self.retention.is_late(source, times[0]),
            ..Entry::default()
        };
        let next = self.next_block;
        let expected = self
            .retention
            .death(source, number, next, accepted, bytes, entry.last);
        let death = self.retention.moment().death(expected);
        let lane = self.lanes.lane(death, bytes, self.retention.now());
        let at = self.make_active(lane)?;
        let decimals = &self.decimals;
        let len = self.open[at].add(entry, Some(journal_file), |out| match decimal {
            true => block::encode_decimals(head, decimals, out),
            false => block::encode(head, &columns, Effort::Fast, out),
        });
        self.open[at].replayable += memory::replay_cost(bytes);
        let samples = match decimal {
            true => rows as usize,
            false => columns.fields.iter().map(|field| field.values.len()).sum(),
        };
        self.counters.blocks += 1;
        self.counters.block_bytes += u64::from(len);
        self.counters.block_samples += samples as u64;
        Ok(())
    }

    /// Adds a block that lay in another segment, as it is. The journal has let go of it.
    pub fn add_copy(&mut self, entry: Entry, bytes: &[u8]) -> Result<u64, Error> {
        let expected = self.retention.remaining(&entry);
        let death = self.retention.moment().death(expected);
        let lane = self.lanes.place(death, self.retention.now());
        let at = self.make_active(lane)?;
        self.open[at].add(entry, None, |out| out.extend_from_slice(bytes));
        Ok(self.open[at].number)
    }

    /// The segment of a lane that takes blocks, with room for one more.
    fn make_active(&mut self, lane: LaneId) -> Result<usize, Error> {
        let active = |open: &OpenSegment| open.lane == lane && open.closed_at.is_none();
        if let Some(at) = self.open.iter().rposition(active) {
            let bytes = self.lanes.segment_bytes(lane);
            let full = self.open[at].len() >= bytes - bytes / FOOTER_SHARE;
            // Of very small blocks, the list alone takes memory that their buffers need.
            if !full && !self.is_list_long(at) {
                return Ok(at);
            }
            self.open[at].close(self.sequence);
        }
        self.have_slot()?;
        let slot = self.ready.pop_front();
        let (number, file) = slot.expect("there is a slot");
        self.taken += 1;
        let bytes = self.options.piece_bytes();
        self.open.push(OpenSegment::new(number, lane, file, bytes));
        Ok(self.open.len() - 1)
    }

    /// Makes sure that a segment can be begun. Where none can, for want of room, nothing has been taken
    /// out of a buffer yet, and the store goes on when there is some.
    fn have_slot(&mut self) -> Result<(), Error> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        let number = self.number_segment();
        let claimed = self.volume.claim(number);
        let file = claimed.inspect_err(|error| {
            self.troubles.note(Path::Segments, Err(error));
            if !error.passes() {
                self.poisoned = Some(error.to_string());
            }
        })?;
        self.ready.push_back((number, file));
        Ok(())
    }

    /// The number of the next segment.
    pub fn number_segment(&mut self) -> u64 {
        let number = self.next_segment;
        self.next_segment += 1;
        number
    }

    /// Lets the segments that take blocks be sealed as they are.
    pub fn close_active(&mut self) {
        let sequence = self.sequence;
        for open in &mut self.open {
            if open.closed_at.is_none() {
                open.close(sequence);
            }
        }
    }

    /// Goes on with segments that were being written when the store was left.
    pub fn resume(&mut self, segments: Vec<Resumed>) {
        let lanes = self.lanes.count();
        for mut resumed in segments {
            resumed.entries.sort_unstable_by_key(|entry| entry.offset);
            let mut open = resumed.segment.resume(resumed.end, resumed.entries);
            let taken = self
                .open
                .iter()
                .any(|other| other.lane == open.lane && other.closed_at.is_none());
            if taken || open.lane >= lanes {
                open.close(self.sequence);
            }
            self.open.push(open);
        }
    }

    /// The blocks of a source in segments that are being written.
    pub fn open_blocks_of(&self, source: u32) -> impl Iterator<Item = (&OpenSegment, Entry)> {
        let open = self.open.iter();
        open.flat_map(move |open| open.blocks_of(source).map(move |entry| (open, entry)))
    }

    /// Takes a segment off the list of those that are being written.
    pub fn take_open(&mut self, number: u64) -> OpenSegment {
        self.trims_due = TRIMS;
        let at = self.open.iter().position(|open| open.number == number);
        self.open.remove(at.expect("a segment is sealed once"))
    }

    /// Seals open blocks of sources from `hand` on until much waits to be written; answers where to go
    /// on, if not all were seen.
    pub fn seal_some(&mut self, hand: u32) -> Result<Option<u32>, Error> {
        for source in hand..self.buffers.sources() as u32 {
            if source > hand && source % SOURCES_A_LOOK == 0 && self.is_much_sealed() {
                return Ok(Some(source));
            }
            self.seal(source)?;
        }
        Ok(None)
    }

    /// Seals every open block.
    pub fn seal_all(&mut self) -> Result<(), Error> {
        for source in 0..self.buffers.sources() as u32 {
            self.seal(source)?;
        }
        Ok(())
    }

    /// Seals open blocks that are older than a delete of their source: rows that were replayed,
    /// which later ones must not join.
    pub fn seal_buried(&mut self) -> Result<(), Error> {
        for source in 0..self.buffers.sources() as u32 {
            let line = self.buffers.line(source);
            if line.rows != 0 && self.retention.is_before_delete(source, line.block) {
                self.seal(source)?;
            }
        }
        Ok(())
    }

    /// Seals open blocks of a class that were begun below the middle of what is above its floor: a block
    /// dies by its number, and those of slow sources would go on taking rows when they are dead already.
    pub fn seal_slow(&mut self, class: u8) -> Result<(), Error> {
        let floor = self.retention.floor(class);
        let middle = floor + self.next_block.saturating_sub(floor) / 2;
        for source in 0..self.buffers.sources() as u32 {
            let line = self.buffers.line(source);
            let is_slow = line.rows != 0 && line.block < middle;
            if is_slow && self.retention.class_of(source) == class {
                self.seal(source)?;
            }
        }
        Ok(())
    }

    // ---- making room

    /// Seals what begins in the oldest journal files when the journal nears its bound: some
    /// sources at a call, all where it has reached it.
    pub fn relieve_journal(&mut self) -> Result<(), Error> {
        const AT_ONCE: u32 = 8192;
        let (bytes, bound) = (self.pins.bytes(), self.options.journal_bytes);
        let Some(oldest) = self
            .pins
            .oldest()
            .filter(|&oldest| oldest < self.pins.current())
        else {
            return Ok(());
        };
        if self.journal_target.is_none() {
            if bytes < bound / 4 * 3 {
                return Ok(());
            }
            // A quarter of the files at once, so that the sources are gone through four times a journal.
            self.journal_target = Some(oldest + (self.pins.current() - oldest) / 4);
            self.journal_hand = 0;
        }
        let target = self.journal_target.unwrap_or(oldest);
        let sources = self.buffers.sources() as u32;
        let end = if bytes >= bound {
            sources
        } else {
            sources.min(self.journal_hand + AT_ONCE)
        };
        for source in self.journal_hand..end {
            // The rest when what waits is written.
            if source % SOURCES_A_LOOK == 0 && self.is_much_sealed() {
                self.journal_hand = source;
                return Ok(());
            }
            let line = self.buffers.line(source);
            if line.rows != 0 && line.journal_file <= target {
                self.seal(source)?;
            }
        }
        self.journal_hand = end;
        if end == sources {
            self.journal_target = None;
            self.chapter_due = true;
        }
        Ok(())
    }

    /// Seals sources among `range` that were silent for `ticks`.
    pub fn seal_idle(&mut self, range: std::ops::Range<u32>, ticks: u16) -> Result<(), Error> {
        for source in range {
            let line = self.buffers.line(source);
            if line.rows != 0 && self.tick.wrapping_sub(line.touched) >= ticks {
                self.seal(source)?;
            }
        }
        Ok(())
    }

    // ---- the catalog

    /// What the catalog does not know yet, for it to know, as far as a frame may be long; if it cannot
    /// be written, nothing can.
    pub fn take_catalog_frame(&mut self) -> Frame {
        let dictionary = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        let (sources, layouts) = self.catalogued;
        let mut frame = Frame {
            first_source: sources,
            first_layout: layouts,
            ..Frame::default()
        };
        let limit = memory::frame_limit(&self.options);
        for source in sources..dictionary.len() as u32 {
            if frame.names.len() >= limit {
                break;
            }
            put_key(dictionary.texts(source), &mut frame.names);
            frame.sources += 1;
            put_link(source, self.buffers.line(source).layout, &mut frame.links);
        }
        let is_last = frame.first_source + frame.sources == dictionary.len() as u32;
        for number in layouts..self.layouts.len() as u32 {
            put_layout(
                self.layouts.get(number).expect("numbers are dense"),
                &mut frame.layouts,
            );
            frame.new_layouts += 1;
        }
        let mut relinked = std::mem::take(&mut self.relinked);
        relinked.sort_unstable();
        relinked.dedup();
        for source in relinked {
            put_link(source, self.buffers.line(source).layout, &mut frame.links);
        }
        let adds = frame.sources > 0 || frame.new_layouts > 0;
        if adds || self.retention.has_news() {
            self.retention.note_ledger();
        }
        // Which may be of sources that the next frame brings.
        if is_last {
            frame.dead = self.retention.take_news();
        }
        self.catalogued = (
            frame.first_source + frame.sources,
            frame.first_layout + frame.new_layouts,
        );
        self.frame_waits = !frame.is_empty();
        frame
    }

    /// Whether there are names or layouts that the catalog does not have.
    pub fn has_new_names(&self) -> bool {
        let (sources, layouts) = self.catalogued;
        self.frame_waits
            || (sources as usize) < self.buffers.sources()
            || (layouts as usize) < self.layouts.len()
    }
}

fn put_link(source: u32, layout: u32, out: &mut Vec<u8>) {
    varint::put_u64(u64::from(source), out);
    varint::put_u64(u64::from(layout), out);
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
