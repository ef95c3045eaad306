//! Engine: one store, as its users see it. Every method delegates to a part of [`crate::core`].

use crate::answer::{LevelSpan, Query, Step};
use crate::closing;
use crate::commit;
use crate::core::Core;
use crate::delete;
use crate::error::{Error, Reason, Receipt};
use crate::extents;
use crate::handover::{self, Cut};
use crate::holds::Holds;
use crate::intake;
use crate::jobs;
use crate::jobs::merging::memory::DecisionRecord;
use crate::levels;
use crate::names;
use crate::opening;
use crate::options::{Durability, Options};
use crate::query;
use crate::query::aggregate::Aggregates;
use crate::query::latest::LatestSamples;
use crate::query::parts::ScanParts;
use crate::query::scan::Scan;
use crate::query::select::Select;
use crate::reading;
use crate::report;
use crate::status::{ClassStatus, LogStatus, Loss, Recovery, SegmentInfo, Status};
use crate::trace;
use seiner_merge::simulate::Arrival;
use seiner_model::{Batch, Columns, FieldType, Interval, Notation, Selector, SourceId, SourceKey};
use seiner_platform::memory::trim_allocator;
use seiner_platform::{Clock, Directory, Disk, SystemClock};
use seiner_store::Extent;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Store that is open for reading and writing.
///
/// All methods block; none is async. Share the engine by [`Arc`].
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    fn of(core: Core) -> Engine {
        Engine {
            core: Arc::new(core),
        }
    }

    /// Opens the store in a directory, with threads that commit the journal and write segments.
    /// Creates the directory if it is missing, and locks it for this process. Close the store
    /// before it is dropped: a dropped store keeps all committed data, and unlocks the directory
    /// only when the current background work ends.
    ///
    /// # Errors
    /// If another process has locked the directory, the settings contradict each other, the disk
    /// fails, or the catalog is damaged.
    pub fn open_directory(path: &Path, options: Options) -> Result<Arc<Engine>, Error> {
        let context = || format!("opening {}", path.display());
        let disk = Directory::open(path).map_err(crate::error::io_error(context))?;
        Engine::start(Arc::new(disk), options)
    }

    /// Opens the store on a disk, with the same threads as [`Engine::open_directory`].
    ///
    /// # Errors
    /// As [`Engine::open_directory`].
    pub fn start(disk: Arc<dyn Disk>, options: Options) -> Result<Arc<Engine>, Error> {
        let clock = Arc::new(SystemClock::new());
        let engine = Engine::open(disk, clock, options)?;
        trim_allocator();
        engine.core.scheduler.start(&engine.core);
        Ok(Arc::new(engine))
    }

    /// Opens a store without threads of its own. The caller calls [`Engine::commit`] and
    /// [`Engine::step`].
    ///
    /// # Errors
    /// As [`Engine::open_directory`]. [`Error::Retention`] if the rules in the options let data
    /// expire sooner than the stored rules, unless [`Options::apply_retention`] confirms them.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Engine, Error> {
        Ok(Engine::of(opening::open(disk, clock, options)?))
    }

    /// Opens the store in a directory for reading, with its stored rules. Changes nothing in the
    /// directory and does not lock it. A server may write to the store at the same time; rows that
    /// it accepted but has not written to the disk are not visible.
    ///
    /// # Errors
    /// If there is no store, or it cannot be read.
    pub fn open_to_read(path: &Path, options: Options) -> Result<Engine, Error> {
        Ok(Engine::of(reading::open_to_read(path, options)?))
    }

    /// Opens the store on a disk for reading. No process may write to the disk in the meantime.
    ///
    /// # Errors
    /// As [`Engine::open_to_read`].
    pub fn read_disk(disk: Arc<dyn Disk>, options: Options) -> Result<Engine, Error> {
        Ok(Engine::of(reading::read_disk(disk, options)?))
    }

    /// Returns the differences between the rules of this start and the rules stored before, as
    /// text.
    pub fn rules_changed(&self) -> &[String] {
        report::rules_changed(&self.core)
    }

    /// Returns the number of this store, which is unique and stays the same in copies of its files.
    pub fn identity(&self) -> u64 {
        self.core.store
    }

    /// Returns the effective settings. The rules among them are stored with the data.
    pub fn options(&self) -> Options {
        self.core.options()
    }

    /// Returns the findings of the start.
    pub fn recovery(&self) -> &Recovery {
        self.core.recovery()
    }

    /// Returns whether an append may have to read names from files, because sources are dormant. It takes about 10 µs for
    /// each of these, and more if the disk must be read.
    pub fn may_read(&self) -> bool {
        self.core.may_recall.load(Ordering::Relaxed)
    }

    /// Returns the durability of acknowledged rows.
    pub fn durability(&self) -> Durability {
        self.core.durability()
    }

    /// Returns the times for which the store's lock was held since the store was opened.
    pub fn lock_holds(&self) -> Holds {
        self.core.lock_holds()
    }

    /// Appends rows in their order. Rows that cannot be accepted are rejected one by one and listed
    /// in the receipt. All other rows are accepted.
    ///
    /// # Errors
    /// If the store accepts no more rows. Earlier rows of the batch may have been accepted.
    pub fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        intake::append(&self.core, notation, batch)
    }

    /// Returns the number of a source, which is registered if it is new.
    ///
    /// # Errors
    /// [`Error::Rejected`] if the names take their share of the memory, and as [`Engine::append`].
    pub fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        intake::register(&self.core, key)
    }

    /// Returns the numbers of sources, in the order of their keys, or the reasons why sources are rejected. New sources
    /// are registered. A call with a thousand keys locks the store once, and takes less processor time than a thousand
    /// calls of [`Engine::register`].
    ///
    /// # Errors
    /// As [`Engine::append`]. Earlier sources may have been registered.
    pub fn register_all(
        &self,
        keys: &[&SourceKey],
    ) -> Result<Vec<Result<SourceId, Reason>>, Error> {
        intake::register_all(&self.core, keys)
    }

    /// Appends rows of one source: one column per field, in the order of `fields`.
    pub fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        intake::append_columns(&self.core, source, fields, columns)
    }

    /// Appends one value to each of many sources. The slices of sources, times and values have
    /// equal length.
    pub fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        intake::append_samples(&self.core, field, sources, times, values)
    }

    /// Writes and syncs all accepted rows.
    pub fn commit(&self) -> Result<(), Error> {
        commit::commit(&self.core)
    }

    /// Returns whether all rows up to a receipt's position are on disk. True without a journal,
    /// which gives no guarantee.
    pub fn is_durable(&self, position: u64) -> bool {
        commit::is_durable(&self.core, position)
    }

    /// Waits until all rows up to a receipt's position are on disk. Concurrent callers share a
    /// sync.
    pub fn wait_durable(&self, position: u64) -> Result<(), Error> {
        commit::wait_durable(&self.core, position)
    }

    /// Deletes the samples of sources in an interval that were accepted before this call. On
    /// return, the delete is durable and the samples are invisible. Returns the number of sources
    /// that match. Disk space is freed when the segments with the samples are dropped or merged.
    ///
    /// # Errors
    /// If the disk fails: the samples may or may not be deleted.
    pub fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        delete::delete(&self.core, selector, interval)
    }

    /// Separates the rows accepted so far from later rows. [`Engine::scan_before`] reads the earlier
    /// rows, and [`Engine::release`] expires them when another store has taken them over.
    ///
    /// # Errors
    /// If the store rejects writes.
    pub fn cut(&self) -> Result<Cut, Error> {
        handover::cut(&self.core)
    }

    /// Returns the rows of some sources in blocks with numbers below `block`, in the given order of
    /// sources. The query's selector is not used. [`u64::MAX`] selects all rows.
    pub fn scan_before(&self, sources: Vec<SourceId>, query: &Query, block: u64) -> Scan<'_> {
        handover::scan(&self.core, sources, query, block)
    }

    /// Expires all rows before a cut, durably. Call this function when the rows are stored elsewhere.
    /// On return, a copy of the store needs no files that the cut covers ([`Cut::covers`]).
    ///
    /// # Errors
    /// If the disk fails. The rows may or may not be expired then.
    pub fn release(&self, cut: Cut) -> Result<(), Error> {
        handover::release(&self.core, cut)
    }

    /// Seals all rows into segments and releases the journal. The files are then as small as
    /// possible and can be copied.
    pub fn flush(&self) -> Result<(), Error> {
        closing::flush(&self.core)
    }

    /// Performs a step of background work: writes a piece, seals a segment, writes checkpoints, seals
    /// idle sources, drops or merges segments. Returns whether more work is waiting.
    pub fn step(&self) -> Result<bool, Error> {
        jobs::step(&self.core)
    }

    /// Stops the background threads, seals all rows and rejects later calls. The next start reads
    /// only footers.
    pub fn close(&self) -> Result<(), Error> {
        closing::close(&self.core)
    }

    /// Returns the rows of a query, source by source, in pieces of bounded size. Times ascend
    /// strictly over the pieces of a source. Each [`Error::Damage`] among the items stands for a
    /// block that is missing from the following items.
    ///
    /// The module's documentation states the memory that a scan uses.
    pub fn scan(&self, query: &Query) -> Scan<'_> {
        query::scan(&self.core, query)
    }

    /// Returns the sources of a query for a number of threads. Each of them scans some of the sources.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn parts(&self, query: &Query, threads: usize) -> Result<ScanParts<'_>, Error> {
        query::parts(&self.core, query, threads)
    }

    /// Returns the latest sample of each series of a query, ordered by source. Damage is returned as by
    /// [`Engine::select`], for the blocks that are read.
    pub fn latest_samples(&self, query: &Query) -> LatestSamples<'_> {
        query::latest(&self.core, query)
    }

    /// Returns whether the store has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.core.has_threads()
    }

    /// Returns the samples of a query, series by series, with strictly ascending times. Series
    /// without samples in the interval are omitted. Each [`Error::Damage`] among the items stands
    /// for a block that is missing from the following items.
    ///
    /// Keeps all series of a source in memory; [`Engine::scan`] does not.
    ///
    /// # Errors
    /// None at present.
    pub fn select(&self, query: &Query) -> Result<Select<'_>, Error> {
        query::select(&self.core, query)
    }

    /// Returns the aggregates of a query's series, in buckets of a step. Damage is returned as by
    /// [`Engine::select`].
    ///
    /// # Errors
    /// If the step is not positive.
    pub fn aggregate(&self, query: &Query, step: Step) -> Result<Aggregates<'_>, Error> {
        query::aggregate(&self.core, query, step)
    }

    /// Returns the first and last time of the samples that a query selects, for display. Only the
    /// first `sources` sources of the query are examined, with any field, which bounds the cost.
    /// Damaged blocks are omitted.
    pub fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        query::time_range(&self.core, query, sources)
    }

    /// Returns the parts of a query's interval in which some of its sources have roll-up levels
    /// instead of samples, according to the rules of their classes. Ordered by the length of the
    /// step, then by time.
    pub fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        levels::levels(&self.core, query)
    }

    /// Returns all measurements, sorted.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn measurements(&self) -> Result<Vec<String>, Error> {
        names::measurements(&self.core)
    }

    /// Returns the tags of the selected sources, sorted.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, Error> {
        names::tag_names(&self.core, selector)
    }

    /// Returns the first `limit` values of a tag among the selected sources, sorted.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        names::tag_values(&self.core, selector, tag, limit)
    }

    /// Returns the selected sources, ascending.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, Error> {
        report::sources(&self.core, selector)
    }

    /// Returns the selected sources without those that are known to have no sample in an interval,
    /// ascending. Reads the indexes of segments and decodes buffers, but no block: a returned source
    /// may have samples only before and after the interval.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn sources_within(
        &self,
        selector: &Selector,
        interval: Interval,
    ) -> Result<Vec<SourceId>, Error> {
        query::sources_within(&self.core, selector, interval)
    }

    /// Returns the measurement and tags of a source.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn source_key(&self, id: SourceId) -> Result<Option<SourceKey>, Error> {
        names::key(&self.core, id.0)
    }

    /// Returns the fields of the selected sources with their types, sorted.
    ///
    /// # Errors
    /// If a names file is damaged, or the disk fails.
    pub fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
        report::fields(&self.core, selector)
    }

    /// Returns the sealed segments, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        report::segments(&self.core)
    }

    /// Returns the state of the log: disk space, lanes, segments, classes.
    pub fn log(&self) -> LogStatus {
        report::log(&self.core)
    }

    /// Returns the retention classes and their contents.
    pub fn classes(&self) -> Vec<ClassStatus> {
        report::classes(&self.core)
    }

    /// Returns recent decisions to drop or merge segments and their reasons, latest last.
    pub fn decisions(&self) -> Vec<DecisionRecord> {
        report::decisions(&self.core)
    }

    /// Returns the extent of each group of sources in sealed and open segments. Blocks with expired samples count until
    /// their segment is gone.
    ///
    /// # Errors
    /// If the disk fails, or an index is damaged.
    pub fn extents(&self, groups: &[Vec<SourceId>]) -> Result<Vec<Extent>, Error> {
        extents::extents(&self.core, groups)
    }

    /// Returns the blocks that the store wrote and still has, in sealed and open segments.
    ///
    /// # Errors
    /// If the disk fails, or an index is damaged.
    pub fn trace(&self) -> Result<Vec<Arrival>, Error> {
        trace::written(&self.core)
    }

    /// Returns the state of the store.
    pub fn status(&self) -> Status {
        report::status(&self.core)
    }

    /// Returns losses of data that are not yet acknowledged.
    pub fn losses(&self) -> Vec<Loss> {
        self.core.losses()
    }

    /// Acknowledges all losses. Acknowledged losses are still counted but no longer listed. Durable
    /// on return. Returns the number of acknowledged losses.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn acknowledge_losses(&self) -> Result<u64, Error> {
        self.core.acknowledge_losses()
    }

    /// Confirms the host's clock after a jump that the store did not accept. Data that is too old
    /// by the confirmed time expires.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn accept_clock(&self) -> Result<(), Error> {
        self.core.accept_clock()
    }
}
