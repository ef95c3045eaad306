//! The engine: one store, as its users see it. Every method is one of [`crate::core`]'s parts.

use crate::answer::{LevelSpan, Query, Step};
use crate::closing;
use crate::commit;
use crate::core::Core;
use crate::delete;
use crate::error::{Error, Receipt};
use crate::holds::Holds;
use crate::intake;
use crate::jobs;
use crate::jobs::merging::memory::Record;
use crate::levels;
use crate::opening;
use crate::options::{Durability, Options};
use crate::query;
use crate::query::aggregate::Aggregates;
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
use std::path::Path;
use std::sync::Arc;

/// A store, open for reading and writing.
///
/// All methods block; none is async. Share it by [`Arc`].
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    fn of(core: Core) -> Engine {
        Engine {
            core: Arc::new(core),
        }
    }

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
        let engine = Engine::open(disk, clock, options)?;
        trim_allocator();
        engine.core.scheduler.start(&engine.core);
        Ok(Arc::new(engine))
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
        Ok(Engine::of(opening::open(disk, clock, options)?))
    }

    /// Opens the store in a directory for reading. Its rules are the stored ones; nothing in the directory
    /// changes, it is not locked, and a server may be writing it. What that server accepted and has not written
    /// to the disk is not seen.
    ///
    /// # Errors
    /// When there is no store, or it cannot be read.
    pub fn open_to_read(path: &Path, options: Options) -> Result<Engine, Error> {
        Ok(Engine::of(reading::open_to_read(path, options)?))
    }

    /// The same on any disk, which nobody writes meanwhile.
    ///
    /// # Errors
    /// As [`Engine::open_to_read`].
    pub fn read_disk(disk: Arc<dyn Disk>, options: Options) -> Result<Engine, Error> {
        Ok(Engine::of(reading::read_disk(disk, options)?))
    }

    /// Differences between the rules that this start brought and those that were stored, in words.
    pub fn rules_changed(&self) -> &[String] {
        report::rules_changed(&self.core)
    }

    /// The settings that hold: the rules are those that are stored with the data.
    pub fn options(&self) -> Options {
        self.core.options()
    }

    /// What start-up found.
    pub fn recovery(&self) -> &Recovery {
        self.core.recovery()
    }

    /// When an acknowledged row survives what.
    pub fn durability(&self) -> Durability {
        self.core.durability()
    }

    /// Returns how long the store's lock was held since the store was opened.
    pub fn lock_holds(&self) -> Holds {
        self.core.lock_holds()
    }

    /// Appends rows in the order in which they stand. Rows that cannot be accepted are refused one
    /// by one and told in the receipt; the others are accepted.
    ///
    /// # Errors
    /// When the store accepts nothing any more; rows of the batch may have been accepted before.
    pub fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, Error> {
        intake::append(&self.core, notation, batch)
    }

    /// Returns the number of a source, which is registered if it is new.
    ///
    /// # Errors
    /// [`Error::Refused`] if the names take their share of the memory, and as [`Engine::append`].
    pub fn register(&self, key: &SourceKey) -> Result<SourceId, Error> {
        intake::register(&self.core, key)
    }

    /// Appends rows of one source: a column a field, as many as `fields`.
    pub fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, Error> {
        intake::append_columns(&self.core, source, fields, columns)
    }

    /// Appends one value each to many sources: equally many sources, times and values.
    pub fn append_samples(
        &self,
        field: &str,
        sources: &[SourceId],
        times: &[i64],
        values: &[f64],
    ) -> Result<Receipt, Error> {
        intake::append_samples(&self.core, field, sources, times, values)
    }

    /// Writes and syncs what was accepted.
    pub fn commit(&self) -> Result<(), Error> {
        commit::commit(&self.core)
    }

    /// Whether what was accepted up to a receipt's position is on disk. Without a journal nobody
    /// promised it, and the answer is yes.
    pub fn is_durable(&self, position: u64) -> bool {
        commit::is_durable(&self.core, position)
    }

    /// Returns when what was accepted up to a receipt's position is on disk. Those who wait at the
    /// same time share a sync.
    pub fn wait_durable(&self, position: u64) -> Result<(), Error> {
        commit::wait_durable(&self.core, position)
    }

    /// Deletes the samples of sources in an interval, as far as they were accepted before; durable,
    /// and seen by nobody any more, on return. Answers how many sources were meant. The room comes
    /// back when the segments that hold them are dropped or merged.
    ///
    /// # Errors
    /// When the disk fails: then the samples may or may not be deleted.
    pub fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, Error> {
        delete::delete(&self.core, selector, interval)
    }

    /// Seals everything into segments and lets the journal go: what is on disk then is as small as
    /// it gets, and can be copied.
    pub fn settle(&self) -> Result<(), Error> {
        closing::settle(&self.core)
    }

    /// A step of background work: writes a piece, seals a segment, ends chapters, seals idle sources,
    /// drops and merges segments. Answers whether more is waiting.
    pub fn step(&self) -> Result<bool, Error> {
        jobs::step(&self.core)
    }

    /// Stops the background threads, seals everything and refuses what comes then. The next start reads
    /// footers only.
    pub fn close(&self) -> Result<(), Error> {
        closing::close(&self.core)
    }

    /// The rows that a query asks for, source by source, in pieces of bounded size. Times ascend strictly over the
    /// pieces of a source. Each [`Error::Damage`] among the items tells of a block that is missing from what follows.
    ///
    /// The module's documentation states the memory that a scan takes.
    pub fn scan(&self, query: &Query) -> Scan<'_> {
        query::scan(&self.core, query)
    }

    /// The samples that a query asks for: series by series, times strictly ascending. Series
    /// without samples in the interval are left out. Each [`Error::Damage`] among the items tells of
    /// a block that is missing from what follows.
    ///
    /// Holds all series of a source in memory; [`Engine::scan`] does not.
    ///
    /// # Errors
    /// None at present.
    pub fn select(&self, query: &Query) -> Result<Select<'_>, Error> {
        query::select(&self.core, query)
    }

    /// The aggregates of a query's series, in buckets of a step; damage is told as by
    /// [`Engine::select`].
    ///
    /// # Errors
    /// When the step is not positive.
    pub fn aggregate(&self, query: &Query, step: Step) -> Result<Aggregates<'_>, Error> {
        query::aggregate(&self.core, query, step)
    }

    /// First and last time of the samples that a query selects, for people: of the query's first `sources`
    /// sources with any field, which bounds the cost. Damaged blocks are left out.
    pub fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        query::time_range(&self.core, query, sources)
    }

    /// The parts of a query's interval in which some of its sources have coarser levels instead of
    /// samples, as the rules of their classes say: by the length of the step, then by time.
    pub fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        levels::levels(&self.core, query)
    }

    /// All measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        report::measurements(&self.core)
    }

    /// The tags that the selected sources have, sorted.
    pub fn tag_names(&self, selector: &Selector) -> Vec<String> {
        report::tag_names(&self.core, selector)
    }

    /// The first `limit` values of a tag among the selected sources, sorted.
    pub fn tag_values(&self, selector: &Selector, tag: &str, limit: usize) -> Vec<String> {
        report::tag_values(&self.core, selector, tag, limit)
    }

    /// The selected sources, ascending.
    pub fn sources(&self, selector: &Selector) -> Vec<SourceId> {
        report::sources(&self.core, selector)
    }

    /// The measurement and tags of a source.
    pub fn source_key(&self, id: SourceId) -> Option<SourceKey> {
        report::source_key(&self.core, id)
    }

    /// The fields of the selected sources with their types, sorted.
    pub fn fields(&self, selector: &Selector) -> Vec<(String, FieldType)> {
        report::fields(&self.core, selector)
    }

    /// The sealed segments, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        report::segments(&self.core)
    }

    /// The log: room, lanes, segments, classes.
    pub fn log(&self) -> LogStatus {
        report::log(&self.core)
    }

    /// The retention classes and what they have.
    pub fn classes(&self) -> Vec<ClassStatus> {
        report::classes(&self.core)
    }

    /// What was dropped and merged lately and why, the latest last.
    pub fn decisions(&self) -> Vec<Record> {
        report::decisions(&self.core)
    }

    /// What the store wrote, as far as it is still there, in segments sealed or being written.
    ///
    /// # Errors
    /// When the disk fails, or an index is damaged.
    pub fn trace(&self) -> Result<Vec<Arrival>, Error> {
        trace::written(&self.core)
    }

    /// The state of the store.
    pub fn status(&self) -> Status {
        report::status(&self.core)
    }

    /// Data that was lost, and whose loss nobody acknowledged.
    pub fn losses(&self) -> Vec<Loss> {
        self.core.losses()
    }

    /// Acknowledges all losses: they are counted still, and no longer shown. Durable on return; returns
    /// their number.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn acknowledge_losses(&self) -> Result<u64, Error> {
        self.core.acknowledge_losses()
    }

    /// Confirms the host's clock after a jump that the store does not believe: what is too old by it goes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn accept_clock(&self) -> Result<(), Error> {
        self.core.accept_clock()
    }
}
