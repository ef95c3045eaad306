//! Making room: segments that are dead are dropped unread, of others the live blocks are written
//! again, and when neither is enough, the oldest blocks are let go or writers are refused.
//!
//! A merge in order: the victims' names say that they are being merged; their live blocks are added
//! to the segments of the lanes that their remaining life asks for, like new ones (`rewriting`), a
//! source's small ones gathered into larger ones (`gathering`); when these are on disk, sealed or in
//! a chapter, the victims are dropped. A crash in between leaves blocks twice, which readers see
//! once, and which are dead in the victim. So a victim is never dropped before what it kept is
//! durable, and nothing that was dead is written again.

mod floor;
mod gathering;
pub(crate) mod memory;
mod overwritten;
mod rewriting;
mod tidying;

use self::floor::floor_for;
use self::memory::{Decisions, Eaten, Record, Unfinished};
use crate::engine::Engine;
use crate::error::Error;
use crate::recover::loss_of_page;
use crate::retention::Tombstone;
use crate::retention::coarser::step_start;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::segment::tally::Share;
use crate::shared::Guard;
use crate::state::State;
use crate::volume::SlotState;
use crate::writing::Writing;
use roaring::RoaringBitmap;
use seiner_merge::{Decision, Fill, SegmentStat, View};
use seiner_model::{Interval, Selector};
use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};

/// Sources sealed under one lock before a delete.
const SOURCES_A_LOCK: usize = 1024;
/// Segments surveyed at a time.
const SURVEYS: usize = 8;
/// A quota is brought down when it is exceeded by this part, and shedding lets go of as much of the
/// budget: seldom enough to be worth a note in the catalog.
const STEP: u64 = 64;
/// Shedding begins when writers have less than this part of the budget left: before they are slowed.
const AHEAD: u64 = 32;
/// Everything is counted anew before something is shed, but no more often than this while as much is
/// written as the budget holds.
const SURVEYS_A_BUDGET: u64 = 16;
/// Decisions kept for whoever asks why.
const DECISIONS: usize = 64;

/// A segment and its entries.
type Opened = (Arc<Segment>, Vec<Entry>);

/// What a decision is made from.
struct Census {
    /// Wall time, ns.
    now: i64,
    fill: Fill,
    segments: Vec<SegmentStat>,
    least_dead_share: f64,
}

impl State {
    fn segment(&self, number: u64) -> Arc<Segment> {
        self.sealed[&number].clone()
    }

    /// What there is, but for victims that are `eaten`: their room is as good as free, and what is live
    /// of them is counted where it is now.
    fn census(&self, eaten: &HashSet<u64>) -> Census {
        let moment = self.retention.moment();
        let stats = self.tallies.values().map(|tally| tally.stat_at(&moment));
        let mut segments: Vec<SegmentStat> = stats.collect();
        let mut fill = self.fill_of(segments.iter().map(|stat| stat.live).sum());
        for gone in segments.extract_if(.., |stat| eaten.contains(&stat.number)) {
            fill.used = fill.used.saturating_sub(gone.bytes);
            fill.live = fill.live.saturating_sub(gone.live);
        }
        Census {
            now: moment.now,
            fill,
            segments,
            least_dead_share: self.least_dead_share(),
        }
    }

    /// The segments that have copies which are not on disk yet.
    fn waiting(&self, eaten: &[Eaten]) -> HashSet<u64> {
        let news = self.open.iter().filter(|open| {
            // A chapter may have been ended that could not be written yet.
            let unwritten = open.marked < open.chapter_end();
            open.closed_at.is_some() || open.has_news() || unwritten
        });
        let news: HashSet<u64> = news.map(|open| open.number).collect();
        let into = eaten.iter().flat_map(|eaten| &eaten.into);
        into.copied()
            .filter(|number| news.contains(number))
            .collect()
    }
}

impl Engine {
    /// Drops, merges and lets go as far as there is need; answers whether anything was done.
    pub(crate) fn tend(&self, writing: &mut Writing) -> Result<bool, Error> {
        let census = self.census(writing, SURVEYS)?;
        let done = self.drop_eaten(writing)?;
        self.empty_graveyard(writing)?;
        self.bring_down_quotas()?;
        if let Some(Unfinished { victims, extra }) = writing.unfinished.take() {
            self.merge(writing, &victims, extra)?;
            return Ok(true);
        }
        let decision = self.decide(writing, census);
        if decision.is_empty() {
            return Ok(self.shed_ahead(writing)? || done || self.tidy(writing)?);
        }
        self.carry_out(writing, &decision)?;
        Ok(true)
    }

    fn decide(&self, writing: &mut Writing, census: Census) -> Decision {
        let (now, mut segments) = (census.now, census.segments);
        segments.retain(|stat| !writing.unreadable.contains(&stat.number));
        let decision = writing.policy.choose(&View {
            now,
            fill: census.fill,
            output_limit: self.segment_bytes,
            least_dead_share: census.least_dead_share,
            segments: &segments,
        });
        let mut decided = self.decided();
        decided.memory = writing.policy.memory();
        if !decision.is_empty() {
            if decided.records.len() == DECISIONS {
                decided.records.pop_front();
            }
            decided.records.push_back(Record {
                at: now,
                decision: decision.clone(),
            });
        }
        decision
    }

    pub(crate) fn decided(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .expect("nobody panics with the records")
    }

    fn carry_out(&self, writing: &mut Writing, decision: &Decision) -> Result<(), Error> {
        let gone: Vec<_> = {
            let state = self.lock();
            let gone = decision.drop.iter().map(|&number| {
                // It may bear the name of a victim since before the start.
                let slot = match writing.merging.contains(&number) {
                    true => SlotState::Merging,
                    false => SlotState::Sealed,
                };
                (state.segment(number), slot)
            });
            gone.collect()
        };
        self.bury(writing, gone)?;
        let victims = decision.merge.iter().map(|victim| victim.number);
        let victims = self.worth_it(writing, victims.collect())?;
        self.merge(writing, &victims, false)
    }

    /// Those of some segments in which as much is dead as was foretold. One that turns out to be all
    /// dead is dropped next, unread.
    fn worth_it(&self, writing: &mut Writing, numbers: Vec<u64>) -> Result<Vec<u64>, Error> {
        let mut state = self.lock();
        let moment = state.retention.moment();
        let foretold = numbers
            .iter()
            .filter(|number| state.tallies[number].is_foretold(&moment));
        let foretold = foretold.map(|&number| state.segment(number));
        let foretold: Vec<Arc<Segment>> = foretold.collect();
        if !foretold.is_empty() {
            drop(state);
            state = self.survey_segments(writing, &foretold)?;
        }
        let least = state.least_dead_share();
        let is_worth_it = |number: &u64| {
            let found = state.tallies[number].stat;
            !found.is_dead() && found.dead_share() >= least
        };
        Ok(numbers.into_iter().filter(is_worth_it).collect())
    }

    /// Segments with their entries, but for those whose indexes cannot be read.
    fn opened(&self, writing: &mut Writing, numbers: &[u64]) -> Result<Vec<Opened>, Error> {
        let segments: Vec<Arc<Segment>> = {
            let state = self.lock();
            numbers
                .iter()
                .map(|&number| state.segment(number))
                .collect()
        };
        let mut opened = Vec::with_capacity(segments.len());
        for segment in segments {
            if let Some(entries) = self.entries(writing, &segment)? {
                opened.push((segment, entries));
            }
        }
        Ok(opened)
    }

    // ---- surveys

    /// What there is, once as many segments as `most` were surveyed of which it is time to.
    fn census(&self, writing: &mut Writing, most: usize) -> Result<Census, Error> {
        let eaten = writing.eaten.iter();
        let eaten: HashSet<u64> = eaten.map(|eaten| eaten.segment.trailer.number).collect();
        let mut state = self.lock();
        state.advance(&*self.clock);
        let moment = state.retention.moment();
        let due = state
            .tallies
            .iter()
            .filter(|(_, tally)| tally.is_due(&moment));
        let due = due.take(most).map(|(&number, _)| state.segment(number));
        let due: Vec<Arc<Segment>> = due.collect();
        if !due.is_empty() {
            drop(state);
            state = self.survey_segments(writing, &due)?;
        }
        Ok(state.census(&eaten))
    }

    /// Counts anew what is live in segments, and keeps the lock.
    fn survey_segments(
        &self,
        writing: &mut Writing,
        segments: &[Arc<Segment>],
    ) -> Result<Guard<'_>, Error> {
        let mut read = Vec::with_capacity(segments.len());
        for segment in segments {
            if let Some(entries) = self.entries(writing, segment)? {
                read.push((segment, entries));
            }
        }
        let mut state = self.lock();
        for (segment, entries) in read {
            let trailer = &segment.trailer;
            let elsewhere = |entry: &Entry| writing.is_elsewhere(trailer.number, entry);
            let survey;
            (state, survey) = self.survey(state, trailer.number, &entries, elsewhere);
            let moment = state.retention.moment();
            let tally = survey.tally(trailer.lane, segment.room(self.unit), trailer.born, &moment);
            if tally.stat.live == 0 {
                state.retention.note_past(&entries);
            }
            state.put_tally(tally);
        }
        Ok(state)
    }

    /// A segment's entries. One whose index cannot be read stays as it is from now on: for all we
    /// know, everything in it is live.
    fn entries(
        &self,
        writing: &mut Writing,
        segment: &Segment,
    ) -> Result<Option<Vec<Entry>>, Error> {
        let mut entries = Vec::with_capacity(segment.trailer.blocks as usize);
        for page in segment.blocks() {
            match page {
                Ok(page) => entries.extend(page),
                Err(error @ Error::Damage { .. }) => {
                    let number = segment.trailer.number;
                    tracing::error!("{error}; the segment is neither dropped nor merged");
                    self.note_loss(loss_of_page(segment, &error));
                    writing.unreadable.insert(number);
                    if let Some(tally) = self.lock().tallies.get_mut(&number) {
                        tally.give_up();
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(entries))
    }

    // ---- dropping

    /// Takes segments out of service; their room comes back when their last readers are done.
    fn bury(
        &self,
        writing: &mut Writing,
        gone: Vec<(Arc<Segment>, SlotState)>,
    ) -> Result<(), Error> {
        if gone.is_empty() {
            return Ok(());
        }
        let _span = tracing::trace_span!("drop").entered();
        // What lets rings forget must not go with the block that tells it.
        self.write_catalog()?;
        // Nor is it missed when it is gone.
        {
            let mut ledger = self.ledger();
            for (segment, _) in &gone {
                ledger.note_gone(segment.trailer.number);
            }
        }
        self.write_ledger()?;
        for (segment, _) in &gone {
            let number = segment.trailer.number;
            if writing.interrupted.remove(&number) && writing.interrupted.is_empty() {
                writing.copied.clear();
            }
            writing.half.remove(&number);
            writing.overwritten.remove(&number);
            writing.tidy.remove(&number);
            writing.merging.remove(&number);
        }
        let mut state = self.lock();
        for (segment, _) in &gone {
            state.remove_sealed(segment);
        }
        state.forget_deletes();
        drop(state);
        writing.graveyard.extend(gone);
        self.empty_graveyard(writing)
    }

    fn empty_graveyard(&self, writing: &mut Writing) -> Result<(), Error> {
        let unread = |(segment, _): &(Arc<Segment>, SlotState)| Arc::strong_count(segment) == 1;
        let free: Vec<_> = writing
            .graveyard
            .extract_if(.., |one| unread(one))
            .collect();
        if free.is_empty() {
            return Ok(());
        }
        let mut gone = free.into_iter();
        let mut discarded = Vec::new();
        let result = gone.by_ref().try_for_each(|(segment, slot)| {
            let result = self.discard(&segment, slot);
            match &result {
                Ok(()) => discarded.push((segment, slot)),
                // It is tried again.
                Err(_) => writing.graveyard.push((segment, slot)),
            }
            result
        });
        writing.graveyard.extend(gone);
        let mut state = self.lock();
        for (segment, slot) in &discarded {
            let bytes = segment.room(self.unit);
            match slot {
                SlotState::Damaged => state.space.set_aside(bytes),
                _ => state.space.delete(bytes),
            }
            state.counters.segments_dropped += 1;
        }
        result
    }

    /// Gives a segment's slot back, or sets it aside.
    fn discard(&self, segment: &Segment, slot: SlotState) -> Result<(), Error> {
        let number = segment.trailer.number;
        self.files.forget(number);
        match slot {
            SlotState::Damaged => self.volume.turn(number, SlotState::Merging, slot),
            slot => self.volume.discard(number, slot),
        }
    }

    /// Drops victims whose live blocks are on disk elsewhere; asks for chapters when the room that
    /// they take is wanted.
    fn drop_eaten(&self, writing: &mut Writing) -> Result<bool, Error> {
        if writing.eaten.is_empty() {
            return Ok(false);
        }
        let bytes: u64 = writing
            .eaten
            .iter()
            .map(|eaten| eaten.segment.room(self.unit))
            .sum();
        let (mut waiting, room) = {
            let state = self.lock();
            let room = state.space.room(&state.load());
            (state.waiting(&writing.eaten), room)
        };
        // A sync of each segment that waits should bring back a segment, unless there is no time for it.
        let wanted = bytes >= room / 2 || bytes >= 8 * self.segment_bytes;
        if wanted && !waiting.is_empty() {
            self.end_chapters(writing, |number| waiting.contains(&number))?;
            waiting = self.lock().waiting(&writing.eaten);
        }
        let (free, rest): (Vec<Eaten>, Vec<Eaten>) = writing
            .eaten
            .drain(..)
            .partition(|eaten| eaten.into.is_disjoint(&waiting));
        writing.eaten = rest;
        let done = !free.is_empty();
        let free = free.into_iter().map(|eaten| {
            let slot = match eaten.damaged {
                true => SlotState::Damaged,
                false => SlotState::Merging,
            };
            (eaten.segment, slot)
        });
        let free = free.collect();
        self.bury(writing, free)?;
        Ok(done)
    }

    // ---- letting go

    /// Lets classes that have more than their quota go of their oldest blocks.
    fn bring_down_quotas(&self) -> Result<(), Error> {
        let over: Vec<(u8, u64)> = {
            let state = self.lock();
            let classes = state.retention.classes();
            if classes.iter().all(|class| class.keep.bytes.is_none()) {
                return Ok(());
            }
            let quota = |class: u8| classes[class as usize].keep.bytes;
            let live = state.live_by_class();
            let over = live.into_iter().filter_map(|(class, live)| {
                let quota = quota(class)?;
                (live > quota + quota / STEP).then(|| (class, live - quota))
            });
            over.collect()
        };
        for (class, bytes) in over {
            self.let_go(class, bytes)?;
        }
        Ok(())
    }

    /// Sheds before writers are slowed for want of room, when nothing is worth a merge; answers whether
    /// there was need to.
    fn shed_ahead(&self, writing: &mut Writing) -> Result<bool, Error> {
        let (written, budget) = {
            let state = self.lock();
            let budget = state.budget();
            let eaten = writing
                .eaten
                .iter()
                .map(|eaten| eaten.segment.room(self.unit));
            let coming = state.space.retired() + eaten.sum::<u64>();
            if state.room_for_writers() + coming >= budget / AHEAD || !state.may_shed() {
                return Ok(false);
            }
            // What was let go last is counted first.
            if state.is_survey_due() {
                return Ok(true);
            }
            (state.counters.block_bytes, budget)
        };
        if written - writing.surveyed >= budget / SURVEYS_A_BUDGET {
            writing.surveyed = written;
            self.survey_all(writing)?;
            return Ok(true);
        }
        self.shed()
    }

    /// Sheds the oldest blocks of the class of the lowest priority that may be shed; answers
    /// whether there were any.
    pub(crate) fn shed(&self) -> Result<bool, Error> {
        let (class, bytes) = {
            let mut state = self.lock();
            let Some(class) = state.first_to_shed() else {
                return Ok(false);
            };
            let bytes = (state.budget() / STEP).max(2 * self.segment_bytes);
            // Counted first: if the disk fails now, they may be gone or not.
            state.counters.shed_bytes += bytes;
            state.troubles.note_shed(self.clock.monotonic());
            (class, bytes)
        };
        self.let_go(class, bytes)?;
        Ok(true)
    }

    /// Raises a class's floor so that about so many bytes die.
    fn let_go(&self, class: u8, bytes: u64) -> Result<(), Error> {
        let _span = tracing::trace_span!("let_go").entered();
        let floor = {
            let mut state = self.lock();
            let shares = state.tallies.values().flat_map(|tally| &tally.shares);
            let shares: Vec<Share> = shares
                .filter(|share| share.class == class)
                .copied()
                .collect();
            let floor = floor_for(&shares, bytes);
            state.retention.note_floor(class, floor);
            floor
        };
        // On disk before it counts.
        self.write_catalog()?;
        // And so that no row is accepted into a block that is dead already.
        self.seal_slow(class, floor)?;
        let mut state = self.lock();
        state.retention.raise(class, floor);
        let touched = |share: &Share| share.class == class && share.first < floor;
        for tally in state.tallies.values_mut() {
            if tally.shares.iter().any(touched) {
                tally.ask();
            }
        }
        Ok(())
    }

    /// Takes open blocks of a class that were begun below the middle of what is above its new floor: a block
    /// dies by its number, and those of slow sources would go on taking rows when they are dead already.
    fn seal_slow(&self, class: u8, floor: u64) -> Result<(), Error> {
        let before = {
            let state = self.lock();
            floor + state.next_block.saturating_sub(floor) / 2
        };
        let mut hand = Some(0);
        while let Some(from) = hand {
            let (next, is_behind) = {
                let mut state = self.lock();
                (
                    state.seal_slow(class, before, from),
                    state.is_sealer_behind(),
                )
            };
            hand = next;
            if is_behind {
                match self.finish_sealing() {
                    // What was taken waits until there is room.
                    Err(error) if !error.is_want_of_room() => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Deletes the samples of sources in an interval, as far as they were accepted before; durable,
    /// and seen by nobody any more, on return. Answers how many sources were meant. The room comes
    /// back when the segments that hold them are dropped or merged.
    ///
    /// # Errors
    /// When the disk fails: then the samples may or may not be deleted.
    pub fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        let _span = tracing::trace_span!("delete").entered();
        let mut writing = self.writing();
        let sources = self.dictionary(|dictionary| dictionary.select(selector));
        let levels = self.dictionary(|dictionary| dictionary.select_levels(selector));
        let count = sources.len();
        if count == 0 || interval.is_empty() {
            return Ok(count);
        }
        // Figures that tell of what is deleted go with it: of a step that it overlaps, all.
        let all = levels
            .iter()
            .fold(sources.clone(), |all, (_, levels)| all | levels);
        self.lock().begun = Some(RoaringBitmap::new());
        let sealed = self.seal_ahead(&mut writing, &all);
        {
            let mut state = self.lock();
            let begun = state.begun.take().unwrap_or_default();
            sealed?;
            state.writable()?;
            for source in begun & all {
                state.seal(source);
            }
            let before = state.next_block;
            state.retention.bury(Tombstone {
                sources,
                interval,
                before,
            });
            for (step, sources) in levels {
                let start = step_start(interval.start, step);
                state.retention.bury(Tombstone {
                    sources,
                    interval: Interval::new(start, interval.end),
                    before,
                });
            }
            // And what it made of them is made anew.
            writing.round = None;
        }
        let result = self.write_catalog();
        if let Err(error) = &result {
            self.poison(error);
        }
        result?;
        for tally in self.lock().tallies.values_mut() {
            tally.ask();
        }
        Ok(count)
    }

    /// Seals what sources have in buffers, some at a time: all at once would take the memory again that
    /// they have as rows.
    fn seal_ahead(&self, writing: &mut Writing, sources: &RoaringBitmap) -> Result<(), Error> {
        let mut sources = sources.iter().peekable();
        while sources.peek().is_some() {
            {
                let mut state = self.lock();
                state.writable()?;
                for source in sources.by_ref().take(SOURCES_A_LOCK) {
                    state.seal(source);
                }
            }
            self.finish_sealing()?;
            while self.lock().is_behind() && self.step_or_poison(writing)? {}
        }
        Ok(())
    }

    /// Counts everything anew, as after a delete.
    pub(crate) fn survey_all(&self, writing: &mut Writing) -> Result<(), Error> {
        for tally in self.lock().tallies.values_mut() {
            tally.ask();
        }
        self.census(writing, usize::MAX).map(drop)
    }
}
