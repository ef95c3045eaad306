//! Upkeep of the segments that are being written: pieces, chapters, seals.
//!
//! All of it happens under the `writing` lock, step by step, in a thread of its own in production
//! and by hand in the simulator.

mod choice;
pub(crate) mod ended;

use self::choice::{Choice, Sight};
use self::ended::Ended;
use crate::engine::{ENTRIES_A_LOCK, Engine};
use crate::error::{Error, io_error, sync_error};
use crate::options::Durability;
use crate::recover::note_of;
use crate::retention::expected::Moment;
use crate::segment::Entry;
use crate::segment::footer::{self, Page, Trailer};
use crate::segment::list::Listing;
use crate::segment::open::{Horizon, OpenSegment, Piece, Place};
use crate::segment::sealed::Segment;
use crate::segment::tally::Survey;
use crate::shared::Guard;
use crate::state::State;
use crate::trouble::Path;
use crate::volume::SlotState;
use crate::writing::{IDLE_TICKS, Writing};
use seiner_platform::File;
use std::sync::Arc;

/// Sources looked at for idleness at a time.
const IDLE_AT_ONCE: u32 = 16_384;
/// Slots claimed ahead at most.
const READY: usize = 16;
/// Room in a slot is reserved in so many steps.
const RESERVATIONS: u64 = 8;
/// Bytes written, about, before others may have their turn.
const WRITTEN_AT_ONCE: usize = 8 << 20;
/// The share of the memory that may wait for the segment writer before writers lend a hand.
const WAITING_SHARE: u64 = 16;

/// A segment that takes no more blocks and has all that it took on disk.
struct Closed {
    number: u64,
    lane: u32,
    closed_at: Option<u64>,
    horizon: Horizon,
    entries: Vec<Entry>,
    file: Arc<dyn File>,
    /// Bytes of blocks, and of them those that count already.
    len: u64,
    marked: u64,
}

impl Closed {
    /// Returns a segment without its list of blocks.
    fn of(open: &OpenSegment, horizon: Horizon) -> Closed {
        Closed {
            number: open.number,
            lane: open.lane,
            closed_at: open.closed_at,
            horizon,
            entries: Vec::new(),
            file: open.file.clone(),
            len: open.len(),
            marked: open.marked,
        }
    }
}

/// The same, with its footer.
struct EndedSegment {
    closed: Closed,
    trailer: Trailer,
    fence: Vec<Page>,
    name: String,
    /// Bytes of its footer, and of all.
    index: u64,
    total: u64,
}

/// Pieces that wait to be written to a segment.
struct Waiting {
    number: u64,
    file: Arc<dyn File>,
    pieces: Vec<Piece>,
    /// How many of them are written.
    written: usize,
    /// Bytes of the slot that are reserved.
    reserved: u64,
}

/// What comes next.
enum Next {
    Write(Vec<Waiting>),
    Seal,
    Chapter,
    Idle,
}

/// What there is to do, seen under one lock.
struct Look {
    next: Next,
    /// Whether the disk should be told how late it is.
    is_time_due: bool,
    /// Whether slots were taken, coarser levels are to be made, blocks may overwrite others.
    is_short_of_slots: bool,
    is_round_due: bool,
    is_late: bool,
}

impl State {
    /// Whether writers fill memory or journal faster than upkeep empties them.
    pub fn is_behind(&self) -> bool {
        let closed = |open: &OpenSegment| open.closed_at.is_some();
        let journal_full = self.pins.bytes() >= self.options.journal_bytes
            && (self.chapter_due || self.open.iter().any(closed));
        journal_full || self.is_much_waiting()
    }

    /// Whether as much was taken or sealed and is not written as memory may hold.
    pub fn is_much_sealed(&self) -> bool {
        self.is_sealer_behind() || self.is_much_waiting()
    }

    /// Whether as much is in open segments and not written as memory may hold.
    fn is_much_waiting(&self) -> bool {
        let waiting = self.open.iter().map(OpenSegment::waiting).sum::<usize>();
        waiting as u64 > self.options.memory / WAITING_SHARE || self.is_short_of_memory()
    }

    /// Pieces that wait to be written, of segments that are closed first, as many as are written at once.
    fn waiting_pieces(&self, which: impl Fn(u64) -> bool) -> Vec<Waiting> {
        let waits = |open: &&OpenSegment| !open.pieces.is_empty() && which(open.number);
        let mut open: Vec<&OpenSegment> = self.open.iter().filter(waits).collect();
        open.sort_by_key(|open| open.closed_at.is_none());
        let mut bytes = 0;
        let mut waiting = Vec::new();
        for open in open {
            if bytes >= WRITTEN_AT_ONCE {
                break;
            }
            bytes += open.waiting();
            waiting.push(Waiting {
                number: open.number,
                file: open.file.clone(),
                pieces: open.pieces.iter().cloned().collect(),
                written: 0,
                reserved: open.reserved,
            });
        }
        waiting
    }
}

impl Engine {
    /// A step of background work: writes a piece, seals a segment, ends chapters, seals idle sources,
    /// drops and merges segments. Answers whether more is waiting.
    pub fn step(&self) -> Result<bool, Error> {
        self.step_or_poison(&mut self.writing_after_others())
    }

    pub(crate) fn step_or_poison(&self, writing: &mut Writing) -> Result<bool, Error> {
        let result = self.step_with(writing);
        if let Err(error) = &result {
            self.poison(error);
        }
        self.note_trouble(Path::Segments, &result);
        result
    }

    pub(crate) fn step_with(&self, writing: &mut Writing) -> Result<bool, Error> {
        let result = self.take_step(writing);
        if let Err(error) = &result
            && error.is_want_of_room()
        {
            // There is no room, but there may be something to drop.
            self.ask_for_room(writing)?;
            self.tend(writing)?;
        }
        result
    }

    fn take_step(&self, writing: &mut Writing) -> Result<bool, Error> {
        if std::mem::take(&mut self.lock().loss_waits) {
            let result = self.write_ledger();
            self.lock().loss_waits |= result.is_err();
            result?;
        }
        self.finish_sealing()?;
        let look = self.look(writing)?;
        if look.is_time_due {
            match self.tell_time(true) {
                // What is too old stays, for want of a few bytes.
                Err(error) if !error.is_want_of_room() => return Err(error),
                _ => {}
            }
        }
        match look.next {
            Next::Write(waiting) => self.write_waiting(waiting).map(|()| true),
            Next::Seal => self.write_and_seal(writing).map(|()| true),
            Next::Chapter => self.end_chapters(writing, |_| true).map(|()| true),
            Next::Idle => {
                self.ask_for_room(writing)?;
                if look.is_short_of_slots {
                    self.claim_ahead()?;
                }
                if self.seal_idle(writing)? {
                    return Ok(true);
                }
                // A round may be long, and what is dead by now should not wait for its end.
                let more = look.is_round_due && self.age(writing)?;
                let late = look.is_late && self.find_overwritten(writing)?;
                if self.tend(writing)? || more || late {
                    return Ok(true);
                }
                // Nothing is left but what was not worth a step.
                self.write_and_seal(writing)?;
                Ok(false)
            }
        }
    }

    fn write_and_seal(&self, writing: &mut Writing) -> Result<(), Error> {
        self.write_pieces(|_| true)?;
        let closed = |open: &OpenSegment| open.closed_at.is_some() && open.pieces.is_empty();
        if self.lock().open.iter().any(closed) {
            self.seal_segments(writing)?;
        }
        Ok(())
    }

    fn look(&self, writing: &Writing) -> Result<Look, Error> {
        let mut state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(Error::Poisoned(why.clone()));
        }
        let waiting: usize = state.open.iter().map(OpenSegment::waiting).sum();
        let closed = state.open.iter().filter(|open| open.closed_at.is_some());
        let is_round_due = writing.round.is_some() || state.is_round_due();
        let sight = Sight {
            segment_bytes: self.segment_bytes,
            waiting: waiting as u64,
            open: state.open.len(),
            closed: closed.count(),
            is_journal_full: state.pins.bytes() >= state.options.journal_bytes,
            is_round_due,
            is_short_of_memory: state.is_short_of_memory(),
            is_merge_waiting: !writing.eaten.is_empty() && state.room_for_writers() == 0,
            is_chapter_due: state.chapter_due,
        };
        let next = match sight.next() {
            Choice::Write => Next::Write(state.waiting_pieces(|_| true)),
            Choice::Seal => Next::Seal,
            Choice::Chapter => Next::Chapter,
            Choice::Idle => {
                state.advance(&*self.clock);
                Next::Idle
            }
        };
        state.retention.judge(&*self.clock);
        Ok(Look {
            next,
            is_time_due: state.retention.promise_due(true).is_some(),
            is_short_of_slots: state.taken > 0,
            is_round_due,
            is_late: state.retention.has_late(),
        })
    }

    /// Claims as many slots as were taken since the last time.
    fn claim_ahead(&self) -> Result<(), Error> {
        let numbers: Vec<u64> = {
            let mut state = self.lock();
            let taken = std::mem::take(&mut state.taken);
            let wanted = taken.min(READY.saturating_sub(state.ready.len()));
            (0..wanted).map(|_| state.number_segment()).collect()
        };
        let mut claimed = Vec::with_capacity(numbers.len());
        let result = numbers.into_iter().try_for_each(|number| {
            claimed.push((number, self.volume.claim(number)?));
            Ok(())
        });
        if !claimed.is_empty() {
            self.lock().ready.extend(claimed);
        }
        result
    }

    /// Writes pieces that wait, as many as are written at once, of segments that are closed first;
    /// answers whether there were any.
    pub(crate) fn write_pieces(&self, which: impl Fn(u64) -> bool) -> Result<bool, Error> {
        let waiting = self.lock().waiting_pieces(which);
        match waiting.is_empty() {
            true => Ok(false),
            false => self.write_waiting(waiting).map(|()| true),
        }
    }

    fn write_waiting(&self, mut waiting: Vec<Waiting>) -> Result<(), Error> {
        // The first that fails is the last: the pieces before it are written.
        let result = waiting.iter_mut().try_for_each(|one| self.write_some(one));
        let mut state = self.lock();
        for one in &waiting {
            let written = one.pieces[..one.written].iter();
            let bytes: usize = written.map(|piece| piece.bytes.len()).sum();
            state.counters.segment_written += bytes as u64;
            let open = open_mut(&mut state, one.number);
            open.pieces.drain(..one.written);
            open.reserved = one.reserved;
        }
        result
    }

    fn write_some(&self, waiting: &mut Waiting) -> Result<(), Error> {
        let context = || format!("writing {}", self.volume.name(waiting.number));
        let last = waiting.pieces.last();
        let end = last.map_or(0, |piece| piece.offset + piece.bytes.len() as u64);
        if end > waiting.reserved {
            let step = self.segment_bytes / RESERVATIONS;
            let room = end.max((waiting.reserved + step).min(self.segment_bytes));
            waiting.file.reserve(room).map_err(io_error(context))?;
            waiting.reserved = room;
        }
        for piece in &waiting.pieces {
            let written = waiting.file.write_at(piece.offset, &piece.bytes);
            written.map_err(io_error(context))?;
            waiting.written += 1;
        }
        Ok(())
    }

    /// Makes closed segments count, as many as there are: catalog, footers, syncs, names; then lets
    /// the journal go.
    fn seal_segments(&self, writing: &mut Writing) -> Result<(), Error> {
        let _span = tracing::trace_span!("seal").entered();
        // Chapters that could not be written for want of room may be these segments'.
        if !writing.chapters.is_empty() {
            self.end_chapters(writing, |_| false)?;
        }
        let closed = self.closed(self.store);
        // Blocks may hold rows that the journal does not have on disk yet; what it has must not be
        // less than what segments have, or a crash would keep later rows and lose earlier ones.
        self.write_journal(true)?;
        self.write_catalog()?;
        let mut ended = Vec::with_capacity(closed.len());
        for closed in closed {
            ended.push(self.end_segment(closed)?);
        }
        for end in &ended {
            let context = || format!("sealing {}", end.name);
            end.closed.file.sync().map_err(sync_error(context))?;
        }
        let mut result = Ok(());
        let mut named = Vec::with_capacity(ended.len());
        for end in ended {
            let marked = SlotState::Open(end.closed.marked);
            result = self
                .volume
                .turn(end.closed.number, marked, SlotState::Sealed);
            if result.is_err() {
                break;
            }
            named.push(end);
        }
        // Those that have their names must not be named again.
        self.volume.sync()?;
        self.serve(named);
        result?;
        // What no journal file can bring back is missed at once when it is gone.
        if self.durability() == Durability::Memory {
            self.write_ledger()?;
        }
        {
            let mut state = self.lock();
            state.retention.look_again();
            let fill = state.fill();
            state.lanes.adapt(&fill);
        }
        self.release_journal(true)
    }

    /// Returns the closed segments all of whose blocks are written, as many as are sealed at once.
    fn closed(&self, store: u64) -> Vec<Closed> {
        let closed: Vec<(Closed, Listing)> = {
            let state = self.lock();
            let horizon = state.horizon(store);
            let closed = state
                .open
                .iter()
                .filter(|open| open.closed_at.is_some() && open.pieces.is_empty());
            let mut lists = 0;
            let at_once = closed.take_while(|open| {
                let first = lists == 0;
                lists += open.list_bytes();
                first || state.is_sealed_at_once(lists)
            });
            at_once
                .map(|open| (Closed::of(open, horizon), open.listing()))
                .collect()
        };
        let with_entries = closed.into_iter().map(|(closed, listing)| Closed {
            entries: listing.entries(),
            ..closed
        });
        with_entries.collect()
    }

    /// Writes a segment's footer.
    fn end_segment(&self, mut closed: Closed) -> Result<EndedSegment, Error> {
        let mut bytes = Vec::new();
        let len = closed.len;
        let horizon = &closed.horizon;
        let trailer = horizon.trailer(
            closed.number,
            closed.lane,
            closed.closed_at,
            &closed.entries,
        );
        let (fence, trailer) = footer::encode(&mut closed.entries, len, trailer, &mut bytes);
        let name = self.volume.name(closed.number);
        let context = || format!("sealing {name}");
        closed
            .file
            .write_at(len, &bytes)
            .map_err(io_error(context))?;
        let total = len + bytes.len() as u64;
        // Gives back what was reserved and not needed.
        closed.file.set_len(total).map_err(io_error(context))?;
        Ok(EndedSegment {
            closed,
            trailer,
            fence,
            name,
            index: bytes.len() as u64,
            total,
        })
    }

    /// From here on segments are among those that serve.
    fn serve(&self, ended: Vec<EndedSegment>) {
        let (surveys, moment) = self.survey_new(&ended);
        let mut sealed = Vec::with_capacity(ended.len());
        let mut durable = Vec::with_capacity(ended.len());
        for (end, survey) in ended.into_iter().zip(surveys) {
            let (closed, born) = (end.closed, end.trailer.born);
            self.files.hold(closed.number, closed.file);
            let files = self.files.clone();
            let segment = Segment::new(end.trailer, end.fence, files, end.name, end.total);
            let tally = survey.tally(closed.lane, segment.room(self.unit), born, &moment);
            self.ledger().note_segment(closed.number, segment.note());
            sealed.push((Arc::new(segment), tally));
            durable.push((closed.number, closed.entries, end.index));
        }
        // Given back when nobody waits for the lock.
        let mut taken = Vec::with_capacity(durable.len());
        let mut state = self.lock();
        state.add_sealed(sealed);
        for (number, _, index) in &durable {
            let open = state.take_open(*number);
            state.counters.segment_written += index;
            state.unpin(&open.pins);
            taken.push(open);
        }
        drop(state);
        for (_, entries, _) in &durable {
            self.note_durable(entries);
        }
    }

    /// Blocks are on disk: rings may forget by them. Others get the lock now and then.
    fn note_durable(&self, entries: &[Entry]) {
        for some in entries.chunks(ENTRIES_A_LOCK) {
            self.lock().note_durable(some);
        }
    }

    /// What is live in segments that were just sealed.
    fn survey_new(&self, ended: &[EndedSegment]) -> (Vec<Survey>, Moment) {
        let mut state = self.lock();
        let mut surveys = Vec::with_capacity(ended.len());
        for EndedSegment { closed, .. } in ended {
            let survey;
            (state, survey) = self.survey(state, closed.number, &closed.entries, |_| false);
            surveys.push(survey);
        }
        (surveys, state.retention.moment())
    }

    /// Ends the chapters of segments that are being written: what is in them counts from now on, and
    /// the journal lets go of it.
    pub(crate) fn end_chapters(
        &self,
        writing: &mut Writing,
        which: impl Fn(u64) -> bool,
    ) -> Result<(), Error> {
        self.finish_sealing()?;
        // What could not be written for want of room is written first.
        let ended = self.close_chapters(which);
        writing.chapters.extend(ended);
        if writing.chapters.is_empty() {
            return Ok(());
        }
        let _span = tracing::trace_span!("chapter").entered();
        // As before sealing.
        self.write_journal(true)?;
        self.write_catalog()?;
        let ended = |number| writing.chapters.iter().any(|one| one.number == number);
        while self.write_pieces(ended)? {}
        let mut marked = Vec::with_capacity(writing.chapters.len());
        let result: Result<(), Error> = writing.chapters.iter_mut().try_for_each(|one| {
            marked.push(self.mark(one)?);
            Ok(())
        });
        self.note_marked(&marked);
        result?;
        self.volume.sync()?;
        {
            let mut ledger = self.ledger();
            for chapter in writing.chapters.drain(..) {
                ledger.add_blocks(chapter.number, note_of(&chapter.entries));
                self.lock().unpin(&chapter.pins);
                self.note_durable(&chapter.entries);
            }
        }
        self.release_journal(true)
    }

    /// Lets a segment's name say that a chapter counts.
    fn mark(&self, chapter: &mut Ended) -> Result<(u64, u64), Error> {
        let context = || format!("syncing {}", self.volume.name(chapter.number));
        chapter.file.sync().map_err(sync_error(context))?;
        let (from, to) = (
            SlotState::Open(chapter.marked),
            SlotState::Open(chapter.end),
        );
        self.volume.turn(chapter.number, from, to)?;
        chapter.marked = chapter.end;
        Ok((chapter.number, chapter.end))
    }

    /// The names that segments have now, whether they last or not.
    fn note_marked(&self, marked: &[(u64, u64)]) {
        let mut state = self.lock();
        for &(number, end) in marked {
            open_mut(&mut state, number).marked = end;
        }
    }

    /// Ends chapters in memory. While their indexes are encoded, without the lock, the sealer adds no
    /// blocks, and whoever merges does not either.
    fn close_chapters(&self, which: impl Fn(u64) -> bool) -> Vec<Ended> {
        let _sealer = self.sealer().pause();
        let (horizon, begun) = {
            let mut state = self.lock();
            state.chapter_due = false;
            let horizon = state.horizon(self.store);
            let due = |open: &&mut OpenSegment| {
                open.closed_at.is_none() && open.has_news() && which(open.number)
            };
            let due = state.open.iter_mut().filter(due);
            let begun = due.map(|open| {
                let news = open.begin_chapter();
                (open.place(), news)
            });
            let begun: Vec<(Place, Listing)> = begun.collect();
            (horizon, begun)
        };
        let begun = begun.into_iter();
        let mut begun: Vec<(Place, Vec<Entry>)> =
            begun.map(|(place, news)| (place, news.entries())).collect();
        let indexes = begun
            .iter_mut()
            .map(|(place, entries)| OpenSegment::index(*place, entries, &horizon));
        let indexes: Vec<Vec<u8>> = indexes.collect();
        let mut state = self.lock();
        let ended = begun.into_iter().zip(indexes);
        ended
            .map(|((place, entries), index)| {
                let open = open_mut(&mut state, place.number);
                let pins = open.end_chapter(index);
                Ended {
                    number: place.number,
                    file: open.file.clone(),
                    marked: open.marked,
                    end: open.chapter_end(),
                    pins,
                    entries,
                }
            })
            .collect()
    }

    /// Counts what is live among a segment's blocks; others get the lock now and then. `elsewhere`:
    /// whether others have all that is in a block.
    pub(crate) fn survey<'a>(
        &'a self,
        mut state: Guard<'a>,
        number: u64,
        entries: &[Entry],
        elsewhere: impl Fn(&Entry) -> bool,
    ) -> (Guard<'a>, Survey) {
        let mut survey = Survey::new(number);
        for (index, some) in entries.chunks(ENTRIES_A_LOCK).enumerate() {
            if index > 0 {
                drop(state);
                state = self.lock();
            }
            for entry in some {
                survey.add(entry, &state.retention, elsewhere(entry));
            }
        }
        (state, survey)
    }

    /// Lets journal files go that nothing holds. The catalog has all that they registered; the ledger has
    /// the segments, and says that the files are not needed, before they go.
    pub(crate) fn release_journal(&self, keep: bool) -> Result<(), Error> {
        let mut journal = self.journal();
        let Some(last) = self.lock().pins.last_free() else {
            return Ok(());
        };
        journal.keep_damaged(last)?;
        self.ledger().note_released(last + 1);
        self.write_ledger()?;
        loop {
            let Some(number) = self.lock().pins.take_free(last) else {
                return Ok(());
            };
            journal.release(number, keep)?;
        }
    }

    /// Seals sources that were silent, some at a time; and ends chapters, when all are.
    fn seal_idle(&self, writing: &mut Writing) -> Result<bool, Error> {
        let tick = self.tick();
        let mut state = self.lock();
        state.tick = tick;
        if writing.idle_tick == tick || state.writable().is_err() {
            return Ok(false);
        }
        let end = (state.buffers.sources() as u32).min(writing.idle_hand + IDLE_AT_ONCE);
        state.seal_idle(writing.idle_hand..end, IDLE_TICKS);
        writing.idle_hand = end;
        if (end as usize) < state.buffers.sources() {
            return Ok(true);
        }
        (writing.idle_hand, writing.idle_tick) = (0, tick);
        let rows = std::mem::replace(&mut writing.idle_rows, state.counters.rows);
        if state.buffers.open_blocks() == 0 && rows == state.counters.rows {
            state.chapter_due = state.open.iter().any(OpenSegment::has_news);
        }
        Ok(state.chapter_due)
    }
}

fn open_mut(state: &mut State, number: u64) -> &mut OpenSegment {
    state
        .open
        .iter_mut()
        .find(|open| open.number == number)
        .expect("segments are taken off the list by whoever seals them")
}
