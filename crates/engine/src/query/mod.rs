//! Queries: the samples of sources over an interval, and their aggregates.
//!
//! A source is read at one moment: a [`Snapshot`](snapshot::Snapshot) is taken under the locks, so
//! that no row is missed or read twice while writers continue. Blocks never change, and are read
//! without a lock. Of two samples of a series at the same time, the sample in the younger block
//! counts.
//!
//! A damaged block or footer page affects nothing else: it is returned as a separate error, and all
//! readable data follows.
//!
//! # Memory
//! Maximum memory of a query, regardless of its interval and its number of fields:
//!
//! - rows that wait to be merged: a thirty-second of the store's memory, from 1 to 8 MiB; less if more
//!   than two queries run, because all of them share a sixteenth of the memory;
//! - rows that are decoded ahead on other threads: half as much;
//! - the piece in progress: half of the first bound;
//! - copies of the buffers of the next sources: 32 KiB, or those of one source;
//! - about 120 bytes for each block of the source in the interval, and some MiB of footer pages;
//! - the rows of levels in one section: some thousand steps of the finest level, and at least one
//!   step of the coarsest.
//!
//! The store counts this memory ([`memory`]) and seals buffers earlier while queries use much.
//!
//! Threads that read parts of a query ([`parts`]) divide these bounds among them, and decode nothing ahead. The latest
//! samples of [`latest`] are read with up to 1 MiB of [`windows`] per thread.
//!
//! Overlapping blocks are decoded more than once if their rows exceed the first of these bounds.
//! [`Engine::select`] also keeps the series of the current source, and [`Engine::aggregate`] its
//! buckets.

pub(crate) mod aggregate;
mod blocks;
pub(crate) mod buckets;
pub(crate) mod damages;
pub(crate) mod latest;
pub(crate) mod memory;
mod parallel;
pub(crate) mod parts;
pub(crate) mod rows;
pub(crate) mod scan;
mod sections;
pub(crate) mod select;
pub(crate) mod series;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod spans;
pub(crate) mod sweep;
pub(crate) mod view;
mod windows;

use self::aggregate::Aggregates;
use self::latest::LatestSamples;
use self::parallel::cores;
use self::parts::ScanParts;
use self::scan::Scan;
use self::select::Select;
use self::source::SourceReader;
use self::sweep::Bounds;
use crate::answer::{Query, Step};
use crate::core::Core;
use crate::error::Error;
use crate::report::sources;
use seiner_model::{Interval, Selector, SourceId};

/// Returns the rows of a query, source by source, in pieces of bounded size. Times ascend strictly
/// over the pieces of a source. Each [`Error::Damage`] among the items stands for a block that is
/// missing from the following items.
///
/// The module's documentation states the memory that a scan takes.
pub(crate) fn scan<'a>(core: &'a Core, query: &Query) -> Scan<'a> {
    Scan::new(SourceReader::new(core, query), bounds(core, None))
}

/// Returns the sources of a query for a number of threads. Each of them reads some sources, in a scan with an equal
/// part of the memory of a scan.
///
/// # Errors
/// If a names file is damaged, or the disk fails.
pub(crate) fn parts<'a>(
    core: &'a Core,
    query: &Query,
    threads: usize,
) -> Result<ScanParts<'a>, Error> {
    let mut reader = SourceReader::new(core, query);
    match reader.take_error() {
        Some(error) => Err(error),
        None => Ok(ScanParts::new(reader, bounds(core, Some(1)), threads)),
    }
}

/// Returns the rows of some sources, in the given order, from blocks with numbers below `end`. The
/// query's selector is not used.
pub(crate) fn scan_before<'a>(
    core: &'a Core,
    sources: Vec<SourceId>,
    query: &Query,
    end: u64,
) -> Scan<'a> {
    let reader = SourceReader::of(core, sources, query.interval);
    let reader = reader.with_fields(query.fields.clone()).before(end);
    Scan::new(reader, bounds(core, None))
}

/// Returns the samples of a query, series by series, with strictly ascending times. Series without
/// samples in the interval are omitted. Each [`Error::Damage`] among the items stands for a block
/// that is missing from the following items.
///
/// Keeps all series of a source in memory; [`Engine::scan`] does not.
///
/// # Errors
/// None at present.
pub(crate) fn select<'a>(core: &'a Core, query: &Query) -> Result<Select<'a>, Error> {
    Ok(Select::new(scan(core, query)))
}

/// Returns the aggregates of a query's series, in buckets of a step. Damage is returned as by
/// [`Engine::select`].
///
/// # Errors
/// If the step is not positive.
pub(crate) fn aggregate<'a>(
    core: &'a Core,
    query: &Query,
    step: Step,
) -> Result<Aggregates<'a>, Error> {
    if let Step::Every(step) = step
        && step < 1
    {
        return Err(Error::Query(format!("a step of {step} ns is not positive")));
    }
    let reader = SourceReader::new(core, query);
    Ok(Aggregates::new(reader, step, bounds(core, None)))
}

/// Returns the latest sample of each series of a query.
pub(crate) fn latest<'a>(core: &'a Core, query: &Query) -> LatestSamples<'a> {
    let threads = bounds(core, None).threads;
    let mut reader = SourceReader::new(core, query);
    let error = reader.take_error();
    let parts = ScanParts::new(reader, bounds(core, Some(1)), threads);
    LatestSamples::new(parts, threads, error)
}

/// Returns the first and last time of the samples that a query selects, for display. Only the first
/// `most` sources of the query are examined, with any field, which bounds the cost. Damaged
/// blocks are omitted.
pub(crate) fn time_range(core: &Core, query: &Query, most: usize) -> Option<Interval> {
    let ids = sources(core, &query.selector).ok()?;
    let ids = ids.into_iter().take(most).collect();
    let reader = SourceReader::of(core, ids, query.interval).with_fields(query.fields.clone());
    let summaries = Aggregates::new(reader, Step::Whole, bounds(core, None));
    let buckets = summaries.flatten().flat_map(|summary| summary.buckets);
    buckets
        .map(|bucket| Interval::new(bucket.first.0, bucket.last.0))
        .reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)))
}

/// Returns the selected sources that may have samples in an interval. A source with a damaged index
/// may have some.
pub(crate) fn sources_within(
    core: &Core,
    selector: &Selector,
    interval: Interval,
) -> Result<Vec<SourceId>, Error> {
    if interval.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = SourceReader::of(core, sources(core, selector)?, interval);
    let mut found = Vec::new();
    while let Some(source) = reader.next_source() {
        let source = source?;
        if source.may_have_rows() {
            found.push(source.own.source);
        }
    }
    Ok(found)
}

/// Returns the bounds of a query. While others run, a query has fewer threads and less memory. A store
/// without threads of its own reads on the caller's thread, so that operations in the simulator
/// always have the same order.
pub(crate) fn bounds(core: &Core, threads: Option<usize>) -> Bounds {
    let threads = threads.or((!core.has_threads()).then_some(1));
    let memory = core.memory_limit();
    let pool = (memory / 16) as usize;
    let (most, least) = Bounds::held(memory);
    let threads = threads.unwrap_or_else(|| core.queries.fair(cores(), cores(), 1));
    Bounds::by(core.queries.fair(most, pool, least), threads)
}
