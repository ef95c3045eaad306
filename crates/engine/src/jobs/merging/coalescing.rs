//! Coalescing: decides which blocks a merge combines, and finds their overwritten rows.
//!
//! Only consecutive blocks of a source are coalesced. The resulting block therefore contains all
//! live rows from its first block number to its last, and any of the coalesced blocks that is found
//! again elsewhere is known to be a duplicate (`docs/format/segment.md`).

use crate::maps::HashMap;
use crate::query::rows::Rows;
use crate::segment::{Entry, uncover};

/// Maximum rows of a source that are searched for overwritten rows.
const MASK_ROWS: u64 = 1 << 18;
/// Maximum columns of a source that is searched for overwritten rows.
const MASK_COLUMNS: usize = u64::BITS as usize;

/// Live block of a victim.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    /// Index of the victim.
    pub victim: usize,
    pub entry: Entry,
}

/// Maximum size of a coalesced block.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of rows.
    pub bytes: u64,
    /// Rows, including rows omitted earlier. The ends of rings therefore stay exact.
    pub rows: u64,
}

/// Live blocks of one source, by number, in lists. Each list becomes one block.
pub(crate) struct MergeGroup {
    pub outputs: Vec<Vec<Live>>,
    /// True if later rows may overwrite earlier rows of another list.
    pub overlaps: bool,
}

impl MergeGroup {
    /// Returns whether all blocks are copied unchanged.
    fn is_simple(&self) -> bool {
        !self.overlaps && self.outputs.iter().all(|output| output.len() == 1)
    }

    /// Returns the bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        let blocks = self.outputs.iter().flatten();
        blocks.map(|live| u64::from(live.entry.len)).sum()
    }
}

/// Divides live blocks into those that are copied one by one and those that are coalesced. Omits
/// blocks that an interrupted merge has already included in another block.
pub(crate) fn plan(
    mut live: Vec<Live>,
    limits: impl Fn(u32) -> Limits,
) -> (Vec<Live>, Vec<MergeGroup>) {
    live.sort_unstable_by_key(|live| live.entry.source);
    let mut groups = Vec::new();
    // The list may be long. Blocks to copy are gathered at its beginning.
    let (mut copies, mut next) = (0, 0);
    let mut blocks: Vec<Live> = Vec::new();
    while let Some(first) = live.get(next) {
        let source = first.entry.source;
        let of_source = live[next..].iter();
        blocks.clear();
        blocks.extend(of_source.take_while(|live| live.entry.source == source));
        next += blocks.len();
        // A block must not be overwritten by a block that covers its number.
        uncover(&mut blocks, |live| live.entry.numbers());
        let group = match &blocks[..] {
            [_] => None,
            blocks => Some(coalesce(blocks, limits(source))),
        };
        match group.filter(|group| !group.is_simple()) {
            Some(group) => groups.push(group),
            None => {
                live[copies..copies + blocks.len()].copy_from_slice(&blocks);
                copies += blocks.len();
            }
        }
    }
    live.truncate(copies);
    live.shrink_to_fit();
    (live, groups)
}

fn coalesce(blocks: &[Live], limits: Limits) -> MergeGroup {
    let mut outputs: Vec<Vec<Live>> = Vec::new();
    for block in blocks {
        match outputs.last_mut() {
            Some(output) if fits(output, block, limits) => output.push(*block),
            _ => outputs.push(vec![*block]),
        }
    }
    let rows: u64 = blocks.iter().map(|live| u64::from(live.entry.rows)).sum();
    let follows = |pair: &[Live]| pair[0].entry.last < pair[1].entry.first;
    MergeGroup {
        overlaps: rows <= MASK_ROWS && !blocks.windows(2).all(follows),
        outputs,
    }
}

/// Returns whether a block is consecutive to the others and all of them together stay within the
/// limits.
fn fits(output: &[Live], block: &Live, limits: Limits) -> bool {
    let (first, last) = (output[0].entry, output[output.len() - 1].entry);
    let bytes: u64 = output.iter().map(|live| u64::from(live.entry.len)).sum();
    let rows = block.entry.ordinal.wrapping_sub(first.before);
    block.entry.before == last.ordinal
        && block.entry.since > last.number
        && bytes + u64::from(block.entry.len) <= limits.bytes
        && rows <= limits.rows
}

/// Rows of the later blocks of a source: the set of columns with a value for every time.
#[derive(Default)]
pub(crate) struct OverwriteMask(HashMap<i64, u64>);

impl OverwriteMask {
    /// Removes rows whose values are all overwritten by rows added before, and adds the remaining
    /// rows. Returns the remaining rows and the number of removed rows.
    pub fn retain_visible(&mut self, rows: Rows) -> (Rows, u64) {
        if rows.fields.len() > MASK_COLUMNS {
            return (rows, 0);
        }
        let mut masks = vec![0u64; rows.times.len()];
        for (column, field) in rows.fields.iter().enumerate() {
            let Some(field) = field else { continue };
            for (row, mask) in masks.iter_mut().enumerate() {
                let present = field.present.as_ref().is_none_or(|bits| bits.get(row));
                *mask |= u64::from(present) << column;
            }
        }
        let later = |row: usize| self.0.get(&rows.times[row]).copied().unwrap_or(0);
        let kept: Vec<usize> = (0..masks.len())
            .filter(|&row| masks[row] & !later(row) != 0)
            .collect();
        for &row in &kept {
            *self.0.entry(rows.times[row]).or_default() |= masks[row];
        }
        match (masks.len() - kept.len()) as u64 {
            0 => (rows, 0),
            left_out => (rows.pick(&kept), left_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 100,
        rows: 50,
    };

    /// Builds the nth block of source 1, with ten rows and `bytes` bytes.
    fn live(nth: u64, bytes: u32) -> Live {
        let entry = Entry {
            source: 1,
            number: 3 * nth + 1,
            since: 3 * nth + 1,
            first: nth as i64 * 10,
            last: nth as i64 * 10 + 9,
            len: bytes,
            rows: 10,
            before: nth * 10,
            ordinal: nth * 10 + 10,
            ..Entry::default()
        };
        Live { victim: 0, entry }
    }

    fn numbers(blocks: Vec<Live>) -> Vec<Vec<u64>> {
        let (copies, groups) = plan(blocks, |_| LIMITS);
        let outputs = groups.into_iter().flat_map(|group| group.outputs);
        let copies = copies.into_iter().map(|live| vec![live]);
        let number = |live: &Live| live.entry.number;
        let all = copies.chain(outputs);
        all.map(|output| output.iter().map(number).collect())
            .collect()
    }

    #[test]
    fn consecutive_blocks_are_coalesced_up_to_the_limits() {
        let small = |nth| live(nth, 10);
        assert_eq!(numbers(vec![small(1), small(0)]), [[1, 4]]);
        // A block is missing between these two.
        assert_eq!(numbers(vec![small(0), small(2)]), [[1], [7]]);
        // The limit is fifty rows, then a hundred bytes.
        let many = (0..7).map(small).collect();
        assert_eq!(numbers(many), [vec![1, 4, 7, 10, 13], vec![16, 19]]);
        let large = (0..4).map(|nth| live(nth, 40)).collect();
        assert_eq!(numbers(large), [[1, 4], [7, 10]]);
    }

    #[test]
    fn a_block_that_lies_in_another_is_left_out() {
        let mut coalesced = live(1, 20);
        (coalesced.entry.since, coalesced.entry.before) = (1, 0);
        let blocks = vec![live(0, 10), live(1, 10), coalesced, live(3, 10)];
        assert_eq!(numbers(blocks), [[4], [10]]);
    }

    #[test]
    fn rows_are_overwritten_value_by_value() {
        use seiner_model::{Bitmap, Column, FieldColumn};
        let rows = |times: &[i64], second: &[bool]| Rows {
            times: times.to_vec(),
            fields: vec![
                Some(FieldColumn {
                    present: None,
                    values: Column::I64(times.to_vec()),
                }),
                Some(FieldColumn {
                    present: Some(second.iter().copied().collect::<Bitmap>()),
                    values: Column::I64(second.iter().filter(|has| **has).map(|_| 7).collect()),
                }),
            ],
        };
        let mut mask = OverwriteMask::default();
        let (later, left_out) = mask.retain_visible(rows(&[1, 2, 3], &[true, false, true]));
        assert_eq!((later.times.len(), left_out), (3, 0));
        let (rest, left_out) =
            mask.retain_visible(rows(&[1, 2, 3, 4], &[true, true, false, false]));
        // At time 2 the second field has a value that is not overwritten.
        assert_eq!((rest.times, left_out), (vec![2, 4], 2));
    }
}
