//! Contents found at a start: names and layouts in the catalog, blocks on disk, rows in the
//! journal.

use super::Head;
use crate::buffer::line::OpenState;
use crate::buffer::small::neighbours::Neighbours;
use crate::bytes::{Cursor, Short};
use crate::catalog::{AHEAD, Name, NamesAhead, ReadName, Waiting};
use crate::dictionary::layouts::{Layout, Layouts};
use crate::journal::rows::RecordRow;
use crate::maps::HashMap;
use roaring::RoaringBitmap;
use seiner_model::SourceKey;

/// Reason why a stored name was not added.
pub enum NotAdded {
    /// The name is malformed.
    Malformed,
    /// The name already has this number.
    Twice(u32),
}

impl From<Short> for NotAdded {
    fn from(Short: Short) -> NotAdded {
        NotAdded::Malformed
    }
}

impl Head {
    /// Gives the table of names, which is empty, the size for the names of so many sources, without those of filed sources
    /// that have no space in memory.
    pub fn make_space(&mut self, sources: u32) {
        let filed = self.filed();
        let in_files = filed.files().iter().map(|file| file.sources().len());
        let filed = u32::try_from(in_files.sum::<u64>()).unwrap_or(u32::MAX);
        let others = sources.saturating_sub(filed);
        self.names
            .make_space(others.saturating_add(self.named_at_start(filed)));
    }

    /// Returns the layouts, to add those that are found.
    pub fn layouts_mut(&mut self) -> &mut Layouts {
        &mut self.layouts
    }

    /// Adds a source under the next number.
    ///
    /// # Errors
    /// The number that the key already has.
    pub fn add_source(&mut self, key: &SourceKey) -> Result<(), u32> {
        let dictionary = self.dictionary.clone();
        let (number, new) = dictionary
            .write()
            .expect("no panic while the dictionary is locked")
            .intern(&mut self.names, key);
        if !new {
            return Err(number);
        }
        self.buffers.add_source();
        let is_level = key.level_id().is_some();
        self.members.put(number, is_level, || key.clone());
        Ok(())
    }

    /// Adds the next `count` names of a stream, each under the next number.
    ///
    /// # Errors
    /// [`NotAdded`]. Earlier names were added.
    pub fn add_names(
        &mut self,
        stream: &mut Cursor<'_>,
        count: u32,
        read: ReadName,
    ) -> Result<(), NotAdded> {
        let mut ahead = NamesAhead::default();
        let mut left = count;
        while left > 0 {
            let count = left.min(AHEAD as u32);
            let pass = |name: &mut Cursor<'_>| read(name).map(drop);
            let found = ahead.read(self.names.seed(), stream.0, count, pass);
            self.add_read(&ahead, stream, read)?;
            found?;
            left -= count;
        }
        Ok(())
    }

    /// Adds names that were read from a stream, each under the next number, and passes them in the stream.
    ///
    /// # Errors
    /// [`NotAdded`]. Earlier names were added.
    pub fn add_read(
        &mut self,
        ahead: &NamesAhead,
        stream: &mut Cursor<'_>,
        read: ReadName,
    ) -> Result<(), NotAdded> {
        for names in ahead.names().chunks(AHEAD) {
            names.iter().for_each(|name| self.names.prefetch(name.hash));
            let mut rest = names;
            while !rest.is_empty() {
                rest = &rest[self.add_plain(ahead, rest)?..];
                if let [name, others @ ..] = rest {
                    self.add_name(read(&mut ahead.stored(name, stream.0))?)?;
                    rest = others;
                }
            }
        }
        stream.take(ahead.bytes())?;
        Ok(())
    }

    /// Adds sources by their canonical names, up to a name that needs its key. Returns their number.
    fn add_plain(&mut self, ahead: &NamesAhead, names: &[Waiting]) -> Result<usize, NotAdded> {
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        for (done, name) in names.iter().enumerate() {
            let Some(spelled) = ahead.spelled(name) else {
                return Ok(done);
            };
            let (text, hash) = (ahead.canonical(name), name.hash);
            let (number, new) = dictionary.add_spelled(&mut self.names, text, hash, spelled);
            if !new {
                return Err(NotAdded::Twice(number));
            }
            self.buffers.add_source();
            // The name of a level is not plain.
            self.members.put(number, false, || {
                dictionary
                    .key(number)
                    .expect("the source was just registered")
            });
        }
        Ok(names.len())
    }

    fn add_name(&mut self, name: Name) -> Result<(), NotAdded> {
        match name {
            Name::Key(key) => self.add_source(&key).map_err(NotAdded::Twice)?,
            Name::Free(tags) => self.add_free(tags),
        }
        Ok(())
    }

    /// Adds a number without a source, for a source with up to `tags` tags.
    pub fn add_free(&mut self, tags: usize) {
        let number = self.sources();
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        dictionary.add_free(tags);
        self.buffers.add_source();
        self.members.remove(&RoaringBitmap::from_iter([number]));
    }

    /// Forgets sources that the catalog forgets.
    pub fn forget(&mut self, sources: &RoaringBitmap) {
        let dictionary = self.dictionary.clone();
        let mut dictionary = dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        self.leave(sources);
        for source in sources {
            dictionary.erase(&mut self.names, source);
            self.buffers.set_layout(source, 0);
        }
    }

    /// Records the sequence of a record of the journal: names in earlier records are in the catalog, or were forgotten.
    pub fn know_before(&mut self, sequence: u64) {
        let known = &mut self.forgetting.known_before;
        *known = sequence.max(*known);
    }

    /// Returns the first record of the journal with names that the catalog may not contain.
    pub fn known_before(&self) -> u64 {
        self.forgetting.known_before
    }

    /// Adds a source under the number of a forgotten one. Returns false if a source has the number, or
    /// the key.
    pub fn reuse(&mut self, source: u32, first_record: u64, key: &SourceKey) -> bool {
        let dictionary = self.dictionary.clone();
        let mut dictionary = dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        let put = dictionary.put_at(&mut self.names, source, key);
        if put == Some((source, true)) {
            let is_level = key.level_id().is_some();
            self.members.put(source, is_level, || key.clone());
            self.forgetting.reused.insert(source, first_record);
            self.forgetting.first_records.insert(source, first_record);
        }
        put.is_some_and(|(number, _)| number == source)
    }

    /// Returns the last record of the journal that names in the catalog refer to.
    pub fn last_known_record(&self) -> u64 {
        let firsts = self.forgetting.first_records.values().copied();
        firsts.fold(self.known_before(), u64::max)
    }

    /// Records that the catalog contains all sources and layouts so far.
    pub fn note_catalogued(&mut self) {
        self.catalogued = (self.sources(), self.layouts.len() as u32);
        self.forgetting.reused.clear();
    }

    /// Returns whether rows under a number, in a record of the journal, are those of its source. Rows of
    /// a forgotten source are dead.
    pub fn owns_rows(&self, source: u32, record: u64) -> bool {
        let first = self.forgetting.first_records.get(&source);
        !self.is_absent(source) && first.is_none_or(|&first| record >= first)
    }

    /// Ends the replay.
    pub fn end_replay(&mut self) {
        self.forgetting.first_records = HashMap::default();
    }

    /// Sets the minimum number of new blocks.
    pub fn begin_blocks_at(&mut self, number: u64) {
        self.next_block = self.next_block.max(number);
    }

    /// Sets the minimum number of rows that a source has had in blocks.
    pub fn had(&mut self, source: u32, rows: u64) {
        let known = self.rows.get(source);
        self.rows.set(source, known.max(rows));
    }

    /// Begins a block from the journal. Returns whether the block has its first row, which was encoded: usually the row
    /// can be buffered at once. Otherwise [`Head::replay_row`] buffers it, or rejects it.
    pub fn replay_block(&mut self, source: u32, block: u64, first: &RecordRow<'_>) -> bool {
        let file = self.pins.current();
        self.pins.pin(file);
        let is_number = self.has_one_number(source);
        let state = OpenState {
            block,
            journal_file: file,
            ..OpenState::default()
        };
        let row = (first.codes, first.payload);
        let layout = self.layouts.get(self.buffers.layout(source));
        let has_row = first.columns == 1
            && is_number
            && layout.is_some_and(|layout| {
                let field_type = layout.types()[0];
                self.buffers.begin_with(source, state, field_type, row)
            });
        match has_row {
            true => self.position += 1,
            false => self.buffers.begin(source, block, file, is_number),
        }
        has_row
    }

    /// Sets the number of rows that a source had before its open block. Returns the number counted so far.
    pub fn set_rows_before(&mut self, source: u32, before: u64) -> u64 {
        self.rows.set(source, before)
    }

    /// Buffers an encoded row of a source with one numeric column. Returns the bytes of the payload
    /// that belong to the row, or `None` if the row is unusual or malformed.
    pub fn replay_number(&mut self, source: u32, codes: u8, payload: &[u8]) -> Option<usize> {
        let taken = self.buffers.replay_number(source, codes, payload)?;
        self.position += 1;
        Some(taken)
    }

    /// Returns whether a source may have a small block.
    pub fn may_be_small(&self, source: u32) -> bool {
        self.buffers.may_be_small(source)
    }

    /// Buffers rows like [`Head::replay_number`]. Returns the number of rows up to the first unusual one.
    pub fn replay_neighbours(&mut self, rows: &Neighbours) -> usize {
        let count = self.buffers.replay_neighbours(rows);
        self.position += count as u64;
        count
    }

    /// Buffers an encoded row.
    ///
    /// # Errors
    /// [`Short`] if the row is malformed.
    pub fn replay_row(
        &mut self,
        source: u32,
        layout: &Layout,
        codes: &[u8],
        payload: &[u8],
    ) -> Result<(), Short> {
        let replayed = self.buffers.replay(source, layout, codes, payload);
        replayed.map_err(|_| Short)?;
        self.position += 1;
        Ok(())
    }
}
