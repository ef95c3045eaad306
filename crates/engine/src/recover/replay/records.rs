//! Records of the journal: names, layouts and rows.

use crate::buffer::line::OpenState;
use crate::bytes::{Cursor, Short};
use crate::catalog::{Name, get_key, get_layout, lose_sources, pass_key, register_reused};
use crate::error::Error;
use crate::journal::files;
use crate::journal::record::JournalRecord;
use crate::journal::rows::{BlockStart, Head as RowHead, JournalRows, RecordRow, is_too_large};
use crate::recover::replay::Replay;

/// State of a block after its beginning was replayed.
enum Begun {
    /// Its rows are skipped.
    Skipped,
    /// It has no row yet.
    Empty,
    /// It has its first row.
    WithRow,
}

/// Number of rows between checks of the memory.
const ROWS_A_LOOK: u64 = 4096;
/// Marker of sources whose rows were counted.
const NO_SOURCE: u32 = u32::MAX;

impl Replay<'_> {
    pub(super) fn replay_record(&mut self, record: &JournalRecord) -> Result<(), Short> {
        self.missing.record(record.rows_before, record.rows);
        let mut done = 0;
        let result = self.replay_streams(record, &mut done);
        if result.is_err() {
            let (number, left) = (self.parts.head.pins.current(), record.rows - done);
            let what = format!("record {} is malformed", self.sequence - 1);
            let name = files::name(number);
            self.missing.malformed(name, what, self.sequence - 1, left);
        }
        result
    }

    pub(super) fn replay_streams(
        &mut self,
        record: &JournalRecord,
        done: &mut u64,
    ) -> Result<(), Short> {
        self.replay_names(record, Cursor(&record.streams[0]))?;
        self.replay_layouts(record, Cursor(&record.streams[1]))?;
        self.follows
            .resize(self.parts.head.sources() as usize, false);
        self.replay_rows(record, done)
    }

    pub(super) fn replay_names(
        &mut self,
        record: &JournalRecord,
        mut names: Cursor<'_>,
    ) -> Result<(), Short> {
        if record.new_sources > 0 {
            lose_sources(
                &mut self.parts,
                u32::try_from(record.first_source).map_err(|_| Short)?,
            );
        }
        let known = u64::from(self.parts.head.sources()).saturating_sub(record.first_source);
        let known = known.min(record.new_sources);
        for _ in 0..known {
            pass_key(&mut names)?;
        }
        let new = u32::try_from(record.new_sources - known).map_err(|_| Short)?;
        let added = self
            .parts
            .head
            .add_names(&mut names, new, |stream| get_key(stream).map(Name::Key));
        added.map_err(|_| Short)?;
        if self.sequence <= self.parts.head.known_before() {
            return Ok(());
        }
        register_reused(names.0, &mut self.parts).map_err(|_| Short)
    }

    pub(super) fn replay_layouts(
        &mut self,
        record: &JournalRecord,
        mut layouts: Cursor<'_>,
    ) -> Result<(), Short> {
        if record.new_layouts > 0 {
            self.parts
                .head
                .layouts_mut()
                .lose(u32::try_from(record.first_layout).map_err(|_| Short)?);
        }
        for _ in 0..record.new_layouts {
            // A known source gets its number again.
            get_layout(&mut layouts, self.parts.head.layouts_mut())?;
        }
        layouts.is_empty().then_some(()).ok_or(Short)
    }
}

impl Replay<'_> {
    /// Buffers or skips the rows of a record. `done` is the number of rows so far.
    pub(super) fn replay_rows(
        &mut self,
        record: &JournalRecord,
        done: &mut u64,
    ) -> Result<(), Short> {
        let mut rows = JournalRows::new(record);
        let mut looked = 0;
        loop {
            let neighbours = self.replay_neighbours(&mut rows)?;
            if neighbours == 0 {
                let Some(head) = rows.head()? else { break };
                self.replay_next(&mut rows, head)?;
            }
            *done += neighbours.max(1);
            if *done - looked >= ROWS_A_LOOK {
                looked = *done;
                self.parts.head.make_all_small();
            }
        }
        rows.is_at_end().then_some(()).ok_or(Short)
    }

    /// Buffers or skips a row whose head was read.
    fn replay_next(&mut self, rows: &mut JournalRows<'_>, head: RowHead) -> Result<(), Short> {
        let follows = self.follows.get(head.source as usize);
        let follows = follows.copied().ok_or(Short)?;
        let is_usual = head.columns == 1 && follows && self.parts.head.has_one_number(head.source);
        let to = &mut self.parts.head;
        if is_usual
            && rows.number(|codes, payload| to.replay_number(head.source, codes, payload))?
        {
            self.recovery.rows_replayed += 1;
            return Ok(());
        }
        self.replay_row(&rows.rest(head)?, follows)
    }

    /// Buffers the next rows if they belong to small blocks of neighbouring sources. Returns their number.
    fn replay_neighbours(&mut self, rows: &mut JournalRows<'_>) -> Result<u64, Short> {
        let first = rows.clone();
        let found = self.find_neighbours(rows);
        let buffered = match self.neighbours.len() {
            0 => return found.map(|()| 0),
            _ => self.parts.head.replay_neighbours(&self.neighbours),
        };
        if found.is_err() || buffered < self.neighbours.len() {
            *rows = first;
            for row in 0..buffered {
                rows.head()?;
                rows.number(|_, _| Some(self.neighbours.payload_bytes(row)))?;
            }
        }
        self.recovery.rows_replayed += buffered as u64;
        Ok(buffered as u64)
    }

    /// Lists the next rows that may belong to small blocks of neighbouring sources. Rows of other blocks are not appended.
    fn find_neighbours(&mut self, rows: &mut JournalRows<'_>) -> Result<(), Short> {
        self.neighbours.clear();
        // A row that will be skipped must end the list at once: such a source has no block, and would be listed again
        // with each row before it.
        let follows = |source: u32| self.follows.get(source as usize) == Some(&true);
        match rows.head()? {
            Some(first) if follows(first.source) && self.parts.head.may_be_small(first.source) => {}
            _ => return Ok(()),
        }
        while let Some(RowHead { source, columns: 1 }) = rows.head()?
            && follows(source)
            && rows.number(|codes, payload| self.neighbours.push(source, codes, payload))?
        {}
        Ok(())
    }

    pub(super) fn replay_row(
        &mut self,
        row: &RecordRow<'_>,
        mut follows: bool,
    ) -> Result<(), Short> {
        let source = row.source;
        if !self.parts.head.owns_rows(source, self.sequence - 1) {
            // All rows of a forgotten source are dead.
            if let Some(start) = row.start {
                let next = start.block.saturating_add(1);
                self.parts.head.begin_blocks_at(next);
            }
            self.recovery.rows_skipped += 1;
            return Ok(());
        }
        if let Some(start) = row.start {
            if start.layout as usize >= self.parts.head.layouts().len() {
                return Err(Short);
            }
            match self.begin_block(row, start).map_err(|_| Short)? {
                Begun::WithRow => {
                    self.recovery.rows_replayed += 1;
                    return Ok(());
                }
                Begun::Empty => follows = true,
                Begun::Skipped => follows = false,
            }
        }
        if !follows {
            self.pass_row(source);
            return Ok(());
        }
        let head = &mut self.parts.head;
        let open = match row.start {
            Some(_) => OpenState::default(),
            None => head.open_state(source),
        };
        let layout = head.layouts().get(head.layout_of(source));
        let layout = layout.ok_or(Short)?.clone();
        let bytes = open.bytes as usize + row.codes.len() + row.payload.len();
        let rows = u64::from(open.rows) + 1;
        if layout.columns() != row.columns || is_too_large(bytes, rows) {
            return Err(Short);
        }
        head.replay_row(source, &layout, row.codes, row.payload)?;
        self.recovery.rows_replayed += 1;
        Ok(())
    }
}

impl Replay<'_> {
    /// Begins a block with its first row.
    fn begin_block(&mut self, row: &RecordRow<'_>, start: BlockStart) -> Result<Begun, Error> {
        let BlockStart {
            block,
            layout,
            before,
        } = start;
        let source = row.source;
        let sealed = self.is_sealed(source, block);
        // Without a gap, no row is in doubt.
        let replayed = match self.missing.is_empty() {
            true => None,
            false => self.ordinal(source),
        };
        self.missing.begin(source, before, replayed, sealed);
        // The previous block was sealed at this point. Its segment is lost.
        self.seal(source)?;
        let head = &mut self.parts.head;
        head.begin_blocks_at(block.saturating_add(1));
        // Rows cannot be read without their layout. Damage may have destroyed the layout.
        let lost = head
            .layouts()
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        let follows = !lost && !sealed;
        self.follows[source as usize] = follows;
        match lost && !sealed {
            true => drop(self.without_layout.entry(source).or_default()),
            // The rows of an earlier block stay counted, without a source.
            false => {
                if let Some(rows) = self.without_layout.remove(&source) {
                    *self.without_layout.entry(NO_SOURCE).or_default() += rows;
                }
            }
        }
        if !follows {
            return Ok(Begun::Skipped);
        }
        if head.layout_of(source) != layout {
            head.relink(source, layout);
        }
        let has_row = head.replay_block(source, block, row);
        // A later block of the source may already be on disk.
        let rows = head.set_rows_before(source, before);
        let first = self.recounted.of(source);
        if *first == 0 {
            *first = rows + 1;
        }
        Ok(match has_row {
            true => Begun::WithRow,
            false => Begun::Empty,
        })
    }

    /// Skips a row whose block is not buffered. A segment contains the row, or it is lost.
    pub(super) fn pass_row(&mut self, source: u32) {
        let rows = self.without_layout.get_mut(&source);
        match rows {
            Some(rows) => *rows += 1,
            None if self.missing.pass(source) => self.recovery.rows_skipped += 1,
            None => self.unreadable += 1,
        }
    }
}
