//! Paces: the average time per block of a store, and the paces of sources that a start finds.
//!
//! A pace keeps a few hundred marks of block number and time. When it is full, every other mark is
//! dropped, so that the marks reach back to the beginning.

use crate::maps::HashMap;
use crate::segment::Entry;

/// Maximum number of marks.
const MARKS: usize = 512;

/// Pace of a store: marks of block number and time.
pub struct Pace {
    /// Block numbers and times of the marks, ascending.
    marks: Vec<(u64, i64)>,
    /// Number of blocks between marks.
    step: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            marks: Vec::new(),
            step: 1,
        }
    }
}

impl Pace {
    /// Adds a mark: the number of the next block at this time.
    pub fn note(&mut self, number: u64, time: i64) {
        let (last, latest) = self.marks.last().copied().unwrap_or((0, i64::MIN));
        if !self.marks.is_empty() && (number < last + self.step || time < latest) {
            return;
        }
        self.marks.push((number, time));
        if self.marks.len() == MARKS {
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                odd
            });
            self.step *= 2;
        }
    }

    /// Returns the average time per block over the latter half of the marks, ns. The period is long
    /// enough to smooth short bursts and pauses.
    pub fn block_ns(&self) -> Option<f64> {
        let (number, time) = *self.marks.last()?;
        let (before, since) = self.marks[(self.marks.len() - 1) / 2];
        let blocks = number.checked_sub(before).filter(|&blocks| blocks > 0)?;
        Some((time.saturating_sub(since) as f64 / blocks as f64).max(1.0))
    }
}

/// First and last block of each source that a start finds. They give the number of blocks of all
/// sources that were begun while the source's rows arrived.
#[derive(Default)]
pub struct Begun(HashMap<u32, [Begin; 2]>);

/// Start of a block of a source.
#[derive(Clone, Copy)]
struct Begin {
    /// Rows of the source before the block.
    rows: u64,
    /// Number of the block.
    block: u64,
}

impl Begun {
    /// Adds a block.
    pub fn note(&mut self, entry: &Entry) {
        let begin = Begin {
            rows: entry.before,
            block: entry.since,
        };
        let [first, last] = self.0.entry(entry.source).or_insert([begin; 2]);
        if begin.block < first.block {
            *first = begin;
        }
        if begin.block > last.block {
            *last = begin;
        }
    }

    /// Returns the number of blocks begun per row of a source, for sources with at least two
    /// blocks.
    pub fn paces(&self) -> impl Iterator<Item = (u32, f32)> {
        self.0.iter().filter_map(|(&source, [first, last])| {
            let rows = last.rows.checked_sub(first.rows).filter(|&rows| rows > 0)?;
            Some((source, (last.block - first.block) as f32 / rows as f32))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::slab::BufferSlot;
    use crate::members::Members;
    use crate::retention::Retention;
    use crate::retention::class::{Class, Classes, Keep};
    use crate::retention::expected::Expected;
    use crate::sealing::queue::Taken;
    use std::sync::Arc;

    const RING: u64 = 10_000;
    /// Rows of a block.
    const ROWS: u32 = 100;

    fn ring() -> Retention {
        let ring = Class {
            keep: Keep {
                rows: Some(RING),
                ..Keep::default()
            },
            ..Class::forever()
        };
        let classes = Classes::new(vec![ring]).unwrap();
        Retention::new(Arc::new(Members::unnamed(classes, 2)), None)
    }

    /// Returns an entry for another block of the source.
    fn entry(source: u32, number: u64, before: u64) -> Entry {
        Entry {
            source,
            number,
            first: number as i64,
            last: number as i64 + 1,
            offset: 0,
            len: 4096,
            bundle: 0,
            rows: ROWS,
            ordinal: before + u64::from(ROWS),
            since: number,
            before,
            late: false,
        }
    }

    /// If the rows of a source arrive at random, a single block is a poor estimate. After a start,
    /// stores used to rely on a single block.
    #[test]
    fn a_start_finds_the_paces_of_sources_in_footers() {
        let mut retention = ring();
        let mut begun = Begun::default();
        // Three of every four blocks belong to source 0. The order of footers does not matter.
        for number in (0..400).rev() {
            let (source, place) = match number % 4 {
                3 => (1, number / 4),
                place => (0, number / 4 * 3 + place),
            };
            let entry = entry(source, number, place * u64::from(ROWS));
            retention.found(&entry);
            begun.note(&entry);
        }
        retention.recall_paces(&begun);
        // The first blocks sealed afterwards took ten times as long as usual.
        let next = 400 + 40;
        let mut wait = |source: u32, since: u64| {
            let before = 400 / 4 * u64::from(ROWS);
            let taken = Taken {
                source,
                number: since,
                next,
                layout: 1,
                journal_file: 1,
                rows: ROWS,
                bytes: 4096,
                before,
                ordinal: before + u64::from(ROWS),
                slot: BufferSlot::NONE,
            };
            match retention.death(&taken, 4096, 0) {
                Expected::Block(at) => (at - next) as f64,
                other => panic!("{other:?}"),
            }
        };
        let usual = [RING as f64 / 75.0, RING as f64 / 25.0];
        let found = [wait(0, 400), wait(1, 400)];
        for (found, usual) in found.into_iter().zip(usual) {
            assert!(
                (1.0..3.0).contains(&(found / usual)),
                "{found} blocks, {usual} as before"
            );
        }
    }

    #[test]
    fn the_pace_is_estimated_from_any_number_of_marks() {
        let mut pace = Pace::default();
        assert_eq!(pace.block_ns(), None);
        pace.note(7, 0);
        assert_eq!(pace.block_ns(), None, "one mark gives no pace");
        for number in 8..100_000u64 {
            pace.note(number, number as i64 * 1000);
        }
        assert!(pace.marks.len() < MARKS);
        assert!((pace.block_ns().unwrap() - 1000.0).abs() < 1.0);
        for number in 100_000..400_000u64 {
            pace.note(number, 100_000_000 + (number as i64 - 100_000) * 3000);
        }
        let found = pace.block_ns().unwrap();
        assert!(
            (found - 3000.0).abs() < 30.0,
            "the latter half is slower: {found}"
        );
    }
}
