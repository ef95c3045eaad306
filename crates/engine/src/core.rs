//! Core of a store: what writers, jobs and queries share, and its locks.
//!
//! Locks, always taken in this order: `writing` (segments), `sealer`, `journal` or `timekeeper`, `catalog` or
//! `ledger`, `state`, the dictionary.
//! Rows are accepted under `state` alone, which nobody holds while writing to the disk.

use crate::catalog::{Catalog, Frame};
use crate::error::Error;
use crate::holds::Holds;
use crate::jobs::merging::memory::{Decisions, Squeezes};
use crate::jobs::writing::{IDLE_TICKS, Writing};
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::options::{Durability, Options};
use crate::recover;
use crate::scheduler::Scheduler;
use crate::sealer::Sealer;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::shared::{Guard, Shared};
use crate::state::State;
use crate::status::{Loss, Recovery};
use crate::timekeeper::Timekeeper;
use crate::trouble::Path as Way;
use crate::turns::Turns;
use crate::volume::Volume;
use seiner_platform::{Clock, Disk};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

/// Rows a lock is held for at most, so that readers and background threads get their turn.
pub(crate) const ROWS_A_LOCK: usize = 1024;
/// Entries of blocks that are looked at under one lock.
pub(crate) const ENTRIES_A_LOCK: usize = 128;
/// Why a lock is not poisoned.
const UNBROKEN: &str = "nobody panics while writing segments";

/// A store, as its parts see it. [`Engine`](crate::Engine) is how users see it.
pub(crate) struct Core {
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

    /// The state, after all others who wait for it.
    #[track_caller]
    pub(crate) fn lock_after_others(&self) -> Guard<'_> {
        self.state.lock_after_others()
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

    /// What precedes the rows of a lock.
    pub(crate) fn prepare(&self, state: &mut State) -> Result<(), Error> {
        state.writable()?;
        state.tick = self.tick();
        state.advance(&*self.clock);
        state.relieve_memory();
        state.relieve_journal();
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

    pub fn timekeeper(&self) -> MutexGuard<'_, Timekeeper> {
        self.timekeeper
            .lock()
            .expect("nobody panics while telling the time")
    }

    /// Keeps why a path to the disk failed, or that it works.
    pub(crate) fn note_trouble<T>(&self, path: Way, result: &Result<T, Error>) {
        let mut state = self.lock();
        state.troubles.note(path, result.as_ref().map(|_| ()));
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

    pub(crate) fn dictionary<T>(&self, ask: impl FnOnce(&crate::dictionary::Dictionary) -> T) -> T {
        let dictionary = self.lock().dictionary.clone();
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
        let engine = Core {
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

    pub(crate) fn decided(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .expect("nobody panics with the records")
    }
}
