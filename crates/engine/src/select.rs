//! Answers: the samples of sources over an interval, and their aggregates.
//!
//! A source is read at one moment: its open block is copied and its blocks are listed under the
//! lock, so that no row is missed or seen twice while writes go on; blocks never change, and are
//! read without it. Of two samples of a series at the same time, that in the younger block counts.
//!
//! A damaged block or footer page takes nothing else with it: it is told as an error of its own,
//! and what can be read follows.

use crate::answer::{Bucket, Query, SeriesData, SeriesSummary, Step, is_integer, number};
use crate::block::{self, Block, present_rows};
use crate::buffer::OpenBlock;
use crate::buffer::row;
use crate::dictionary::layouts::Layout;
use crate::engine::Engine;
use crate::error::Error;
use crate::levels::rows::LevelRows;
use crate::retention::Veil;
use crate::retention::coarser::{field_of, step_start};
use crate::segment::sealed::{LastPage, Segment, read_block};
use crate::segment::{Entry, uncover};
use seiner_model::{
    Bitmap, Column, Columns, FieldColumn, FieldType, Interval, SourceId, SourceKey,
};
use seiner_platform::File;
use seiner_store::IsOver;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Footer pages that a query keeps at most: some megabytes.
const PAGES_KEPT: usize = 1024;

/// The series of a query, source by source, field by field.
pub struct Select<'a> {
    reader: SourceReader<'a>,
    ready: VecDeque<Result<SeriesData, Error>>,
}

/// The aggregates of a query's series.
pub struct Aggregates<'a> {
    reader: SourceReader<'a>,
    step: Step,
    ready: VecDeque<Result<SeriesSummary, Error>>,
}

impl Engine {
    /// The samples that a query asks for: series by series, times strictly ascending. Series
    /// without samples in the interval are left out. Each [`Error::Damage`] among the items tells of
    /// a block that is missing from what follows.
    pub fn select(&self, query: &Query) -> Result<Select<'_>, Error> {
        Ok(Select {
            reader: SourceReader::new(self, query),
            ready: VecDeque::new(),
        })
    }

    /// The aggregates of a query's series, in buckets of a step; damage is told as by
    /// [`Engine::select`].
    ///
    /// # Errors
    /// When the step is not positive.
    pub fn aggregate(&self, query: &Query, step: Step) -> Result<Aggregates<'_>, Error> {
        if let Step::Every(step) = step
            && step < 1
        {
            return Err(Error::Query(format!("a step of {step} ns is not positive")));
        }
        Ok(Aggregates {
            reader: SourceReader::new(self, query),
            step,
            ready: VecDeque::new(),
        })
    }
}

impl Engine {
    /// First and last time of the samples that a query selects, for people: of the query's first `sources`
    /// sources with any field, which bounds the cost. Damaged blocks are left out.
    pub fn time_range(&self, query: &Query, sources: usize) -> Option<Interval> {
        let ids = self.sources(&query.selector);
        let ids = ids.into_iter().take(sources).collect();
        let reader = SourceReader {
            fields: query.fields.clone(),
            ..SourceReader::of(self, ids, query.interval)
        };
        let summaries = Aggregates {
            reader,
            step: Step::Whole,
            ready: VecDeque::new(),
        };
        let buckets = summaries.flatten().flat_map(|summary| summary.buckets);
        buckets
            .map(|bucket| Interval::new(bucket.first.0, bucket.last.0))
            .reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)))
    }
}

impl Select<'_> {
    /// The same, which ends early when `is_over` says so: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(mut self, is_over: IsOver) -> Self {
        self.reader.is_over = Some(is_over);
        self
    }
}

impl Aggregates<'_> {
    /// The same, which ends early when `is_over` says so: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(mut self, is_over: IsOver) -> Self {
        self.reader.is_over = Some(is_over);
        self
    }
}

impl Iterator for Select<'_> {
    type Item = Result<SeriesData, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let source = self.reader.next_source()?;
            match source.and_then(|source| {
                let levels = self.reader.levels_of(&source)?;
                let found = source.series(&levels)?;
                Ok((source.damage.into_inner(), found))
            }) {
                Ok((damage, found)) => {
                    self.ready.extend(damage.into_iter().map(Err));
                    self.ready.extend(found.into_iter().map(Ok));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Aggregates<'_> {
    type Item = Result<SeriesSummary, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let source = self.reader.next_source()?;
            match source.and_then(|source| {
                let levels = self.reader.levels_of(&source)?;
                let found = source.summaries(self.step, &levels)?;
                Ok((source.damage.into_inner(), found))
            }) {
                Ok((damage, found)) => {
                    self.ready.extend(damage.into_iter().map(Err));
                    self.ready.extend(found.into_iter().map(Ok));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

// ---- one source at a time

pub(crate) struct SourceReader<'a> {
    pub engine: &'a Engine,
    sources: std::vec::IntoIter<SourceId>,
    fields: Option<Vec<String>>,
    pub interval: Interval,
    /// The footer pages read last, by the segment's number. Sources come in order, and so do their
    /// levels of each rank, so that each page is read once.
    pages: HashMap<(usize, u64), LastPage>,
    is_over: Option<IsOver>,
}

/// Where a block's bytes are.
pub(crate) enum Place {
    /// A segment that is being written: its file, its name, and the end of the block, which may
    /// not be written yet.
    Open(Arc<dyn File>, String, Vec<u8>),
    Sealed(Arc<Segment>),
}

/// A source as it was at one moment.
pub(crate) struct SourceView<'a> {
    engine: &'a Engine,
    pub source: SourceId,
    pub key: Arc<SourceKey>,
    /// All its columns.
    pub layout: Arc<Layout>,
    /// Which of them are wanted.
    pub wanted: Vec<bool>,
    pub interval: Interval,
    /// What is hidden of it.
    pub veil: Veil,
    /// Blocks that overlap the interval, oldest first.
    pub blocks: Vec<(Entry, Place)>,
    /// Blocks that no segment has yet, oldest first: taken buffers, and the open one.
    pub open: Vec<OpenBlock>,
    /// What could not be read.
    pub damage: RefCell<Vec<Error>>,
    is_over: Option<IsOver>,
}

impl<'a> SourceReader<'a> {
    fn new(engine: &'a Engine, query: &Query) -> SourceReader<'a> {
        let sources = if query.interval.is_empty() {
            Vec::new()
        } else {
            engine.sources(&query.selector)
        };
        SourceReader {
            fields: query.fields.clone(),
            ..SourceReader::of(engine, sources, query.interval)
        }
    }

    /// Of some sources, all fields.
    pub fn of(engine: &'a Engine, sources: Vec<SourceId>, interval: Interval) -> SourceReader<'a> {
        engine.look_at_the_clock();
        SourceReader {
            engine,
            sources: sources.into_iter(),
            fields: None,
            interval,
            pages: HashMap::new(),
            is_over: None,
        }
    }

    fn next_source(&mut self) -> Option<Result<SourceView<'a>, Error>> {
        if self.is_over.as_ref().is_some_and(|is_over| is_over()) {
            return None;
        }
        self.sources.next().map(|source| self.view(source))
    }

    pub fn view(&mut self, source: SourceId) -> Result<SourceView<'a>, Error> {
        self.view_in(source, self.interval, 0)
    }

    /// A source, or a level of one, in an interval. Those of one rank come in order.
    pub fn view_in(
        &mut self,
        source: SourceId,
        interval: Interval,
        rank: usize,
    ) -> Result<SourceView<'a>, Error> {
        let (layout, open, blocks, sealed, veil, is_level) = {
            let mut state = self.engine.lock();
            state.advance(&*self.engine.clock);
            let line = state.buffers.line(source.0);
            let layout = state
                .layouts
                .get(line.layout)
                .expect("lines bear layouts of the store")
                .clone();
            let veil = state.retention.veil(source.0, line.rows);
            let blocks: Vec<(Entry, Place)> = state
                .open_blocks_of(source.0)
                .map(|(open, entry)| {
                    let place = Place::Open(
                        open.file.clone(),
                        state.volume.name(open.number),
                        open.held_end(&entry),
                    );
                    (entry, place)
                })
                .collect();
            (
                layout,
                state.unsealed(source.0, &veil),
                blocks,
                state.sealed.clone(),
                veil,
                state.retention.is_level(source.0),
            )
        };
        let mut damage = Vec::new();
        let mut older = Vec::new();
        for segment in sealed
            .values()
            .filter(|segment| segment.span().overlaps(&interval))
        {
            let mut entries = Vec::new();
            if self.pages.len() > PAGES_KEPT {
                self.pages.clear();
            }
            let last = self
                .pages
                .entry((rank, segment.trailer.number))
                .or_default();
            note(&mut damage, segment.blocks_of(source.0, last, &mut entries))?;
            older.extend(
                entries
                    .into_iter()
                    .map(|entry| (entry, Place::Sealed(segment.clone()))),
            );
        }
        older.extend(blocks);
        // A block that is being merged may lie in two segments.
        uncover(&mut older, |(entry, _)| entry);
        let interval = Interval::new(interval.start.max(veil.start()), interval.end);
        older.retain(|(entry, _)| {
            interval.overlaps(&Interval::new(entry.first, entry.last)) && !veil.hides(entry)
        });
        let wanted = layout
            .names()
            .iter()
            .map(|name| {
                let name = match is_level {
                    true => field_of(name),
                    false => name,
                };
                self.fields
                    .as_ref()
                    .is_none_or(|fields| fields.iter().any(|field| **field == *name))
            })
            .collect();
        let key = self
            .engine
            .source_key(source)
            .expect("selected sources are registered");
        Ok(SourceView {
            engine: self.engine,
            source,
            key: Arc::new(key),
            layout,
            wanted,
            interval,
            veil,
            blocks: older,
            open,
            damage: RefCell::new(damage),
            is_over: self.is_over.clone(),
        })
    }
}

/// Keeps damage for the answer; other errors end it.
fn note<T>(damage: &mut Vec<Error>, result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error @ Error::Damage { .. }) => {
            damage.push(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Place {
    fn read(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        match self {
            Place::Open(_, _, end) if end.len() == entry.len as usize => Ok(end.clone()),
            Place::Open(file, name, end) => {
                let written = Entry {
                    len: entry.len - end.len() as u32,
                    ..*entry
                };
                let mut bytes = read_block(&**file, name, &written)?;
                bytes.extend_from_slice(end);
                Ok(bytes)
            }
            Place::Sealed(segment) => segment.read(entry),
        }
    }

    fn damage(&self, entry: &Entry, what: String) -> Error {
        let file = match self {
            Place::Open(_, name, _) => name.clone(),
            Place::Sealed(segment) => segment.name().to_string(),
        };
        Error::Damage {
            file,
            offset: u64::from(entry.offset),
            what,
        }
    }
}

/// A source's rows of one or more blocks: a column, maybe empty, for every column of its layout.
pub(crate) struct Rows {
    pub times: Vec<i64>,
    pub fields: Vec<Option<FieldColumn>>,
}

impl Rows {
    /// Some of the rows, in their order.
    pub fn pick(self, kept: &[usize]) -> Rows {
        let fields = self.fields.iter().map(|field| field.as_ref()?.pick(kept));
        Rows {
            fields: fields.collect(),
            times: kept.iter().map(|&row| self.times[row]).collect(),
        }
    }
}

impl SourceView<'_> {
    fn series(&self, levels: &[LevelRows]) -> Result<Vec<SeriesData>, Error> {
        let rows = self.rows(&self.blocks, true)?;
        Ok(self
            .wanted_columns()
            .filter_map(|column| self.with_levels(levels, column, self.one_series(&rows, column)))
            .collect())
    }

    fn go_on(&self) -> Result<(), Error> {
        match &self.is_over {
            Some(is_over) if is_over() => Err(Error::Abandoned),
            _ => Ok(()),
        }
    }

    pub fn wanted_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.wanted
            .iter()
            .enumerate()
            .filter(|(_, wanted)| **wanted)
            .map(|(column, _)| column)
    }

    pub fn one_series(&self, rows: &Rows, column: usize) -> Option<SeriesData> {
        let field = rows.fields[column].as_ref()?;
        let (times, values) = within(&rows.times, field, self.interval)?;
        let name = self.layout.names()[column].clone();
        Some(SeriesData {
            source: self.source,
            key: self.key.clone(),
            field: name,
            times,
            values,
        })
    }

    /// The rows of blocks, and of the open block if it is asked for, as one.
    pub fn rows(&self, blocks: &[(Entry, Place)], open: bool) -> Result<Rows, Error> {
        let mut runs = Vec::with_capacity(blocks.len() + 1);
        for (entry, place) in blocks {
            self.go_on()?;
            let read = self.read(entry, place);
            if let Err(error) = &read {
                self.engine.note_block(error, entry);
            }
            runs.extend(note(&mut self.damage.borrow_mut(), read)?);
        }
        if open {
            runs.extend(self.open.iter().map(|open| self.decode_open(open)));
        }
        Ok(merge(runs, self.layout.types()))
    }

    fn layout_of(&self, number: u32) -> Option<Arc<Layout>> {
        if number == self.layout.number() {
            return Some(self.layout.clone());
        }
        self.engine
            .lock()
            .layouts
            .get(number)
            .filter(|layout| !layout.is_lost())
            .cloned()
    }

    fn read(&self, entry: &Entry, place: &Place) -> Result<Rows, Error> {
        let bytes = place.read(entry)?;
        let damage = |what| place.damage(entry, what);
        let block = Block::open(&bytes).map_err(damage)?;
        if (block.head.source, block.head.number) != (entry.source, entry.number) {
            return Err(damage(format!(
                "it is block {} of source {}",
                block.head.number, block.head.source
            )));
        }
        let layout = self
            .layout_of(block.head.layout)
            .ok_or_else(|| damage("its layout is unknown".to_string()))?;
        let (times, fields) = block
            .columns(layout.types(), |column| {
                self.place_of(&layout, column)
                    .is_some_and(|place| self.wanted[place])
            })
            .map_err(damage)?;
        let rows = self.arrange(&layout, times, fields);
        Ok(self.lift(entry.number, rows))
    }

    pub fn decode_open(&self, open: &OpenBlock) -> Rows {
        let layout = self
            .layout_of(open.layout)
            .expect("lines bear layouts of the store");
        let rows = row::decode(&open.bytes, open.rows, layout.types())
            .expect("a buffer holds what this process encoded");
        let Columns { times, fields } = block::sorted(rows);
        let rows = self.arrange(&layout, times, fields.into_iter().map(Some).collect());
        self.lift(open.number, rows)
    }

    /// Leaves out the rows of a block that were deleted. Those that are too old are outside the
    /// interval anyway.
    fn lift(&self, number: u64, rows: Rows) -> Rows {
        let hidden = |time: &i64| self.veil.hides_row(number, *time);
        let (Some(&first), Some(&last)) = (rows.times.first(), rows.times.last()) else {
            return rows;
        };
        if !self.veil.touches(number, &Interval::new(first, last)) {
            return rows;
        }
        let kept: Vec<usize> = (0..rows.times.len())
            .filter(|&row| !hidden(&rows.times[row]))
            .collect();
        rows.pick(&kept)
    }

    /// The column of the source's layout that a column of an older layout is.
    fn place_of(&self, layout: &Layout, column: usize) -> Option<usize> {
        self.layout
            .column(layout.names()[column].as_bytes(), column)
    }

    fn arrange(&self, layout: &Layout, times: Vec<i64>, columns: Vec<Option<FieldColumn>>) -> Rows {
        let mut fields = vec![None; self.layout.columns()];
        for (column, field) in columns.into_iter().enumerate() {
            if let Some(place) = self
                .place_of(layout, column)
                .filter(|&place| self.wanted[place])
            {
                fields[place] = field;
            }
        }
        Rows { times, fields }
    }

    // ---- aggregates

    pub fn summaries(&self, step: Step, levels: &[LevelRows]) -> Result<Vec<SeriesSummary>, Error> {
        let mut buckets: Vec<Vec<Bucket>> = vec![Vec::new(); self.layout.columns()];
        for cluster in self.clusters() {
            self.go_on()?;
            let blocks = &self.blocks[cluster.range];
            if !cluster.open
                && let [(entry, place)] = blocks
                && !self
                    .veil
                    .touches(entry.number, &Interval::new(entry.first, entry.last))
                && let Some(start) = self.lies_in_a_bucket(entry, step)
            {
                let taken = self.take_summaries(entry, place, start, step, &mut buckets);
                // A damaged block is told of once, here.
                if let Err(error) = &taken {
                    self.engine.note_block(error, entry);
                }
                if note(&mut self.damage.borrow_mut(), taken)?.unwrap_or(true) {
                    continue;
                }
            }
            let rows = self.rows(blocks, cluster.open)?;
            for column in self.wanted_columns() {
                if let Some(series) = self.one_series(&rows, column) {
                    add_samples(&series, step, &mut buckets[column]);
                }
            }
        }
        let mut summaries = Vec::new();
        for column in self.wanted_columns() {
            let buckets = std::mem::take(&mut buckets[column]);
            let buckets = self.buckets_with_levels(levels, column, step, buckets);
            if !buckets.is_empty() {
                let field = self.layout.names()[column].clone();
                let field_type = self.layout.types()[column];
                summaries.push(SeriesSummary {
                    source: self.source,
                    key: self.key.clone(),
                    field,
                    field_type,
                    buckets,
                });
            }
        }
        Ok(summaries)
    }

    /// Runs of blocks that overlap in time, in the order of time; the rows of one are read
    /// together. Mostly each is a block. The open block is part of the last.
    fn clusters(&self) -> Vec<Cluster> {
        // All of it may be hidden.
        let open = self.open.iter().filter_map(|open| {
            let times = self.decode_open(open).times;
            Some(Interval::new(*times.first()?, *times.last()?))
        });
        let open = open.reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)));
        let spans: Vec<Interval> = self
            .blocks
            .iter()
            .map(|(entry, _)| Interval::new(entry.first, entry.last))
            .collect();
        let in_order = spans.windows(2).all(|pair| pair[0].end < pair[1].start);
        let open_last = open.is_none_or(|open| spans.iter().all(|span| span.end < open.start));
        let mut clusters: Vec<Cluster> = if in_order {
            (0..spans.len())
                .map(|block| Cluster {
                    range: block..block + 1,
                    open: false,
                })
                .collect()
        } else {
            vec![Cluster {
                range: 0..spans.len(),
                open: false,
            }]
        };
        match (open.is_some(), open_last) {
            (false, _) => {}
            (true, true) => clusters.push(Cluster {
                range: spans.len()..spans.len(),
                open: true,
            }),
            (true, false) => {
                // Late rows: all blocks from the first that the open one overlaps on.
                let open_start = open.map_or(i64::MIN, |open| open.start);
                let first = if in_order {
                    spans.partition_point(|span| span.end < open_start)
                } else {
                    0
                };
                clusters.truncate(first);
                clusters.push(Cluster {
                    range: first..spans.len(),
                    open: true,
                });
            }
        }
        clusters
    }

    /// The start of the bucket in which all of a block lies, if it does, and in the interval, too.
    fn lies_in_a_bucket(&self, entry: &Entry, step: Step) -> Option<i64> {
        let inside = self
            .interval
            .covers(&Interval::new(entry.first, entry.last));
        let start = bucket_start(entry.first, step);
        (inside && start == bucket_start(entry.last, step)).then_some(start)
    }

    /// Takes a block's own aggregates; answers whether it has all that are wanted. Those of integers are
    /// kept as f64, and taken only if no figure of them was rounded.
    fn take_summaries(
        &self,
        entry: &Entry,
        place: &Place,
        start: i64,
        step: Step,
        buckets: &mut [Vec<Bucket>],
    ) -> Result<bool, Error> {
        let bytes = place.read(entry)?;
        let damage = |what| place.damage(entry, what);
        let block = Block::open(&bytes).map_err(damage)?;
        let layout = self
            .layout_of(block.head.layout)
            .ok_or_else(|| damage("its layout is unknown".to_string()))?;
        let found = block
            .summaries(layout.columns(), Interval::new(entry.first, entry.last))
            .map_err(damage)?;
        let mut taken = Vec::new();
        for (column, summary) in found.into_iter().enumerate() {
            let Some(place) = self
                .place_of(&layout, column)
                .filter(|&place| self.wanted[place])
            else {
                continue;
            };
            let summary = match is_integer(layout.types()[column]) {
                true => summary.and_then(Bucket::of_integers),
                false => summary,
            };
            match summary {
                Some(bucket) => taken.push((place, bucket)),
                None => return Ok(false),
            }
        }
        for (place, bucket) in taken {
            let start = if step == Step::Whole {
                bucket.first.0
            } else {
                start
            };
            add_bucket(Bucket { start, ..bucket }, step, &mut buckets[place]);
        }
        Ok(true)
    }
}

struct Cluster {
    range: std::ops::Range<usize>,
    open: bool,
}

pub(crate) fn bucket_start(time: i64, step: Step) -> i64 {
    match step {
        Step::Whole => 0,
        // The lowest bucket may begin before the lowest time there is.
        Step::Every(step) => step_start(time, step as u64),
    }
}

fn add_samples(series: &SeriesData, step: Step, buckets: &mut Vec<Bucket>) {
    let times = &series.times;
    match &series.values {
        Column::F64(values) => {
            add_values(times, values.iter().copied(), Bucket::of, step, buckets);
        }
        Column::I64(values) => {
            let values = values.iter().map(|&value| i128::from(value));
            add_values(times, values, Bucket::of_integer, step, buckets);
        }
        Column::U64(values) => {
            let values = values.iter().map(|&value| i128::from(value));
            add_values(times, values, Bucket::of_integer, step, buckets);
        }
        values => {
            let numbers = (0..values.len()).map(|index| number(values.get(index)));
            add_values(times, numbers, Bucket::of, step, buckets);
        }
    }
}

fn add_values<T>(
    times: &[i64],
    values: impl Iterator<Item = T>,
    bucket_of: impl Fn(i64, i64, T) -> Bucket,
    step: Step,
    buckets: &mut Vec<Bucket>,
) {
    // The bucket that is being filled, and the last time in it: most samples need no division.
    let mut open: Option<(Bucket, i64)> = None;
    for (&time, value) in times.iter().zip(values) {
        match &mut open {
            Some((bucket, end)) if time <= *end => {
                bucket.absorb(&bucket_of(bucket.start, time, value))
            }
            _ => {
                if let Some((bucket, _)) = open.take() {
                    add_bucket(bucket, step, buckets);
                }
                let (start, end) = match step {
                    Step::Whole => (time, i64::MAX),
                    Step::Every(every) => {
                        let start = bucket_start(time, step);
                        (
                            start,
                            time.saturating_add(every - 1 - time.rem_euclid(every)),
                        )
                    }
                };
                open = Some((bucket_of(start, time, value), end));
            }
        }
    }
    if let Some((bucket, _)) = open {
        add_bucket(bucket, step, buckets);
    }
}

pub(crate) fn add_bucket(bucket: Bucket, step: Step, buckets: &mut Vec<Bucket>) {
    match buckets.last_mut() {
        Some(last) if step == Step::Whole || last.start == bucket.start => last.absorb(&bucket),
        _ => buckets.push(bucket),
    }
}

// ---- putting rows together

/// Runs of rows, each in ascending time, become one. Of rows at the same time, each column takes
/// the value of the last run that has one.
pub(crate) fn merge(mut runs: Vec<Rows>, types: &[FieldType]) -> Rows {
    runs.retain(|run| !run.times.is_empty());
    if runs.len() == 1 {
        return runs.pop().expect("there is one");
    }
    let in_order = runs
        .windows(2)
        .all(|pair| pair[0].times.last() < pair[1].times.first());
    let joined = join(&runs, types);
    if in_order {
        return joined;
    }
    let Rows { times, fields } = joined;
    let columns: Vec<Option<usize>> = {
        let mut next = 0;
        fields
            .iter()
            .map(|field| {
                field.as_ref().map(|_| {
                    next += 1;
                    next - 1
                })
            })
            .collect()
    };
    let sorted = block::sorted(Columns {
        times,
        fields: fields.into_iter().flatten().collect(),
    });
    let mut sorted_fields: Vec<Option<FieldColumn>> = sorted.fields.into_iter().map(Some).collect();
    let fields = columns
        .into_iter()
        .map(|column| column.and_then(|column| sorted_fields[column].take()))
        .collect();
    Rows {
        times: sorted.times,
        fields,
    }
}

/// Runs end to end. A run without a column has gaps there.
fn join(runs: &[Rows], types: &[FieldType]) -> Rows {
    let times: Vec<i64> = runs
        .iter()
        .flat_map(|run| run.times.iter().copied())
        .collect();
    let fields = types
        .iter()
        .enumerate()
        .map(|(column, &field_type)| join_field(runs, column, field_type))
        .collect();
    Rows { times, fields }
}

fn join_field(runs: &[Rows], column: usize, field_type: FieldType) -> Option<FieldColumn> {
    if runs.iter().all(|run| run.fields[column].is_none()) {
        return None;
    }
    let mut values = Column::new(field_type);
    let mut present = Bitmap::new();
    let whole = runs.iter().all(|run| {
        run.fields[column]
            .as_ref()
            .is_some_and(|field| field.present.is_none())
    });
    for run in runs {
        match &run.fields[column] {
            Some(field) => {
                append(&mut values, &field.values);
                if !whole {
                    (0..run.times.len()).for_each(|row| {
                        present.push(field.present.as_ref().is_none_or(|bits| bits.get(row)))
                    });
                }
            }
            None => (0..run.times.len()).for_each(|_| present.push(false)),
        }
    }
    Some(FieldColumn {
        present: (!whole).then_some(present),
        values,
    })
}

fn append(to: &mut Column, from: &Column) {
    match (to, from) {
        (Column::F64(to), Column::F64(from)) => to.extend_from_slice(from),
        (Column::F32(to), Column::F32(from)) => to.extend_from_slice(from),
        (Column::I64(to), Column::I64(from)) => to.extend_from_slice(from),
        (Column::U64(to), Column::U64(from)) => to.extend_from_slice(from),
        (Column::Bool(to), Column::Bool(from)) => to.extend_from_slice(from),
        (to, from) => (0..from.len()).for_each(|index| to.push(from.get(index))),
    }
}

/// The samples of a column that lie in an interval; `None` where there are none.
pub(crate) fn within(
    times: &[i64],
    field: &FieldColumn,
    interval: Interval,
) -> Option<(Vec<i64>, Column)> {
    let (start, end) = (
        times.partition_point(|&time| time < interval.start),
        times.partition_point(|&time| time <= interval.end),
    );
    if start >= end {
        return None;
    }
    if field.present.is_none() {
        return Some((times[start..end].to_vec(), slice(&field.values, start..end)));
    }
    let before = present_rows(&times[..start], &field.present).count();
    let inside: Vec<i64> = present_rows(&times[..end], &field.present)
        .skip(before)
        .collect();
    if inside.is_empty() {
        return None;
    }
    let values = slice(&field.values, before..before + inside.len());
    Some((inside, values))
}

fn slice(values: &Column, range: std::ops::Range<usize>) -> Column {
    match values {
        Column::F64(values) => Column::F64(values[range].to_vec()),
        Column::F32(values) => Column::F32(values[range].to_vec()),
        Column::I64(values) => Column::I64(values[range].to_vec()),
        Column::U64(values) => Column::U64(values[range].to_vec()),
        Column::Bool(values) => Column::Bool(values[range].to_vec()),
        Column::Str(_) => {
            let mut texts = Column::new(FieldType::Str);
            range.for_each(|index| texts.push(values.get(index)));
            texts
        }
    }
}
