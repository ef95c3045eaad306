//! Core of a store: what writers, jobs and queries share, and its locks.
//!
//! Locks, always taken in this order: `writing` (segments), `sealer`, `journal` or `timekeeper`, `catalog` or
//! `ledger`, the head, the log, the dictionary, members, health.
//! Rows are accepted under the lock of the head, blocks are added under that of the log; nobody holds either of them while
//! writing to the disk.

use crate::catalog::{Catalog, Frame};
use crate::error::Error;
use crate::exchange::inform;
use crate::head::Head;
use crate::health::Health;
use crate::holds::Holds;
use crate::jobs::free::memory::Memory as Space;
use crate::jobs::idle::memory::IDLE_TICKS;
use crate::jobs::merging::memory::{Decisions, Memory as Merge};
use crate::jobs::writing::Writing;
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::locks::{HeadGuard, Locks, LogGuard};
use crate::options::{Durability, Options};
use crate::recover;
use crate::scheduler::Scheduler;
use crate::sealer::Sealer;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::status::{Loss, Recovery};
use crate::timekeeper::Timekeeper;
use crate::trouble::Path as Way;
use crate::turns::Turns;
use crate::volume::Volume;
use seiner_platform::{Clock, Disk};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Rows a lock is held for at most, so that readers and background threads get their turn.
pub(crate) const ROWS_A_LOCK: usize = 1024;
/// Entries of blocks that are looked at under one lock.
pub(crate) const ENTRIES_A_LOCK: usize = 128;
/// Free memory is given back so often after something large was freed: with the second time, what its
/// user took with it is free, too.
const TRIMS: u8 = 2;
/// Why a lock is not poisoned.
const UNBROKEN: &str = "nobody panics while writing segments";

/// A store, as its parts see it. [`Engine`](crate::Engine) is how users see it.
pub(crate) struct Core {
    locks: Locks,
    pub(crate) health: Arc<Health>,
    options: Arc<Options>,
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
    pub(crate) names_seed: u64,
    pub(crate) idle_tick_ns: u64,
    pub(crate) files: Arc<Files>,
    /// R.
    pub(crate) segment_bytes: u64,
    /// What files take on the disk is a multiple of so many bytes.
    pub(crate) unit: u64,
    decisions: Mutex<Decisions>,
    pub(crate) durable: Durable,
    pub(crate) recovery: Recovery,
    pub(crate) scheduler: Scheduler,
    timekeeper: Mutex<Timekeeper>,
    pub(crate) rules_changed: Vec<String>,
    /// Whether the ledger has entries that should be durable soon.
    ledger_waits: AtomicBool,
    /// How many times free memory is to be given back yet, because something large was freed or will be.
    trims_due: AtomicU8,
}

/// What is known to be on disk, for those who ask without waiting for the disk.
#[derive(Default)]
pub(crate) struct Durable {
    /// Everything up to this position.
    pub position: AtomicU64,
    /// So many samples.
    pub samples: AtomicU64,
    /// Since when written bytes wait to be synced, in the clock's monotone ns; 0: none do.
    pub since: AtomicU64,
    /// How many bytes wait.
    pub bytes: AtomicU64,
    /// Syncs made.
    pub syncs: AtomicU64,
}

/// The catalog, and the frame that is written to it next: it stays until it is written.
struct CatalogWriter {
    catalog: Catalog,
    frame: Frame,
}

impl Core {
    /// The settings that hold: the rules are those that are stored with the data.
    pub fn options(&self) -> Options {
        (*self.options).clone()
    }

    /// Returns the bytes of rows in a buffer before they become a block, B.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.options.block_bytes
    }

    /// Returns the memory budget of the store, bytes.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.options.memory
    }

    /// Returns how long the locks of head and log were held since the store was opened.
    pub fn lock_holds(&self) -> Holds {
        self.locks.holds()
    }

    /// What start-up found.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// When an acknowledged row survives what.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Locks the head.
    #[track_caller]
    pub(crate) fn head(&self) -> HeadGuard<'_> {
        self.locks.head()
    }

    /// Locks the head, after all others who wait for it.
    #[track_caller]
    pub(crate) fn head_after_others(&self) -> HeadGuard<'_> {
        self.locks.head_after_others()
    }

    /// Locks the log.
    #[track_caller]
    pub(crate) fn log(&self) -> LogGuard<'_> {
        self.locks.log()
    }

    /// Locks the head and the log, which then show one moment.
    #[track_caller]
    pub(crate) fn both(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        self.locks.both()
    }

    /// Locks the head and the log, after the time has gone on: what is too old by now is hidden.
    #[track_caller]
    pub(crate) fn present(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        let (head, mut log) = self.both();
        log.retention.advance(&*self.clock, head.next_block());
        (head, log)
    }

    /// Locks the log, when a segment can be begun.
    #[track_caller]
    pub(crate) fn log_with_slot(&self) -> Result<LogGuard<'_>, Error> {
        self.locks.log_with_slot(&*self.volume)
    }

    /// Locks the head and the log, when a segment can be begun.
    #[track_caller]
    pub(crate) fn both_with_slot(&self) -> Result<(HeadGuard<'_>, LogGuard<'_>), Error> {
        loop {
            let (head, log) = self.both();
            if log.has_slot() {
                return Ok((head, log));
            }
            drop((head, log));
            drop(self.log_with_slot()?);
        }
    }

    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Makes blocks of all buffers that were taken so far.
    pub(crate) fn finish_sealing(&self) -> Result<(), Error> {
        self.sealer.run(&self.locks, &*self.volume)
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

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .expect("nobody panics while writing the ledger")
    }

    /// Lets the next step make the ledger durable.
    pub(crate) fn ask_for_ledger(&self) {
        self.ledger_waits.store(true, Ordering::Relaxed);
    }

    /// Makes the ledger durable if that was asked for. It stays asked for after an error.
    pub(crate) fn write_ledger_if_asked(&self) -> Result<(), Error> {
        if self.ledger_waits.swap(false, Ordering::Relaxed) {
            let result = self.write_ledger();
            if result.is_err() {
                self.ask_for_ledger();
            }
            result?;
        }
        Ok(())
    }

    /// Lets free memory be given back soon, because something large was freed or will be.
    pub(crate) fn ask_for_trim(&self) {
        self.trims_due.store(TRIMS, Ordering::Relaxed);
    }

    /// Returns whether free memory should be given back.
    pub(crate) fn take_trim(&self) -> bool {
        let less = |due: u8| due.checked_sub(1);
        let taken = self
            .trims_due
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.is_ok()
    }

    /// Makes the ledger durable.
    pub(crate) fn write_ledger(&self) -> Result<(), Error> {
        let mut ledger = self.ledger();
        let result = ledger.write();
        self.log().space.note_ledger(ledger.room(self.unit));
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
                while !self.extend_catalog_frame(frame) {}
                if frame.is_empty() {
                    return Ok(());
                }
            }
            // It stays until it is written: there may be no room now.
            catalog.add(frame)?;
            *frame = Frame::default();
            self.head().note_frame_written();
            self.log().space.note_catalog(catalog.room(self.unit));
        }
    }

    fn extend_catalog_frame(&self, frame: &mut Frame) -> bool {
        let (mut head, mut log) = self.both();
        head.extend_catalog_frame(&mut log.retention, frame)
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
        self.health.writable()?;
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
            self.ask_for_ledger();
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

    /// What precedes the rows of a lock.
    pub(crate) fn prepare(&self, head: &mut Head) -> Result<(), Error> {
        self.health.writable()?;
        head.tick = self.tick();
        // The log may be busy: then what the head was told of it last is good enough.
        if let Some(mut log) = self.locks.try_log() {
            inform(head, &mut log, &*self.clock);
        }
        head.relieve_memory();
        head.relieve_journal();
        Ok(())
    }

    pub(crate) fn tick(&self) -> u16 {
        (self.clock.monotonic() / self.idle_tick_ns) as u16
    }

    /// Lets the disk tell how late it is, if age is to hide what it does not hide yet; `early`: soon.
    ///
    /// # Errors
    /// When the disk fails. Then age hides nothing more.
    pub(crate) fn tell_time(&self, early: bool) -> Result<(), Error> {
        let due = || {
            let mut log = self.log();
            log.retention.judge(&*self.clock);
            let time = log.retention.promise_due(early);
            time.filter(|_| self.health.writable().is_ok())
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
            Ok(()) => self.log().retention.vouch(time),
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
        self.log().retention.accept_clock(&*self.clock);
        self.tell_time(false)
    }

    pub fn timekeeper(&self) -> MutexGuard<'_, Timekeeper> {
        self.timekeeper
            .lock()
            .expect("nobody panics while telling the time")
    }

    /// Keeps why a path to the disk failed, or that it works.
    pub(crate) fn note_trouble<T>(&self, path: Way, result: &Result<T, Error>) {
        self.health.note(path, result.as_ref().map(|_| ()));
    }

    pub(crate) fn poison(&self, error: &Error) {
        // Whatever wanted room is tried again: nothing of it was done by half.
        let harmless =
            error.is_want_of_room() || matches!(error, Error::Closed | Error::Poisoned(_));
        if !harmless {
            self.health.poison(|| error.to_string());
        }
    }

    /// Returns whether the store has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.scheduler.is_running()
    }

    pub(crate) fn dictionary<T>(&self, ask: impl FnOnce(&crate::dictionary::Dictionary) -> T) -> T {
        let dictionary = self.head().dictionary().clone();
        let dictionary = dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        ask(&dictionary)
    }

    pub fn recovered(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        mut options: Options,
    ) -> Result<Core, Error> {
        let unit = disk.unit();
        // A segment that ends with a unit leaves none of it empty, and on an array is whole stripes.
        options.segment_bytes = options.segment_bytes.next_multiple_of(unit);
        options.check_on(unit)?;
        let _span = tracing::trace_span!("start").entered();
        let durability = options.durability;
        let idle_tick_ns = (options.idle_seal.as_nanos() as u64 / u64::from(IDLE_TICKS)).max(1);
        let (policy, segment_bytes) = (options.policy.policy(), options.segment_bytes);
        let opened = recover::open(disk.clone(), &*clock, options)?;
        let health = Arc::new(Health::default());
        let engine = Core {
            durable: Durable {
                position: AtomicU64::new(opened.parts.head.position()),
                ..Durable::default()
            },
            names_seed: opened.parts.head.names().seed(),
            volume: opened.volume,
            locks: Locks::new(opened.parts.head, opened.parts.log, health.clone()),
            health,
            options: opened.parts.options,
            ledger_waits: AtomicBool::new(false),
            trims_due: AtomicU8::new(0),
            sealer: Sealer::default(),
            journal: Mutex::new(opened.journal),
            store: opened.catalog.store,
            catalog: Mutex::new(CatalogWriter {
                catalog: opened.catalog,
                frame: Frame::default(),
            }),
            ledger: Mutex::new(opened.ledger),
            writing: Turns::new(Writing::new(
                Space::new(disk),
                Merge::new(policy, opened.merging, opened.copied),
            )),
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

    pub(crate) fn decided(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .expect("nobody panics with the records")
    }
}
