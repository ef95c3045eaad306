//! Head: accepted rows that are not yet in the log.
//!
//! The head contains names and layouts, the buffer of each source, buffers on their way to the log,
//! and rows that wait for the journal. It is memory only, under a lock of its own
//! ([`crate::locks`]) that is held for the duration of a batch. The head is independent of disk,
//! segments, lanes and budget. [`LogFigures`] contains the figures that the head needs from them.

mod cells;
mod figures;
mod forgetting;
mod idle;
mod memory;
mod registry;
mod replay;
mod rows;
mod sealing;

use self::cells::{check_cells, converted};
pub use self::figures::LogFigures;
use self::forgetting::Forgetting;
use self::idle::Idle;
pub use self::memory::Backlog;
pub use self::registry::Extent;
pub use self::replay::NotAdded;
use self::rows::RowCounts;
use self::sealing::Relief;
use crate::MAX_FIELDS;
use crate::buffer::Buffers;
use crate::buffer::line::OpenState;
use crate::buffer::number::{Limit, NUMBER_BYTES, Number};
use crate::buffer::row::{self, Coded, Row};
use crate::buffer::run::{self, Encoded, Floats};
use crate::buffer::small::neighbours;
use crate::counters::Accepted;
use crate::dictionary::Dictionary;
use crate::dictionary::layouts::{Layout, Layouts};
use crate::dictionary::names::Names;
use crate::error::{Reason, Receipt};
use crate::journal::pins::Pins;
use crate::journal::staging::{Staging, Start};
use crate::members::Members;
use crate::options::{Durability, Options};
use crate::retention::lateness::TooOld;
use crate::sealing::queue::Queue;
use crate::space::Load;
use roaring::RoaringBitmap;
use seiner_model::{Cell, FieldType, SourceId, Value, duration_text};
use std::sync::{Arc, RwLock};

/// Number of columns for which a buffer has B bytes. Wider layouts get larger buffers, so that each
/// column has enough values to compress.
const COLUMNS_PER_BLOCK: usize = 4;
/// Maximum bytes of a buffer, regardless of its columns.
const BUFFER_LIMIT: usize = 256 << 10;

/// Head of a store.
pub struct Head {
    options: Arc<Options>,
    journalled: bool,
    /// Names, tags and layouts. Locked for writing only while a new source is registered.
    dictionary: Arc<RwLock<Dictionary>>,
    members: Arc<Members>,
    layouts: Layouts,
    names: Names,
    buffers: Buffers,
    /// Total number of rows of each source in buffers that were taken.
    rows: RowCounts,
    /// Rows and names that wait for the journal.
    pub staging: Staging,
    /// Journal files in which blocks begin that are not yet on disk elsewhere.
    pub pins: Pins,
    /// Figures of the log, as of the beginning of a batch.
    log_figures: LogFigures,
    /// True if the registry has reached its share of the memory and accepts no more sources. As of
    /// the beginning of a batch.
    registry_full: bool,
    /// True unless the last attempt to file names failed.
    is_filing_possible: bool,
    /// Counters of accepted and rejected rows.
    pub counters: Accepted,
    /// Number of accepted rows and registrations: the position for durability.
    position: u64,
    next_block: u64,
    /// Lowest number of an open block that accepts rows.
    first_block: u64,
    /// Numbers of sources and layouts in the catalog.
    catalogued: (u32, u32),
    /// Sources in the catalog whose layout has changed since.
    relinked: Vec<u32>,
    /// Sources that may be forgotten, and sources whose numbers were used before.
    forgetting: Forgetting,
    /// Sources whose names may leave memory.
    idle: Idle,
    /// True if a frame was taken that is not yet in the catalog.
    frame_waits: bool,
    /// Time in ticks, used to find idle sources.
    pub tick: u16,
    fullest_cursor: u32,
    relief: Relief,
    /// True if checkpoints are due, so that the journal can release blocks that were taken.
    checkpoint_wanted: bool,
    /// Sources with a block that was begun recently. `None` if tracking is off.
    pub begun: Option<RoaringBitmap>,
    /// Buffers on their way to the log.
    sealing: Queue,
    /// Memory in bytes of the encoders of taken buffers, and of the journal's record.
    pub sealer_memory: usize,
    pub journal_memory: usize,
    /// Bytes of the rows that the journal took and has not yet written.
    pub unwritten: u64,
    row: Row,
    encoded: Encoded,
    series: u64,
}

impl Head {
    /// Returns the head of an empty store.
    pub fn new(options: Arc<Options>, members: Arc<Members>, names_seed: u64) -> Head {
        Head {
            journalled: options.durability != Durability::Memory,
            dictionary: Arc::default(),
            members,
            layouts: Layouts::new(),
            names: Names::new(names_seed),
            buffers: Buffers::default(),
            rows: RowCounts::default(),
            staging: Staging::default(),
            pins: Pins::default(),
            log_figures: LogFigures::default(),
            registry_full: false,
            is_filing_possible: true,
            counters: Accepted::default(),
            position: 0,
            next_block: 1,
            first_block: 0,
            catalogued: (0, 1),
            relinked: Vec::new(),
            forgetting: Forgetting::default(),
            idle: Idle::default(),
            frame_waits: false,
            tick: 0,
            fullest_cursor: 0,
            relief: Relief::default(),
            checkpoint_wanted: false,
            begun: None,
            sealing: Queue::default(),
            sealer_memory: 0,
            journal_memory: 0,
            unwritten: 0,
            row: Row::default(),
            encoded: Encoded::default(),
            series: 0,
            options,
        }
    }

    // ---- accessors

    /// Returns the dictionary of names. Its lock comes after that of the head.
    pub fn dictionary(&self) -> &Arc<RwLock<Dictionary>> {
        &self.dictionary
    }

    /// Returns the class of each source.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the class of each source, for use without the lock of the head.
    pub fn shared_members(&self) -> Arc<Members> {
        self.members.clone()
    }

    /// Returns the layouts of the store.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Returns the names as they are sent, by their hashes.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns how many numbers of sources exist, including those of levels and of forgotten sources.
    pub fn sources(&self) -> u32 {
        self.buffers.sources() as u32
    }

    /// Returns the number of series of sources that are not levels.
    pub fn series(&self) -> u64 {
        self.series
    }

    /// Returns the figures of the open block of a source.
    pub fn open_state(&self, source: u32) -> OpenState {
        self.buffers.state(source)
    }

    /// Returns the number of the layout of a source.
    pub fn layout_of(&self, source: u32) -> u32 {
        self.buffers.layout(source)
    }

    /// Returns the buffers.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Returns the number of all rows of a source so far, including those in its buffer.
    pub fn rows_of(&self, source: u32) -> u64 {
        self.rows.get(source) + u64::from(self.buffers.state(source).rows)
    }

    /// Returns the number of all rows of a source in buffers that were taken.
    pub fn rows_taken(&self, source: u32) -> u64 {
        self.rows.get(source)
    }

    /// Returns the number of accepted rows and registrations.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of the block that is begun next.
    pub fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Returns the number of the next block when the oldest buffer that waits for the log was
    /// taken, or the number of the next block if no buffer waits.
    pub fn logged_block(&self) -> u64 {
        let front = self.sealing.iter().next();
        front.map_or(self.next_block, |taken| taken.next)
    }

    /// Returns the buffers that were taken.
    pub fn sealing(&self) -> &Queue {
        &self.sealing
    }

    /// Returns whether no more sources are registered for lack of memory.
    pub fn is_registry_full(&self) -> bool {
        self.registry_full
    }

    /// Returns the bytes in the journal, on their way to it, and in buffers.
    pub fn load(&self) -> Load {
        Load {
            open: 0,
            journal: self.pins.bytes(),
            staged: self.staging.bytes() as u64 + self.unwritten,
            journal_files: self.pins.files() as u64,
            rows: self.buffers.row_bytes(),
            blocks: self.buffers.open_blocks(),
        }
    }

    /// Returns whether the journal is at its bound.
    pub fn is_journal_full(&self) -> bool {
        self.pins.bytes() >= self.options.journal_bytes
    }

    /// Returns the time from which on no row from outside is too old, ns.
    pub fn late_before(&self) -> i64 {
        self.log_figures.lateness.before()
    }

    /// Returns the figures of the log, mutably.
    pub fn log_figures(&mut self) -> &mut LogFigures {
        &mut self.log_figures
    }

    /// Returns whether checkpoints are due, and clears the request.
    pub fn take_checkpoint_wanted(&mut self) -> bool {
        std::mem::take(&mut self.checkpoint_wanted)
    }

    /// Prefetches the first data that a row of a source needs.
    #[inline]
    pub fn prefetch_line(&self, source: u32) {
        self.buffers.prefetch_line(source);
    }

    /// Prefetches the buffer of a source, whose line or position is in the cache.
    #[inline]
    pub fn prefetch_rows(&self, source: u32) {
        self.buffers.prefetch_rows(source);
    }

    // ---- rows

    /// Appends the row of a registered source. A rejected row leaves no trace.
    #[inline]
    pub fn append<'a>(
        &mut self,
        source: u32,
        time: i64,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
        receipt: &mut Receipt,
    ) -> Result<(), Reason> {
        if time < self.log_figures.lateness.before()
            && let Some(reason) = self.too_old(source, time)
        {
            return Err(reason);
        }
        let layout = self
            .layouts
            .get(self.buffers.layout(source))
            .expect("sources have layouts of the store");
        // The usual row: one known field of the same type.
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

    /// Returns the reason why a row would be hidden on arrival, if it would.
    #[cold]
    fn too_old(&mut self, source: u32, time: i64) -> Option<Reason> {
        let class = self.members.class_of(source);
        let reason = match self.log_figures.lateness.too_old(source, class, time)? {
            TooOld::Age => {
                let class = &self.members.classes().list()[class as usize];
                let age = class.keep.age.unwrap_or_default();
                Reason::TooOld {
                    class: class.name.clone(),
                    age: duration_text(age.as_nanos() as u64),
                }
            }
            TooOld::RolledUp => Reason::RolledUp,
        };
        self.counters.too_old += 1;
        Some(reason)
    }

    /// Appends a row of a level, whose figures the store computed.
    pub fn append_level<'a>(
        &mut self,
        source: u32,
        time: i64,
        cells: &[Cell<'a>],
        values: &mut Vec<Option<Value<'a>>>,
    ) -> Result<(), Reason> {
        let layout = self.layouts.get(self.buffers.layout(source));
        let layout = layout.expect("sources have layouts of the store").clone();
        let number = self.arrange(source, layout, cells, values)?;
        let bound = row::row_bound(values.len()) + row::text_bytes(cells);
        self.put_row(source, number, time, values.drain(..), bound);
        self.counters.level_samples += cells.len() as u64;
        Ok(())
    }

    /// Arranges cells in the order of the source's columns. New fields get new columns.
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
                Some(column) if values[column].is_some() => return Err(Reason::Fields),
                Some(column) => {
                    let stored = layout.types()[column];
                    values[column] = Some(match cell.value.field_type() == stored {
                        true => cell.value,
                        false => converted(cell, stored)?,
                    });
                }
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

    /// Appends a row to a source whose only column has the type of the number.
    #[inline(always)]
    pub fn put_number(&mut self, source: u32, time: i64, number: Number) {
        let limit = self.number_limit();
        self.position += 1;
        if let Some(coded) = self
            .buffers
            .append_number(source, self.tick, limit, time, number)
        {
            self.stage(source, None, coded);
            return;
        }
        self.put_number_slowly(source, time, number);
    }

    /// Appends rows to sources of one layout, whose only column is a float, up to the first unusual
    /// row. Returns the number of appended rows. The next row, if any, needs another path.
    pub fn put_floats(&mut self, layout: u32, floats: Floats<'_>) -> usize {
        let limit = self.number_limit();
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
                let small = self.put_small_floats(layout, floats.from(done));
                done += small;
                if small == 0 {
                    self.position += done as u64;
                    return done;
                }
            }
        }
    }

    /// Does the same as [`Head::put_floats`] for sources with small blocks.
    fn put_small_floats(&mut self, layout: u32, floats: Floats<'_>) -> usize {
        let arrival = (self.tick, self.number_limit());
        let (staging, journalled) = (&mut self.staging, self.journalled);
        let mut done = 0;
        while done < floats.sources.len() {
            let rest = floats.from(done);
            let buffers = &mut self.buffers;
            let is_usual = |source: &&SourceId| buffers.layout(source.0) == layout;
            let count = neighbours::count(rest.sources);
            let usual = rest.sources[..count].iter().take_while(is_usual).count();
            buffers.prefetch_ahead(rest.sources, count - 1);
            let number = |row: usize| (rest.times[row], Number::F64(rest.values[row]));
            let stage = |row: usize, coded| {
                if journalled {
                    staging.number(rest.sources[row].0, None, coded);
                }
            };
            let usual = &rest.sources[..usual];
            match buffers.append_numbers(usual, FieldType::F64, arrival, number, stage) {
                0 => break,
                rows => done += rows,
            }
        }
        done
    }

    /// Appends a number as [`Head::put_number`] does, when a block begins or ends, or needs more
    /// space.
    #[cold]
    fn put_number_slowly(&mut self, source: u32, time: i64, number: Number) {
        let (tick, limit) = (self.tick, self.number_limit());
        let layout = self.layouts.get(self.buffers.layout(source));
        let only = layout.expect("sources have layouts of the store").types()[0];
        let row = (time, number);
        if let Some(coded) = self.buffers.append_small(source, only, tick, limit, row) {
            self.stage(source, None, coded);
            return;
        }
        let mut open = self.buffers.state(source);
        if limit.is_reached(open) {
            self.seal(source);
            open = OpenState::default();
        }
        let start = (open.rows == 0).then(|| self.begin_block(source, true));
        let layout = self.layouts.get(self.buffers.layout(source));
        let layout = layout.expect("a block has a layout");
        let coded = self
            .buffers
            .append_number_slowly(source, layout, tick, time, number);
        self.stage(source, start, coded);
    }

    /// Stages a number for the journal.
    #[inline(always)]
    fn stage(&mut self, source: u32, start: Option<Start>, coded: (Coded, Coded)) {
        if self.journalled {
            self.staging.number(source, start, coded);
        }
    }

    /// Returns the limit of the open block of a source with one number.
    #[inline(always)]
    fn number_limit(&self) -> Limit {
        Limit {
            bytes: self.options.block_bytes - NUMBER_BYTES as u32,
            first_block: self.first_block,
        }
    }

    /// Assigns a number to the block that the source's next row begins. `is_number` is true if the row
    /// is a number of the only column.
    fn begin_block(&mut self, source: u32, is_number: bool) -> Start {
        let (block, journal_file) = (self.next_block, self.pins.current());
        self.buffers.begin(source, block, journal_file, is_number);
        self.next_block += 1;
        if let Some(begun) = &mut self.begun {
            begun.insert(source);
        }
        self.stays(source);
        if self.journalled {
            self.pins.pin(journal_file);
        }
        Start {
            block,
            layout: self.buffers.layout(source),
            before: self.rows.get(source),
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
        let limit = Limit {
            bytes: self.buffer_limit(layout).saturating_sub(bound) as u32,
            first_block: self.first_block,
        };
        let mut open = self.buffers.state(source);
        // A source without an open block has nothing to seal.
        if limit.is_reached(open) {
            self.seal(source);
            open = OpenState::default();
        }
        let start = (open.rows == 0).then(|| self.begin_block(source, false));
        let layout = self
            .layouts
            .get(layout)
            .expect("sources have layouts of the store");
        self.buffers.give_line(source, layout, self.tick);
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
}

#[cfg(test)]
mod tests;
