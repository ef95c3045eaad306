//! Latest samples: for each series of a query, the sample with the greatest time.
//!
//! The blocks of a source are read from the one with the latest end on, until no other block can contain a later sample.
//! Usually that is one block for each source. A source with roll-up levels is aggregated as a whole instead.
//!
//! The sources are read in batches, by several threads if there are many.

use crate::answer::{Bucket, SeriesSummary, Step};
use crate::block::{Block, may_have_summaries};
use crate::bundle::cache::LastChunk;
use crate::error::Error;
use crate::query::aggregate::summaries;
use crate::query::damages::Damages;
use crate::query::parts::ScanParts;
use crate::query::rows::Rows;
use crate::query::snapshot::BlockLocation;
use crate::query::source::Source;
use crate::query::view::SourceView;
use crate::query::windows::Windows;
use crate::segment::Entry;
use seiner_model::{Bitmap, Column, FieldType, Value};
use seiner_store::{IsOver, Latest};
use std::collections::VecDeque;
use std::ops::Range;

/// Number of sources that a thread reads at a time: some milliseconds of work.
const SOURCES: usize = 4096;

/// Number of sources after which a thread checks whether the query was abandoned.
const CHECKED: usize = 64;

/// Latest samples of a query. [`Engine::latest_samples`](crate::Engine::latest_samples) returns it.
pub struct LatestSamples<'a> {
    parts: ScanParts<'a>,
    threads: usize,
    /// Index of the next source.
    next: usize,
    ready: VecDeque<Result<Latest, Error>>,
}

impl<'a> LatestSamples<'a> {
    /// Returns `error` first, if the sources could not be selected.
    pub(super) fn new(
        parts: ScanParts<'a>,
        threads: usize,
        error: Option<Error>,
    ) -> LatestSamples<'a> {
        LatestSamples {
            parts,
            threads: threads.max(1),
            next: 0,
            ready: error.into_iter().map(Err).collect(),
        }
    }

    /// Ends the iterator early when `is_over` returns true: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(self, is_over: IsOver) -> Self {
        LatestSamples {
            parts: self.parts.until(is_over),
            ..self
        }
    }

    /// Sets the number of threads that read and decode.
    pub fn threads(self, threads: usize) -> Self {
        LatestSamples {
            threads: threads.max(1),
            ..self
        }
    }

    /// Reads the next sources, one range per thread.
    fn read_ahead(&mut self) {
        let end = self.parts.sources();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        while self.next < end && ranges.len() < self.threads {
            let range = self.next..end.min(self.next + SOURCES);
            self.next = range.end;
            ranges.push(range);
        }
        let parts = &self.parts;
        let Some(own) = ranges.pop() else { return };
        let found = std::thread::scope(|scope| {
            let begin = |range| scope.spawn(move || read(parts, range));
            let others: Vec<_> = ranges.into_iter().map(begin).collect();
            let own = read(parts, own);
            let others = others.into_iter().map(|thread| match thread.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            others.chain([own]).collect::<Vec<_>>()
        });
        self.ready.extend(found.into_iter().flatten());
        if self.parts.is_over() {
            self.next = end;
        }
    }
}

impl Iterator for LatestSamples<'_> {
    type Item = Result<Latest, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && self.next < self.parts.sources() {
            self.read_ahead();
        }
        self.ready.pop_front()
    }
}

/// Returns the latest samples of some sources, and damage.
fn read(parts: &ScanParts<'_>, sources: Range<usize>) -> Vec<Result<Latest, Error>> {
    let mut reader = parts.reader(sources);
    let mut reading = Reading::default();
    let mut found = Vec::with_capacity(reader.sources());
    for nth in 0_usize.. {
        if nth.is_multiple_of(CHECKED) && reader.is_over() {
            break;
        }
        let Some(source) = reader.take_source() else {
            break;
        };
        reading.samples.clear();
        let read = source.and_then(|source| of_source(source, parts, &mut reading));
        match read {
            Ok(damages) => {
                found.extend(damages.report(reader.engine).map(Err));
                found.extend(reading.samples.drain(..).map(Ok));
            }
            Err(Error::Abandoned) => {
                found.push(Err(Error::Abandoned));
                break;
            }
            Err(error) => found.push(Err(error)),
        }
    }
    found
}

/// State of a thread that is kept from source to source: neighbours lie close together.
#[derive(Default)]
struct Reading {
    windows: Windows,
    chunk: LastChunk,
    known: Vec<Known>,
    /// Blocks of one source, in the order in which they are read.
    order: Vec<usize>,
    /// Samples of one source.
    samples: Vec<Latest>,
}

/// Adds the latest samples of a source to `reading`, and returns damage.
fn of_source(
    mut source: Source,
    parts: &ScanParts<'_>,
    reading: &mut Reading,
) -> Result<Damages, Error> {
    if source.levels.is_empty() {
        let mut damages = std::mem::take(&mut source.damages);
        of_samples(&source.own, reading, &mut damages)?;
        return Ok(damages);
    }
    let (found, damages) = summaries(source, Step::Whole, parts.bounds())?;
    for summary in found {
        reading.samples.extend(of_summary(&summary, parts)?);
    }
    Ok(damages)
}

/// Latest known sample of a column: its time, the number of its block, and its value.
type Known = Option<(i64, u64, Column)>;

/// Latest known sample of each column of a source.
struct Columns<'a> {
    view: &'a SourceView,
    latest: &'a mut [Known],
}

impl Columns<'_> {
    /// Returns whether a block may have a sample that replaces a known one.
    fn may_change(&self, last: i64) -> bool {
        let mut wanted = self.view.wanted_columns();
        wanted.any(|column| {
            let known = self.latest[column].as_ref();
            known.is_none_or(|(time, ..)| *time <= last)
        })
    }

    /// Compares the samples of a block's rows with the known ones. Of samples at the same time, that of the block with
    /// the higher number counts.
    fn add(&mut self, number: u64, rows: &Rows) {
        for column in self.view.wanted_columns() {
            let Some(field) = &rows.fields[column] else {
                continue;
            };
            let Some((row, at)) = last_present(rows.times.len(), &field.present) else {
                continue;
            };
            self.note(column, (rows.times[row], number), field.values.get(at));
        }
    }

    /// Compares a sample with the known one.
    fn note(&mut self, column: usize, found: (i64, u64), value: Value<'_>) {
        let known = &mut self.latest[column];
        if known
            .as_ref()
            .is_none_or(|known| (known.0, known.1) < found)
        {
            let mut one = Column::new(value.field_type());
            one.push(value);
            *known = Some((found.0, found.1, one));
        }
    }

    /// Returns whether the latest row of a block is certainly shown.
    fn shows_last(&self, entry: &Entry) -> bool {
        entry.last <= self.view.interval.end
            && !self.view.visibility.touches(entry.number, &entry.span())
    }

    /// Compares the last values among the aggregates of a block with the known samples. Returns false if
    /// [`SourceView::decode`] must decide: the last row may be hidden, or the block does not store all values exactly.
    fn add_aggregates(&mut self, entry: &Entry, bytes: &[u8]) -> bool {
        if !may_have_summaries(entry.rows as usize) || !self.shows_last(entry) {
            return false;
        }
        let view = self.view;
        let block = Block::open(bytes)
            .ok()
            .filter(|block| (block.head.source, block.head.number) == (entry.source, entry.number));
        let found = block.and_then(|block| view.summaries(&block, entry.span()).ok());
        let last = |(place, summary): (usize, Option<Bucket>)| {
            let bucket = summary.filter(|_| view.types()[place] == FieldType::F64)?;
            Some((place, bucket.last.1))
        };
        let values: Option<Vec<(usize, f64)>> =
            found.and_then(|found| found.into_iter().map(last).collect());
        for &(place, value) in values.iter().flatten() {
            self.note(place, (entry.last, entry.number), Value::F64(value));
        }
        values.is_some()
    }

    /// Compares the latest row of a block in a bundle with the known samples, without a copy of the block's rows. Returns
    /// false if [`SourceView::read`] must decide: the row may be hidden, or a column has gaps.
    fn add_bundled(
        &mut self,
        entry: &Entry,
        place: &BlockLocation,
        last: &mut LastChunk,
    ) -> Result<bool, Error> {
        let view = self.view;
        if !self.shows_last(entry) {
            return Ok(false);
        }
        let (chunk, source) = view
            .bundles
            .find(entry, place, Some(&view.layouts.present), last)?;
        let rows = chunk.times(source).len();
        for column in 0..chunk.layout().len() {
            let wanted = view.bundled_column(chunk.layout(), column);
            let wanted = wanted.map_err(|what| place.damage(entry, what))?;
            let Some(wanted) = wanted.filter(|wanted| view.wanted[*wanted]) else {
                continue;
            };
            let values = chunk.value_range(column, source);
            if values.len() != rows {
                return Ok(false);
            }
            let value = chunk.values(column).get(values.end - 1);
            self.note(wanted, (entry.last, entry.number), value);
        }
        Ok(true)
    }
}

/// Returns the last row with a value, and the index of the value.
fn last_present(rows: usize, present: &Option<Bitmap>) -> Option<(usize, usize)> {
    match present {
        None => rows.checked_sub(1).map(|last| (last, last)),
        Some(bits) => {
            let row = (0..rows).rev().find(|row| bits.get(*row))?;
            Some((row, bits.count_ones() - 1))
        }
    }
}

/// Adds the latest samples of a source without levels to `reading`.
fn of_samples(
    view: &SourceView,
    reading: &mut Reading,
    damages: &mut Damages,
) -> Result<(), Error> {
    reading.known.clear();
    reading.known.resize(view.types().len(), None);
    let mut columns = Columns {
        view,
        latest: &mut reading.known,
    };
    // Buffers are younger than all blocks.
    let open = view.open_rows(&view.wanted);
    let first = u64::MAX - open.len() as u64;
    for (at, rows) in open.iter().enumerate() {
        columns.add(first + at as u64, rows);
    }
    reading.order.clear();
    reading.order.extend(0..view.blocks.len());
    let last = |block: &usize| std::cmp::Reverse(view.blocks.at(*block).0.last);
    reading.order.sort_by_key(last);
    for (nth, &block) in reading.order.iter().enumerate() {
        let (entry, place) = view.blocks.at(block);
        if !columns.may_change(entry.last.min(view.interval.end)) {
            break;
        }
        if nth > 0 {
            view.check_abandoned()?;
        }
        let rows = match entry.is_bundled() {
            true => {
                let found = columns.add_bundled(&entry, place, &mut reading.chunk);
                match damages.note(found, Some(&entry))? {
                    Some(false) => view.read(block, &view.wanted).map(Some),
                    _ => continue,
                }
            }
            false => reading.windows.read(&entry, place).and_then(|bytes| {
                match columns.add_aggregates(&entry, &bytes) {
                    true => Ok(None),
                    false => view.decode(&entry, place, &bytes, &view.wanted).map(Some),
                }
            }),
        };
        if let Some(rows) = damages.note(rows, Some(&entry))?.flatten() {
            columns.add(entry.number, &rows.clip(view.interval));
        }
    }
    let columns = reading.known.iter_mut().enumerate();
    reading
        .samples
        .extend(columns.filter_map(|(column, latest)| {
            let (time, _, value) = latest.take()?;
            Some(Latest {
                source: view.source,
                key: view.key.clone(),
                field: view.names()[column].clone(),
                time,
                value,
            })
        }));
    Ok(())
}

/// Returns the latest sample of a series with levels, if it was not deleted in the meantime.
fn of_summary(summary: &SeriesSummary, parts: &ScanParts<'_>) -> Result<Option<Latest>, Error> {
    let Some(bucket) = summary.buckets.last() else {
        return Ok(None);
    };
    let time = bucket.last.0;
    let value = match number(summary.field_type, bucket) {
        Some(value) => Some(value),
        // The figures of texts are not in levels, and those of integers may be rounded.
        None => {
            let mut scan = parts.scan_at(summary.source, &summary.field, time);
            match scan.next_source() {
                Some(source) => source?.into_series()?.1.pop().map(|series| series.values),
                None => None,
            }
        }
    };
    Ok(value.map(|value| Latest {
        source: summary.source,
        key: summary.key.clone(),
        field: summary.field.clone(),
        time,
        value,
    }))
}

/// Returns the latest value of a bucket; `None` for texts and rounded integers.
fn number(field_type: FieldType, bucket: &Bucket) -> Option<Column> {
    let last = bucket.last.1;
    let value = match field_type {
        FieldType::F64 => Value::F64(last),
        FieldType::F32 => Value::F32(last as f32),
        FieldType::Bool => Value::Bool(last != 0.0),
        FieldType::I64 => Value::I64(i64::try_from(bucket.exact?.last).ok()?),
        FieldType::U64 => Value::U64(u64::try_from(bucket.exact?.last).ok()?),
        FieldType::Str => return None,
    };
    let mut column = Column::new(field_type);
    column.push(value);
    Some(column)
}
