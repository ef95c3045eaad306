//! Entries of the chunks in the directory.

use seiner_codec::DecodeError;
use seiner_codec::reader::Reader;
use seiner_codec::varint::put_u64;

use crate::limits::MAX_CELLS;
use crate::lists::{put_integers, take_integers};

/// Description of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) first_id: u64,
    pub(crate) last_id: u64,
    pub(crate) sources: usize,
    pub(crate) rows: usize,
    pub(crate) samples: u64,
    pub(crate) length: usize,
    pub(crate) checksum: u32,
    /// Earliest time, ns.
    pub(crate) start: i64,
    /// Latest time, ns.
    pub(crate) end: i64,
}

/// Number of lists, one per property.
const LISTS: usize = 8;

impl ChunkEntry {
    /// Returns the numbers of the lists. The distance of a property from another one, or from the chunk
    /// before, is often the same for all chunks. A list of equal numbers takes a few bytes.
    fn numbers(&self, last_id: u64, cells: usize) -> [i64; LISTS] {
        [
            self.first_id.wrapping_sub(last_id) as i64,
            (self.last_id - self.first_id) as i64,
            self.sources as i64,
            self.rows as i64 - self.sources as i64,
            (self.rows * cells) as i64 - self.samples as i64,
            self.length as i64,
            self.start,
            self.end.wrapping_sub(self.start),
        ]
    }

    fn from_numbers(numbers: [i64; LISTS], last_id: u64, cells: usize) -> Option<ChunkEntry> {
        let [gap, span, sources, more, missing, length, start, duration] = numbers;
        let first_id = last_id.wrapping_add(gap as u64);
        let positive = |number: i64| usize::try_from(number).ok();
        let sources = positive(sources).filter(|sources| *sources > 0)?;
        let rows = positive(more)?.checked_add(sources)?;
        let all = rows.checked_mul(cells).filter(|all| *all <= MAX_CELLS)?;
        Some(ChunkEntry {
            first_id,
            last_id: first_id.checked_add(span as u64)?,
            sources,
            rows,
            samples: positive(missing).and_then(|missing| all.checked_sub(missing))? as u64,
            length: positive(length)?,
            checksum: 0,
            start,
            end: start.wrapping_add(duration),
        })
    }
}

/// Appends the entries of a group. `cells` is the number of cells of a row.
pub(crate) fn put(entries: &[ChunkEntry], cells: usize, out: &mut Vec<u8>) {
    put_u64(entries.len() as u64, out);
    let mut last_id = 0;
    let numbers: Vec<[i64; LISTS]> = entries
        .iter()
        .map(|entry| {
            let numbers = entry.numbers(last_id, cells);
            last_id = entry.last_id;
            numbers
        })
        .collect();
    for list in 0..LISTS {
        let list: Vec<i64> = numbers.iter().map(|numbers| numbers[list]).collect();
        put_integers(&list, out);
    }
    for entry in entries {
        out.extend_from_slice(&entry.checksum.to_le_bytes());
    }
}

/// Reads the entries of a group.
pub(crate) fn take(reader: &mut Reader<'_>, cells: usize) -> Result<Vec<ChunkEntry>, DecodeError> {
    let most = reader.rest().len() / 4;
    let count = reader.length(most, "more chunks than checksums")?;
    let mut lists: [Vec<i64>; LISTS] = Default::default();
    for list in &mut lists {
        *list = take_integers(reader, count)?;
    }
    let mut entries = Vec::with_capacity(count);
    let mut last_id = 0;
    let numbers = (0..count).map(|index| std::array::from_fn(|list| lists[list][index]));
    for numbers in numbers {
        let bytes = reader.take(4, "a chunk's checksum")?;
        let mut entry = ChunkEntry::from_numbers(numbers, last_id, cells)
            .filter(|entry| entries.is_empty() || entry.first_id > last_id)
            .ok_or_else(|| reader.invalid("a chunk's entry exceeds the limits"))?;
        entry.checksum = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        last_id = entry.last_id;
        entries.push(entry);
    }
    Ok(entries)
}
