//! Room: what the store takes on the disk, what it may take, and what happens to writers when that
//! is nearly the same.
//!
//! The budget is a promise, so everything is counted before it is there: the journal at its bound,
//! open segments with what is reserved for them, rows in memory with what they may become, and a
//! merge's output. Writers never take the part that a merge needs.

use crate::engine::{Engine, Writing};
use crate::error::{Error, Relief, io_error};
use crate::journal::DAMAGED;
use crate::ledger;
use crate::options::{Durability, Options};
use crate::retention::class::{Class, WhenFull};
use crate::segment::open::{Horizon, OpenSegment};
use crate::segment::sealed::Segment;
use crate::segment::tally::{Share, Tally};
use crate::segment::{ALIGNMENT, Entry};
use crate::state::State;
use crate::status::ClassStatus;
use crate::trouble::Path;
use seiner_merge::{Fill, Throttle};
use seiner_platform::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Room for what is not counted one by one: the lock file, and the directory itself.
const SUNDRY: u64 = 128 << 10;
/// What a block adds to its rows at most when it is sealed, about.
const BLOCK_HEAD: u64 = 96;
/// Journal files beside those with something in them: the one that is begun, and the spares.
const JOURNAL_FILES: u64 = 4;
/// Writers are slowed from here on, and wait a second for every [`THROTTLE_BYTES`] when the store is
/// full: the papers' Ul, further up than theirs for merging begins at 0.95.
pub const THROTTLE: Throttle = Throttle { ul: 0.98, uh: 1.0 };
const THROTTLE_BYTES: f64 = (1 << 20) as f64;
/// Merging begins at this part of what writers may take at the latest: before they are slowed.
const LATEST_UM: f64 = 0.975;
/// And no earlier than at this fill.
const LEAST_UM: f64 = 0.1;
/// Waiting for less is not worth a sleep.
const LEAST_DELAY: Duration = Duration::from_millis(2);
/// How often the file system is asked how much is free, and how often everything is tried to make
/// room before writers are refused, ns.
const ASK_EVERY: u64 = 1_000_000_000;
/// As this part of the budget was written, as much may have died.
const WORTH_COUNTING: u64 = 128;
/// Rounds of merging and letting go before writers are refused.
const ROUNDS: usize = 256;

/// The bytes that the journal takes at most.
pub fn journal_room(options: &Options) -> u64 {
    match options.durability {
        Durability::Memory => 0,
        _ => options.journal_bytes + JOURNAL_FILES * options.journal_file_bytes(),
    }
}

/// The journal that a lane asks for: a chapter of each is ended four times while the journal fills, and
/// its index and its last page fill half of [`CHAPTER`] on average. So they take a thirtieth of what is
/// written.
const JOURNAL_A_LANE: u64 = 512 << 10;
/// What the end of a chapter takes at most, about.
const CHAPTER: u64 = 8192;
/// As many lanes are worth it however small the journal is.
const FEWEST_LANES: u32 = 4;

/// The lanes that are written: as many as are set, but no more than the journal bears.
pub fn lanes(options: &Options) -> u32 {
    let borne = match options.durability {
        Durability::Memory => u64::MAX,
        _ => options.journal_bytes / JOURNAL_A_LANE,
    };
    let borne = borne.clamp(u64::from(FEWEST_LANES), u64::from(u32::MAX));
    options.lanes.min(borne as u32)
}

/// The bytes that writers leave to merging: the output of one, and the ends of chapters.
fn merge_room(options: &Options) -> u64 {
    2 * options.segment_bytes + u64::from(lanes(options)) * CHAPTER
}

/// The bytes that writers leave to rounds that make coarser levels: what these let go is more.
pub fn ageing_room(options: &Options) -> u64 {
    let levels = |class: &Class| !class.coarser.is_empty();
    match options.classes.named().iter().any(levels) {
        true => options.segment_bytes.max(options.disk.unwrap_or(0) / 64),
        false => 0,
    }
}

/// Files besides segments of which the last unit may be next to empty: the journal's, the catalogs, the clock,
/// the rules.
const OTHER_FILES: u64 = 26;

/// What those leave empty where the disk gives out more than pages.
fn unit_room(unit: u64) -> u64 {
    OTHER_FILES * unit.saturating_sub(ALIGNMENT as u64)
}

/// The size below which smaller segments waste more room than they save: open ones hold half of
/// theirs back in every lane, and each of the C/s that there are has an index and ends that fill no
/// unit of the disk. The sum is least at √(2wC/lanes), and a quarter more at half of that.
pub fn thrifty_segment(options: &Options, unit: u64) -> u64 {
    let waste = 3.0 / 2.0 * unit as f64 * options.disk.unwrap_or(0) as f64;
    (2.0 * waste / f64::from(lanes(options))).sqrt() as u64 / 2
}

/// The least budget with which a store can work: beside journal and merge, some segments a lane
/// would be too many for, and as many again to be dead.
pub fn least_budget(options: &Options, unit: u64) -> u64 {
    let levels = ageing_room(options);
    let others = SUNDRY + unit_room(unit) + journal_room(options) + ledger::LEAST_ROOM;
    others + merge_room(options) + levels + 8 * options.segment_bytes
}

/// What a file of so many bytes takes: disks give out whole units.
pub(crate) fn on_disk(bytes: u64, unit: u64) -> u64 {
    bytes.next_multiple_of(unit)
}

impl State {
    /// How full the store is.
    pub fn fill(&self) -> Fill {
        let moment = self.retention.moment();
        let tallies = self.tallies.values();
        self.fill_of(tallies.map(|tally| tally.stat_at(&moment).live).sum())
    }

    /// The same, when so many bytes are live in sealed segments.
    pub fn fill_of(&self, sealed: u64) -> Fill {
        let (used, budget, reserved) = (self.used(), self.budget(), self.reserved());
        let open = self.open.iter().map(OpenSegment::len);
        // In a small store, or one with much in memory, writers would stop before merging began.
        let writers = budget.saturating_sub(reserved + 2 * self.options.segment_bytes);
        let latest = (LATEST_UM * writers as f64 / budget as f64).max(LEAST_UM);
        Fill {
            budget,
            used,
            live: sealed + open.sum::<u64>(),
            reserved,
            um: self.options.merge_from.min(latest),
        }
    }

    /// What the store takes, everything counted before it is there.
    pub fn used(&self) -> u64 {
        SUNDRY + unit_room(self.unit) + self.journal_charge() + self.file_bytes()
    }

    /// Bytes of the files that are counted as they are: catalogs, and segments with the room that is
    /// reserved for those being written.
    fn file_bytes(&self) -> u64 {
        let open = self.open.iter();
        let open = open.map(|open| on_disk(open.reserved.max(open.len()), self.unit));
        self.catalog_bytes
            + self.ledger_bytes
            + self.sealed_bytes
            + self.graveyard_bytes
            + self.aside_bytes
            + open.sum::<u64>()
    }

    /// The part of [`State::used`] that lies in files, with the room that they were given ahead. The rest is allotted to the journal, which is
    /// counted at its bound, and to small files.
    pub fn used_by_files(&self) -> u64 {
        // A journal file is given its room as it is begun.
        let given = self.pins.files() as u64 * self.options.journal_file_bytes();
        self.file_bytes() + given.max(self.pins.bytes()).min(self.journal_charge())
    }

    /// Bytes of live blocks by class: of sealed segments as found and foretold, and in segments that are
    /// being written.
    pub fn live_on_disk(&self) -> Vec<u64> {
        let mut live = vec![0; self.retention.classes().len()];
        let moment = self.retention.moment();
        for tally in self.tallies.values() {
            // The foretold deaths are not known by class.
            let (mut left, mut found) = (tally.stat_at(&moment).live, tally.stat.live);
            for share in &tally.shares {
                let part = u128::from(left) * u128::from(share.live) / u128::from(found.max(1));
                live[share.class as usize] += part as u64;
                (left, found) = (left - part as u64, found.saturating_sub(share.live));
            }
        }
        let open = self.open.iter().flat_map(OpenSegment::blocks);
        for entry in open.filter(|entry| !self.retention.may_drop(entry)) {
            live[self.retention.class_of(entry.source) as usize] += u64::from(entry.len);
        }
        live
    }

    /// What the journal may take before writers look again: a record may be longer than a file.
    fn journal_charge(&self) -> u64 {
        let longer = self.pins.bytes().saturating_sub(self.options.journal_bytes);
        match journal_room(&self.options) {
            0 => 0,
            room => room + longer,
        }
    }

    /// What writers may take of the room, as [`Fill::room_for_writers`], without looking at what is live.
    pub fn room_for_writers(&self) -> u64 {
        let taken = self.used() + self.reserved();
        self.budget().saturating_sub(taken)
    }

    /// What writers leave alone.
    fn reserved(&self) -> u64 {
        merge_room(&self.options) + ageing_room(&self.options) + self.pending()
    }

    /// What the store may take: its setting, or less where the file system has less.
    pub fn budget(&self) -> u64 {
        let setting = self.options.disk.unwrap_or(u64::MAX);
        setting.min(self.room_on_disk)
    }

    /// Whether others have filled the disk so far that the budget cannot be used, or, where there is
    /// none, that no store could work in what is left: that is no reason to let go of anything.
    pub fn is_crowded(&self) -> bool {
        let budget = self.options.disk;
        self.room_on_disk < budget.unwrap_or_else(|| least_budget(&self.options, self.unit))
    }

    /// The class of the lowest priority among those that have something that may be shed.
    pub fn first_to_shed(&self) -> Option<u8> {
        let classes = self.retention.classes();
        let sheds = |class: &Class| class.when_full == WhenFull::Shed;
        // Mostly none is, and nothing need be counted.
        if !classes.iter().any(sheds) {
            return None;
        }
        let rules = |class: u8| &classes[class as usize];
        self.live_by_class()
            .into_iter()
            .filter(|&(class, live)| live > 0 && sheds(rules(class)))
            .map(|(class, _)| class)
            .min_by_key(|&class| (rules(class).priority, class))
    }

    /// Whether there is something to shed, and a reason.
    pub fn may_shed(&self) -> bool {
        !self.is_crowded() && self.first_to_shed().is_some()
    }

    /// What gives room again where there is none. What a ring or a quota lets go of, only new rows would.
    fn relief(&self) -> Relief {
        if self.is_crowded() {
            return Relief::Others;
        }
        let moment = self.retention.moment();
        let classes = self.retention.classes();
        let by_age = |share: &Share| {
            let keep = classes[share.class as usize].keep;
            keep.age.is_some() && keep.rows.is_none() && keep.bytes.is_none()
        };
        let segments = self.tallies.values();
        let ageing = segments.filter(|tally| tally.shares.iter().all(by_age));
        let waits = ageing.filter_map(|tally| tally.stat_at(&moment).dies.wait(moment.now));
        match waits.min() {
            Some(wait) => Relief::After(Duration::from_nanos(wait.unsigned_abs())),
            None => Relief::None,
        }
    }

    /// The dead share from which a segment is worth a merge.
    pub fn least_dead_share(&self) -> f64 {
        seiner_merge::least_dead_share(self.may_shed())
    }

    /// Whether it is time to count anew what is live in some segment.
    pub fn is_survey_due(&self) -> bool {
        let moment = self.retention.moment();
        self.tallies.values().any(|tally| tally.is_due(&moment))
    }

    /// What rows in memory may take once they are sealed.
    fn pending(&self) -> u64 {
        self.buffers.row_bytes() + self.buffers.open_blocks() * BLOCK_HEAD
    }

    /// Live bytes of sealed segments by class.
    pub fn live_by_class(&self) -> Vec<(u8, u64)> {
        let mut live = BTreeMap::new();
        for share in self.tallies.values().flat_map(|tally| &tally.shares) {
            *live.entry(share.class).or_default() += share.live;
        }
        live.into_iter().collect()
    }

    /// The classes and what they have.
    pub fn class_status(&self) -> Vec<ClassStatus> {
        let live = self.live_on_disk();
        let sources = self.retention.sources_by_class();
        let classes = self.retention.classes().iter().enumerate();
        classes
            .map(|(number, class)| ClassStatus {
                class: class.clone(),
                step_ns: self.retention.rules().level(number as u8).map(|of| of.step),
                sources: sources[number],
                live: live[number],
                hidden_before: self.retention.hidden_before(number as u8),
            })
            .collect()
    }

    /// What an index that is written now says of the store.
    pub fn horizon(&self, store: u64) -> Horizon {
        let sources = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked")
            .len();
        Horizon {
            store,
            sequence: self.sequence,
            sources: sources as u32,
            layouts: self.layouts.len() as u32,
            now: self.retention.now(),
        }
    }

    /// Segments serve.
    pub fn add_sealed(&mut self, segments: Vec<(Arc<Segment>, Tally)>) {
        for (segment, tally) in segments {
            self.fence_bytes += segment.memory();
            self.sealed_bytes += segment.room(self.unit);
            self.put_tally(tally);
            // Readers keep the list that they began with.
            Arc::make_mut(&mut self.sealed).insert(segment.trailer.number, segment);
        }
    }

    /// A segment serves no more; its room comes back with its last reader.
    pub fn remove_sealed(&mut self, segment: &Segment) {
        let number = segment.trailer.number;
        Arc::make_mut(&mut self.sealed).remove(&number);
        let tally = self.tallies.remove(&number);
        self.tally_bytes -= tally.map_or(0, |tally| tally.memory());
        self.fence_bytes -= segment.memory();
        let room = segment.room(self.unit);
        self.sealed_bytes -= room;
        self.graveyard_bytes += room;
    }

    /// Forgets deletes that no block is older than.
    pub fn forget_deletes(&mut self) {
        if !self.retention.has_deletes() {
            return;
        }
        let lowest = self.tallies.values().map(|tally| tally.first_block).min();
        let open = self.open.iter().filter_map(OpenSegment::first_block);
        if let Some(lowest) = lowest.into_iter().chain(open).min() {
            self.retention.forget_before(lowest);
        }
    }

    /// Blocks are on disk: the journal may let go of them, and rings may forget by them.
    pub fn note_durable(&mut self, pins: &[(u32, u64)], entries: &[Entry]) {
        for &(file, blocks) in pins {
            self.pins.unpin(file, blocks);
        }
        for entry in entries {
            self.retention.found(entry);
        }
    }
}

impl Engine {
    /// Waits as the throttle says, and makes room where there is none.
    ///
    /// # Errors
    /// [`Error::Full`] when neither merging nor what the classes allow to shed gives any.
    pub(crate) fn make_room(&self) -> Result<(), Error> {
        let (room, delay) = self.room();
        if room {
            if delay >= LEAST_DELAY {
                self.lock().owed = 0.0;
                self.clock.sleep(delay);
                self.lock().counters.waited_ns += delay.as_nanos() as u64;
            }
            return Ok(());
        }
        let began = self.clock.monotonic();
        let mut writing = self.writing();
        let result = self.force_room(&mut writing);
        self.lock().counters.waited_ns += self.clock.monotonic() - began;
        if let Err(error) = &result {
            self.poison(error);
            self.note_trouble(Path::Segments, &result);
        }
        result
    }

    /// Whether writers have room, and how long they should wait.
    fn room(&self) -> (bool, Duration) {
        let mut state = self.lock();
        let limit = state.budget().saturating_sub(state.reserved()).max(1);
        let used = state.used();
        let written = state.counters.block_bytes + state.staging.bytes() as u64;
        let bytes = written.saturating_sub(std::mem::replace(&mut state.paid, written));
        let delay = THROTTLE.delay_s(used as f64 / limit as f64);
        state.owed = match delay > 0.0 {
            true => state.owed + delay * bytes as f64 / THROTTLE_BYTES,
            false => 0.0,
        };
        let room = used < limit;
        if room {
            state.troubles.note_room();
        }
        (room, Duration::from_secs_f64(state.owed.min(1.0)))
    }

    fn force_room(&self, writing: &mut Writing) -> Result<(), Error> {
        // Somebody may have made room meanwhile.
        writing.asked = None;
        self.ask_for_room(writing)?;
        for _ in 0..ROUNDS {
            while !self.room().0 && self.step_with(writing)? {}
            if self.room().0 {
                return Ok(());
            }
            // What is written twice goes first.
            self.end_chapters(writing, |_| true)?;
            self.count_anew(writing)?;
            let more = self.tend(writing)?;
            if self.room().0 {
                return Ok(());
            }
            if more {
                continue;
            }
            if self.lock().is_crowded() || !self.shed()? {
                break;
            }
        }
        let state = self.lock();
        let fill = state.fill();
        Err(Error::Full {
            used: fill.used,
            budget: fill.budget,
            relief: state.relief(),
        })
    }

    /// Counts everything anew before something is refused, unless next to nothing can have died since.
    fn count_anew(&self, writing: &mut Writing) -> Result<(), Error> {
        let now = self.clock.monotonic();
        let (written, budget) = {
            let state = self.lock();
            (state.counters.block_bytes, state.budget())
        };
        let late = writing.tried.is_none_or(|tried| now - tried >= ASK_EVERY);
        if late || written - writing.surveyed >= budget / WORTH_COUNTING {
            (writing.tried, writing.surveyed) = (Some(now), written);
            self.survey_all(writing)?;
        }
        Ok(())
    }

    /// Counts what files take that were set aside: they are in nobody's way, but in the budget.
    pub(crate) fn count_set_aside(&self, disk: &dyn Disk) -> Result<(), Error> {
        let listing = || "listing what was set aside".to_string();
        let mut aside = 0;
        for name in disk.list().map_err(io_error(listing))? {
            if name.ends_with(DAMAGED) {
                let context = || format!("measuring {name}");
                let file = disk.open(&name).map_err(io_error(context))?;
                aside += on_disk(file.len().map_err(io_error(context))?, disk.unit());
            }
        }
        self.lock().aside_bytes = aside;
        Ok(())
    }

    /// Asks the file system how much is free, now and then.
    pub(crate) fn ask_for_room(&self, writing: &mut Writing) -> Result<(), Error> {
        let now = self.clock.monotonic();
        if writing.asked.is_some_and(|asked| now - asked < ASK_EVERY) {
            return Ok(());
        }
        writing.asked = Some(now);
        let free = writing
            .disk
            .free()
            .map_err(io_error(|| "asking how much room is free".to_string()))?;
        let mut state = self.lock();
        // What is charged and not taken yet is in what is free.
        let taken = state.used() - state.journal_charge() + state.pins.bytes();
        state.room_on_disk = match free {
            Some(free) => (taken + free).saturating_sub(state.options.leave_free),
            None => u64::MAX,
        };
        Ok(())
    }
}
