//! Journal check: reads every record and every row in it.

use super::Check;
use crate::buffer::row::{self, ColumnState, TimeState};
use crate::dictionary::layouts::Layout;
use crate::error::{Error, io_error};
use crate::inspect::registry::Registry;
use crate::journal::files;
use crate::journal::reader::{FileReader, JournalFileState};
use crate::journal::record::JournalRecord;
use crate::journal::rows::{JournalRows, RecordRow, is_too_large};
use crate::ledger::{Contents, JournalFile};
use crate::maps::HashMap;
use seiner_platform::Disk;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Returns the numbers of the journal files that a start would read. Notes other files, and finds missing ones.
pub(super) fn needed(check: &mut Check<'_>, ledger: &Contents) -> Result<Vec<u32>, Error> {
    let mut numbers = crate::inspect::numbers(check.disk)?;
    let needed = numbers.partition_point(|&number| number < ledger.lowest);
    for number in numbers.drain(..needed) {
        check.note(
            &files::name(number),
            "a power cut restored the name of this removed file; the next start removes the file",
        );
    }
    for &number in ledger.journal.keys() {
        if numbers.binary_search(&number).is_err() {
            let what = "the journal file is missing; put it back from a copy of the directory";
            check.damage(&files::name(number), 0, what.to_string());
        }
    }
    Ok(numbers)
}

/// Checks journal files.
pub(super) fn check(
    check: &mut Check<'_>,
    numbers: &[u32],
    store: u64,
    registry: &mut Registry,
    ledger: &Contents,
) {
    let mut replay = Replay {
        registry,
        listed: &ledger.journal,
        blocks: HashMap::default(),
        scratch: Vec::new(),
        end: None,
    };
    for &number in numbers {
        replay.file(check, number, store);
    }
}

fn read_whole(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(name)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// End of the records of a file.
struct End {
    file: String,
    at: u64,
    /// Sequence of the next record.
    sequence: u64,
}

/// Replay that discards the rows.
struct Replay<'a> {
    registry: &'a mut Registry,
    /// Files that the ledger lists.
    listed: &'a BTreeMap<u32, JournalFile>,
    /// State from which the next row of a source is decoded, for sources whose block began in a
    /// record that was read.
    blocks: HashMap<u32, Followed>,
    scratch: Vec<u8>,
    /// End of the previous file. `None` if it is unknown.
    end: Option<End>,
}

struct Followed {
    /// Bytes and number of the rows so far.
    bytes: usize,
    rows: u64,
    layout: Arc<Layout>,
    time: TimeState,
    states: Vec<ColumnState>,
}

impl Replay<'_> {
    fn file(&mut self, check: &mut Check<'_>, number: u32, store: u64) {
        let name = files::name(number);
        check.report.journal_files += 1;
        let context = || format!("reading {name}");
        let bytes = match read_whole(check.disk, &name).map_err(io_error(context)) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.lose_the_thread();
                return check.error(&name, 0, error);
            }
        };
        match JournalFileState::of(bytes, number, store, self.listed.get(&number)) {
            JournalFileState::Whole(reader) => self.all_records(check, &name, reader),
            JournalFileState::WithoutHeader(reader) => {
                let what = "its header is damaged, of another version, or of another store; its records are read";
                check.damage(&name, 0, what.to_string());
                self.all_records(check, &name, reader);
            }
            JournalFileState::NeverBegun => {
                check.note(&name, "its header was never written, and so no record");
            }
            JournalFileState::Lost(what) => {
                check.damage(&name, 0, what.to_string());
                self.lose_the_thread();
            }
        }
    }

    fn all_records(&mut self, check: &mut Check<'_>, name: &str, reader: FileReader) {
        let len = reader.len();
        self.begin(check, name, &reader);
        self.records(check, name, reader);
        check.advance(len);
    }

    /// Begins a file. Its first record must follow the last record of the previous file.
    fn begin(&mut self, check: &mut Check<'_>, name: &str, reader: &FileReader) {
        if let Some(end) = self.end.take()
            && end.sequence != reader.sequence
        {
            let what = format!(
                "record {} was expected here; {name} begins with record {}",
                end.sequence, reader.sequence
            );
            check.damage(&end.file, end.at, what);
            self.lose_the_thread();
        }
    }

    /// Discards the state: the following rows cannot be related to earlier rows.
    fn lose_the_thread(&mut self) {
        self.blocks.clear();
        self.end = None;
    }

    fn records(&mut self, check: &mut Check<'_>, name: &str, mut reader: FileReader) {
        loop {
            while let Some(read) = reader.next_record() {
                let malformed = |_| "its streams are malformed".to_string();
                let record = read.record.map_err(malformed);
                match record.and_then(|record| self.record(read.sequence, &record)) {
                    Ok(rows) => {
                        check.report.records += 1;
                        check.report.journal_rows += rows;
                    }
                    Err(what) => {
                        let what = format!("record {}: {what}", read.sequence);
                        check.damage(name, read.at as u64, what);
                        self.lose_the_thread();
                    }
                }
            }
            let Some(later) = reader.later_record() else {
                break;
            };
            let what = format!(
                "record {} was expected here; the next whole one is at {later}",
                reader.sequence
            );
            check.damage(name, reader.at(), what);
            self.lose_the_thread();
            reader.skip_to(later);
        }
        if reader.torn_bytes() > 0 {
            let what = format!(
                "the bytes at offset {} are neither record {} nor the end: they were being written when the power failed, or were damaged since",
                reader.at(),
                reader.sequence
            );
            check.note(name, what);
        }
        self.end = Some(End {
            file: name.to_string(),
            at: reader.at(),
            sequence: reader.sequence,
        });
    }

    fn record(&mut self, sequence: u64, record: &JournalRecord) -> Result<u64, String> {
        self.registry.add_record(sequence, record)?;
        let mut rows = JournalRows::new(record);
        for (index, row) in rows.by_ref().enumerate() {
            let row = row.map_err(|_| format!("row {index} is malformed"))?;
            self.row(&row)
                .map_err(|what| format!("row {index}, source {}: {what}", row.source))?;
        }
        if rows.is_at_end() {
            Ok(record.rows)
        } else {
            Err("its streams do not end with the last row".to_string())
        }
    }

    fn row(&mut self, row: &RecordRow<'_>) -> Result<(), String> {
        if row.source >= self.registry.sources() {
            return Err(format!(
                "the source is unknown; there are {}",
                self.registry.sources()
            ));
        }
        if let Some(start) = row.start {
            let number = start.layout;
            let layout = self
                .registry
                .layout(number)
                .ok_or_else(|| format!("layout {number} is unknown"))?
                .clone();
            self.registry
                .link(row.source, number)
                .map_err(|_| format!("layout {number} is unknown"))?;
            let states = vec![ColumnState::default(); layout.columns()];
            self.blocks.insert(
                row.source,
                Followed {
                    bytes: 0,
                    rows: 0,
                    layout,
                    time: TimeState::default(),
                    states,
                },
            );
        }
        // The block may have begun in a released file. The row is then in a segment.
        let Some(block) = self.blocks.get_mut(&row.source) else {
            return Ok(());
        };
        if row.columns != block.layout.columns() {
            return Err(format!(
                "it has {} columns, its block {}",
                row.columns,
                block.layout.columns()
            ));
        }
        block.bytes += row.codes.len() + row.payload.len();
        block.rows += 1;
        if is_too_large(block.bytes, block.rows) {
            return Err("its block is larger than any buffer".to_string());
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(row.codes);
        self.scratch.extend_from_slice(row.payload);
        row::follow(
            &self.scratch,
            0,
            block.layout.types(),
            &mut block.time,
            &mut block.states,
        )
        .map_err(|_| "its codes are malformed".to_string())
    }
}
