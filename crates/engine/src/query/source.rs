//! Sources of a query, one by one, and reading of their blocks.
//!
//! An unreadable block or footer page is a separate error. All other data is returned.

use crate::answer::Query;
use crate::block::{self, Block};
use crate::buffer::columns;
use crate::buffer::line::OpenBlock;
use crate::bundle::cache::BundleCache;
use crate::core::Core;
use crate::error::Error;
use crate::maps::HashMap;
use crate::query::blocks::Blocks;
use crate::query::bounds;
use crate::query::damages::Damages;
use crate::query::memory::QueryShare;
use crate::query::rows::Rows;
use crate::query::snapshot::{BlockLocation, Known, Part, Present, Snapshot};
use crate::report::{source_key, sources};
use crate::retention::rollup::{field_of, step_start};
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use crate::segment::sealed::LastPage;
use seiner_bundle::{Layout as BundleLayout, SourceRows};
use seiner_model::{Columns, FieldColumn, FieldType, Interval, SourceId, SourceKey};
use seiner_store::IsOver;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of sources that are copied in one hold of the locks.
const SNAPSHOTS: usize = 32;
/// Bytes of rows in memory, after which no further source is copied in the same hold.
const SNAPSHOT_BYTES: usize = 32 << 10;
/// Maximum number of footer pages that a query keeps: some megabytes.
const PAGES_KEPT: usize = 1024;
/// Reason why every source of a query has a key.
const REGISTERED: &str = "selected sources are registered";

/// Reader of the sources of a query, in order.
pub(crate) struct SourceReader<'a> {
    pub engine: &'a Core,
    sources: std::vec::IntoIter<SourceId>,
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

/// Blocks of a source, or of a level, in an interval.
pub(crate) struct SourceView {
    pub source: SourceId,
    pub key: Arc<SourceKey>,
    /// Layouts of its blocks.
    layouts: Arc<Known>,
    /// True for each wanted column.
    pub wanted: Arc<[bool]>,
    pub interval: Interval,
    /// Hidden parts of the source.
    pub visibility: VisibilityFilter,
    /// Blocks that overlap the interval, oldest first.
    pub blocks: Blocks,
    /// Blocks that are not yet encoded, oldest first. They are younger than all others.
    open: Vec<OpenBlock>,
    is_over: Option<IsOver>,
    pub bundles: Arc<BundleCache>,
    _share: QueryShare,
}

impl<'a> SourceReader<'a> {
    /// Creates a reader of the sources that a query selects.
    pub fn new(engine: &'a Core, query: &Query) -> SourceReader<'a> {
        // The share comes first: it keeps the numbers of the sources.
        let reader = SourceReader::of(engine, Vec::new(), query.interval);
        let sources = match query.interval.is_empty() {
            true => Vec::new(),
            false => sources(engine, &query.selector),
        };
        let sources = sources.into_iter();
        SourceReader { sources, ..reader }.with_fields(query.fields.clone())
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
        if self.ahead.is_empty() {
            self.copy_ahead();
        }
        self.sources.next();
        let (snapshot, key) = self.ahead.pop_front()?;
        Some(self.source(snapshot, key))
    }

    /// Copies the next sources in one hold of the locks, and their keys in one hold of the dictionary.
    fn copy_ahead(&mut self) {
        let snapshots = self.snapshots();
        let copied = snapshots.iter().map(|snapshot| snapshot.own.source);
        let keys: Vec<SourceKey> = self.engine.dictionary(|dictionary| {
            let mut names = dictionary.reader();
            let keys = copied.map(|source| names.key(source).expect(REGISTERED));
            keys.collect()
        });
        self.ahead.extend(snapshots.into_iter().zip(keys));
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
        let key = key.unwrap_or_else(|| source_key(self.engine, source).expect(REGISTERED));
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

impl SourceView {
    /// Returns whether blocks overlap an interval, or buffers have rows in it.
    fn may_have_rows(&self, interval: Interval) -> bool {
        if self
            .blocks
            .iter()
            .any(|entry| interval.overlaps(&entry.span()))
        {
            return true;
        }
        let nothing = vec![false; self.wanted.len()];
        let mut open = self.open_rows(&nothing).into_iter();
        open.any(|rows| rows.times.iter().any(|time| interval.contains(*time)))
    }

    /// Returns the names of all columns.
    pub fn names(&self) -> &[Arc<str>] {
        self.layouts.present.names()
    }

    /// Returns the types of all columns.
    pub fn types(&self) -> &[FieldType] {
        self.layouts.present.types()
    }

    /// Returns the column of a field.
    pub fn column_of(&self, field: &str) -> Option<usize> {
        self.layouts.present.column(field.as_bytes(), 0)
    }

    /// Returns the wanted columns.
    pub fn wanted_columns(&self) -> impl Iterator<Item = usize> + '_ {
        let columns = self.wanted.iter().enumerate();
        columns
            .filter(|(_, wanted)| **wanted)
            .map(|(column, _)| column)
    }

    /// Returns an error if the query was abandoned.
    ///
    /// # Errors
    /// [`Error::Abandoned`].
    pub fn check_abandoned(&self) -> Result<(), Error> {
        match &self.is_over {
            Some(is_over) if is_over() => Err(Error::Abandoned),
            _ => Ok(()),
        }
    }

    /// Returns the rows of a block in the present layout, with the wanted columns.
    ///
    /// # Errors
    /// Errors of the disk, and [`Error::Damage`].
    pub fn read(&self, block: usize, wanted: &[bool]) -> Result<Rows, Error> {
        let (entry, place) = self.blocks.at(block);
        match entry.is_bundled() {
            true => self.read_bundled(&entry, place, wanted),
            false => self.decode(&entry, place, &place.read(&entry)?, wanted),
        }
    }

    /// Returns the rows of a block in a bundle.
    fn read_bundled(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        wanted: &[bool],
    ) -> Result<Rows, Error> {
        let SourceRows { layout, rows, .. } = self.bundles.rows(entry, place)?;
        let mut fields = vec![None; self.layouts.present.columns()];
        for (column, field) in rows.fields.into_iter().enumerate() {
            let found = self.bundled_column(&layout, column);
            let found = found.map_err(|what| place.damage(entry, what))?;
            if let Some(place_of) = found.filter(|place_of| wanted[*place_of]) {
                fields[place_of] = Some(field);
            }
        }
        let rows = Rows {
            times: rows.times,
            fields,
        };
        Ok(self.lift(entry.number, rows))
    }

    /// Returns the column of the present layout for a column of a bundle.
    ///
    /// # Errors
    /// A description of the damage, if the types differ.
    pub fn bundled_column(
        &self,
        layout: &BundleLayout,
        column: usize,
    ) -> Result<Option<usize>, String> {
        let (name, field_type) = &layout.fields()[column];
        let present = &self.layouts.present;
        let found = present.column(name.as_bytes(), column);
        match found.is_none_or(|found| present.types()[found] == *field_type) {
            true => Ok(found),
            false => Err(format!(
                "its field {name:?} has the type {}",
                field_type.name()
            )),
        }
    }

    /// Returns the rows of a block from its bytes.
    ///
    /// # Errors
    /// [`Error::Damage`].
    pub fn decode(
        &self,
        entry: &Entry,
        place: &BlockLocation,
        bytes: &[u8],
        wanted: &[bool],
    ) -> Result<Rows, Error> {
        let damage = |what| place.damage(entry, what);
        let block = Block::open(bytes).map_err(damage)?;
        if (block.head.source, block.head.number) != (entry.source, entry.number) {
            return Err(damage(format!(
                "it is block {} of source {}",
                block.head.number, block.head.source
            )));
        }
        let (names, types) = self.layout_of(block.head.layout).map_err(damage)?;
        let (times, fields) = block
            .columns(types, |column| {
                self.place_of(names, column, wanted).is_some()
            })
            .map_err(damage)?;
        let rows = self.arrange(names, times, fields, wanted);
        Ok(self.lift(entry.number, rows))
    }

    /// Returns the names and types of the columns of a layout.
    ///
    /// # Errors
    /// A description of the damage, if the layout is unknown.
    pub fn layout_of(&self, number: u32) -> Result<(&[Arc<str>], &[FieldType]), String> {
        let known = self.layouts.get(number);
        known.ok_or_else(|| "its layout is unknown".to_string())
    }

    /// Returns the rows of the blocks that are not yet encoded, oldest first, with the wanted
    /// columns.
    pub fn open_rows(&self, wanted: &[bool]) -> Vec<Rows> {
        let decode = |open: &OpenBlock| {
            let (names, types) = self
                .layouts
                .get(open.layout)
                .expect("buffers have the layouts of their sources");
            let rows = columns::decode(&open.bytes, open.rows, types)
                .expect("this process encoded the buffer");
            let Columns { times, fields } = block::sorted(rows);
            let fields = fields.into_iter().map(Some).collect();
            let rows = self.lift(open.number, self.arrange(names, times, fields, wanted));
            rows.clip(self.interval)
        };
        self.open.iter().map(decode).collect()
    }

    /// Returns an upper estimate of the number of rows.
    pub fn rows_at_most(&self) -> u64 {
        let open: usize = self.open.iter().map(|open| open.rows).sum();
        let blocks = self.blocks.iter().map(|entry| u64::from(entry.rows));
        open as u64 + blocks.sum::<u64>()
    }

    /// Returns the encoded bytes of all blocks.
    pub fn encoded_bytes(&self) -> u64 {
        let blocks = self.blocks.iter().map(|entry| u64::from(entry.len));
        let open: usize = self.open.iter().map(|open| open.bytes.len()).sum();
        open as u64 + blocks.sum::<u64>()
    }

    /// Removes the rows of a block that were deleted. Rows that are too old are outside the
    /// interval anyway.
    fn lift(&self, number: u64, rows: Rows) -> Rows {
        let hidden = |time: &i64| self.visibility.hides_row(number, *time);
        let (Some(&first), Some(&last)) = (rows.times.first(), rows.times.last()) else {
            return rows;
        };
        if !self.visibility.touches(number, &Interval::new(first, last)) {
            return rows;
        }
        let kept: Vec<usize> = (0..rows.times.len())
            .filter(|&row| !hidden(&rows.times[row]))
            .collect();
        rows.pick(&kept)
    }

    /// Returns the column of the present layout for a wanted column of another layout.
    pub fn place_of(&self, names: &[Arc<str>], column: usize, wanted: &[bool]) -> Option<usize> {
        let present = &self.layouts.present;
        let place = present.column(names[column].as_bytes(), column);
        place.filter(|&place| wanted[place])
    }

    fn arrange(
        &self,
        names: &[Arc<str>],
        times: Vec<i64>,
        columns: Vec<Option<FieldColumn>>,
        wanted: &[bool],
    ) -> Rows {
        let mut fields = vec![None; self.types().len()];
        for (column, field) in columns.into_iter().enumerate() {
            if let Some(place) = self.place_of(names, column, wanted) {
                fields[place] = field;
            }
        }
        Rows { times, fields }
    }
}
