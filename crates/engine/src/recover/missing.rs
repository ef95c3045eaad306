//! Missing rows: counts the rows that the journal lacks, exactly where possible and as a bound
//! elsewhere.
//!
//! A *gap* is a run of unreadable records. Every record stores the number of rows before it, so the
//! number of rows in a gap is known. A row after a gap is relative to the previous row of its
//! source, which may be in the gap. Such rows cannot be decoded until the next block of their
//! source begins. They are also lost, unless a segment contains them.
//!
//! The rows of a source are numbered consecutively for its lifetime (ordinals). Blocks store the
//! ordinals that they contain, and block starts store the number of earlier rows. Rows that no
//! block contains are lost.

use crate::maps::HashMap;
use crate::retention::counts::Counts;
use crate::segment::Entry;
use crate::status::Loss;

/// Run of unreadable records.
struct Gap {
    file: String,
    what: String,
    /// Lost rows, including those after the gap. `None` if records do not store the number of
    /// earlier rows.
    rows: Option<u64>,
    at_most: bool,
}

/// Rows of a source around a gap. The rows are lost unless a segment contains them.
struct Doubt {
    source: u32,
    /// Ordinal of the last row before the doubtful rows, if it is known.
    from: Option<u64>,
    /// Ordinal of the last doubtful row, if it is known.
    to: Option<u64>,
    /// Number of doubtful rows after the gap.
    behind: u64,
    gap: usize,
}

/// Gaps of a journal.
#[derive(Default)]
pub(super) struct Missing {
    gaps: Vec<Gap>,
    /// Sequence of the first missing record.
    first: u64,
    /// Rows before the next record, if they are known.
    rows: Option<u64>,
    /// True if no record was read since the last gap.
    is_open: bool,
    /// Ordinal of the last row plus one, of each source whose rows are skipped. 0 for other sources.
    ordinals: Counts,
    /// Number of gaps at the time when a block of the source was last begun.
    begun: Vec<u32>,
    /// Number of rows after a gap, by source.
    behind: HashMap<u32, u64>,
    doubts: Vec<Doubt>,
}

impl Missing {
    /// Sets the number of rows before the first record.
    pub fn start(&mut self, rows: Option<u64>) {
        self.rows = rows;
    }

    /// Returns the number of rows before the next record, if it is known.
    pub fn rows(&self) -> Option<u64> {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Returns the sequence of the first missing record.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Records a gap that begins at a sequence.
    pub fn gap(&mut self, file: String, what: String, sequence: u64) {
        if self.gaps.is_empty() {
            self.first = sequence;
        }
        match self.gaps.last_mut().filter(|_| self.is_open) {
            Some(gap) => gap.what = format!("{}; {file}: {what}", gap.what),
            None => self.gaps.push(Gap {
                file,
                what,
                rows: Some(0),
                at_most: false,
            }),
        }
        self.is_open = true;
    }

    /// Records that a record was read, with the number of rows before it and in it.
    pub fn record(&mut self, before: Option<u64>, rows: u64) {
        if std::mem::take(&mut self.is_open)
            && let Some(gap) = self.gaps.last_mut()
        {
            let missing = before
                .zip(self.rows)
                .and_then(|(now, then)| now.checked_sub(then));
            gap.rows = gap.rows.zip(missing).map(|(rows, more)| rows + more);
        }
        let before = before.or(self.rows);
        self.rows = before.map(|before| before.saturating_add(rows));
    }

    /// Records that some rows of a readable record are malformed.
    pub fn malformed(&mut self, file: String, what: String, sequence: u64, rows: u64) {
        self.gap(file, what, sequence);
        self.is_open = false;
        self.lose(rows);
    }

    fn lose(&mut self, rows: u64) {
        if let Some(gap) = self.gaps.last_mut() {
            gap.rows = gap.rows.map(|lost| lost.saturating_add(rows));
        }
    }

    /// Records that a block of a source begins after `before` rows. `replayed` is the ordinal of
    /// the last buffered row of the source, if any. `passed` is true if the rows of the block are
    /// skipped because a segment contains them.
    pub fn begin(&mut self, source: u32, before: u64, replayed: Option<u64>, passed: bool) {
        let at = source as usize;
        let gaps = self.gaps.len() as u32;
        if gaps > 0 {
            if self.begun.len() <= at {
                self.begun.resize(at + 1, 0);
            }
            if std::mem::replace(&mut self.begun[at], gaps) != gaps {
                self.doubt(source, replayed, Some(before));
            }
        }
        if passed || self.ordinals.get(source) != 0 {
            *self.ordinals.of(source) = if passed { before + 1 } else { 0 };
        }
    }

    /// Records that a row of a source is skipped. Returns whether a segment is known to contain it.
    pub fn pass(&mut self, source: u32) -> bool {
        let begun = self.begun.get(source as usize).copied().unwrap_or(0);
        if begun == self.gaps.len() as u32 {
            if self.ordinals.get(source) != 0 {
                *self.ordinals.of(source) += 1;
            }
            return true;
        }
        *self.behind.entry(source).or_default() += 1;
        self.lose(1);
        false
    }

    fn doubt(&mut self, source: u32, replayed: Option<u64>, to: Option<u64>) {
        let ordinal = self.ordinals.get(source).checked_sub(1);
        self.doubts.push(Doubt {
            source,
            from: ordinal.or(replayed),
            to,
            behind: self.behind.remove(&source).unwrap_or(0),
            gap: self.gaps.len() - 1,
        });
    }

    /// Ends the journal. Sources without a block begun since the last gap are also in doubt.
    /// Returns the sources in doubt.
    pub fn end(&mut self, sources: u32, replayed: impl Fn(u32) -> Option<u64>) {
        let gaps = self.gaps.len() as u32;
        for source in 0..sources {
            if self.begun.get(source as usize).copied().unwrap_or(0) != gaps {
                self.doubt(source, replayed(source), None);
            }
        }
        // The number of rows in the last files is unknown.
        if std::mem::take(&mut self.is_open)
            && let Some(gap) = self.gaps.last_mut()
        {
            gap.rows = None;
        }
    }

    /// Subtracts the rows in segments. `entries` may contain blocks of the missing records. Returns
    /// the losses, and the number of rows after gaps that segments contain.
    pub fn resolve<'e>(
        mut self,
        entries: impl Iterator<Item = &'e Entry>,
        now: i64,
    ) -> (Vec<Loss>, u64) {
        let mut held: HashMap<u32, Vec<(u64, u64)>> = HashMap::default();
        for entry in entries {
            let rows = held.entry(entry.source).or_default();
            rows.push((entry.before.min(entry.ordinal), entry.ordinal));
        }
        for rows in held.values_mut() {
            rows.sort_unstable();
        }
        let mut found = 0;
        for doubt in std::mem::take(&mut self.doubts) {
            let Some(rows) = held.get(&doubt.source) else {
                continue;
            };
            let to = doubt.to.unwrap_or(u64::MAX);
            let (safe, behind) = match (doubt.from, doubt.to) {
                (Some(from), _) => {
                    let safe = overlap(rows, from, to);
                    (safe, safe.min(doubt.behind))
                }
                (None, Some(to)) => {
                    let safe = overlap(rows, to.saturating_sub(doubt.behind), to);
                    self.gaps[doubt.gap].at_most = true;
                    (safe, safe)
                }
                (None, None) => {
                    self.gaps[doubt.gap].at_most = true;
                    (0, 0)
                }
            };
            found += behind;
            self.take_off(doubt.gap, safe);
        }
        let losses = self.gaps.into_iter().filter(|gap| gap.rows != Some(0));
        let losses = losses.map(|gap| Loss {
            file: gap.file,
            what: gap.what,
            rows: gap.rows,
            at_most: gap.at_most && gap.rows.is_some(),
            times: None,
            found_at: now,
        });
        (losses.collect(), found)
    }

    /// Subtracts rows in segments, which were counted for this gap or for earlier gaps.
    fn take_off(&mut self, gap: usize, mut rows: u64) {
        for gap in self.gaps[..=gap].iter_mut().rev() {
            let Some(lost) = &mut gap.rows else {
                return;
            };
            let part = rows.min(*lost);
            (*lost, rows) = (*lost - part, rows - part);
        }
    }
}

/// Returns the number of ordinals after `from` and up to `to` in sorted ranges.
fn overlap(ranges: &[(u64, u64)], mut from: u64, to: u64) -> u64 {
    let mut rows = 0;
    for &(before, ordinal) in ranges {
        let (first, last) = (before.max(from), ordinal.min(to));
        if first < last {
            rows += last - first;
            from = last;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source: u32, before: u64, ordinal: u64) -> Entry {
        Entry {
            source,
            number: 1,
            first: 0,
            last: 0,
            offset: 0,
            len: 0,
            bundle: 0,
            rows: (ordinal - before) as u32,
            ordinal,
            since: 1,
            before,
            late: false,
        }
    }

    fn resolve(missing: Missing, entries: &[Entry]) -> (Option<u64>, bool, u64) {
        let (losses, found) = missing.resolve(entries.iter(), 0);
        let loss = losses.first();
        let rows = loss.map_or(Some(0), |loss| loss.rows);
        (rows, loss.is_some_and(|loss| loss.at_most), found)
    }

    /// Builds five rows of a source, a gap of three records with ten rows, and two rows after it.
    fn gap() -> Missing {
        let mut missing = Missing::default();
        missing.start(Some(0));
        missing.begin(0, 0, None, false);
        missing.record(Some(0), 5);
        missing.gap("journal-1".to_string(), "a gap".to_string(), 2);
        missing.record(Some(15), 2);
        assert!(!missing.pass(0) && !missing.pass(0));
        missing
    }

    #[test]
    fn rows_in_a_gap_and_behind_it_are_lost() {
        let mut missing = gap();
        missing.end(1, |_| Some(5));
        assert_eq!(resolve(missing, &[]), (Some(12), false, 0));
    }

    #[test]
    fn rows_in_segments_are_not_lost() {
        let mut missing = gap();
        missing.begin(0, 17, Some(5), false);
        missing.end(1, |_| Some(17));
        assert_eq!(resolve(missing, &[entry(0, 5, 16)]), (Some(1), false, 2));
    }

    #[test]
    fn a_gap_whose_rows_are_in_segments_is_no_loss() {
        let mut missing = gap();
        missing.end(1, |_| Some(5));
        assert_eq!(resolve(missing, &[entry(0, 0, 17)]), (Some(0), false, 2));
    }

    #[test]
    fn a_loss_with_an_unknown_start_is_a_bound() {
        let mut missing = gap();
        missing.end(1, |_| None);
        assert_eq!(resolve(missing, &[entry(0, 0, 17)]), (Some(12), true, 0));
    }

    #[test]
    fn at_the_end_of_the_journal_the_number_of_missing_rows_is_unknown() {
        let mut missing = gap();
        missing.gap("journal-2".to_string(), "it is missing".to_string(), 5);
        missing.end(1, |_| Some(5));
        let (losses, _) = missing.resolve([].iter(), 0);
        let rows: Vec<_> = losses.iter().map(|loss| loss.rows).collect();
        assert_eq!(rows, [Some(12), None]);
    }
}
