//! Core of a store: the state that writers, jobs and queries share, and its locks.
//!
//! Locks are always taken in this order: `writers`, `writing` (segments), `sealer`, `journal` or
//! `persisted_clock`, `catalog` or `ledger`, the head, the log, the dictionary, members, health. Rows
//! are accepted under the lock of the head, and blocks are added under the lock of the log. No thread
//! holds either of these two locks while it writes to the disk.

use crate::bundle::cache::BundleCache;
use crate::catalog::{Catalog, Frame};
use crate::error::Error;
use crate::exchange::inform;
use crate::head::{Extent, Head};
use crate::health::Health;
use crate::holds::Holds;
use crate::jobs::free::memory::SpaceMemory;
use crate::jobs::idle::memory::IDLE_TICKS;
use crate::jobs::merging::memory::{Decisions, MergeMemory};
use crate::jobs::writing::{Writing, WritingGuard};
use crate::journal::files::JournalWriter;
use crate::ledger::Ledger;
use crate::locks::{HeadGuard, Locks, LogGuard, assert_none_held};
use crate::log::Log;
use crate::options::{Durability, Options, Together};
use crate::persisted_clock::PersistedClock;
use crate::query::memory::QueryMemory;
use crate::recover;
use crate::scheduler::Scheduler;
use crate::sealer::Sealer;
use crate::sealing::encode::Encoder;
use crate::segment::Entry;
use crate::segment::files::Files;
use crate::status::{Loss, Recovery};
use crate::trouble::Path as Way;
use crate::volume::Volume;
use roaring::RoaringBitmap;
use seiner_model::SourceKey;
use seiner_platform::{Clock, Disk};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum rows appended under one lock, so that readers and background threads get a turn.
pub(crate) const ROWS_A_LOCK: usize = 1024;
/// Entries of blocks examined under one lock.
pub(crate) const ENTRIES_A_LOCK: usize = 128;
/// Number of times that free memory is returned after a large object was freed. The second time
/// also returns the memory that users of the object allocated with it.
const TRIMS: u8 = 2;

/// Shared state of an open store. [`Engine`](crate::Engine) is its public interface.
pub(crate) struct Core {
    locks: Locks,
    /// Lock of the writer whose turn it is.
    pub(crate) writers: parking_lot::Mutex<()>,
    pub(crate) health: Arc<Health>,
    options: Arc<Options>,
    sealer: Sealer,
    journal: Mutex<JournalWriter>,
    catalog: Mutex<CatalogWriter>,
    ledger: Mutex<Ledger>,
    /// Identity of the store.
    pub(crate) store: u64,
    /// Memory of the jobs, behind a fair mutex.
    writing: parking_lot::Mutex<Writing>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) volume: Arc<dyn Volume>,
    durability: Durability,
    pub(crate) names_seed: u64,
    pub(crate) idle_tick_ns: u64,
    pub(crate) files: Arc<Files>,
    /// R: bytes of a segment.
    pub(crate) segment_bytes: u64,
    /// Allocation unit of the disk in bytes. Files occupy a multiple of it.
    pub(crate) unit: u64,
    decisions: Mutex<Decisions>,
    pub(crate) durable: Durable,
    pub(crate) recovery: Recovery,
    pub(crate) scheduler: Scheduler,
    pub(crate) queries: Arc<QueryMemory>,
    /// Bundles that were read recently.
    pub(crate) bundles: Arc<BundleCache>,
    persisted_clock: Mutex<PersistedClock>,
    pub(crate) rules_changed: Vec<String>,
    /// True if sources are dormant, or will be soon: a row may need its name from a file.
    pub(crate) may_recall: AtomicBool,
    /// True if the ledger has entries that should soon be durable.
    ledger_waits: AtomicBool,
    /// Remaining number of times that free memory should be returned, because a large object was or
    /// will be freed.
    trims_due: AtomicU8,
}

/// Durable positions, for threads that do not wait for the disk.
#[derive(Default)]
pub(crate) struct Durable {
    /// Position up to which all rows are durable.
    pub position: AtomicU64,
    /// Number of durable samples.
    pub samples: AtomicU64,
    /// Time since when written bytes wait for a sync, in monotonic ns of the clock. 0 if no bytes
    /// wait.
    pub since: AtomicU64,
    /// Number of bytes that wait for a sync.
    pub bytes: AtomicU64,
    /// Number of syncs.
    pub syncs: AtomicU64,
}

/// Catalog with the frame that is written to it next. The frame stays until it is written.
struct CatalogWriter {
    disk: Arc<dyn Disk>,
    catalog: Catalog,
    frame: Frame,
}

impl Core {
    /// Returns the effective settings. The rules among them are stored with the data.
    pub fn options(&self) -> Options {
        (*self.options).clone()
    }

    /// Returns the bytes of rows in a buffer before they become a block, B.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.options.block_bytes
    }

    /// Returns the limits of blocks that are encoded together.
    pub(crate) fn together(&self) -> Together {
        self.options.together()
    }

    /// Returns whether sources without data are forgotten.
    pub(crate) fn forgets(&self) -> bool {
        self.options.forget
    }

    /// Returns the memory budget of the store, bytes.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.options.memory
    }

    /// Returns the times for which the locks of head and log were held since the store was opened.
    pub fn lock_holds(&self) -> Holds {
        self.locks.holds()
    }

    /// Returns the findings of the start.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns the durability of acknowledged rows.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Locks the head.
    #[track_caller]
    pub(crate) fn head(&self) -> HeadGuard<'_> {
        self.locks.head()
    }

    /// Locks the log.
    #[track_caller]
    pub(crate) fn log(&self) -> LogGuard<'_> {
        self.locks.log()
    }

    /// Locks the head and the log, so that both show the same moment.
    #[track_caller]
    pub(crate) fn both(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        self.locks.both()
    }

    /// Locks the head and the log after advancing the time, so that expired data is hidden.
    #[track_caller]
    pub(crate) fn present(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        let (head, mut log) = self.both();
        log.retention.advance(&*self.clock, head.logged_block());
        (head, log)
    }

    /// Locks the log when a segment can be begun.
    #[track_caller]
    pub(crate) fn log_with_slot(&self) -> Result<LogGuard<'_>, Error> {
        self.locks.log_with_slot(&*self.volume)
    }

    /// Locks the head and the log when a segment can be begun.
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

    /// Encodes all buffers that were taken so far into blocks.
    pub(crate) fn finish_sealing(&self) -> Result<(), Error> {
        self.sealer.run(&self.locks, &*self.volume)
    }

    /// Locks the memory of the jobs.
    pub(crate) fn writing(&self) -> WritingGuard<'_> {
        WritingGuard::new(self.writing.lock(), &self.health)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        assert_none_held("the journal");
        self.journal
            .lock()
            .expect("no thread panics while it writes the journal")
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        assert_none_held("the ledger");
        self.ledger
            .lock()
            .expect("no thread panics while it writes the ledger")
    }

    /// Requests that the next step makes the ledger durable.
    pub(crate) fn request_ledger(&self) {
        self.ledger_waits.store(true, Ordering::Relaxed);
    }

    /// Makes the ledger durable if requested. The request remains after an error.
    pub(crate) fn write_ledger_if_requested(&self) -> Result<(), Error> {
        if self.ledger_waits.swap(false, Ordering::Relaxed) {
            let result = self.write_ledger();
            if result.is_err() {
                self.request_ledger();
            }
            result?;
        }
        Ok(())
    }

    /// Requests that free memory is returned soon, because a large object was or will be freed.
    pub(crate) fn request_trim(&self) {
        self.trims_due.store(TRIMS, Ordering::Relaxed);
    }

    /// Returns whether free memory should be returned to the system, and counts the request as
    /// served.
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
        self.log().space.note_ledger(ledger.disk_bytes(self.unit));
        result
    }

    /// Makes names, layouts and records of dead data durable that the catalog does not yet contain.
    /// Names registered while a frame is written are left to the next call, which may have many of
    /// them to write at once.
    pub(crate) fn write_catalog(&self) -> Result<(), Error> {
        let mut writer = self.catalog();
        let CatalogWriter { catalog, frame, .. } = &mut *writer;
        loop {
            let mut extent = Extent::Full;
            if frame.is_empty() {
                // Other threads get the lock between two parts.
                extent = self.extend_catalog_frame(frame);
                while extent == Extent::Part {
                    extent = self.extend_catalog_frame(frame);
                }
                if frame.is_empty() {
                    return Ok(());
                }
            }
            // The frame stays until it is written: there may be no space now.
            catalog.add(frame)?;
            *frame = Frame::default();
            self.head().note_frame_written();
            self.log().space.note_catalog(catalog.disk_bytes(self.unit));
            if extent == Extent::Complete {
                return Ok(());
            }
        }
    }

    /// Returns the number of sources that the catalog contains durably, with its generation and its length. `None` if a
    /// frame could not be written.
    pub(crate) fn catalogued(&self) -> Option<(u32, u32, u64)> {
        let writer = self.catalog();
        let (generation, len) = writer.catalog.moment();
        let known = self.head().catalogued_sources();
        writer.frame.is_empty().then_some((known, generation, len))
    }

    /// Reads the keys of some sources from the catalog, as [`Catalog::each_key`] does.
    ///
    /// # Errors
    /// If the disk fails.
    pub(crate) fn each_key_in_catalog(
        &self,
        sources: &RoaringBitmap,
        each: impl FnMut(u32, SourceKey),
    ) -> Result<(), Error> {
        let writer = self.catalog();
        writer.catalog.each_key(&*writer.disk, sources, each)
    }

    fn catalog(&self) -> MutexGuard<'_, CatalogWriter> {
        assert_none_held("the catalog");
        self.catalog
            .lock()
            .expect("no thread panics while it writes the catalog")
    }

    /// Writes the catalog anew if a condition holds, and returns its length in bytes then.
    ///
    /// # Errors
    /// If a frame is damaged, or the disk fails.
    pub(crate) fn compact_catalog_if(
        &self,
        is_due: impl FnOnce(&Catalog) -> bool,
    ) -> Result<Option<u64>, Error> {
        let mut writer = self.catalog();
        let CatalogWriter { disk, catalog, .. } = &mut *writer;
        if !is_due(catalog) {
            return Ok(None);
        }
        catalog.compact(&**disk)?;
        self.log().space.note_catalog(catalog.disk_bytes(self.unit));
        Ok(Some(catalog.len()))
    }

    fn extend_catalog_frame(&self, frame: &mut Frame) -> Extent {
        let (mut head, mut log) = self.both();
        head.extend_catalog_frame(&mut log.retention, frame)
    }

    /// Returns losses of data that are not yet acknowledged.
    pub fn losses(&self) -> Vec<Loss> {
        self.ledger().contents().unacknowledged().to_vec()
    }

    /// Acknowledges all losses. Acknowledged losses are still counted but no longer listed. Durable
    /// on return. Returns the number of acknowledged losses.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn acknowledge_losses(&self) -> Result<u64, Error> {
        self.health.writable()?;
        let losses = self.ledger().acknowledge();
        let result = self.write_ledger();
        if let Err(error) = &result {
            self.poison(error);
        }
        result.map(|()| losses)
    }

    /// Records a loss that was found while reading. The next step makes the record durable.
    pub(crate) fn note_loss(&self, mut loss: Loss) {
        loss.found_at = self.clock.now();
        let new = self.ledger().note_loss(&loss);
        if new {
            tracing::error!("{loss}");
            self.request_ledger();
        }
    }

    /// Records that a block is unreadable.
    pub(crate) fn note_block(&self, error: &Error, entry: &Entry) {
        if let Error::Damage { file, offset, what } = error {
            // The blocks of a bundle have one offset, and each is a loss of its own.
            let block = match entry.is_bundled() {
                true => format!(", block {} of source {}", entry.number, entry.source),
                false => String::new(),
            };
            self.note_loss(Loss {
                file: file.clone(),
                what: format!("offset {offset}{block}: {what}"),
                rows: Some(u64::from(entry.rows)),
                at_most: false,
                times: Some((entry.first, entry.last)),
                found_at: 0,
            });
        }
    }

    /// Prepares the head before rows are appended under its lock.
    pub(crate) fn prepare(&self, head: &mut Head) -> Result<(), Error> {
        // If the log is locked, the head uses its last known state.
        if let Some(mut log) = self.locks.try_log() {
            self.inform(head, &mut log);
        }
        self.prepare_informed(head)
    }

    /// Exchanges figures between the head and the log after advancing the time.
    pub(crate) fn inform(&self, head: &mut Head, log: &mut Log) {
        head.log_figures().query_memory = self.query_memory();
        inform(head, log, &*self.clock);
    }

    /// Returns the memory of running queries, and of what they keep for the next.
    pub(crate) fn query_memory(&self) -> usize {
        self.queries.bytes() + self.bundles.bytes()
    }

    /// Prepares the head, which has the figures of the log, before rows are appended under its lock.
    pub(crate) fn prepare_informed(&self, head: &mut Head) -> Result<(), Error> {
        self.health.writable()?;
        head.tick = self.tick();
        head.relieve_memory();
        head.relieve_journal();
        Ok(())
    }

    pub(crate) fn tick(&self) -> u16 {
        (self.clock.monotonic() / self.idle_tick_ns) as u16
    }

    /// Writes the present time to the disk if age should hide more data. `early`: writes sooner
    /// than necessary.
    ///
    /// # Errors
    /// If the disk fails. Age then hides no more data.
    pub(crate) fn persist_time(&self, early: bool) -> Result<(), Error> {
        let due = || {
            let mut log = self.log();
            log.retention.judge(&*self.clock);
            let time = log.retention.time_to_persist(early);
            time.filter(|_| self.health.writable().is_ok())
        };
        if due().is_none() {
            return Ok(());
        }
        let mut persisted_clock = self.persisted_clock();
        // Another thread may have written the time in the meantime.
        let Some(time) = due() else {
            return Ok(());
        };
        let result = persisted_clock.write(time);
        match &result {
            Ok(()) => self.log().retention.cover(time),
            Err(error) => self.poison(error),
        }
        result
    }

    /// Advances the time before an answer, so that expired data is hidden. If the time cannot be
    /// written to the disk, expired data remains visible, and the store reports the trouble.
    pub(crate) fn look_at_the_clock(&self) {
        let _ = self.persist_time(false);
    }

    /// Confirms the host's clock after a jump that the store did not accept. Data that is too old
    /// by the confirmed time expires.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn accept_clock(&self) -> Result<(), Error> {
        self.log().retention.accept_clock(&*self.clock);
        self.persist_time(false)
    }

    pub fn persisted_clock(&self) -> MutexGuard<'_, PersistedClock> {
        self.persisted_clock
            .lock()
            .expect("no thread panics while it writes the time")
    }

    /// Records the failure of a path to the disk, or that the path works.
    pub(crate) fn note_trouble<T>(&self, path: Way, result: &Result<T, Error>) {
        self.health.note(path, result.as_ref().map(|_| ()));
    }

    pub(crate) fn poison(&self, error: &Error) {
        // An operation that failed for lack of space has changed nothing and is retried.
        let harmless =
            error.is_out_of_space() || matches!(error, Error::Closed | Error::Poisoned(_));
        if !harmless {
            self.health.poison(|| error.to_string());
        }
    }

    /// Returns whether the store has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.scheduler.is_running()
    }

    pub(crate) fn dictionary<T>(
        &self,
        read: impl FnOnce(&crate::dictionary::Dictionary) -> T,
    ) -> T {
        let dictionary = self.head().dictionary().clone();
        let dictionary = dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        read(&dictionary)
    }

    pub fn recovered(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        mut options: Options,
    ) -> Result<Core, Error> {
        let unit = disk.unit();
        // A segment that ends with an allocation unit leaves no part of the unit empty. On an array
        // it consists of whole stripes.
        options.segment_bytes = options.segment_bytes.next_multiple_of(unit);
        options.check_on(unit)?;
        let _span = tracing::trace_span!("start").entered();
        let durability = options.durability;
        let idle_tick_ns = (options.idle_seal.as_nanos() as u64 / u64::from(IDLE_TICKS)).max(1);
        let (policy, segment_bytes) = (options.policy.policy(), options.segment_bytes);
        let (together, memory) = (options.together(), options.memory);
        let opened = recover::open(disk.clone(), &*clock, options)?;
        let health = Arc::new(Health::default());
        let engine = Core {
            durable: Durable {
                position: AtomicU64::new(opened.parts.head.position()),
                ..Durable::default()
            },
            names_seed: opened.parts.head.names().seed(),
            may_recall: AtomicBool::new(opened.parts.head.has_dormant()),
            volume: opened.volume,
            locks: Locks::new(opened.parts.head, opened.parts.log, health.clone()),
            writers: parking_lot::Mutex::new(()),
            health,
            options: opened.parts.options,
            ledger_waits: AtomicBool::new(false),
            trims_due: AtomicU8::new(0),
            sealer: Sealer::new(Encoder::new(together)),
            journal: Mutex::new(opened.journal),
            store: opened.catalog.store,
            catalog: Mutex::new(CatalogWriter {
                disk: disk.clone(),
                catalog: opened.catalog,
                frame: Frame::default(),
            }),
            ledger: Mutex::new(opened.ledger),
            writing: parking_lot::Mutex::new(Writing::new(
                SpaceMemory::new(disk),
                MergeMemory::new(policy, opened.merging, opened.copied),
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
            queries: Arc::default(),
            bundles: Arc::new(BundleCache::new(memory)),
            persisted_clock: Mutex::new(opened.persisted_clock),
            rules_changed: Vec::new(),
        };
        Ok(engine)
    }

    pub(crate) fn decided(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .expect("no thread panics while it holds the decisions")
    }
}
