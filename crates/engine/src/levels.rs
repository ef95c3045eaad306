//! Coarser levels in answers: the finest that is left of every part of an interval.
//!
//! A source's samples, its levels, and rounds that are under way may tell of the same time. A row of a
//! level counts only where what is finer and left in its step tells of fewer samples, so that nothing
//! is told twice and nothing left out, whatever the rules were when it was made.

pub(crate) mod rows;

use self::rows::{LevelField, LevelRows, leave_the_finest, put_part, strings};
use crate::answer::{Bucket, LevelSpan, Query, SeriesData, Step, is_integer};
use crate::engine::Engine;
use crate::error::Error;
use crate::retention::coarser::{Figure, exact_column, push_stand_in, set_exact, step_start};
use crate::select::{Rows, SourceReader, SourceView, add_bucket, bucket_start, within};
use seiner_model::{Column, FieldType, Interval, LevelId, SourceId};
use std::collections::{BTreeMap, BTreeSet};

impl Engine {
    /// The parts of a query's interval in which some of its sources have coarser levels instead of
    /// samples, as the rules of their classes say: by the length of the step, then by time.
    pub fn levels(&self, query: &Query) -> Vec<LevelSpan> {
        let levels = self.dictionary(|dictionary| dictionary.select_levels(&query.selector));
        let Interval { start, end } = query.interval;
        self.look_at_the_clock();
        let mut state = self.lock();
        state.advance(&*self.clock);
        let retention = &state.retention;
        let mut spans = BTreeSet::new();
        for (step, sources) in levels {
            let classes: BTreeSet<u8> = sources
                .iter()
                .map(|source| retention.class_of(source))
                .collect();
            for class in classes {
                let Some(level) = retention.rules().level(class) else {
                    continue;
                };
                let steps = retention.rules().levels_of(level.class);
                let finer = steps.iter().take_while(|(_, other)| *other < level.step);
                let finer = finer.last().map_or(level.class, |(number, _)| *number);
                let from = retention.hidden_before(class);
                let to = retention.made(finer).saturating_sub(1);
                spans.insert((step, from.max(start), to.min(end)));
            }
            // Of other rules: it may be there, where nothing finer is.
            let older = retention.older().filter(|(older, _)| *older == step);
            spans.extend(older.map(|(_, to)| (step, start, to.saturating_sub(1).min(end))));
        }
        let mut joined: Vec<LevelSpan> = Vec::new();
        for (step_ns, from, to) in spans {
            match joined.last_mut() {
                _ if from > to => {}
                Some(last) if last.step_ns == step_ns && from <= last.to.saturating_add(1) => {
                    last.to = last.to.max(to);
                }
                _ => joined.push(LevelSpan { from, to, step_ns }),
            }
        }
        joined
    }

    // ---- for rounds

    /// When a source may have rows in an interval, and how many at most: of each block.
    pub(crate) fn spans(
        &self,
        source: SourceId,
        interval: Interval,
    ) -> Result<Vec<(Interval, u64)>, Error> {
        let view = SourceReader::of(self, Vec::new(), interval).view(source)?;
        Ok(view.spans())
    }

    /// The figures of a source's samples by steps, with the columns of the fields.
    pub(crate) fn level_of_samples(
        &self,
        source: SourceId,
        interval: Interval,
        step: u64,
    ) -> Result<Vec<(usize, LevelField)>, Error> {
        let mut view = SourceReader::of(self, Vec::new(), interval).view(source)?;
        let mut found = Vec::new();
        let summaries = view.summaries(Step::Every(step as i64), &[])?;
        let texts = match view.layout.types().contains(&FieldType::Str) {
            true => view.last_texts(step)?,
            false => BTreeMap::new(),
        };
        for summary in summaries {
            let column = view.column_of(&summary.field);
            let column = column.expect("summaries are of the layout's fields");
            let texts = texts.get(&column).map(|texts| {
                let of = |bucket: &Bucket| texts.get(&bucket.start).map_or("", |text| text);
                strings(&summary.buckets.iter().map(of).collect::<Vec<_>>())
            });
            found.push((
                column,
                LevelField {
                    field: summary.field,
                    buckets: summary.buckets,
                    texts,
                },
            ));
        }
        tell_damage(view);
        Ok(found)
    }

    /// What levels of a source tell of an interval where nothing finer does: no samples, by their times,
    /// and none of these levels. Levels come by their steps.
    pub(crate) fn level_fields(
        &self,
        levels: &[(LevelId, u32)],
        interval: Interval,
        samples: &[i64],
    ) -> Result<Vec<LevelField>, Error> {
        let mut found = self.level_rows(levels, interval)?;
        leave_the_finest(&mut found, samples);
        Ok(found.into_iter().flat_map(|level| level.fields).collect())
    }

    /// Of how many samples parts of one level tell in an interval, by step.
    pub(crate) fn told(
        &self,
        parts: &[(LevelId, u32)],
        interval: Interval,
    ) -> Result<BTreeMap<i64, u64>, Error> {
        let found = self.level_rows(parts, interval)?.into_iter();
        Ok(found.flat_map(|level| level.rows).collect())
    }

    /// What levels of a source hold in an interval. They come by their steps.
    fn level_rows(
        &self,
        levels: &[(LevelId, u32)],
        interval: Interval,
    ) -> Result<Vec<LevelRows>, Error> {
        let mut found = Vec::new();
        for (id, level) in levels {
            let view = SourceReader::of(self, Vec::new(), interval).view(SourceId(*level))?;
            put_part(&mut found, view.level_rows(id.step_ns)?);
            tell_damage(view);
        }
        Ok(found)
    }

    /// The times of a source's rows.
    pub(crate) fn times(&self, source: SourceId, interval: Interval) -> Result<Vec<i64>, Error> {
        SourceReader::of(self, Vec::new(), interval)
            .view(source)?
            .times()
    }

    /// The column of a source's field, and its type.
    pub(crate) fn column_of(&self, source: u32, field: &str) -> Option<(usize, FieldType)> {
        let state = self.lock();
        let layout = state.layouts.get(state.buffers.line(source).layout)?;
        let column = layout.column(field.as_bytes(), 0)?;
        Some((column, layout.types()[column]))
    }
}

/// What cannot be read cannot be made coarser, and dies of its age like the rest.
fn tell_damage(view: SourceView<'_>) {
    for damage in view.damage.into_inner() {
        tracing::error!("{damage}; it is missing from the coarser level that is being made");
    }
}

impl SourceReader<'_> {
    /// What is left of a source's levels where nothing finer is, finest first.
    pub(crate) fn levels_of(&mut self, view: &SourceView<'_>) -> Result<Vec<LevelRows>, Error> {
        let (levels, until) = {
            let state = self.engine.lock();
            let until = state.retention.levels_until(view.source.0);
            if self.interval.start >= until {
                return Ok(Vec::new());
            }
            (state.levels_of(view.source.0), until)
        };
        let end = self.interval.end.min(until - 1);
        let wanted = Interval::new(self.interval.start, end);
        let mut found: Vec<LevelRows> = Vec::new();
        for (rank, (id, level)) in levels.into_iter().enumerate() {
            let level = self.view_in(SourceId(level), wanted, rank + 1)?;
            let rows = level.level_rows(id.step_ns)?;
            view.damage.borrow_mut().extend(level.damage.take());
            put_part(&mut found, rows);
        }
        // Samples are left from here on.
        let left = view.veil.start();
        let reach = found.iter().filter_map(LevelRows::end).max();
        let samples = match reach.filter(|&reach| reach > left) {
            Some(reach) => {
                let interval = Interval::new(wanted.start, reach - 1);
                self.view_in(view.source, interval, 0)?.times()?
            }
            None => Vec::new(),
        };
        leave_the_finest(&mut found, &samples);
        Ok(found)
    }
}

impl SourceView<'_> {
    /// When it may have rows, and how many: of each block.
    fn spans(&self) -> Vec<(Interval, u64)> {
        let blocks = self.blocks.iter().map(|(entry, _)| {
            (
                Interval::new(entry.first, entry.last),
                u64::from(entry.rows),
            )
        });
        let open = self.open.as_ref().map(|open| self.decode_open(open).times);
        let open = open.into_iter().filter_map(|times| {
            let inside = |time: &&i64| self.interval.contains(**time);
            let first = *times.iter().find(inside)?;
            let last = *times.iter().rfind(inside)?;
            Some((Interval::new(first, last), times.len() as u64))
        });
        blocks.chain(open).collect()
    }

    /// The times of its rows.
    fn times(&self) -> Result<Vec<i64>, Error> {
        let rows = self.rows()?;
        let inside = |time: &i64| self.interval.contains(*time);
        Ok(rows.times.into_iter().filter(inside).collect())
    }

    fn column_of(&self, field: &str) -> Option<usize> {
        self.layout.column(field.as_bytes(), 0)
    }

    /// The last text in each step, by the columns of texts.
    fn last_texts(&mut self, step: u64) -> Result<BTreeMap<usize, BTreeMap<i64, String>>, Error> {
        let types = self.layout.types().iter();
        self.wanted = types.map(|kind| *kind == FieldType::Str).collect();
        let rows = self.rows()?;
        let mut found = BTreeMap::new();
        for column in self.wanted_columns() {
            if let Some(SeriesData {
                times,
                values: Column::Str(texts),
                ..
            }) = self.one_series(&rows, column)
            {
                let times = times.into_iter().enumerate();
                let last =
                    times.map(|(at, time)| (step_start(time, step), texts.get(at).to_string()));
                found.insert(column, last.collect());
            }
        }
        Ok(found)
    }

    /// What it holds as a level with steps of some length.
    fn level_rows(&self, step: u64) -> Result<LevelRows, Error> {
        let rows = self.rows()?;
        let mut fields = Vec::new();
        for (column, name) in self.layout.names().iter().enumerate() {
            if let Some(field) = name.strip_prefix(&Figure::Count.column("")) {
                fields.extend(self.level_field(&rows, column, field));
            }
        }
        let times = rows.times.iter().copied();
        let inside = times.filter(|time| self.interval.contains(*time));
        let mut counts: BTreeMap<i64, u64> = inside.map(|time| (time, 0)).collect();
        for bucket in fields.iter().flat_map(|field: &LevelField| &field.buckets) {
            let count = counts.entry(bucket.start).or_default();
            *count = bucket.count.max(*count);
        }
        Ok(LevelRows {
            step,
            rows: counts.into_iter().collect(),
            fields,
        })
    }

    /// The figures of a field, whose counts are in a column.
    fn level_field(&self, rows: &Rows, counts: usize, field: &str) -> Option<LevelField> {
        let figure = |figure: Figure| {
            let column = match figure {
                Figure::Count => counts,
                figure => self.column_of(&figure.column(field))?,
            };
            within(&rows.times, rows.fields[column].as_ref()?, self.interval)
        };
        let (times, _) = figure(Figure::Count)?;
        let empty = |&time: &i64| Bucket::of(time, time, f64::NAN);
        let mut buckets: Vec<Bucket> = times.iter().map(empty).collect();
        let mut texts = None;
        for kind in Figure::of(FieldType::F64) {
            // Figures of a field come together, or the field is of texts.
            let Some((_, values)) = figure(*kind).filter(|(found, _)| *found == times) else {
                continue;
            };
            match values {
                Column::Str(values) => texts = Some(values),
                values => {
                    let each = buckets.iter_mut().enumerate();
                    each.for_each(|(at, bucket)| kind.set(bucket, values.get(at)));
                }
            }
        }
        self.set_exact_figures(rows, field, &mut buckets);
        Some(LevelField {
            field: field.into(),
            buckets,
            texts,
        })
    }

    /// Sets the exact figures of integers in the rows that have them.
    fn set_exact_figures(&self, rows: &Rows, field: &str, buckets: &mut [Bucket]) {
        let column = self.column_of(&exact_column(field));
        let exact = column.and_then(|column| rows.fields[column].as_ref());
        let found = exact.and_then(|exact| within(&rows.times, exact, self.interval));
        let Some((times, Column::Str(texts))) = found else {
            return;
        };
        for (at, time) in times.iter().enumerate() {
            if let Ok(row) = buckets.binary_search_by_key(time, |bucket| bucket.start) {
                set_exact(&mut buckets[row], texts.get(at));
            }
        }
    }

    /// What levels tell of a column, in the order of time, and what its samples tell.
    pub(crate) fn with_levels(
        &self,
        levels: &[LevelRows],
        column: usize,
        samples: Option<SeriesData>,
    ) -> Option<SeriesData> {
        let name = &self.layout.names()[column];
        let mut rows: BTreeMap<i64, (&LevelField, usize)> = BTreeMap::new();
        for field in levels.iter().filter_map(|level| level.field(name)) {
            let each = field.buckets.iter().enumerate();
            rows.extend(each.map(|(at, bucket)| (bucket.start, (field, at))));
        }
        if rows.is_empty() {
            return samples;
        }
        let mut times = Vec::with_capacity(rows.len());
        let mut values = Column::new(self.layout.types()[column]);
        let mut rows = rows.into_iter().peekable();
        let mut push_before = |end: i64, times: &mut Vec<i64>, values: &mut Column| {
            while let Some((time, (field, at))) = rows.next_if(|(time, _)| *time < end) {
                times.push(time);
                let text = field.texts.as_ref().map(|texts| texts.get(at));
                push_stand_in(values, &field.buckets[at], text);
            }
        };
        if let Some(samples) = samples {
            for (at, &time) in samples.times.iter().enumerate() {
                push_before(time, &mut times, &mut values);
                times.push(time);
                values.push(samples.values.get(at));
            }
        }
        push_before(i64::MAX, &mut times, &mut values);
        Some(SeriesData {
            source: self.source,
            key: self.key.clone(),
            field: name.clone(),
            times,
            values,
        })
    }

    /// The buckets of a column: those of its samples, and what its levels tell.
    pub(crate) fn buckets_with_levels(
        &self,
        levels: &[LevelRows],
        column: usize,
        step: Step,
        samples: Vec<Bucket>,
    ) -> Vec<Bucket> {
        let name = &self.layout.names()[column];
        let mut all: Vec<Bucket> = levels
            .iter()
            .filter_map(|level| level.field(name))
            .flat_map(|field| &field.buckets)
            .map(|bucket| match step {
                Step::Whole => *bucket,
                step => Bucket {
                    start: bucket_start(bucket.start, step),
                    ..*bucket
                },
            })
            .collect();
        if all.is_empty() {
            return samples;
        }
        if is_integer(self.layout.types()[column]) {
            for bucket in all.iter_mut().filter(|one| one.exact.is_none()) {
                *bucket = bucket.of_integers().unwrap_or(*bucket);
            }
        }
        all.extend(samples);
        all.sort_by_key(|bucket| bucket.first.0);
        let mut buckets = Vec::new();
        for bucket in all {
            add_bucket(bucket, step, &mut buckets);
        }
        buckets
    }
}
