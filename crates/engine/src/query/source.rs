//! Sources of a query, one by one.
//!
//! An unreadable block or footer page is a separate error. All other data is returned.

use crate::answer::Query;
use crate::core::Core;
use crate::error::Error;
use crate::maps::HashMap;
use crate::names::{keys, known_key};
use crate::query::blocks::Blocks;
use crate::query::bounds;
use crate::query::damages::Damages;
use crate::query::memory::QueryShare;
use crate::query::rows::Rows;
use crate::query::snapshot::{BlockLocation, Known, Part, Present, Snapshot};
use crate::query::view::SourceView;
use crate::report::sources;
use crate::retention::rollup::{field_of, step_start};
use crate::segment::Entry;
use crate::segment::sealed::LastPage;
use seiner_model::{Interval, SourceId, SourceKey};
use seiner_store::IsOver;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of sources that are copied in one hold of the locks.
const SNAPSHOTS: usize = 32;
/// Bytes of rows in memory, after which no further source is copied in the same hold.
const SNAPSHOT_BYTES: usize = 32 << 10;
/// Maximum number of footer pages that a query keeps: some megabytes.
const PAGES_KEPT: usize = 1024;

/// Reader of the sources of a query, in order.
pub(crate) struct SourceReader<'a> {
    pub engine: &'a Core,
    sources: std::vec::IntoIter<SourceId>,
    /// Error of selecting the sources.
    failed: Option<Error>,
    /// Copies of the next sources, with their keys.
    ahead: VecDeque<(Snapshot, SourceKey)>,
    /// Layouts of the source that was copied last.
    known: Option<Arc<Known>>,
    /// Wanted columns of the layouts of the source, or level, that was listed last.
    columns: Option<(Arc<Known>, bool, Arc<[bool]>)>,
    pub fields: Option<Vec<String>>,
    pub interval: Interval,
    /// Footer pages that were read last, by the number of the segment. Sources are read in order,
    /// and so are their levels of each rank. Each page is therefore read once.
    pages: HashMap<(usize, u64), LastPage>,
    pub is_over: Option<IsOver>,
    /// Number from which on blocks are not read.
    end: u64,
    /// Share of the query in the memory of all queries.
    pub share: Arc<QueryShare>,
}

/// Source with its levels at one moment. Reading needs no lock.
pub(crate) struct Source {
    /// Samples. Their interval extends beyond the query's interval to the end of the last step of a
    /// level.
    pub own: Arc<SourceView>,
    /// Interval of the query.
    pub interval: Interval,
    /// Levels with the lengths of their steps in ns, finest first.
    pub levels: Vec<(u64, Arc<SourceView>)>,
    /// Exclusive end of the times that levels may cover, ns.
    pub levels_until: i64,
    /// Times of the rows in open blocks of the samples and of the levels, ascending. Empty without
    /// levels.
    pub open_times: Vec<i64>,
    /// Damage of footers.
    pub damages: Damages,
}

impl<'a> SourceReader<'a> {
    /// Creates a reader of the sources that a query selects.
    pub fn new(engine: &'a Core, query: &Query) -> SourceReader<'a> {
        // The share comes first: it keeps the numbers of the sources.
        let mut reader = SourceReader::of(engine, Vec::new(), query.interval);
        if !query.interval.is_empty() {
            match sources(engine, &query.selector) {
                Ok(sources) => reader.sources = sources.into_iter(),
                Err(error) => reader.failed = Some(error),
            }
        }
        reader.with_fields(query.fields.clone())
    }

    /// Creates a reader of some sources, with all fields.
    pub fn of(engine: &'a Core, sources: Vec<SourceId>, interval: Interval) -> SourceReader<'a> {
        engine.look_at_the_clock();
        let bytes = bounds(engine, Some(1)).memory();
        let share = Arc::new(engine.queries.begin(bytes));
        SourceReader::sharing(engine, sources, interval, share)
    }

    /// Creates a reader of some sources of a query that has a share already.
    pub fn sharing(
        engine: &'a Core,
        sources: Vec<SourceId>,
        interval: Interval,
        share: Arc<QueryShare>,
    ) -> SourceReader<'a> {
        SourceReader {
            engine,
            sources: sources.into_iter(),
            failed: None,
            ahead: VecDeque::new(),
            known: None,
            columns: None,
            fields: None,
            interval,
            pages: HashMap::default(),
            is_over: None,
            end: u64::MAX,
            share,
        }
    }

    /// Returns the sources that were not read.
    pub fn into_sources(self) -> Vec<SourceId> {
        self.sources.collect()
    }

    /// Returns the number of sources that are not read yet.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Limits the blocks to those with numbers below `end`.
    pub fn before(self, end: u64) -> SourceReader<'a> {
        SourceReader { end, ..self }
    }

    /// Limits the fields.
    pub fn with_fields(self, fields: Option<Vec<String>>) -> SourceReader<'a> {
        SourceReader {
            fields,
            columns: None,
            ..self
        }
    }

    /// Returns the next source, or `None` at the end or if the query was abandoned.
    pub fn next_source(&mut self) -> Option<Result<Source, Error>> {
        if self.is_over() {
            return None;
        }
        self.take_source()
    }

    /// Returns the next source, even if the query was abandoned.
    pub fn take_source(&mut self) -> Option<Result<Source, Error>> {
        if let Some(error) = self.take_error() {
            return Some(Err(error));
        }
        if self.ahead.is_empty()
            && let Err(error) = self.copy_ahead()
        {
            self.stop();
            return Some(Err(error));
        }
        self.sources.next();
        let (snapshot, key) = self.ahead.pop_front()?;
        Some(self.source(snapshot, key))
    }

    /// Removes and returns the error of selecting the sources.
    pub fn take_error(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Copies the next sources in one hold of the locks, and their keys in one hold of the dictionary.
    fn copy_ahead(&mut self) -> Result<(), Error> {
        let snapshots = self.snapshots();
        let copied = snapshots.iter().map(|snapshot| snapshot.own.source);
        let keys = keys(self.engine, copied)?;
        self.ahead.extend(snapshots.into_iter().zip(keys));
        Ok(())
    }

    fn snapshots(&mut self) -> Vec<Snapshot> {
        let (head, log) = self.engine.present();
        let volume = &*self.engine.volume;
        let (head, log) = (&*head, &*log);
        let mut bytes = 0;
        let mut snapshots = Vec::with_capacity(SNAPSHOTS.min(self.sources.len()));
        for source in self.sources.as_slice().iter().take(SNAPSHOTS) {
            let present = Present { head, log, volume };
            let snapshot = Snapshot::take(present, source.0, self.interval, &mut self.known);
            bytes += snapshot.copied_bytes();
            snapshots.push(snapshot);
            if bytes > SNAPSHOT_BYTES {
                break;
            }
        }
        snapshots
    }

    /// Returns whether the query was abandoned.
    pub fn is_over(&self) -> bool {
        self.is_over.as_ref().is_some_and(|is_over| is_over())
    }

    /// Omits the remaining sources.
    pub fn stop(&mut self) {
        self.sources = Vec::new().into_iter();
        self.ahead.clear();
    }

    fn source(&mut self, mut snapshot: Snapshot, key: SourceKey) -> Result<Source, Error> {
        snapshot.own.visibility = snapshot.own.visibility.before(self.end);
        let mut damages = Damages::default();
        let mut levels = Vec::new();
        let mut own_interval = self.interval;
        for (rank, (step, level)) in snapshot.levels.iter().enumerate() {
            let rank = rank + 1;
            let view = self.view(&snapshot, level, None, rank, self.interval, &mut damages)?;
            levels.push((*step, Arc::new(view)));
            let last = self.interval.end.min(snapshot.levels_until - 1);
            let end = step_start(last, *step).saturating_add((*step - 1) as i64);
            own_interval.end = own_interval.end.max(end);
        }
        let own = self.view(
            &snapshot,
            &snapshot.own,
            Some(key),
            0,
            own_interval,
            &mut damages,
        )?;
        let mut open_times = Vec::new();
        if !levels.is_empty() {
            let views = levels.iter().map(|(_, view)| &**view).chain([&own]);
            let rows = views.flat_map(|view| view.open_rows(&view.wanted));
            open_times.extend(rows.flat_map(|rows| rows.times));
            open_times.sort_unstable();
        }
        Ok(Source {
            own: Arc::new(own),
            interval: self.interval,
            open_times,
            levels,
            levels_until: snapshot.levels_until,
            damages,
        })
    }

    /// Returns a source without its levels, or a level.
    pub fn alone(
        &mut self,
        source: SourceId,
        damages: &mut Damages,
    ) -> Result<Arc<SourceView>, Error> {
        let snapshot = {
            let (head, log) = self.engine.present();
            let volume = &*self.engine.volume;
            let (head, log) = (&*head, &*log);
            let present = Present { head, log, volume };
            Snapshot::take_alone(present, source.0, &mut self.known)
        };
        let view = self.view(&snapshot, &snapshot.own, None, 0, self.interval, damages)?;
        Ok(Arc::new(view))
    }

    /// Lists the blocks of a part of a snapshot. Parts of one rank come in order. The key is read if it is not given.
    fn view(
        &mut self,
        snapshot: &Snapshot,
        part: &Part,
        key: Option<SourceKey>,
        rank: usize,
        interval: Interval,
        damages: &mut Damages,
    ) -> Result<SourceView, Error> {
        let in_view = Interval::new(interval.start.max(part.visibility.start()), interval.end);
        let is_wanted =
            |entry: &Entry| in_view.overlaps(&entry.span()) && !part.visibility.hides(entry);
        let mut blocks = Blocks::new(part.source);
        let mut entries = Vec::new();
        for segment in snapshot
            .sealed
            .values()
            .filter(|segment| segment.span().overlaps(&interval))
        {
            if self.pages.len() > PAGES_KEPT {
                self.pages.clear();
            }
            let last = self
                .pages
                .entry((rank, segment.trailer.number))
                .or_default();
            entries.clear();
            damages.note(segment.blocks_of(part.source, last, &mut entries), None)?;
            if entries.is_empty() {
                continue;
            }
            let location = BlockLocation::Sealed(segment.clone());
            blocks.add(location, &entries, is_wanted);
        }
        for (entry, location) in &part.unsealed {
            blocks.add(location.clone(), &[*entry], is_wanted);
        }
        blocks.finish();
        // The list, and the times and numbers of a sweep over it.
        let sweep = blocks.len() * size_of::<(i64, usize)>();
        let share = self.engine.queries.charge(blocks.memory() + sweep);
        let source = SourceId(part.source);
        let key = match key {
            Some(key) => key,
            None => known_key(self.engine, part.source)?,
        };
        Ok(SourceView {
            source,
            key: Arc::new(key),
            wanted: self.wanted(part),
            layouts: part.layouts.clone(),
            interval: in_view,
            visibility: part.visibility.clone(),
            blocks,
            open: part.open.clone(),
            is_over: self.is_over.clone(),
            bundles: self.engine.bundles.clone(),
            _share: share,
        })
    }

    /// Returns whether each column of a part is wanted.
    fn wanted(&mut self, part: &Part) -> Arc<[bool]> {
        if let Some((layouts, is_level, wanted)) = &self.columns
            && Arc::ptr_eq(layouts, &part.layouts)
            && *is_level == part.is_level
        {
            return wanted.clone();
        }
        let names = part.layouts.present.names().iter();
        let wanted = names.map(|name| {
            let name = match part.is_level {
                true => field_of(name),
                false => name,
            };
            self.fields
                .as_ref()
                .is_none_or(|fields| fields.iter().any(|field| **field == *name))
        });
        let wanted: Arc<[bool]> = wanted.collect();
        self.columns = Some((part.layouts.clone(), part.is_level, wanted.clone()));
        wanted
    }
}

impl Source {
    /// Returns the rows of a source that has them all in one open block, or `None`. They need no merging. Very many
    /// sources are such when a port of a cluster hands its rows over.
    pub fn single_run(&self) -> Option<Rows> {
        let own = &self.own;
        let is_single = self.levels.is_empty() && own.blocks.len() == 0 && own.open.len() == 1;
        is_single.then(|| own.open_rows(&own.wanted).swap_remove(0))
    }

    /// Returns an upper estimate of the number of rows.
    pub fn rows_at_most(&self) -> u64 {
        let levels = self.levels.iter().map(|(_, view)| view.rows_at_most());
        self.own.rows_at_most() + levels.sum::<u64>()
    }

    /// Returns whether blocks overlap the interval, or buffers have rows in it. True if an index is
    /// damaged.
    pub fn may_have_rows(&self) -> bool {
        let levels = self.levels.iter().map(|(_, view)| view);
        let mut views = levels.chain([&self.own]);
        !self.damages.is_empty() || views.any(|view| view.may_have_rows(self.interval))
    }
}
