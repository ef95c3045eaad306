//! Aggregates of series. A block within one bucket is aggregated without decoding its values.

use crate::answer::{Bucket, SeriesSummary, Step, is_integer};
use crate::block::Block;
use crate::error::Error;
use crate::query::buckets::{add_bucket, add_rows, bucket_start};
use crate::query::damages::Damages;
use crate::query::parallel::Ordered;
use crate::query::rows::Rows;
use crate::query::snapshot::BlockLocation;
use crate::query::source::{Source, SourceReader};
use crate::query::spans::{Cluster, clusters, wide};
use crate::query::sweep::{Bounds, HEAVY_BYTES, Sweep};
use crate::query::view::SourceView;
use crate::segment::Entry;
use seiner_model::Interval;
use seiner_store::IsOver;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of clusters whose buckets are computed together.
const GROUP: usize = 64;
/// Encoded bytes of the sources that a helper aggregates at a time: some milliseconds of work.
const SOURCES_BYTES: u64 = 256 << 10;
/// Maximum number of sources that a helper aggregates at a time. The next constant limits the
/// number of rows, because each row can be a bucket.
const SOURCES: usize = 256;
const SOURCES_ROWS: u64 = 64 << 10;

/// Aggregates of a query's series.
pub struct Aggregates<'a> {
    reader: SourceReader<'a>,
    step: Step,
    bounds: Bounds,
    groups: Ordered<Vec<SourceSummaries>>,
    ready: VecDeque<Result<SeriesSummary, Error>>,
}

/// Buckets of a source's series, and damage.
pub(super) type SourceSummaries = Result<(Vec<SeriesSummary>, Damages), Error>;

impl<'a> Aggregates<'a> {
    pub(super) fn new(reader: SourceReader<'a>, step: Step, bounds: Bounds) -> Aggregates<'a> {
        Aggregates {
            reader,
            step,
            bounds,
            groups: Ordered::new(bounds.threads),
            ready: VecDeque::new(),
        }
    }

    /// Ends the iterator early when `is_over` returns true: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(mut self, is_over: IsOver) -> Self {
        self.reader.is_over = Some(is_over);
        self
    }

    /// Sets the number of threads that read and decode.
    pub fn threads(mut self, threads: usize) -> Self {
        self.bounds.threads = threads.max(1);
        self.groups = Ordered::new(self.bounds.threads);
        self
    }

    /// Begins work on sources until enough work is ahead.
    fn look_ahead(&mut self) {
        while self.groups.len() < self.bounds.groups() {
            let mut group: Vec<Result<Source, Error>> = Vec::new();
            let (mut bytes, mut rows) = (0, 0);
            while bytes < SOURCES_BYTES && rows < SOURCES_ROWS && group.len() < SOURCES {
                let Some(source) = self.reader.next_source() else {
                    break;
                };
                if let Ok(source) = &source {
                    bytes += source.own.encoded_bytes();
                    rows += source.rows_at_most();
                }
                group.push(source);
            }
            if group.is_empty() {
                return;
            }
            let (step, bounds) = (self.step, self.bounds);
            let is_large = group.len() == 1 && bytes >= HEAVY_BYTES;
            let work = move |bounds: Bounds| {
                let mut found = Vec::with_capacity(group.len());
                for source in group {
                    let summaries = source.and_then(|source| summaries(source, step, bounds));
                    let is_over = matches!(summaries, Err(Error::Abandoned));
                    found.push(summaries);
                    if is_over {
                        break;
                    }
                }
                found
            };
            match bytes {
                // A large source is divided among helpers.
                _ if is_large => self.groups.begin_here(move || work(bounds)),
                ..SOURCES_BYTES if self.groups.len() == 0 => {
                    self.groups.push(work(bounds.alone()));
                    return;
                }
                _ => self.groups.begin(move || work(bounds.alone())),
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
            let found = match self.bounds.threads {
                0 | 1 => {
                    let source = self.reader.next_source()?;
                    vec![source.and_then(|source| summaries(source, self.step, self.bounds))]
                }
                _ => {
                    self.look_ahead();
                    self.groups.take()?
                }
            };
            for source in found {
                match source {
                    Ok((found, damages)) => {
                        self.ready
                            .extend(damages.report(self.reader.engine).map(Err));
                        self.ready.extend(found.into_iter().map(Ok));
                    }
                    Err(Error::Abandoned) => {
                        self.reader.stop();
                        self.groups = Ordered::new(self.bounds.threads);
                        self.ready.push_back(Err(Error::Abandoned));
                    }
                    Err(error) => self.ready.push_back(Err(error)),
                }
            }
        }
    }
}

/// Returns the aggregates of a source's series.
pub(super) fn summaries(mut source: Source, step: Step, bounds: Bounds) -> SourceSummaries {
    let mut damages = std::mem::take(&mut source.damages);
    let own = source.own.clone();
    let mut all: Vec<Vec<Bucket>> = vec![Vec::new(); own.types().len()];
    let mut from = source.interval.start;
    while let Some(section) = source.section(from) {
        let levels = source.levels_in(section, &mut damages)?;
        let found = columns_of_samples(&own, section, step, bounds, &mut damages)?;
        for (column, samples) in found.into_iter().enumerate() {
            let buckets = source.buckets_with_levels(&levels, column, step, samples);
            join(buckets, step, &mut all[column]);
        }
        let Some(next) = section.end.checked_add(1) else {
            break;
        };
        from = next;
    }
    let columns = all.into_iter().enumerate();
    let summaries = columns.filter(|(_, buckets)| !buckets.is_empty());
    let summaries = summaries.map(|(column, buckets)| SeriesSummary {
        source: own.source,
        key: own.key.clone(),
        field: own.names()[column].clone(),
        field_type: own.types()[column],
        buckets,
    });
    Ok((summaries.collect(), damages))
}

/// Adds later buckets behind earlier ones.
fn join(later: Vec<Bucket>, step: Step, buckets: &mut Vec<Bucket>) {
    if buckets.is_empty() {
        *buckets = later;
        return;
    }
    for bucket in later {
        add_bucket(bucket, step, buckets);
    }
}

/// Returns the buckets of each column of a view's samples in an interval.
///
/// Blocks are read cluster by cluster, and the rows of a cluster by a sweep. The memory is
/// therefore that of the buckets plus [`Bounds`].
///
/// # Errors
/// Errors of the disk, and [`Error::Abandoned`].
pub(crate) fn columns_of_samples(
    view: &Arc<SourceView>,
    interval: Interval,
    step: Step,
    bounds: Bounds,
    damages: &mut Damages,
) -> Result<Vec<Vec<Bucket>>, Error> {
    let interval = Interval::new(
        interval.start.max(view.interval.start),
        interval.end.min(view.interval.end),
    );
    let open = Arc::new(view.open_rows(&view.wanted));
    let blocks = view.blocks.iter().map(|entry| entry.span());
    let rows = open.iter().map(|rows| match &rows.times[..] {
        [] => Interval::new(i64::MAX, i64::MIN),
        times => Interval::new(times[0], times[times.len() - 1]),
    });
    let spans = blocks.chain(rows).enumerate();
    let spans = spans.filter(|(_, span)| !span.is_empty() && span.overlaps(&interval));
    let found = clusters(&divided(view, &open, spans.collect()));
    let mut all: Vec<Vec<Bucket>> = vec![Vec::new(); view.types().len()];
    let encoded: u64 = view.blocks.iter().map(|entry| u64::from(entry.len)).sum();
    if bounds.threads > 1 && encoded >= HEAVY_BYTES {
        let mut groups = Ordered::new(bounds.threads);
        let mut rest = found.into_iter();
        loop {
            while groups.len() < bounds.groups() {
                let group: Vec<Cluster> = rest.by_ref().take(GROUP).collect();
                if group.is_empty() {
                    break;
                }
                let (view, open) = (view.clone(), open.clone());
                groups.begin(move || of_clusters(&view, &group, &open, interval, step, bounds));
            }
            let Some(group) = groups.take() else { break };
            let (buckets, found) = group?;
            damages.extend(found);
            for (all, later) in all.iter_mut().zip(buckets) {
                join(later, step, all);
            }
        }
    } else {
        for group in found.chunks(GROUP) {
            let (buckets, found) = of_clusters(view, group, &open, interval, step, bounds)?;
            damages.extend(found);
            for (all, later) in all.iter_mut().zip(buckets) {
                join(later, step, all);
            }
        }
    }
    Ok(all)
}

/// Maximum number of rows of the wide spans that are divided: 1.5 MiB of times.
const DIVIDED_ROWS: usize = 64 << 10;

/// Replaces each wide span by the times of its rows, so that late rows join only the blocks in which
/// they lie. An unreadable block keeps its span.
fn divided(
    view: &SourceView,
    open: &[Rows],
    mut spans: Vec<(usize, Interval)>,
) -> Vec<(usize, Interval)> {
    let mut left = DIVIDED_ROWS;
    // From the end, so that earlier positions stay valid.
    for at in wide(&spans).into_iter().rev() {
        let member = spans[at].0;
        let given = member.checked_sub(view.blocks.len()).map(|at| &open[at]);
        let rows = given.map_or_else(
            || view.blocks.at(member).0.rows as usize,
            |rows| rows.times.len(),
        );
        if rows > left {
            continue;
        }
        left -= rows;
        let times = match given {
            Some(rows) => rows.times.clone(),
            None => match view.read(member, &view.wanted) {
                Ok(rows) => rows.times,
                Err(_) => continue,
            },
        };
        spans.swap_remove(at);
        spans.extend(
            times
                .into_iter()
                .map(|time| (member, Interval::new(time, time))),
        );
    }
    spans
}

/// Returns the buckets of each column of some clusters.
fn of_clusters(
    view: &Arc<SourceView>,
    clusters: &[Cluster],
    open: &[Rows],
    interval: Interval,
    step: Step,
    bounds: Bounds,
) -> Result<(Vec<Vec<Bucket>>, Damages), Error> {
    let mut damages = Damages::default();
    let mut buckets: Vec<Vec<Bucket>> = vec![Vec::new(); view.types().len()];
    for cluster in clusters {
        view.check_abandoned()?;
        if let [block] = cluster.members[..]
            && let Some(entry) = view.blocks.get(block)
            && cluster.span == entry.span()
        {
            if !view.visibility.touches(entry.number, &entry.span())
                && let Some(start) = lies_in_a_bucket(&entry, interval, step)
            {
                let taken = take_summaries(view, block, start, step, &mut buckets);
                // A damaged block is reported once, here.
                if damages.note(taken, Some(&entry))?.unwrap_or(true) {
                    continue;
                }
            }
            let rows = view.read(block, &view.wanted);
            if let Some(rows) = damages.note(rows, Some(&entry))? {
                add_rows(&rows, interval, step, &mut buckets);
            }
            continue;
        }
        let is_block = |member: &&usize| **member < view.blocks.len();
        let blocks: Vec<usize> = cluster.members.iter().filter(is_block).copied().collect();
        let given = cluster.members[blocks.len()..].iter();
        let given = given.map(|member| open[member - view.blocks.len()].clone());
        let wanted = view.wanted.to_vec();
        let span = cluster.span;
        let interval = Interval::new(interval.start.max(span.start), interval.end.min(span.end));
        let mut sweep = Sweep::over(
            view,
            &blocks,
            interval,
            wanted,
            given.collect(),
            bounds.alone(),
        );
        while let Some(rows) = sweep.next_rows()? {
            add_rows(&rows, interval, step, &mut buckets);
        }
        damages.extend(std::mem::take(&mut sweep.damages));
    }
    Ok((buckets, damages))
}

/// Returns the start of the bucket that contains a whole block, if the interval also contains the
/// block.
fn lies_in_a_bucket(entry: &Entry, interval: Interval, step: Step) -> Option<i64> {
    let start = bucket_start(entry.first, step);
    (interval.covers(&entry.span()) && start == bucket_start(entry.last, step)).then_some(start)
}

/// Returns the aggregates of a block in a bundle as [`SourceView::summaries`] does. They are computed for all blocks of a
/// chunk at once.
fn summaries_in_bundle(
    view: &SourceView,
    entry: &Entry,
    place: &BlockLocation,
) -> Result<Vec<(usize, Option<Bucket>)>, Error> {
    let damage = |what| place.damage(entry, what);
    let chunk = view
        .bundles
        .summaries(entry, place, Some(&view.layouts.present))?;
    let mut found = Vec::new();
    for (column, summary) in chunk.of_block(entry).map_err(damage)?.enumerate() {
        let wanted = view.bundled_column(&chunk.layout, column).map_err(damage)?;
        if let Some(wanted) = wanted.filter(|wanted| view.wanted[*wanted]) {
            found.push((wanted, summary));
        }
    }
    Ok(found)
}

/// Adds the aggregates of a block. Returns whether the block has all wanted aggregates.
/// Aggregates of integers are stored as f64, and are used only if none of them was rounded.
fn take_summaries(
    view: &SourceView,
    block: usize,
    start: i64,
    step: Step,
    buckets: &mut [Vec<Bucket>],
) -> Result<bool, Error> {
    let (entry, place) = view.blocks.at(block);
    let found = match entry.is_bundled() {
        true => summaries_in_bundle(view, &entry, place)?,
        false => {
            let bytes = place.read(&entry)?;
            let block = Block::open(&bytes);
            let found = block.and_then(|block| view.summaries(&block, entry.span()));
            found.map_err(|what| place.damage(&entry, what))?
        }
    };
    let mut taken = Vec::new();
    for (place, summary) in found {
        let summary = match is_integer(view.types()[place]) {
            true => summary.and_then(Bucket::of_integers),
            false => summary,
        };
        match summary {
            Some(bucket) => taken.push((place, bucket)),
            None => return Ok(false),
        }
    }
    for (place, bucket) in taken {
        let start = match step {
            Step::Whole => bucket.first.0,
            Step::Every(_) => start,
        };
        add_bucket(Bucket { start, ..bucket }, step, &mut buckets[place]);
    }
    Ok(true)
}
