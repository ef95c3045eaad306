//! Writing the live blocks of victims again: copied as they are, gathered, compressed harder.
//!
//! Whatever cannot be done better is copied byte for byte. A block that is encoded anew bears the
//! number of the latest block that is in it, so that of two samples at the same time the same one
//! counts as before.

use super::Opened;
use super::gathering::{self, Limits, Live, Shade, Sheaf};
use super::memory::{Eaten, Half, Squeezes, Unfinished};
use crate::block::{self, Block, BlockHead};
use crate::dictionary::layouts::Layout;
use crate::engine::Engine;
use crate::error::Error;
use crate::query::rows::{Rows, merge};
use crate::retention::Veil;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::state::State;
use crate::volume::SlotState;
use crate::writing::Writing;
use seiner_codec::Effort;
use seiner_model::{Column, Columns, FieldColumn};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Live blocks this close to each other are read at once, with what lies between them.
const GAP: u64 = 32 << 10;
/// The same where only the blocks of some sources are wanted: those between are read again later.
const GAP_BETWEEN_SOURCES: u64 = 4 << 10;
/// The bytes read at once, and about those that are gathered at once.
const READ: u64 = 1 << 20;
/// Blocks copied under one lock.
const COPIES_A_LOCK: usize = 32;
/// The fewest bytes that a row takes in a buffer: a gathered block has no more rows than one that
/// was filled.
const LEAST_ROW: u64 = 2;
/// Compressing harder is kept where it saves this part of a block, for it is slower to read.
const WORTHWHILE: usize = 32;

/// A merge that has taken so long lets others write segments before it goes on, ns; some sources are
/// gathered in a piece, which may take longer.
const TURN: u64 = 50_000_000;
/// With less than this part of the budget left for writers, a merge takes no time to compress harder.
const PRESSED: u64 = 32;

const HAS_SLOT: &str = "a slot was claimed before";

struct Victim {
    segment: Arc<Segment>,
    half: Half,
}

/// A run of blocks that are read at once.
struct Run {
    victim: usize,
    offset: u64,
    len: u64,
    entries: Vec<Entry>,
}

/// Which blocks are copied, which gathered, and how hard to compress.
pub(super) struct Plan {
    pub copies: Vec<Live>,
    pub sheaves: Vec<Sheaf>,
    effort: Effort,
}

/// Blocks that are to be copied, with what is to be written of each; and the bytes that were read for
/// them.
#[derive(Default)]
struct Copies {
    blocks: Vec<(Live, Vec<u8>)>,
    read: u64,
}

/// Bytes of blocks, by victim and place.
type Blocks = HashMap<(usize, u32), Vec<u8>>;

impl State {
    /// How hard to compress: not while writers may have to wait for it.
    fn effort(&self) -> Effort {
        match self.room_for_writers() < self.budget() / PRESSED {
            true => Effort::Fast,
            false => Effort::Best,
        }
    }
}

impl Engine {
    /// Writes what is live in victims again; they are dropped when that is on disk. Whoever waits to
    /// write segments gets his turn now and then: then the rest follows with the next step. `extra`:
    /// no room is wanted, it is for the sake of reads.
    pub(super) fn merge(
        &self,
        writing: &mut Writing,
        numbers: &[u64],
        extra: bool,
    ) -> Result<(), Error> {
        if numbers.is_empty() {
            return Ok(());
        }
        let _span = tracing::trace_span!("merge").entered();
        let before = extra.then(|| self.lock().counters.merge_written);
        let result = self.merge_some(writing, numbers);
        if let Some(before) = before {
            let mut state = self.lock();
            state.counters.extra_written += state.counters.merge_written - before;
        }
        if !result? {
            writing.unfinished = Some(Unfinished {
                victims: numbers.to_vec(),
                extra,
            });
        }
        Ok(())
    }

    /// Answers whether it is done.
    fn merge_some(&self, writing: &mut Writing, numbers: &[u64]) -> Result<bool, Error> {
        let mut victims: Vec<Victim> = Vec::new();
        let mut live: Vec<Live> = Vec::new();
        let mut named = Vec::new();
        let opened = self.opened(writing, numbers)?;
        for (segment, entries) in self.living(writing, opened) {
            let number = segment.trailer.number;
            named.push(number);
            let half = writing.half.remove(&number).unwrap_or_default();
            let victim = victims.len();
            let entries = entries.into_iter();
            let left = entries.filter(|entry| !half.done.contains(&entry.number));
            live.extend(left.map(|entry| Live { victim, entry }));
            victims.push(Victim { segment, half });
        }
        let result = self
            .name_victims(writing, &named)
            .and_then(|()| self.rewrite(writing, &mut victims, live));
        if !matches!(result, Ok(true)) {
            let half = |victim: Victim| (victim.segment.trailer.number, victim.half);
            writing.half.extend(victims.into_iter().map(half));
            return result;
        }
        self.lock().counters.segments_merged += victims.len() as u64;
        // Rows were left out for the sake of others that another victim had.
        let into: HashSet<u64> = victims
            .iter()
            .flat_map(|victim| victim.half.into.iter().copied())
            .collect();
        writing
            .eaten
            .extend(victims.into_iter().map(|victim| Eaten {
                segment: victim.segment,
                into: into.clone(),
                damaged: victim.half.damaged,
            }));
        Ok(true)
    }

    /// A start that finds a victim's name knows that some of the blocks may be elsewhere, too.
    fn name_victims(&self, writing: &mut Writing, numbers: &[u64]) -> Result<(), Error> {
        let new = |number: &&u64| !writing.merging.contains(number);
        let new: Vec<u64> = numbers.iter().filter(new).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        for &number in &new {
            self.volume
                .turn(number, SlotState::Sealed, SlotState::Merging)?;
            // Whether it lasts or not.
            writing.merging.insert(number);
        }
        self.volume.sync()
    }

    /// Of segments, the blocks that have to be kept.
    pub(super) fn living(&self, writing: &Writing, opened: Vec<Opened>) -> Vec<Opened> {
        let mut state = self.lock();
        let living = opened.into_iter().map(|(segment, entries)| {
            let number = segment.trailer.number;
            let (live, dead): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| {
                !writing.is_elsewhere(number, entry) && !state.retention.may_drop(entry)
            });
            state.retention.note_past(&dead);
            (segment, live)
        });
        living.collect()
    }

    /// Answers whether it is done.
    fn rewrite(
        &self,
        writing: &Writing,
        victims: &mut [Victim],
        live: Vec<Live>,
    ) -> Result<bool, Error> {
        let began = self.clock.monotonic();
        let is_late = || self.clock.monotonic() - began > TURN;
        let Plan {
            copies,
            sheaves,
            effort,
        } = self.plan(writing, live);
        let squeezes = (effort == Effort::Best).then_some(&writing.squeezes);
        let (mut copied, mut ready) = (0, Copies::default());
        let mut runs = runs(copies, GAP).into_iter().peekable();
        while let Some(run) = runs.next() {
            copied += run.len;
            self.read_run(squeezes, victims, &run, &mut ready)?;
            let late = is_late();
            if late || ready.blocks.len() >= COPIES_A_LOCK || runs.peek().is_none() {
                self.add_copies(victims, std::mem::take(&mut ready))?;
            }
            if copied >= READ {
                self.write_all_pieces()?;
                copied = 0;
            }
            if late {
                return Ok(false);
            }
        }
        let mut sheaves = sheaves.into_iter().peekable();
        while sheaves.peek().is_some() {
            let (mut some, mut bytes) = (Vec::new(), 0);
            while let Some(sheaf) = sheaves.next_if(|_| bytes < READ) {
                bytes += sheaf.bytes();
                some.push(sheaf);
            }
            self.gather(victims, &some)?;
            if is_late() {
                return Ok(sheaves.peek().is_none());
            }
        }
        Ok(true)
    }

    /// What is to be done with live blocks.
    pub(super) fn plan(&self, writing: &Writing, live: Vec<Live>) -> Plan {
        let may_gather = self.knows_of_no_loss(writing);
        let state = self.lock();
        let effort = state.effort();
        if !may_gather || state.counters.damaged_blocks > 0 {
            return Plan {
                copies: live,
                sheaves: Vec::new(),
                effort,
            };
        }
        let (copies, sheaves) = gathering::plan(live, |source| {
            let layout = state.buffers.line(source).layout;
            Limits {
                bytes: state.buffer_limit(layout) as u64,
                rows: u64::from(state.options.block_bytes) / LEAST_ROW,
            }
        });
        Plan {
            copies,
            sheaves,
            effort,
        }
    }

    /// Whether every block that there ever was is where it should be: one that is missing, and put
    /// back one day, may lie between two that are gathered.
    pub(super) fn may_gather(&self, writing: &Writing) -> bool {
        self.knows_of_no_loss(writing) && self.lock().counters.damaged_blocks == 0
    }

    fn knows_of_no_loss(&self, writing: &Writing) -> bool {
        let recovery = self.recovery();
        recovery.set_aside.is_empty()
            && recovery.damaged_segments == 0
            && writing.unreadable.is_empty()
            && self.ledger().contents().unacknowledged().is_empty()
    }

    // ---- one by one

    /// Reads blocks that are to be copied.
    fn read_run(
        &self,
        squeezes: Option<&Squeezes>,
        victims: &mut [Victim],
        run: &Run,
        copies: &mut Copies,
    ) -> Result<(), Error> {
        let victim = &mut victims[run.victim];
        let bytes = victim.segment.bytes_at(run.offset, run.len)?;
        copies.read += run.len;
        for entry in &run.entries {
            let at = (u64::from(entry.offset) - run.offset) as usize;
            let bytes = &bytes[at..at + entry.len as usize];
            if self.is_whole(victim, entry, bytes) {
                let bytes = match squeezes.filter(|squeezes| squeezes.is_worth_a_try()) {
                    Some(squeezes) => self.squeezed(bytes, squeezes),
                    None => bytes.to_vec(),
                };
                let (victim, entry) = (run.victim, *entry);
                copies.blocks.push((Live { victim, entry }, bytes));
            }
        }
        Ok(())
    }

    fn add_copies(&self, victims: &mut [Victim], mut copies: Copies) -> Result<(), Error> {
        for some in copies.blocks.chunks(COPIES_A_LOCK) {
            let mut state = self.lock();
            state.counters.merge_read += std::mem::take(&mut copies.read);
            for (Live { victim, entry }, bytes) in some {
                if state.ready.is_empty() {
                    drop(state);
                    state = self.lock_with_slot()?;
                }
                let into = state.add_copy(*entry, bytes).expect(HAS_SLOT);
                let half = &mut victims[*victim].half;
                half.into.insert(into);
                half.done.insert(entry.number);
                state.counters.merge_written += bytes.len() as u64;
                state.counters.squeezed_bytes += u64::from(entry.len) - bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Writes what waits, so that a merge does not gather it in memory.
    fn write_all_pieces(&self) -> Result<(), Error> {
        while self.write_pieces(|_| true)? {}
        Ok(())
    }

    /// Whether a block is as it was written. Damage is told, and the victim set aside in the end.
    fn is_whole(&self, victim: &mut Victim, entry: &Entry, bytes: &[u8]) -> bool {
        let Err(what) = Block::open(bytes) else {
            return true;
        };
        let error = Error::Damage {
            file: victim.segment.name().to_string(),
            offset: u64::from(entry.offset),
            what,
        };
        tracing::error!("{error}; its segment is set aside when the others are safe");
        self.note_block(&error, entry);
        victim.half.damaged = true;
        victim.half.done.insert(entry.number);
        self.lock().counters.damaged_blocks += 1;
        false
    }

    /// A block with the same rows in fewer bytes, if there are enough fewer of them.
    fn squeezed(&self, bytes: &[u8], squeezes: &Squeezes) -> Vec<u8> {
        let smaller = || {
            let block = Block::open(bytes).ok()?;
            let layout = self.layout(block.head.layout)?;
            let (times, fields) = block.columns(layout.types(), |_| true).ok()?;
            let columns = Columns {
                times,
                fields: fields.into_iter().collect::<Option<_>>()?,
            };
            let mut out = Vec::with_capacity(bytes.len());
            block::encode(block.head, &columns, Effort::Best, &mut out);
            let kept = out.len() + bytes.len() / WORTHWHILE < bytes.len();
            squeezes.note(kept);
            kept.then_some(out)
        };
        smaller().unwrap_or_else(|| bytes.to_vec())
    }

    pub(super) fn layout(&self, number: u32) -> Option<Arc<Layout>> {
        let state = self.lock();
        let layout = state.layouts.get(number)?;
        (!layout.is_lost()).then(|| layout.clone())
    }

    // ---- together

    fn gather(&self, victims: &mut [Victim], sheaves: &[Sheaf]) -> Result<(), Error> {
        let live = sheaves
            .iter()
            .flat_map(|sheaf| sheaf.outputs.iter().flatten());
        let (mut blocks, mut read) = (Blocks::new(), 0);
        for run in runs(live.copied().collect(), GAP_BETWEEN_SOURCES) {
            let victim = &mut victims[run.victim];
            let bytes = victim.segment.bytes_at(run.offset, run.len)?;
            read += run.len;
            for entry in &run.entries {
                let at = (u64::from(entry.offset) - run.offset) as usize;
                let bytes = &bytes[at..at + entry.len as usize];
                if self.is_whole(victim, entry, bytes) {
                    blocks.insert((run.victim, entry.offset), bytes.to_vec());
                }
            }
        }
        self.lock().counters.merge_read += read;
        for sheaf in sheaves {
            let mut shade = sheaf.overlaps.then(Shade::default);
            // What is later overwrites what was before.
            for output in sheaf.outputs.iter().rev() {
                self.put_output(victims, output, &blocks, &mut shade)?;
            }
            self.write_all_pieces()?;
        }
        Ok(())
    }

    fn put_output(
        &self,
        victims: &mut [Victim],
        output: &[Live],
        blocks: &Blocks,
        shade: &mut Option<Shade>,
    ) -> Result<(), Error> {
        match self.join(output, blocks, shade) {
            // All of its rows are overwritten.
            Some(None) => {
                for live in output {
                    victims[live.victim].half.done.insert(live.entry.number);
                }
                Ok(())
            }
            Some(Some((entry, bytes))) => self.add_gathered(victims, output, entry, &bytes, blocks),
            None => self.copy_all(victims, output, blocks),
        }
    }

    /// The block that blocks become, if it is not none; nothing where they cannot be put together.
    #[allow(clippy::type_complexity)]
    fn join(
        &self,
        output: &[Live],
        blocks: &Blocks,
        shade: &mut Option<Shade>,
    ) -> Option<Option<(Entry, Vec<u8>)>> {
        let (first, last) = (output[0].entry, output[output.len() - 1].entry);
        let source = first.source;
        let (layout, veil) = {
            let state = self.lock();
            let layout = state.buffers.line(source).layout;
            (layout, state.retention.veil_for_good(source))
        };
        let layout = self.layout(layout)?;
        let mut runs = Vec::with_capacity(output.len());
        for live in output {
            let bytes = blocks.get(&(live.victim, live.entry.offset))?;
            runs.push(self.decode(bytes, &live.entry, &layout, &veil)?);
        }
        let found: u64 = runs.iter().map(|rows| rows.times.len() as u64).sum();
        let mut rows = merge(runs, layout.types());
        if let Some(shade) = shade {
            (rows, _) = shade.fall_on(rows);
        }
        self.lock().counters.overwritten_rows += found - rows.times.len() as u64;
        let (Some(&first_time), Some(&last_time)) = (rows.times.first(), rows.times.last()) else {
            // Deleted row by row: rare, and no reason to forget that they were there.
            return (found > 0).then_some(None);
        };
        let entry = Entry {
            first: first_time,
            last: last_time,
            rows: rows.times.len() as u32,
            since: first.since,
            before: first.before,
            late: output.iter().any(|live| live.entry.late),
            ..last
        };
        let head = BlockHead {
            source,
            number: entry.number,
            layout: layout.number(),
        };
        let effort = self.lock().effort();
        let mut bytes = Vec::new();
        block::encode(head, &columns(rows, &layout), effort, &mut bytes);
        Some(Some((entry, bytes)))
    }

    /// A block's rows that are not dead, in the columns that its source has now.
    pub(super) fn decode(
        &self,
        bytes: &[u8],
        entry: &Entry,
        layout: &Layout,
        veil: &Veil,
    ) -> Option<Rows> {
        let block = Block::open(bytes).ok()?;
        let own = self.layout(block.head.layout)?;
        let (times, found) = block.columns(own.types(), |_| true).ok()?;
        let mut fields = vec![None; layout.columns()];
        for (column, field) in found.into_iter().enumerate() {
            let place = layout.column(own.names()[column].as_bytes(), column)?;
            fields[place] = field;
        }
        let kept: Vec<usize> = (0..times.len())
            .filter(|&row| !veil.hides_row(entry.number, times[row]))
            .collect();
        let rows = Rows { times, fields };
        Some(match kept.len() == rows.times.len() {
            true => rows,
            false => rows.pick(&kept),
        })
    }

    /// Adds a gathered block, unless some of what is in it is hidden by now: then its blocks are
    /// copied, for what was hidden must not come back.
    fn add_gathered(
        &self,
        victims: &mut [Victim],
        output: &[Live],
        entry: Entry,
        bytes: &[u8],
        blocks: &Blocks,
    ) -> Result<(), Error> {
        let mut state = self.lock_with_slot()?;
        let buffered = state.buffers.line(entry.source).rows;
        let veil = state.retention.veil(entry.source, buffered);
        if output.iter().any(|live| veil.hides(&live.entry)) {
            drop(state);
            return self.copy_all(victims, output, blocks);
        }
        let into = state.add_copy(entry, bytes).expect(HAS_SLOT);
        for live in output {
            victims[live.victim].half.into.insert(into);
            victims[live.victim].half.done.insert(live.entry.number);
        }
        state.counters.merge_written += bytes.len() as u64;
        if output.len() > 1 {
            state.counters.gathered_blocks += output.len() as u64;
        }
        Ok(())
    }

    /// Copies blocks as they are, but for damaged ones.
    fn copy_all(
        &self,
        victims: &mut [Victim],
        output: &[Live],
        blocks: &Blocks,
    ) -> Result<(), Error> {
        for live in output {
            let Some(bytes) = blocks.get(&(live.victim, live.entry.offset)) else {
                continue;
            };
            let mut state = self.lock_with_slot()?;
            let into = state.add_copy(live.entry, bytes).expect(HAS_SLOT);
            let half = &mut victims[live.victim].half;
            half.into.insert(into);
            half.done.insert(live.entry.number);
            state.counters.merge_written += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Rows as columns of a layout; a column without any value is one of gaps.
fn columns(rows: Rows, layout: &Layout) -> Columns {
    let count = rows.times.len();
    let fields = rows.fields.into_iter().zip(layout.types());
    let fields = fields.map(|(field, &field_type)| {
        field.unwrap_or_else(|| FieldColumn {
            present: Some(std::iter::repeat_n(false, count).collect()),
            values: Column::new(field_type),
        })
    });
    Columns {
        fields: fields.collect(),
        times: rows.times,
    }
}

/// Blocks in the order of their places, those near each other together.
fn runs(mut blocks: Vec<Live>, gap: u64) -> Vec<Run> {
    blocks.sort_unstable_by_key(|live| (live.victim, live.entry.offset));
    let mut runs: Vec<Run> = Vec::new();
    for Live { victim, entry } in blocks {
        let (start, len) = (u64::from(entry.offset), u64::from(entry.len));
        match runs.last_mut() {
            Some(run)
                if run.victim == victim
                    && start < run.offset + run.len + gap
                    && start + len - run.offset <= READ =>
            {
                run.len = start + len - run.offset;
                run.entries.push(entry);
            }
            _ => runs.push(Run {
                victim,
                offset: start,
                len,
                entries: vec![entry],
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_near_each_other_are_read_at_once() {
        let live = |offset: u32, len: u32| Live {
            victim: 0,
            entry: Entry {
                offset,
                len,
                ..Entry::default()
            },
        };
        let found = runs(vec![live(100_000, 10), live(0, 10), live(20, 10)], GAP);
        let found: Vec<(u64, u64)> = found.iter().map(|run| (run.offset, run.len)).collect();
        assert_eq!(found, [(0, 30), (100_000, 10)]);
    }
}
