//! Files of the journal that a start finds, one after another.

use crate::bytes::Short;
use crate::error::{Error, io_error};
use crate::journal::files::{self, FileHeader};
use crate::journal::reader::{FileReader, JournalFileState, ReadRecord};
use crate::journal::{DAMAGED, SPARE_PREFIX};
use crate::recover::replay::Replay;
use crate::sealer;
use std::io;

impl Replay<'_> {
    /// Returns the numbers of the journal's files. Files below the lowest number that may be needed
    /// were released, and only their names returned after a power cut.
    pub(super) fn find_files(&mut self) -> Result<Vec<u32>, Error> {
        // Readable is not durable: a killed process may have created files without a sync.
        self.disk
            .sync_names()
            .map_err(io_error(|| "syncing the names of files".to_string()))?;
        let names = self
            .disk
            .list()
            .map_err(io_error(|| "listing the journal".to_string()))?;
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| files::number(name))
            .collect();
        numbers.sort_unstable();
        let needed = numbers.partition_point(|&number| number < self.lowest);
        for number in numbers.drain(..needed) {
            self.remove(&files::name(number))?;
        }
        for spare in names.iter().filter(|name| name.starts_with(SPARE_PREFIX)) {
            self.remove(spare)?;
        }
        Ok(numbers)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        self.disk
            .remove(name)
            .map_err(io_error(|| format!("removing {name}")))
    }

    /// Returns the sequence of the first record of a file, if the file has a header of this store.
    pub(super) fn first_sequence(&self, number: u32) -> Result<Option<u64>, Error> {
        let name = files::name(number);
        let context = || format!("reading {name}");
        let file = self
            .disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))?;
        let len = file.len().map_err(io_error(context))?;
        let mut bytes = vec![0; len.min(files::FILE_HEADER_BYTES) as usize];
        file.read_at(0, &mut bytes).map_err(io_error(context))?;
        let header = FileHeader::decode(&bytes)
            .filter(|header| header.number == number && header.store == self.store);
        Ok(header.map(|header| header.first_sequence))
    }

    pub(super) fn open_file(&mut self, number: u32) -> Result<JournalFileState, Error> {
        let name = files::name(number);
        let context = || format!("reading {name}");
        let file = self
            .disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))?;
        file.sync()
            .map_err(io_error(|| format!("syncing {name}")))?;
        let len = file.len().map_err(io_error(context))?;
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(io_error(context))?;
        self.recovery.journal_files += 1;
        let found = JournalFileState::of(bytes, number, self.store, self.listed.get(&number));
        if let JournalFileState::WithoutHeader(_) = found {
            self.set_aside(
                number,
                "its header is damaged; its records are read".to_string(),
            );
        }
        Ok(found)
    }

    pub(super) fn set_aside(&mut self, number: u32, why: String) {
        if !self.damaged.contains(&number) {
            self.damaged.push(number);
        }
        self.recovery
            .set_aside
            .push((format!("{}{DAMAGED}", files::name(number)), why));
    }

    pub(super) fn replay_file(&mut self, number: u32, mut reader: FileReader) -> Result<(), Error> {
        if reader.sequence != self.sequence {
            // The previous file is missing, or it ended early. This file is complete.
            let before = number.wrapping_sub(1);
            let why = format!(
                "records {} to {} are missing",
                self.sequence,
                reader.sequence.wrapping_sub(1)
            );
            self.lose_the_thread(before, why)?;
        }
        loop {
            // A segment that is closed from here on records that it may contain blocks of these
            // records.
            self.parts.log.set_sequence(reader.sequence);
            reader.with_records(|records| -> Result<(), Error> {
                for read in records {
                    self.replay_read(number, read)?;
                }
                Ok(())
            })?;
            let Some(later) = reader.later_record() else {
                break;
            };
            let from = reader.at();
            reader.skip_to(later);
            self.lose_the_thread(number, format!("bytes {from} to {later} are damaged"))?;
        }
        self.keep_unreadable(number);
        self.sequence = reader.sequence;
        self.recovery.torn_bytes = reader.torn_bytes();
        self.recovery.journal_bytes += reader.at();
        self.parts.head.pins.grow(number, reader.len());
        Ok(())
    }

    fn replay_read(&mut self, number: u32, read: ReadRecord) -> Result<(), Error> {
        self.sequence = read.sequence + 1;
        self.parts.log.set_sequence(self.sequence);
        let why = || format!("the record at offset {} is malformed", read.at);
        match read.record.map(|record| self.replay_record(&record)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Short)) => self.lose_context(number, why()),
            Err(Short) => {
                self.missing.gap(files::name(number), why(), read.sequence);
                self.lose_context(number, why())
            }
        }
    }

    /// Keeps a file with rows that depend on missing records. They become readable when the missing
    /// file is restored.
    pub(super) fn keep_unreadable(&mut self, number: u32) {
        let unreadable = std::mem::take(&mut self.unreadable);
        if unreadable > 0 && !self.damaged.contains(&number) {
            let why = format!("{unreadable} rows in it need records that are missing");
            self.set_aside(number, why);
        }
    }

    /// Handles missing records: seals the buffered rows as they are. Later rows count from the next
    /// block of their source.
    pub(super) fn lose_the_thread(&mut self, damaged: u32, why: String) -> Result<(), Error> {
        let file = files::name(damaged);
        self.missing.gap(file, why.clone(), self.sequence);
        self.lose_context(damaged, why)
    }

    /// Discards the context, because the following rows cannot be related to earlier rows.
    pub(super) fn lose_context(&mut self, damaged: u32, why: String) -> Result<(), Error> {
        let name = files::name(damaged);
        match self.disk.open(&name) {
            Ok(_) => self.set_aside(damaged, why),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file that is not set aside now is removed when it is not needed.
            Err(error) => return Err(io_error(|| format!("opening {name}"))(error)),
        }
        self.follows.fill(false);
        (0..self.parts.head.sources()).try_for_each(|source| self.seal(source))?;
        sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder)
    }

    /// Seals the open block of a source. Many blocks are encoded together.
    pub(super) fn seal(&mut self, source: u32) -> Result<(), Error> {
        self.parts.head.seal(source);
        match self.parts.head.is_sealer_behind() {
            true => sealer::run_alone(&mut self.parts, self.volume, &mut self.encoder),
            false => Ok(()),
        }
    }
}
