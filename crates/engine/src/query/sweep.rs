//! Sweep over the blocks of a source in the order of time. Merges the rows of all blocks, piece by
//! piece.
//!
//! A block is decoded when the sweep reaches its first time, and released after its last row. The
//! memory therefore depends on the number of blocks that overlap at one time, not on the interval.
//! If the rows of overlapping blocks would exceed [`Bounds::held`], the sweep keeps only their
//! earliest rows, and decodes the blocks again when it reaches the other rows.

use crate::error::Error;
use crate::maps::HashMap;
use crate::query::damages::Damages;
use crate::query::parallel::Ordered;
use crate::query::rows::{Rows, merge};
use crate::query::view::SourceView;
use seiner_model::Interval;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Maximum rows of a piece, without the last block that is added to it.
const PIECE_ROWS: usize = 64 << 10;
/// Encoded bytes of the blocks that a helper decodes at a time: some milliseconds of work.
const GROUP_BYTES: u64 = 128 << 10;
/// Minimum encoded bytes for which reading is divided among helpers. Fewer bytes are decoded faster
/// than a thread starts.
pub(crate) const HEAVY_BYTES: u64 = 384 << 10;

/// Bounds of the memory of a query, and its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum bytes of decoded rows that wait to be merged. At least one row of each block, and
    /// the rows of the block that is being decoded, are always kept.
    pub held: usize,
    /// Approximate bytes of a piece.
    pub piece_bytes: usize,
    /// Approximate rows of a piece.
    pub piece_rows: usize,
    /// Approximate bytes of rows that helpers decode ahead.
    pub ahead: usize,
    /// Number of threads that read and decode.
    pub threads: usize,
}

impl Bounds {
    /// Returns the most and the least bytes of waiting rows of a query in a store with this memory in
    /// bytes: a thirty-second of the memory, from 1 to 8 MiB, and an eighth of that if many queries run.
    pub fn held(memory: u64) -> (usize, usize) {
        let most = (memory / 32).clamp(1 << 20, 8 << 20) as usize;
        (most, most / 8)
    }

    /// Returns the bounds for a number of bytes of waiting rows. Half as many bytes are for rows that
    /// are decoded ahead.
    pub fn by(held: usize, threads: usize) -> Bounds {
        Bounds {
            held,
            piece_bytes: held / 4,
            piece_rows: PIECE_ROWS,
            ahead: held / 2,
            threads,
        }
    }

    /// Returns the approximate memory of a query with these bounds, in bytes.
    pub fn memory(&self) -> usize {
        self.held + self.ahead + 2 * self.piece_bytes
    }

    /// Returns the maximum number of groups that helpers decode or have decoded: enough to keep all
    /// helpers busy.
    pub fn groups(&self) -> usize {
        2 * self.threads + 1
    }

    /// Returns the approximate bytes of the decoded rows of a group.
    pub fn share(&self) -> usize {
        self.ahead / self.groups()
    }

    /// Returns bounds without limits for one thread, for short parts of an interval.
    pub fn unlimited() -> Bounds {
        Bounds {
            held: usize::MAX,
            piece_bytes: usize::MAX,
            piece_rows: usize::MAX,
            ahead: 0,
            threads: 1,
        }
    }

    /// Returns these bounds for one thread.
    pub fn alone(self) -> Bounds {
        Bounds { threads: 1, ..self }
    }
}

/// Sweep over the blocks of a source, in order of time.
pub(crate) struct Sweep {
    view: Arc<SourceView>,
    interval: Interval,
    wanted: Vec<bool>,
    bounds: Bounds,
    /// Runs that are not decoded, each with its first wanted time and its number. Blocks have the
    /// lowest numbers.
    pending: BinaryHeap<Reverse<(i64, usize)>>,
    /// Time from which a run is pending again. Pending entries of the run with another time do not
    /// count.
    again: HashMap<usize, Option<i64>>,
    /// Runs that are decoded ahead. They were the first of the pending runs.
    ahead: VecDeque<Decoded>,
    groups: Ordered<Vec<Decoded>>,
    /// Latest time of the blocks that were begun.
    reached: i64,
    /// Runs that were given in decoded form. Their numbers follow those of the blocks.
    given: Vec<Rows>,
    /// Runs that have been reached, oldest first.
    active: Vec<Run>,
    /// Exclusive end of the rows that are kept.
    ceiling: Option<i64>,
    /// Bytes of the active runs.
    held: usize,
    /// Damage found so far.
    pub damages: Damages,
}

/// Run that was decoded ahead.
struct Decoded {
    /// First wanted time of the run.
    from: i64,
    /// Number of the run, or of the first of several joined blocks.
    number: usize,
    rows: Result<Rows, Error>,
}

/// Blocks for a helper, each with its first wanted time and its number.
#[derive(Default)]
struct Group {
    blocks: Vec<(i64, usize)>,
    /// True if these blocks overlap neither each other nor another run. The helper then joins their
    /// rows.
    is_alone: bool,
}

struct Run {
    number: usize,
    rows: Rows,
    /// Number of rows that were taken.
    taken: usize,
    bytes: usize,
}

impl Sweep {
    /// Creates a sweep over the blocks of a view that overlap an interval, and over given younger
    /// rows.
    pub fn new(
        view: &Arc<SourceView>,
        interval: Interval,
        wanted: Vec<bool>,
        given: Vec<Rows>,
        bounds: Bounds,
    ) -> Sweep {
        let blocks: Vec<usize> = (0..view.blocks.len()).collect();
        Sweep::over(view, &blocks, interval, wanted, given, bounds)
    }

    /// Creates a sweep over some of the blocks.
    pub fn over(
        view: &Arc<SourceView>,
        blocks: &[usize],
        interval: Interval,
        wanted: Vec<bool>,
        given: Vec<Rows>,
        bounds: Bounds,
    ) -> Sweep {
        // Given rows may replace samples that are hidden by their age.
        let of_blocks = Interval::new(interval.start.max(view.interval.start), interval.end);
        let encoded = blocks
            .iter()
            .map(|&block| u64::from(view.blocks.at(block).0.len));
        let bounds = match encoded.sum::<u64>() < HEAVY_BYTES {
            true => bounds.alone(),
            false => bounds,
        };
        let spans = blocks.iter().map(|&block| {
            let (entry, _) = view.blocks.at(block);
            (block, entry.span())
        });
        let of_rows = given.iter().enumerate().filter_map(|(at, rows)| {
            let span = Interval::new(*rows.times.first()?, *rows.times.last()?);
            Some((view.blocks.len() + at, span))
        });
        let within = |interval: Interval| {
            move |(number, span): (usize, Interval)| {
                let overlaps = !interval.is_empty() && span.overlaps(&interval);
                overlaps.then(|| Reverse((span.start.max(interval.start), number)))
            }
        };
        let pending = spans.filter_map(within(of_blocks));
        let pending = pending.chain(of_rows.filter_map(within(interval)));
        Sweep {
            pending: pending.collect(),
            view: view.clone(),
            interval,
            wanted,
            bounds,
            again: HashMap::default(),
            ahead: VecDeque::new(),
            groups: Ordered::new(bounds.threads),
            reached: i64::MIN,
            given,
            active: Vec::new(),
            ceiling: None,
            held: 0,
            damages: Damages::default(),
        }
    }

    /// Returns the next rows, approximately as many as the bounds allow, or `None` at the end.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Abandoned`].
    pub fn piece(&mut self) -> Result<Option<Rows>, Error> {
        let Bounds {
            piece_bytes,
            piece_rows,
            ..
        } = self.bounds;
        self.take_rows(piece_bytes, piece_rows)
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// As [`Sweep::piece`].
    pub fn all(&mut self) -> Result<Rows, Error> {
        let all = self.take_rows(usize::MAX, usize::MAX)?;
        Ok(all.unwrap_or_else(|| merge(Vec::new(), self.view.types())))
    }

    fn take_rows(&mut self, bytes: usize, rows: usize) -> Result<Option<Rows>, Error> {
        let (mut parts, mut found_bytes, mut found_rows) = (Vec::new(), 0, 0);
        // Rows joined by a helper are a quarter of a piece or more, and are not copied again.
        while found_bytes < bytes / 4 && found_rows < rows / 4 {
            let Some(part) = self.next_rows()? else { break };
            found_bytes += part.bytes();
            found_rows += part.times.len();
            parts.push(part);
        }
        Ok((!parts.is_empty()).then(|| merge(parts, self.view.types())))
    }

    /// Returns the rows before the beginning of the next block.
    pub fn next_rows(&mut self) -> Result<Option<Rows>, Error> {
        loop {
            let next = self.next_start()?;
            let first = self
                .active
                .iter()
                .map(|run| run.rows.times[run.taken])
                .min();
            match (first, next) {
                (None, None) => return Ok(None),
                (Some(first), next) if next.is_none_or(|next| first < next) => {
                    return Ok(Some(self.take(first, next)));
                }
                _ => {
                    if first.is_none() {
                        self.ceiling = None;
                    }
                    self.load()?;
                }
            }
        }
    }

    /// Returns the first time of the next run. If there are helpers, runs are decoded ahead.
    fn next_start(&mut self) -> Result<Option<i64>, Error> {
        if self.bounds.threads > 1 {
            self.decode_ahead()?;
        }
        let ahead = self.ahead.front().map(|decoded| decoded.from);
        let pending = self.peek().map(|(from, _)| from);
        Ok(match (ahead, pending) {
            (Some(ahead), Some(pending)) => Some(ahead.min(pending)),
            (ahead, pending) => ahead.or(pending),
        })
    }

    fn decode_ahead(&mut self) -> Result<(), Error> {
        while self.ahead.is_empty() {
            // Below the exclusive end, runs are pending again, and few of their rows are wanted.
            while self.ceiling.is_none() && self.groups.len() < self.bounds.groups() {
                self.view.check_abandoned()?;
                let group = self.next_group();
                if group.blocks.is_empty() {
                    break;
                }
                let (view, wanted) = (self.view.clone(), self.wanted.clone());
                let most = self.bounds.held / 2;
                self.groups
                    .begin(move || decode(group, &view, &wanted, most));
            }
            match self.groups.take() {
                Some(found) => self.ahead.extend(found),
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the pending run with the first time.
    fn peek(&mut self) -> Option<(i64, usize)> {
        loop {
            let Reverse((from, number)) = *self.pending.peek()?;
            match self.again.get(&number) {
                Some(again) if *again != Some(from) => self.pending.pop(),
                _ => return Some((from, number)),
            };
        }
    }

    /// Removes and returns the run that [`Sweep::peek`] returned.
    fn pop(&mut self) {
        let Some(Reverse((_, number))) = self.pending.pop() else {
            return;
        };
        if let Some(again) = self.again.get_mut(&number) {
            *again = None;
        }
        let last = match number.checked_sub(self.view.blocks.len()) {
            Some(given) => self.given[given].times.last().copied(),
            None => Some(self.view.blocks.at(number).0.last),
        };
        self.reached = self.reached.max(last.unwrap_or(i64::MIN));
    }

    /// Removes and returns the blocks that a helper decodes next.
    fn next_group(&mut self) -> Group {
        let share = self.bounds.share();
        let columns = self.wanted.iter().filter(|wanted| **wanted).count();
        let (mut group, mut encoded, mut decoded) = (Group::default(), 0, 0);
        group.is_alone = true;
        while encoded < GROUP_BYTES && decoded < share {
            let Some((from, number)) = self.peek() else {
                break;
            };
            let Some(entry) = self.view.blocks.get(number) else {
                // Runs in decoded form need no helper.
                break;
            };
            group.is_alone &= self.reached < from;
            self.pop();
            encoded += u64::from(entry.len);
            decoded += entry.rows as usize * (columns + 1) * 8 + entry.len as usize;
            group.blocks.push((from, number));
        }
        let next = self.peek();
        group.is_alone &= next.is_none_or(|(from, _)| self.reached < from);
        group
    }

    /// Decodes the next run.
    fn load(&mut self) -> Result<(), Error> {
        let pending = self.peek();
        let is_ahead = match (self.ahead.front(), pending) {
            (Some(ahead), Some(pending)) => (ahead.from, ahead.number) < pending,
            (ahead, _) => ahead.is_some(),
        };
        let (from, number, rows) = if is_ahead {
            let decoded = self.ahead.pop_front().expect("the front was examined");
            (decoded.from, decoded.number, decoded.rows)
        } else {
            let Some((from, number)) = pending else {
                return Ok(());
            };
            self.pop();
            let rows = match number.checked_sub(self.view.blocks.len()) {
                Some(given) => Ok(self.given[given].clone()),
                None => {
                    self.view.check_abandoned()?;
                    self.view.read(number, &self.wanted)
                }
            };
            (from, number, rows)
        };
        let block = self.view.blocks.get(number);
        let Some(rows) = self.damages.note(rows, block.as_ref())? else {
            return Ok(());
        };
        let mut run = Run {
            number,
            rows: rows.clip(Interval::new(from, self.interval.end)),
            taken: 0,
            bytes: 0,
        };
        if let Some(ceiling) = self.ceiling {
            self.cut(&mut run, ceiling);
        }
        run.bytes = run.rows.bytes();
        if run.rows.times.is_empty() {
            return Ok(());
        }
        self.held += run.bytes;
        let at = self.active.partition_point(|other| other.number < number);
        self.active.insert(at, run);
        while self.held > self.bounds.held && self.release_memory() {}
        Ok(())
    }

    /// Removes and returns the first rows, up to a time.
    fn take(&mut self, first: i64, end: Option<i64>) -> Rows {
        let mut end = end;
        let rows: usize = self
            .active
            .iter()
            .map(|run| run.rows.times.len() - run.taken)
            .sum();
        let fair = (self.held / rows.max(1)).max(1);
        let most = self.bounds.piece_rows.min(self.bounds.piece_bytes / fair);
        if rows > most {
            // The same number of rows of each run, so that all of them together stay within the bounds.
            let share = (most / self.active.len()).max(1);
            let after = |run: &Run| run.rows.times.get(run.taken + share).copied();
            let cut = self.active.iter().filter_map(after).min();
            let cut = cut.filter(|cut| *cut > first);
            end = match (end, cut) {
                (Some(end), Some(cut)) => Some(end.min(cut)),
                (end, cut) => end.or(cut),
            };
        }
        let mut parts = Vec::with_capacity(self.active.len());
        for run in &mut self.active {
            let left = &run.rows.times[run.taken..];
            let count = end.map_or(left.len(), |end| left.partition_point(|time| *time < end));
            if count == run.rows.times.len() {
                // The whole run is taken without a copy.
                parts.push(std::mem::take(&mut run.rows));
            } else if count > 0 {
                parts.push(run.rows.slice(run.taken..run.taken + count));
                run.taken += count;
            }
        }
        self.active.retain(|run| run.taken < run.rows.times.len());
        self.held = self.active.iter().map(|run| run.bytes).sum();
        merge(parts, self.view.types())
    }

    /// Releases the later rows of the active runs, which are decoded again. Returns whether any
    /// rows were released.
    fn release_memory(&mut self) -> bool {
        let first = self
            .active
            .iter()
            .map(|run| run.rows.times[run.taken])
            .min();
        let middle = |run: &Run| {
            let left = run.rows.times.len() - run.taken;
            run.rows.times[run.taken + left / 2]
        };
        let mut middles: Vec<i64> = self.active.iter().map(middle).collect();
        middles.sort_unstable();
        let above = |time: &&i64| Some(**time) > first;
        // Median of the middle times of the runs. If no middle is later than the first row, the
        // second time of all rows.
        let cut = middles[middles.len() / 2..].iter().find(above).copied();
        let times = self
            .active
            .iter()
            .flat_map(|run| &run.rows.times[run.taken..]);
        let Some(cut) = cut.or_else(|| times.filter(above).min().copied()) else {
            return false;
        };
        let mut active = std::mem::take(&mut self.active);
        for run in &mut active {
            self.cut(run, cut);
            run.bytes = run.rows.bytes();
        }
        self.active = active;
        self.active.retain(|run| run.taken < run.rows.times.len());
        self.ceiling = Some(self.ceiling.map_or(cut, |ceiling| ceiling.min(cut)));
        let before = self.held;
        self.held = self.active.iter().map(|run| run.bytes).sum();
        self.held < before
    }

    /// Releases the rows of a run from a time on. If there are any, the run is pending again.
    fn cut(&mut self, run: &mut Run, end: i64) {
        let kept = run.rows.times.partition_point(|time| *time < end);
        if let Some(next) = run.rows.times.get(kept) {
            self.pending.push(Reverse((*next, run.number)));
            self.again.insert(run.number, Some(*next));
            run.rows = run.rows.slice(run.taken..kept.max(run.taken));
            run.taken = 0;
        }
    }
}

/// Decodes blocks. If they overlap no other block, their rows become runs of at most `most` bytes. Damaged blocks
/// are between runs.
///
/// A run of several blocks must never release memory: only its first block would be decoded again. Texts may be many
/// times larger than their blocks, so their size is known only now.
fn decode(group: Group, view: &SourceView, wanted: &[bool], most: usize) -> Vec<Decoded> {
    let mut runs: Vec<(i64, usize, Result<Vec<Rows>, Error>)> = Vec::new();
    let mut joined_bytes = 0;
    for (from, number) in group.blocks {
        let rows = view
            .check_abandoned()
            .and_then(|()| view.read(number, wanted));
        let bytes = rows.as_ref().map_or(0, Rows::bytes);
        let fits = group.is_alone && joined_bytes + bytes <= most;
        match (runs.last_mut(), rows) {
            (Some((.., Ok(parts))), Ok(rows)) if fits => {
                parts.push(rows);
                joined_bytes += bytes;
            }
            (_, rows) => {
                runs.push((from, number, rows.map(|rows| vec![rows])));
                joined_bytes = bytes;
            }
        }
    }
    let joined = runs.into_iter().map(|(from, number, parts)| Decoded {
        from,
        number,
        rows: parts.map(|parts| merge(parts, view.types())),
    });
    joined.collect()
}
