//! Neighbours: a row for each of several sources of a group, appended in one pass.
//!
//! Most sensors send at the same time, so rows often arrive in the order of their sources. The string of a group is then
//! read and written once for all rows of its sources, instead of once for each.

use super::{Common, NewRow, SmallBlocks, Stored, find, group, read};
use crate::buffer::line::GROUP;
use crate::buffer::number::{Limit, NUMBER_BYTES, Number};
use crate::buffer::row::Coded;
use seiner_model::{FieldType, SourceId};

/// Returns the number of the first sources that are of one group, in ascending order.
pub fn count(sources: &[SourceId]) -> usize {
    let pairs = sources.windows(2).take(GROUP);
    let follows = |pair: &&[SourceId]| pair[0] < pair[1] && group(pair[0].0) == group(pair[1].0);
    sources.len().min(1) + pairs.take_while(follows).count()
}

/// Rows of one number in their journal encoding, of different sources of a group.
#[derive(Default)]
pub struct Neighbours {
    sources: [u32; GROUP],
    rows: [NewRow; GROUP],
    len: usize,
}

impl Neighbours {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of the payload of a row.
    pub fn payload_bytes(&self, row: usize) -> usize {
        self.rows[row].len - 1
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the row of a source, if it is of the group of the earlier rows and behind them. A row has codes, and a payload
    /// whose first bytes belong to the row. Returns the number of payload bytes used. Returns `None` if the row is not
    /// added.
    #[inline]
    pub fn push(&mut self, source: u32, codes: u8, payload: &[u8]) -> Option<usize> {
        let (time, value) = ((codes & 15) as usize, (codes >> 4) as usize);
        let window: &[u8; NUMBER_BYTES - 1] = payload.first_chunk()?;
        let follows = match self.sources[..self.len].last() {
            Some(&last) => last < source && group(last) == group(source),
            None => true,
        };
        if !follows || time > 8 || value > 8 {
            return None;
        }
        let row = &mut self.rows[self.len];
        row.bytes[0] = codes;
        row.bytes[1..].copy_from_slice(window);
        row.len = 1 + time + value;
        self.sources[self.len] = source;
        self.len += 1;
        Some(time + value)
    }
}

impl SmallBlocks {
    /// Appends rows from a journal to the small blocks of their sources, up to the first source that has none with a row
    /// and space. Returns the number of rows appended, and their bytes.
    pub fn append_neighbours(&mut self, rows: &Neighbours) -> (usize, usize) {
        self.buffers.prefetch(group(rows.sources[0]) + 1);
        self.append_each(rows.sources[..rows.len].iter().copied(), |index, stored| {
            let row = rows.rows[index];
            stored.continues(row.len).then_some(row)
        })
    }

    /// Appends numbers to the small blocks of sources of one group, whose only column has this type, up to the first
    /// source that has no block with a row and space. `number` returns the time and value of a row, and `coded` receives
    /// the codes of each appended row. Returns the number of rows appended, and their bytes.
    pub fn append_numbers(
        &mut self,
        sources: &[SourceId],
        field_type: FieldType,
        (tick, limit): (u16, Limit),
        number: impl Fn(usize) -> (i64, Number),
        mut coded: impl FnMut(usize, (Coded, Coded)),
    ) -> (usize, usize) {
        self.append_each(sources.iter().map(|source| source.0), |index, stored| {
            let (row, codes) = stored.next_row(field_type, tick, limit, number(index))?;
            coded(index, codes);
            Some(row)
        })
    }

    /// Appends a row to the block of each source of a group, up to the first source that has no block, or for which `row`
    /// returns no row. The row fits. Returns the number of rows appended, and their bytes.
    fn append_each(
        &mut self,
        sources: impl Iterator<Item = u32>,
        mut row: impl FnMut(usize, &Stored<'_>) -> Option<NewRow>,
    ) -> (usize, usize) {
        let (mut sources, mut rows, mut bytes) = (sources.peekable(), 0, 0);
        let Some(group) = sources.peek().copied().map(group) else {
            return (0, 0);
        };
        let (string, out) = (self.buffers.get(group), &mut self.string);
        out.clear();
        let (mut copied, mut at, mut last) = (0, Common::BYTES, None);
        let mut beat = None;
        for source in sources {
            let found = find(string, at, source);
            if found.is_empty() {
                break;
            }
            let stored = read(string, found);
            let Some(new) = row(rows, &stored) else {
                break;
            };
            let (new, followed) = stored.without_beat(new, beat.unwrap_or(stored.beat));
            beat = Some(followed);
            at = stored.range.end;
            out.extend_from_slice(&string[copied..at]);
            let block = out.len() - stored.range.len();
            out.extend_from_slice(new.stored());
            let figures = stored.figures - stored.range.start;
            new.count(source, &mut out[block..], figures);
            last = Some((source, out.len()));
            (copied, rows, bytes) = (at, rows + 1, bytes + new.len);
        }
        if let Some(beat) = beat {
            out.extend_from_slice(&string[copied..]);
            Common::set_beat(out, beat);
            self.last = last;
            self.buffers.put(group, out);
        }
        (rows, bytes)
    }
}

#[cfg(test)]
impl SmallBlocks {
    /// Appends an encoded row to the small block of a source. Returns whether it was appended.
    pub(super) fn append_encoded(&mut self, source: u32, row: &[u8]) -> bool {
        let mut rows = Neighbours {
            len: 1,
            ..Neighbours::default()
        };
        (rows.sources[0], rows.rows[0].len) = (source, row.len());
        rows.rows[0].bytes[..row.len()].copy_from_slice(row);
        self.append_neighbours(&rows) == (1, row.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::line::OpenState;
    use crate::buffer::run;
    use crate::buffer::small::{Small, has_space};
    use proptest::prelude::*;

    const ANY: (u16, Limit) = (
        7,
        Limit {
            bytes: u32::MAX,
            first_block: 0,
        },
    );

    /// Returns the blocks of sources, in this order, each with so many rows.
    fn blocks(sources: &[(u32, u8)]) -> SmallBlocks {
        let mut blocks = SmallBlocks::default();
        (0..3 * GROUP as u32).for_each(|source| blocks.add_source(source));
        for &(source, rows) in sources {
            blocks.remove(source);
            let state = OpenState {
                block: u64::from(source) * 3,
                ..OpenState::default()
            };
            blocks.put(source, &Small::new(state, false, &[]));
            for row in 0..rows {
                let number = (i64::from(row) * 1000, Number::F64(f64::from(row) / 10.0));
                let first = blocks.append_first(source, 1, number);
                let (tick, limit) = ANY;
                first.or_else(|| blocks.append(source, FieldType::F64, tick, limit, number));
            }
        }
        blocks
    }

    fn contents(blocks: &SmallBlocks) -> Vec<Option<(OpenState, bool, Vec<u8>)>> {
        let of = |source| {
            blocks
                .get(source)
                .map(|it| (it.state, it.hopeless, it.rows().to_vec()))
        };
        (0..3 * GROUP as u32).map(of).collect()
    }

    proptest! {
        /// Rows that are appended together have the same effect as rows that are appended one by one.
        #[test]
        fn rows_of_neighbours_are_appended_like_single_rows(
            stored in prop::collection::vec((0..3 * GROUP as u32, 0..40_u8), 0..60),
            wanted in prop::collection::btree_set(0..3 * GROUP as u32, 1..40),
            value in -1e3..1e3_f64,
            is_encoded: bool,
        ) {
            let (mut together, mut single) = (blocks(&stored), blocks(&stored));
            let wanted: Vec<SourceId> = wanted.into_iter().map(SourceId).collect();
            let wanted = &wanted[..count(&wanted)];
            let number = |row: usize| (50_000 + row as i64, Number::F64(value));
            let mut codes = Vec::new();
            let appended = match is_encoded {
                false => together.append_numbers(wanted, FieldType::F64, ANY, number, |row, coded: (Coded, Coded)| {
                    codes.push((row, run::codes(coded.0, coded.1)));
                }),
                true => {
                    let mut rows = Neighbours::default();
                    for source in wanted {
                        prop_assert_eq!(rows.push(source.0, 0x21, &[5; 16]), Some(3));
                    }
                    together.append_neighbours(&rows)
                }
            };
            let (mut bytes, mut expected) = (0, Vec::new());
            for (row, source) in wanted[..appended.0].iter().enumerate() {
                if is_encoded {
                    prop_assert!(single.append_encoded(source.0, &[0x21, 5, 5, 5]));
                    bytes += 4;
                    continue;
                }
                let (tick, limit) = ANY;
                let found = single.append(source.0, FieldType::F64, tick, limit, number(row));
                let (coded, length) = found.expect("it was appended");
                expected.push((row, run::codes(coded.0, coded.1)));
                bytes += length;
            }
            prop_assert_eq!(appended.1, bytes);
            prop_assert_eq!(codes, expected);
            prop_assert_eq!(contents(&together), contents(&single));
            let before = contents(&blocks(&stored));
            let length = if is_encoded { 4 } else { NUMBER_BYTES };
            let accepts = |source: &&SourceId| {
                let found = before[source.0 as usize].as_ref();
                found.is_some_and(|(state, ..)| state.rows > 0 && has_space(*state, length))
            };
            prop_assert_eq!(appended.0, wanted.iter().take_while(accepts).count());
        }
    }

    #[test]
    fn neighbours_are_of_one_group_and_ascending() {
        let of = |numbers: &[u32]| {
            let sources: Vec<SourceId> = numbers.iter().copied().map(SourceId).collect();
            count(&sources)
        };
        let group = GROUP as u32;
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[5]), 1);
        assert_eq!(of(&[0, 1, 3, group - 1, group]), 4);
        assert_eq!(of(&[4, 4]), 1);
        assert_eq!(of(&[4, 3]), 1);
        let mut rows = Neighbours::default();
        assert_eq!(rows.push(4, 0x11, &[0; 16]), Some(2));
        assert_eq!(rows.push(4, 0x11, &[0; 16]), None);
        assert_eq!(rows.push(5, 0x19, &[0; 16]), None, "a full value");
        assert_eq!(rows.push(5, 0x11, &[0; 15]), None, "the end of the payload");
        assert_eq!(rows.push(group, 0x11, &[0; 16]), None);
        assert_eq!((rows.push(5, 0, &[0; 16]), rows.len()), (Some(0), 2));
    }
}
