//! The engine: one store, its doors, and the order in which things happen.
//!
//! Locks, always taken in this order: `writing` (segments), `sealer`, `journal` or `timekeeper`, `catalog` or
//! `ledger`, `state`, the dictionary.
//! Rows are accepted under `state` alone, which nobody holds while writing to the disk.

use crate::buffer::Number;
use crate::buffer::run::{Floats, LINES_AHEAD, ROWS_AHEAD};
use crate::catalog::{Catalog, Frame};
use crate::dictionary::names::{NameHash, hash_name};
use crate::error::{Error, Reason, Receipt};
use crate::holds::Holds;
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::log::TRIMS;
use crate::merging::memory::{Decisions, Record, Squeezes};
use crate::options::{Durability, Options};
use crate::pressure::Backlog;
use crate::recover;
use crate::rules;
use crate::scheduler::{Job, Scheduler, Work};
use crate::sealer::Sealer;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::segment::list::Listing;
use crate::segment::open::OpenSegment;
use crate::shared::{Guard, Shared};
use crate::state::State;
use crate::status::{
    ClassStatus, LogStatus, Loss, Recovery, SegmentInfo, Status, Unsynced, counted, log_status,
};
use crate::timekeeper::Timekeeper;
use crate::trouble::Path as Way;
use crate::turns::Turns;
use crate::volume::{SlotState, Volume};
use crate::writing::{IDLE_TICKS, Writing};
use seiner_model::{
    Batch, Cell, Columns, FieldType, Notation, Selector, SourceId, SourceKey, Value,
};
use seiner_platform::memory::trim_allocator;
use seiner_platform::{Clock, Directory, Disk, SystemClock};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Rows a lock is held for at most, so that readers and background threads get their turn.
const ROWS_A_LOCK: usize = 1024;
/// Entries of blocks that are looked at under one lock.
pub(crate) const ENTRIES_A_LOCK: usize = 128;
/// Why a lock is not poisoned.
const UNBROKEN: &str = "nobody panics while writing segments";
/// No source: the row was refused.
const REFUSED: u32 = u32::MAX;

/// A store, open for reading and writing.
///
/// All methods block; none is async. Share it by [`Arc`].
pub struct Engine {
    state: Shared,
    sealer: Sealer,
    journal: Mutex<JournalWriter>,
    catalog: Mutex<CatalogWriter>,
    ledger: Mutex<Ledger>,
    /// The store's identity.
    pub(crate) store: u64,
    /// Taken step by step in the background, where who waits for it goes first.
    writing: Turns<Writing>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) volume: Arc<dyn Volume>,
    durability: Durability,
    names_seed: u64,
    idle_tick_ns: u64,
    pub(crate) files: Arc<Files>,
    /// R.
    pub(crate) segment_bytes: u64,
    /// What files take on the disk is a multiple of so many bytes.
    pub(crate) unit: u64,
    pub(crate) decisions: Mutex<Decisions>,
    durable: Durable,
    recovery: Recovery,
    scheduler: Scheduler,
    timekeeper: Mutex<Timekeeper>,
    rules_changed: Vec<String>,
}

/// What is known to be on disk, for those who ask without waiting for the disk.
#[derive(Default)]
struct Durable {
    /// Everything up to this position.
    position: AtomicU64,
    /// So many samples.
    samples: AtomicU64,
    /// Since when written bytes wait to be synced, in the clock's monotone ns; 0: none do.
    since: AtomicU64,
    /// How many bytes wait.
    bytes: AtomicU64,
    /// Syncs made.
    syncs: AtomicU64,
}

/// The catalog, and the frame that is written to it next: it stays until it is written.
struct CatalogWriter {
    catalog: Catalog,
    frame: Frame,
}

impl Engine {
    /// Opens the store in a directory, which is created where it is missing and locked for this
    /// process, with threads that commit the journal and write segments. Close it before it is
    /// dropped: a dropped store keeps what was committed, and lets the directory go only when the
    /// work at hand ends.
    ///
    /// # Errors
    /// When another process has the directory, when settings contradict each other, when the disk
    /// fails or the catalog is damaged.
    pub fn open_directory(path: &Path, options: Options) -> Result<Arc<Engine>, Error> {
        let context = || format!("opening {}", path.display());
        let disk = Directory::open(path).map_err(crate::error::io_error(context))?;
        Engine::start(Arc::new(disk), options)
    }

    /// Opens the store on a disk, with threads as [`Engine::open_directory`] does.
    ///
    /// # Errors
    /// As there.
    pub fn start(disk: Arc<dyn Disk>, options: Options) -> Result<Arc<Engine>, Error> {
        let clock = Arc::new(SystemClock::new());
        let engine = Arc::new(Engine::open(disk, clock, options)?);
        trim_allocator();
        engine.scheduler.start(&engine);
        Ok(engine)
    }

    /// Opens a store without a thread of its own: the caller calls [`Engine::commit`] and
    /// [`Engine::step`].
    ///
    /// # Errors
    /// As [`Engine::open_directory`]; and [`Error::Retention`] when the rules among the options let data go
    /// sooner than those that are stored with the data, unless [`Options::apply_retention`] confirms them.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Engine, Error> {
        let settled = rules::settle(&disk, &clock, &options)?;
        let mut engine = Engine::recovered(disk.clone(), clock, settled.options.clone())?;
        if let Some(what) = settled.damage {
            rules::set_aside(&*disk)?;
            let what =
                format!("{what}; the classes that the catalog knows hold, check the other rules");
            let aside = (rules::NAME.to_string(), what);
            engine.recovery.set_aside.push(aside);
        }
        // Before the catalog: a crash between the two leaves rules that the next start puts in force.
        if settled.is_new {
            rules::store(&*disk, &settled.options)?;
            engine.rules_changed = settled.changes;
        }
        engine.begin()?;
        Ok(engine)
    }

    /// Opens a store under given rules, whatever is stored.
    pub(crate) fn open_under(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Engine, Error> {
        let engine = Engine::recovered(disk, clock, options)?;
        engine.begin()?;
        Ok(engine)
    }

    fn recovered(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        mut options: Options,
    ) -> Result<Engine, Error> {
        let unit = disk.unit();
        // A segment that ends with a unit leaves none of it empty, and on an array is whole stripes.
        options.segment_bytes = options.segment_bytes.next_multiple_of(unit);
        options.check_on(unit)?;
        let _span = tracing::trace_span!("start").entered();
        let durability = options.durability;
        let idle_tick_ns = (options.idle_seal.as_nanos() as u64 / u64::from(IDLE_TICKS)).max(1);
        let (policy, segment_bytes) = (options.policy.policy(), options.segment_bytes);
        let opened = recover::open(disk.clone(), &*clock, options)?;
        let engine = Engine {
            durable: Durable {
                position: AtomicU64::new(opened.state.position),
                ..Durable::default()
            },
            names_seed: opened.state.names.seed(),
            volume: opened.state.volume.clone(),
            state: Shared::new(opened.state),
            sealer: Sealer::default(),
            journal: Mutex::new(opened.journal),
            store: opened.catalog.store,
            catalog: Mutex::new(CatalogWriter {
                catalog: opened.catalog,
                frame: Frame::default(),
            }),
            ledger: Mutex::new(opened.ledger),
            writing: Turns::new(Writing {
                disk,
                policy,
                chapters: Vec::new(),
                idle_hand: 0,
                idle_tick: 0,
                idle_rows: 0,
                eaten: Vec::new(),
                half: HashMap::new(),
                squeezes: Squeezes::default(),
                unfinished: None,
                interrupted: opened.merging.clone(),
                merging: opened.merging,
                copied: opened.copied,
                overwritten: HashMap::new(),
                unreadable: HashSet::new(),
                tidy: HashSet::new(),
                graveyard: Vec::new(),
                asked: None,
                tried: None,
                round: None,
                surveyed: 0,
            }),
            files: opened.files,
            segment_bytes,
            unit,
            decisions: Mutex::default(),
            clock,
            durability,
            idle_tick_ns,
            recovery: opened.recovery,
            scheduler: Scheduler::default(),
            timekeeper: Mutex::new(opened.timekeeper),
            rules_changed: Vec::new(),
        };
        Ok(engine)
    }

    /// Writes what a start has to write.
    fn begin(&self) -> Result<(), Error> {
        // Before the catalog has rules with an age: afterwards, a missing time is damage.
        if self.lock().retention.has_news() {
            self.tell_time(false)?;
        }
        // A loss is on record before the file that shows it is removed.
        self.put_on_record(!self.recovery.losses.is_empty())?;
        if self.recovery.needs_settling {
            self.settle()?;
        }
        self.count_set_aside(&*self.writing().disk)?;
        // What new rules hide must stay hidden.
        if self.lock().retention.has_news() {
            let _span = tracing::trace_span!("rules").entered();
            self.write_catalog()?;
        }
        Ok(())
    }

    /// Writes what recovery found: names that only the journal has, and the ledger. Unless there are
    /// losses, it can wait for room.
    fn put_on_record(&self, losses: bool) -> Result<(), Error> {
        let new = self.lock().has_new_names();
        let names = match new {
            true => self.write_catalog(),
            false => Ok(()),
        };
        match names.and_then(|()| self.write_ledger()) {
            Err(error) if error.is_want_of_room() && !losses => Ok(()),
            result => result,
        }
    }

    /// Differences between the rules that this start brought and those that were stored, in words.
    pub fn rules_changed(&self) -> &[String] {
        &self.rules_changed
    }

    /// The settings that hold: the rules are those that are stored with the data.
    pub fn options(&self) -> Options {
        self.lock().options.clone()
    }

    /// Returns how long the store's lock was held since the store was opened.
    pub fn lock_holds(&self) -> Holds {
        self.state.holds()
    }

    /// What start-up found.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// When an acknowledged row survives what.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.state.lock()
    }

    /// The state, when a segment can be begun.
    #[track_caller]
    pub(crate) fn lock_with_slot(&self) -> Result<Guard<'_>, Error> {
        self.state.lock_with_slot(&*self.volume)
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Makes blocks of all buffers that were taken so far.
    pub(crate) fn finish_sealing(&self) -> Result<(), Error> {
        self.sealer.run(&self.state, &*self.volume)
    }

    pub(crate) fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().expect(UNBROKEN)
    }

    /// The same for the background, where who else waits goes first.
    pub(crate) fn writing_after_others(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock_after_others().expect(UNBROKEN)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        self.journal
            .lock()
            .expect("nobody panics while writing the journal")
    }

    // ---- what is on record

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .expect("nobody panics while writing the ledger")
    }

    /// Makes the ledger durable.
    pub(crate) fn write_ledger(&self) -> Result<(), Error> {
        let mut ledger = self.ledger();
        let result = ledger.write();
        self.lock().space.note_ledger(ledger.room(self.unit));
        result
    }

    /// Makes durable what the catalog does not have yet: names, layouts, what is dead.
    pub(crate) fn write_catalog(&self) -> Result<(), Error> {
        let mut writer = self
            .catalog
            .lock()
            .expect("nobody panics while writing the catalog");
        let CatalogWriter { catalog, frame } = &mut *writer;
        loop {
            if frame.is_empty() {
                // Others get the lock between two parts.
                while !self.lock().extend_catalog_frame(frame) {}
                if frame.is_empty() {
                    return Ok(());
                }
            }
            // It stays until it is written: there may be no room now.
            catalog.add(frame)?;
            *frame = Frame::default();
            let mut state = self.lock();
            state.space.note_catalog(catalog.room(self.unit));
            state.frame_waits = false;
        }
    }

    /// Data that was lost, and whose loss nobody acknowledged.
    pub fn losses(&self) -> Vec<Loss> {
        self.ledger().contents().unacknowledged().to_vec()
    }

    /// Acknowledges all losses: they are counted still, and no longer shown. Durable on return; returns
    /// their number.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn acknowledge_losses(&self) -> Result<u64, Error> {
        self.lock().writable()?;
        let losses = self.ledger().acknowledge();
        let result = self.write_ledger();
        if let Err(error) = &result {
            self.poison(error);
        }
        result.map(|()| losses)
    }

    /// Notes a loss that was found while reading; the next step makes it durable.
    pub(crate) fn note_loss(&self, mut loss: Loss) {
        loss.found_at = self.clock.now();
        let new = self.ledger().note_loss(&loss);
        if new {
            tracing::error!("{loss}");
            self.lock().loss_waits = true;
        }
    }

    /// Notes that a block cannot be read.
    pub(crate) fn note_block(&self, error: &Error, entry: &Entry) {
        if let Error::Damage { file, offset, what } = error {
            self.note_loss(Loss {
                file: file.clone(),
                what: format!("offset {offset}: {what}"),
                rows: Some(u64::from(entry.rows)),
                at_most: false,
                times: Some((entry.first, entry.last)),
                found_at: 0,
            });
        }
    }

    // ---- appending

    /// Appends rows in the order in which they stand. Rows that cannot be accepted are refused one
    /// by one and told in the receipt; the others are accepted.
    ///
    /// # Errors
    /// When the store accepts nothing any more; rows of the batch may have been accepted before.
    pub fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        let mut receipt = Receipt::default();
        let mut scratch = Scratch::default();
        for (turn, rows) in batch.rows.chunks(ROWS_A_LOCK).enumerate() {
            self.make_way()?;
            scratch.hashes.clear();
            scratch.hashes.extend(
                rows.iter()
                    .map(|row| hash_name(self.names_seed, notation.id(), row.name)),
            );
            let mut state = self.lock();
            self.prepare(&mut state)?;
            scratch.resolve(&mut state, notation, rows, turn * ROWS_A_LOCK, &mut receipt);
            let mut values = Vec::new();
            for (index, row) in rows.iter().enumerate() {
                scratch.fetch(&state, index);
                let source = scratch.sources[index];
                if source == REFUSED {
                    continue;
                }
                let cells = batch.cells_of(row);
                if let Err(reason) =
                    state.append(source, row.time, cells, &mut values, &mut receipt)
                {
                    receipt.refuse(turn * ROWS_A_LOCK + index, reason);
                }
            }
            self.note(&mut state, &mut receipt);
        }
        receipt.rejected.sort_by_key(|(row, _)| *row);
        Ok(receipt)
    }

    /// The number of a source, which is registered where it is new. The inner error is a refusal.
    pub fn register(&self, key: &SourceKey) -> Result<Result<SourceId, Reason>, Error> {
        self.make_way()?;
        let mut state = self.lock();
        self.prepare(&mut state)?;
        let dictionary = state.dictionary.clone();
        let mut dictionary = dictionary
            .write()
            .expect("no panic while the dictionary is locked");
        Ok(state.register(&mut dictionary, key).map(SourceId))
    }

    /// Appends rows of one source: a column a field, as many as `fields`.
    pub fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        let mut receipt = Receipt::default();
        if columns.fields.len() != fields.len() {
            return Err(Error::Query(format!(
                "{} fields are named for {} columns",
                fields.len(),
                columns.fields.len()
            )));
        }
        // Where each column's next value lies.
        let mut next = vec![0; fields.len()];
        let mut cells = Vec::with_capacity(fields.len());
        let rows = columns.times.len();
        for start in (0..rows).step_by(ROWS_A_LOCK) {
            self.make_way()?;
            let mut state = self.lock();
            self.prepare(&mut state)?;
            if source.0 as usize >= state.buffers.sources() {
                return Err(Error::UnknownSource(source.0));
            }
            let mut values = Vec::new();
            for row in start..rows.min(start + ROWS_A_LOCK) {
                cells.clear();
                for ((field, column), next) in fields.iter().zip(&columns.fields).zip(&mut next) {
                    if column
                        .present
                        .as_ref()
                        .is_none_or(|present| present.get(row))
                    {
                        cells.push(Cell {
                            field: field.as_bytes(),
                            value: column.values.get(*next),
                        });
                        *next += 1;
                    }
                }
                if let Err(reason) = state.append(
                    source.0,
                    columns.times[row],
                    &cells,
                    &mut values,
                    &mut receipt,
                ) {
                    receipt.refuse(row, reason);
                }
            }
            self.note(&mut state, &mut receipt);
        }
        Ok(receipt)
    }

    /// Appends one value each to many sources: equally many sources, times and values.
    pub fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        let mut receipt = Receipt::default();
        if sources.len() != times.len() || sources.len() != values.len() {
            return Err(Error::Query(format!(
                "{} sources, {} times and {} values are not equally many",
                sources.len(),
                times.len(),
                values.len()
            )));
        }
        for start in (0..sources.len()).step_by(ROWS_A_LOCK) {
            let range = start..sources.len().min(start + ROWS_A_LOCK);
            let turn = Floats {
                sources: &sources[range.clone()],
                times: &times[range.clone()],
                values: &values[range],
            };
            self.make_way()?;
            let mut state = self.lock();
            self.prepare(&mut state)?;
            let known = state.buffers.sources() as u32;
            let highest = turn.sources.iter().fold(0, |all, source| all.max(source.0));
            if highest >= known {
                return Err(Error::UnknownSource(highest));
            }
            // Where some may be too old, they are looked at one by one.
            let late_before = state.retention.late_before();
            let in_time = turn.times.iter().all(|&time| time >= late_before);
            let mut arranged = Vec::new();
            let mut only = u32::MAX;
            let mut index = 0;
            loop {
                let usual = state.put_floats(only, turn.from(index));
                receipt.rows += usual;
                receipt.samples += usual;
                index += usual;
                let Some(&SourceId(source)) = turn.sources.get(index) else {
                    break;
                };
                let (time, value) = (turn.times[index], turn.values[index]);
                index += 1;
                // A layout that had the field as its only one has it still.
                if state.buffers.line(source).layout == only {
                    state.put_number(source, time, Number::F64(value));
                    receipt.rows += 1;
                    receipt.samples += 1;
                    continue;
                }
                let cell = [Cell {
                    field: field.as_bytes(),
                    value: Value::F64(value),
                }];
                match state.append(source, time, &cell, &mut arranged, &mut receipt) {
                    Ok(()) if in_time => {
                        only = state
                            .only_layout(source, field, FieldType::F64)
                            .unwrap_or(only)
                    }
                    Ok(()) => {}
                    Err(reason) => receipt.refuse(start + index - 1, reason),
                }
            }
            self.note(&mut state, &mut receipt);
        }
        Ok(receipt)
    }

    /// What precedes the rows of a lock.
    pub(crate) fn prepare(&self, state: &mut State) -> Result<(), Error> {
        state.writable()?;
        state.tick = self.tick();
        state.advance(&*self.clock);
        state.relieve_memory();
        state.relieve_journal();
        Ok(())
    }

    /// What follows them.
    fn note(&self, state: &mut State, receipt: &mut Receipt) {
        let (rows, samples, refused) = receipt.news();
        let counters = &mut state.counters;
        counters.rows += rows;
        counters.samples += samples;
        counters.rejected += refused;
        receipt.position = state.position;
        if state.staging.since == 0 && !state.staging.is_empty() {
            state.staging.since = self.clock.monotonic().max(1);
        }
        state.staging.samples += samples;
    }

    /// Waits while more work is unfinished than may be, so that nothing grows without bound. The
    /// background threads do the work; they are nudged before writers have to wait for them.
    pub(crate) fn make_way(&self) -> Result<(), Error> {
        let (staged, taken, behind) = {
            let state = self.state.lock_after_others();
            (state.staged(), state.taken(), state.is_behind())
        };
        self.finish(Job::Journal, staged)?;
        self.finish(Job::Seal, taken)?;
        if behind {
            self.finish(Job::Segments, Backlog::Full)?;
        }
        self.make_room()
    }

    /// Waits for a job if its backlog is full.
    fn finish(&self, job: Job, backlog: Backlog) -> Result<(), Error> {
        match backlog {
            Backlog::Small => Ok(()),
            Backlog::Large => {
                self.scheduler.nudge(job);
                Ok(())
            }
            Backlog::Full => self.done(job),
        }
    }

    /// Returns when a job is done: by its thread, or here if the store has no threads.
    pub(crate) fn done(&self, job: Job) -> Result<(), Error> {
        self.scheduler.ask(job).unwrap_or_else(|| self.run(job))
    }

    /// Takes steps until writers may go on: merges, which never end in a store that is nearly full, can
    /// wait.
    fn catch_up(&self) -> Result<(), Error> {
        let mut writing = self.writing();
        while self.lock().is_behind() && self.step_or_poison(&mut writing)? {}
        Ok(())
    }

    pub(crate) fn tick(&self) -> u16 {
        (self.clock.monotonic() / self.idle_tick_ns) as u16
    }

    // ---- the time

    /// Lets the disk tell how late it is, if age is to hide what it does not hide yet; `early`: soon.
    ///
    /// # Errors
    /// When the disk fails. Then age hides nothing more.
    pub(crate) fn tell_time(&self, early: bool) -> Result<(), Error> {
        let due = || {
            let mut state = self.lock();
            state.retention.judge(&*self.clock);
            let time = state.retention.promise_due(early);
            time.filter(|_| state.writable().is_ok())
        };
        if due().is_none() {
            return Ok(());
        }
        let mut timekeeper = self.timekeeper();
        // Somebody may have told it meanwhile.
        let Some(time) = due() else {
            return Ok(());
        };
        let result = timekeeper.tell(time);
        match &result {
            Ok(()) => self.lock().retention.vouch(time),
            Err(error) => self.poison(error),
        }
        result
    }

    /// Before an answer: what is too old by now is to be hidden. If the disk cannot tell how late it is, it
    /// shows, and the store says what it suffers from.
    pub(crate) fn look_at_the_clock(&self) {
        let _ = self.tell_time(false);
    }

    /// Confirms the host's clock after a jump that the store does not believe: what is too old by it goes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn accept_clock(&self) -> Result<(), Error> {
        self.lock().retention.accept_clock(&*self.clock);
        self.tell_time(false)
    }

    fn timekeeper(&self) -> MutexGuard<'_, Timekeeper> {
        self.timekeeper
            .lock()
            .expect("nobody panics while telling the time")
    }

    // ---- the journal

    /// Writes and syncs what was accepted.
    pub fn commit(&self) -> Result<(), Error> {
        self.write_journal(true)
    }

    /// Whether what was accepted up to a receipt's position is on disk. Without a journal nobody
    /// promised it, and the answer is yes.
    pub fn is_durable(&self, position: u64) -> bool {
        self.durability == Durability::Memory
            || self.durable.position.load(Ordering::Acquire) >= position
    }

    /// Returns when what was accepted up to a receipt's position is on disk. Those who wait at the
    /// same time share a sync.
    pub fn wait_durable(&self, position: u64) -> Result<(), Error> {
        if self.is_durable(position) {
            return Ok(());
        }
        self.commit()
    }

    pub(crate) fn write_journal(&self, sync: bool) -> Result<(), Error> {
        if self.durability == Durability::Memory {
            return self
                .lock()
                .poisoned
                .clone()
                .map_or(Ok(()), |why| Err(Error::Poisoned(why)));
        }
        let _span = tracing::trace_span!("commit").entered();
        let mut journal = self.journal();
        let result = self.write_record(&mut journal, sync);
        if let Err(error) = &result {
            self.poison(error);
        }
        self.note_trouble(Way::Journal, &result);
        result
    }

    /// Keeps why a path to the disk failed, or that it works.
    pub(crate) fn note_trouble<T>(&self, path: Way, result: &Result<T, Error>) {
        let mut state = self.lock();
        state.troubles.note(path, result.as_ref().map(|_| ()));
    }

    fn write_record(&self, journal: &mut JournalWriter, sync: bool) -> Result<(), Error> {
        let (file, position, samples) = {
            let mut state = self.lock();
            if let Some(why) = &state.poisoned {
                return Err(Error::Poisoned(why.clone()));
            }
            let file = state.pins.current();
            if !journal.waits() && !state.staging.is_empty() {
                std::mem::swap(&mut state.staging, &mut journal.staging);
                state.sequence = journal.sequence() + 1;
            }
            (file, state.position, state.counters.samples)
        };
        let waited = journal.waits();
        if waited || !journal.staging.is_empty() {
            let _ = self.durable.since.compare_exchange(
                0,
                journal.staging.since,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            let bytes = journal.write(file)?;
            self.durable.bytes.fetch_add(bytes, Ordering::Relaxed);
            let full = journal.is_full(file);
            let mut state = self.lock();
            state.pins.grow(file, bytes);
            state.journal_memory = journal.memory();
            state.counters.journal_written += bytes;
            // Rows staged while the record was written may have begun blocks: they pin this file,
            // and are written to it, or to the next, which is replayed after it.
            if full {
                state.pins.rotate();
            }
        }
        if waited {
            // Now what was accepted since.
            return self.write_record(journal, sync);
        }
        if sync {
            if journal.sync()? {
                self.durable.syncs.fetch_add(1, Ordering::Relaxed);
            }
            self.record_names_and_files(journal)?;
            self.durable.samples.store(samples, Ordering::Relaxed);
            self.durable.since.store(0, Ordering::Relaxed);
            self.durable.bytes.store(0, Ordering::Relaxed);
            self.durable.position.fetch_max(position, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Makes durable what the rows that are acknowledged next depend on, or later ones may: names and
    /// layouts in the catalog, so that no record is needed to read another one's rows; and the file in
    /// the ledger, so that it is missed when it is gone.
    fn record_names_and_files(&self, journal: &mut JournalWriter) -> Result<(), Error> {
        if self.lock().has_new_names() {
            self.write_catalog()?;
        }
        if !journal.begun.is_empty() {
            let mut ledger = self.ledger();
            for (number, file) in journal.begun.drain(..) {
                ledger.note_journal_file(number, file);
            }
            drop(ledger);
            self.lock().loss_waits = true;
        }
        if std::mem::take(&mut self.lock().loss_waits) {
            let result = self.write_ledger();
            self.lock().loss_waits |= result.is_err();
            result?;
        }
        Ok(())
    }

    pub(crate) fn poison(&self, error: &Error) {
        // Whatever wanted room is tried again: nothing of it was done by half.
        let harmless =
            error.is_want_of_room() || matches!(error, Error::Closed | Error::Poisoned(_));
        if !harmless {
            self.lock()
                .poisoned
                .get_or_insert_with(|| error.to_string());
        }
    }

    /// Returns whether the store has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.scheduler.is_running()
    }

    // ---- leaving

    /// Seals everything into segments and lets the journal go: what is on disk then is as small as
    /// it gets, and can be copied.
    pub fn settle(&self) -> Result<(), Error> {
        self.commit()?;
        // Some at a time: sealed all at once, they would take the memory that they have as rows again.
        let mut hand = Some(0);
        while let Some(from) = hand {
            hand = {
                let mut state = self.lock();
                state.writable()?;
                state.seal_some(from)
            };
            self.finish_sealing()?;
            self.lock().release_idle_memory();
            self.catch_up()?;
        }
        self.finish_sealing()?;
        self.lock().close_active();
        while self.lock().open.iter().any(|open| open.closed_at.is_some()) {
            self.step()?;
        }
        let _writing = self.writing();
        let result = self
            .write_catalog()
            .and_then(|()| self.end_journal())
            .and_then(|()| self.write_ledger());
        if let Err(error) = &result {
            self.poison(error);
        }
        trim_allocator();
        result
    }

    /// Gives free memory back to the system, if the allocator may have much of it: the lists of segments
    /// that were sealed, and what a query took.
    pub(crate) fn trim_memory(&self) {
        let mut state = self.lock();
        let due = state.trims_due > 0;
        state.trims_due = state.trims_due.saturating_sub(1);
        if due && state.open.is_empty() {
            state.release_idle_memory();
        }
        drop(state);
        if due {
            trim_allocator();
        }
    }

    fn end_journal(&self) -> Result<(), Error> {
        self.write_journal(true)?;
        // A writer may have begun blocks meanwhile: then the file stays.
        self.lock().pins.rotate();
        self.release_journal(false)?;
        let mut journal = self.journal();
        journal.drop_spares()
    }

    /// Stops the background threads, seals everything and refuses what comes then. The next start reads
    /// footers only.
    pub fn close(&self) -> Result<(), Error> {
        self.scheduler.stop();
        if self.lock().closed {
            return Ok(());
        }
        // What came since is on disk, too, before the store refuses.
        self.settle()?;
        let ready = std::mem::take(&mut self.lock().ready);
        for (number, _) in ready {
            self.volume.discard(number, SlotState::Open(0))?;
        }
        self.lock().closed = true;
        self.commit()?;
        let mut timekeeper = self.timekeeper();
        let time = self.lock().retention.last_time();
        time.map_or(Ok(()), |time| timekeeper.tell(time))
    }

    // ---- what there is

    /// All measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        self.dictionary(|dictionary| dictionary.measurements())
    }

    /// The tags that the selected sources have, sorted.
    pub fn tag_names(&self, selector: &Selector) -> Vec<String> {
        self.dictionary(|dictionary| dictionary.tag_names(selector))
    }

    /// The first `limit` values of a tag among the selected sources, sorted.
    pub fn tag_values(&self, selector: &Selector, tag: &str, limit: usize) -> Vec<String> {
        let values = self.dictionary(|dictionary| dictionary.tag_values(selector, tag, limit));
        self.lock().trims_due = TRIMS;
        values
    }

    /// The selected sources, ascending.
    pub fn sources(&self, selector: &Selector) -> Vec<SourceId> {
        self.dictionary(|dictionary| dictionary.select(selector).iter().map(SourceId).collect())
    }

    /// The measurement and tags of a source.
    pub fn source_key(&self, id: SourceId) -> Option<SourceKey> {
        self.dictionary(|dictionary| dictionary.key(id.0))
    }

    pub(crate) fn dictionary<T>(&self, ask: impl FnOnce(&crate::dictionary::Dictionary) -> T) -> T {
        let dictionary = self.lock().dictionary.clone();
        let dictionary = dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        ask(&dictionary)
    }

    /// The fields of the selected sources with their types, sorted.
    pub fn fields(&self, selector: &Selector) -> Vec<(String, FieldType)> {
        let sources = self.sources(selector);
        let mut layouts = std::collections::BTreeSet::new();
        for some in sources.chunks(ROWS_A_LOCK) {
            let state = self.lock();
            layouts.extend(
                some.iter()
                    .map(|source| state.buffers.line(source.0).layout),
            );
        }
        let state = self.lock();
        let fields: std::collections::BTreeSet<(String, FieldType)> = layouts
            .into_iter()
            .filter_map(|number| state.layouts.get(number))
            .flat_map(|layout| {
                layout
                    .names()
                    .iter()
                    .map(|name| name.to_string())
                    .zip(layout.types().iter().copied())
            })
            .collect();
        fields.into_iter().collect()
    }

    /// The sealed segments, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let sealed = self.lock().sealed.clone();
        sealed.values().map(|segment| segment.info()).collect()
    }

    /// The log: room, lanes, segments, classes.
    pub fn log(&self) -> LogStatus {
        self.look_at_the_clock();
        let memory = self.decided().memory;
        let live = self.live_on_disk();
        let mut state = self.lock();
        state.advance(&*self.clock);
        log_status(state.log_view(memory, &live))
    }

    /// The retention classes and what they have.
    pub fn classes(&self) -> Vec<ClassStatus> {
        self.look_at_the_clock();
        let live = self.live_on_disk();
        let mut state = self.lock();
        state.advance(&*self.clock);
        state.class_status(&live)
    }

    /// Returns the bytes of live blocks by class, in sealed segments and in those that are being written.
    /// Others get the lock now and then.
    fn live_on_disk(&self) -> Vec<u64> {
        let (mut live, open) = {
            let state = self.lock();
            let open: Vec<Listing> = state.open.iter().map(OpenSegment::listing).collect();
            (state.live_in_sealed(), open)
        };
        for listing in open {
            for entries in listing.entries().chunks(ENTRIES_A_LOCK) {
                self.lock().add_live(entries, &mut live);
            }
        }
        live
    }

    /// What was dropped and merged lately and why, the latest last.
    pub fn decisions(&self) -> Vec<Record> {
        self.decided().records.iter().cloned().collect()
    }

    /// The state of the store.
    pub fn status(&self) -> Status {
        let now = self.clock.monotonic();
        let (losses, lost_rows, losses_unacknowledged) = {
            let ledger = self.ledger();
            let contents = ledger.contents();
            let (losses, rows) = contents.lost();
            (losses, rows, contents.unacknowledged().len() as u64)
        };
        let live_bytes = self.live_on_disk().iter().sum();
        let mut state = self.lock();
        let trouble = state.trouble(now);
        let counters = &state.counters;
        let (fill, files) = (state.fill(), state.used_by_files());
        let (clock_held_ns, clock_behind_ns) = state.retention.clock_differences(self.clock.now());
        let durable = &self.durable;
        let unsynced = Unsynced {
            no_journal: self.durability == Durability::Memory,
            durable: durable.samples.load(Ordering::Relaxed),
            buffered: state.buffers.row_bytes(),
            staged: state.staging.bytes() as u64,
            written: durable.bytes.load(Ordering::Relaxed),
            since: (durable.since.load(Ordering::Relaxed), state.staging.since),
        };
        let (unsynced_samples, unsynced_bytes, unsynced_age_ns) = unsynced.count(counters, now);
        Status {
            sources: state.buffers.sources() as u64 - state.retention.levels(),
            levels: state.retention.levels(),
            series: state.series,
            unsynced_samples,
            unsynced_bytes,
            unsynced_age_ns,
            buffered_rows: state.buffers.rows(),
            buffer_bytes: state.buffers.memory() as u64,
            dictionary_bytes: state.dictionary_bytes() as u64,
            memory_used: state.memory() as u64,
            memory_budget: state.options.memory,
            journal_bytes: state.pins.bytes(),
            journal_files: state.pins.files() as u64,
            journal_syncs: durable.syncs.load(Ordering::Relaxed),
            segments: state.sealed.len() as u64,
            segment_bytes: state.sealed.values().map(|segment| segment.bytes()).sum(),
            damaged_segments: self.recovery.damaged_segments + counters.damaged_blocks,
            losses,
            lost_rows,
            losses_unacknowledged,
            extra_left: state.extra_left(),
            ageing_waits: state.ageing_waits.clone(),
            open_segments: state.open.len() as u64,
            open_segment_bytes: state.open.iter().map(OpenSegment::len).sum(),
            disk_used: fill.used,
            disk_files: files,
            disk_allotted: fill.used - files,
            disk_budget: fill.budget,
            live_bytes,
            clock_held_ns,
            clock_behind_ns,
            poisoned: state.poisoned.clone(),
            trouble,
            ..counted(counters)
        }
    }
}

impl Work for Engine {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn commit(&self) -> Result<(), Error> {
        Engine::commit(self)
    }

    fn step(&self) -> Result<bool, Error> {
        Engine::step(self)
    }

    fn run(&self, job: Job) -> Result<(), Error> {
        match job {
            Job::Journal => self.write_journal(false),
            Job::Seal => self.finish_sealing(),
            Job::Segments => self.catch_up(),
            Job::Space => self.force_room(),
        }
    }

    fn trim_memory(&self) {
        Engine::trim_memory(self);
    }
}

/// What a batch needs beside itself.
#[derive(Default)]
struct Scratch {
    hashes: Vec<NameHash>,
    sources: Vec<u32>,
    /// The rows whose names were not known.
    unknown: Vec<usize>,
}

impl Scratch {
    /// Finds the rows' sources; new names are registered.
    fn resolve(
        &mut self,
        state: &mut State,
        notation: &dyn Notation,
        rows: &[seiner_model::Row<'_>],
        base: usize,
        receipt: &mut Receipt,
    ) {
        self.sources.clear();
        self.unknown.clear();
        for (index, &hash) in self.hashes.iter().enumerate() {
            if let Some(&ahead) = self.hashes.get(index + LINES_AHEAD) {
                state.names.prefetch(ahead);
            }
            let source = state.names.find(hash).unwrap_or_else(|| {
                self.unknown.push(index);
                REFUSED
            });
            self.sources.push(source);
        }
        if !self.unknown.is_empty() {
            self.register(state, notation, rows, base, receipt);
        }
    }

    /// Registers the names that were not known, in the order of their rows.
    #[cold]
    fn register(
        &mut self,
        state: &mut State,
        notation: &dyn Notation,
        rows: &[seiner_model::Row<'_>],
        base: usize,
        receipt: &mut Receipt,
    ) {
        let dictionary = state.dictionary.clone();
        let mut dictionary = dictionary
            .write()
            .expect("no panic while the dictionary is locked");
        for &index in &self.unknown {
            let hash = self.hashes[index];
            // An earlier row may have had the name.
            let source = state.names.find(hash).map_or_else(
                || state.register_name(&mut dictionary, notation, rows[index].name, hash),
                Ok,
            );
            match source {
                Ok(source) => self.sources[index] = source,
                Err(reason) => receipt.refuse(base + index, reason),
            }
        }
    }

    /// Starts fetching what later rows will need.
    #[inline]
    fn fetch(&self, state: &State, index: usize) {
        if let Some(&ahead) = self.sources.get(index + LINES_AHEAD)
            && ahead != REFUSED
        {
            state.buffers.prefetch_line(ahead);
        }
        if let Some(&ahead) = self.sources.get(index + ROWS_AHEAD)
            && ahead != REFUSED
        {
            state.buffers.prefetch_rows(ahead);
        }
    }
}
