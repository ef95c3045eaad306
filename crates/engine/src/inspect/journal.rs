//! Journal view: files and records.

use super::registry::open_catalog;
use crate::error::{Error, io_error};
use crate::journal::files;
use crate::journal::reader::FileReader;
use crate::journal::rows::JournalRows;
use crate::maps::HashSet;
use seiner_platform::Disk;

/// Journal file with its records.
#[derive(Clone, Debug)]
pub struct JournalFileView {
    /// Number of the file.
    pub number: u32,
    /// Name of the file.
    pub file: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes of header and records. Later bytes were never written, or are older.
    pub used: u64,
    /// Sequence of the first record. `None` if the file has no header of this store.
    pub first_sequence: Option<u64>,
    /// Records of the file.
    pub records: Vec<RecordView>,
    /// Bytes after the last record that are not an end mark: a record that was torn, or damaged
    /// later.
    pub torn_bytes: u64,
    /// Ranges of bytes, from and to, that are not records although records follow.
    pub damage: Vec<(u64, u64)>,
}

/// Record of a journal file.
#[derive(Clone, Debug)]
pub struct RecordView {
    /// Offset of the record in the file, in bytes.
    pub offset: u64,
    /// Length of the record including its header, in bytes.
    pub bytes: u64,
    /// Sequence number of the record.
    pub sequence: u64,
    /// Bytes of the streams before compression.
    pub plain_bytes: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of sources with rows in the record.
    pub sources: u64,
    /// Number of blocks that begin in the record.
    pub blocks: u64,
    /// Number of sources that the record registers.
    pub new_sources: u64,
    /// Number of layouts that the record registers.
    pub new_layouts: u64,
    /// True if the whole record is readable. Otherwise the counts cover only the readable part.
    pub whole: bool,
}

/// Returns the numbers of all journal files, ascending.
pub(crate) fn numbers(disk: &dyn Disk) -> Result<Vec<u32>, Error> {
    let names = disk
        .list()
        .map_err(io_error(|| "listing the journal".to_string()))?;
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| files::number(name))
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the files of the journal, record by record.
///
/// # Errors
/// If there is no catalog, its header is damaged, or the disk fails.
pub fn journal(disk: &dyn Disk) -> Result<Vec<JournalFileView>, Error> {
    let store = open_catalog(disk)?.store;
    numbers(disk)?
        .into_iter()
        .map(|number| file(disk, number, store))
        .collect()
}

fn file(disk: &dyn Disk, number: u32, store: u64) -> Result<JournalFileView, Error> {
    let name = files::name(number);
    let context = || format!("reading {name}");
    let opened = disk.open(&name).map_err(io_error(context))?;
    let bytes = opened.len().map_err(io_error(context))?;
    let mut view = JournalFileView {
        number,
        file: name.clone(),
        bytes,
        used: 0,
        first_sequence: None,
        records: Vec::new(),
        torn_bytes: 0,
        damage: Vec::new(),
    };
    let Some(mut reader) = FileReader::open(&*opened, number, store).map_err(io_error(context))?
    else {
        return Ok(view);
    };
    view.first_sequence = Some(reader.sequence);
    loop {
        while let Some(record) = next(&mut reader) {
            view.records.push(record);
        }
        (view.used, view.torn_bytes) = (reader.at(), reader.torn_bytes());
        let Some(later) = reader.later_record() else {
            return Ok(view);
        };
        view.damage.push((reader.at(), later));
        reader.skip_to(later);
    }
}

fn next(reader: &mut FileReader) -> Option<RecordView> {
    let read = reader.next_record()?;
    let offset = read.at as u64;
    let mut view = RecordView {
        offset,
        bytes: reader.at() - offset,
        sequence: read.sequence,
        plain_bytes: 0,
        rows: 0,
        sources: 0,
        blocks: 0,
        new_sources: 0,
        new_layouts: 0,
        whole: false,
    };
    if let Ok(record) = read.record {
        view.plain_bytes = record
            .streams
            .iter()
            .map(|stream| stream.len() as u64)
            .sum();
        (view.rows, view.new_sources, view.new_layouts) =
            (record.rows, record.new_sources, record.new_layouts);
        let mut sources = HashSet::default();
        let mut rows = JournalRows::new(&record);
        for row in rows.by_ref().flatten() {
            sources.insert(row.source);
            view.blocks += u64::from(row.start.is_some());
        }
        view.sources = sources.len() as u64;
        view.whole = rows.is_at_end();
    }
    Some(view)
}
