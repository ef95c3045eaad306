//! Roll-up levels in query results: the finest remaining data for every part of an interval.
//!
//! A source's samples, its levels, and unfinished passes may cover the same time. A row of a level
//! counts only if the finer remaining data in its step counts fewer samples. No sample is therefore
//! counted twice or omitted, regardless of the rules that made the row.

pub(crate) mod rows;

use self::rows::{LevelField, LevelRows, leave_the_finest, put_part, strings};
use crate::answer::{Bucket, LevelSpan, Query, Step, is_integer};
use crate::core::Core;
use crate::error::Error;
use crate::query::aggregate::columns_of_samples;
use crate::query::bounds;
use crate::query::buckets::{add_bucket, bucket_start};
use crate::query::damages::Damages;
use crate::query::rows::{Rows, range_of, within};
use crate::query::source::{Source, SourceReader};
use crate::query::sweep::{Bounds, Sweep};
use crate::query::view::SourceView;
use crate::retention::rollup::{Figure, exact_column, push_stand_in, set_exact, step_start};
use seiner_model::{Bitmap, Column, FieldColumn, FieldType, Interval, LevelId, SourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns the parts of a query's interval in which some of its sources have roll-up levels instead
/// of samples, according to the rules of their classes. Ordered by the length of the step, then by
/// time.
pub(crate) fn levels(core: &Core, query: &Query) -> Vec<LevelSpan> {
    let levels = core.dictionary(|dictionary| dictionary.select_levels(&query.selector));
    let Interval { start, end } = query.interval;
    core.look_at_the_clock();
    let (_, log) = core.present();
    let retention = &log.retention;
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
        // Levels of other rules may exist where nothing finer does.
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

// ---- for roll-up passes

/// Returns the interval and the maximum number of rows of each block of a source.
pub(crate) fn spans_of(
    core: &Core,
    source: SourceId,
    interval: Interval,
) -> Result<Vec<(Interval, u64)>, Error> {
    let mut damages = Damages::default();
    let view = SourceReader::of(core, Vec::new(), interval).alone(source, &mut damages)?;
    Ok(spans(&view))
}

/// Returns the figures of a source's samples by step, with the columns of the fields.
pub(crate) fn level_of_samples(
    core: &Core,
    source: SourceId,
    interval: Interval,
    step: u64,
) -> Result<Vec<(usize, LevelField)>, Error> {
    let mut damages = Damages::default();
    let view = SourceReader::of(core, Vec::new(), interval).alone(source, &mut damages)?;
    let every = Step::Every(step as i64);
    let columns = columns_of_samples(&view, interval, every, bounds(core, Some(1)), &mut damages)?;
    let texts = match view.types().contains(&FieldType::Str) {
        true => last_texts(&view, step, &mut damages)?,
        false => BTreeMap::new(),
    };
    let mut found = Vec::new();
    for (column, buckets) in columns.into_iter().enumerate() {
        if buckets.is_empty() {
            continue;
        }
        let texts = texts.get(&column).map(|texts| {
            let of = |bucket: &Bucket| texts.get(&bucket.start).map_or("", |text| text);
            strings(&buckets.iter().map(of).collect::<Vec<_>>())
        });
        let field = view.names()[column].clone();
        found.push((
            column,
            LevelField {
                field,
                buckets,
                texts,
            },
        ));
    }
    log_damage(core, damages);
    Ok(found)
}

/// Returns the figures of a source's levels in an interval, where no finer data exists: no samples,
/// by their times, and none of the finer levels. Levels are ordered by step.
pub(crate) fn level_fields(
    core: &Core,
    levels: &[(LevelId, u32)],
    interval: Interval,
    samples: &[i64],
) -> Result<Vec<LevelField>, Error> {
    let mut found = level_rows_of(core, levels, interval)?;
    leave_the_finest(&mut found, samples);
    Ok(found.into_iter().flat_map(|level| level.fields).collect())
}

/// Returns the number of samples that the parts of one level count in an interval, by step.
pub(crate) fn sample_counts(
    core: &Core,
    parts: &[(LevelId, u32)],
    interval: Interval,
) -> Result<BTreeMap<i64, u64>, Error> {
    let found = level_rows_of(core, parts, interval)?.into_iter();
    Ok(found.flat_map(|level| level.rows).collect())
}

/// Returns the rows of a source's levels in an interval, ordered by step.
fn level_rows_of(
    core: &Core,
    levels: &[(LevelId, u32)],
    interval: Interval,
) -> Result<Vec<LevelRows>, Error> {
    let mut found = Vec::new();
    for (id, level) in levels {
        let mut damages = Damages::default();
        let mut reader = SourceReader::of(core, Vec::new(), interval);
        let view = reader.alone(SourceId(*level), &mut damages)?;
        put_part(
            &mut found,
            level_rows(&view, interval, id.step_ns, &mut damages)?,
        );
        log_damage(core, damages);
    }
    Ok(found)
}

/// Returns the times of a source's rows.
pub(crate) fn times_of(
    core: &Core,
    source: SourceId,
    interval: Interval,
) -> Result<Vec<i64>, Error> {
    let mut damages = Damages::default();
    let view = SourceReader::of(core, Vec::new(), interval).alone(source, &mut damages)?;
    let times = times(&view, interval, &mut damages);
    damages.report(core).for_each(drop);
    times
}

/// Reports damage. Unreadable data is not rolled up, and expires by its age like other data.
fn log_damage(core: &Core, damages: Damages) {
    for damage in damages.report(core) {
        tracing::error!("{damage}; its samples are missing from the roll-up");
    }
}

/// Returns the column and the type of a source's field.
pub(crate) fn column_of(core: &Core, source: u32, field: &str) -> Option<(usize, FieldType)> {
    let head = core.head();
    let layout = head.layouts().get(head.layout_of(source))?;
    let column = layout.column(field.as_bytes(), 0)?;
    Some((column, layout.types()[column]))
}

/// Returns the interval and the number of rows of each block.
pub(crate) fn spans(view: &SourceView) -> Vec<(Interval, u64)> {
    let blocks = view.blocks.iter();
    let blocks = blocks.map(|entry| (entry.span(), u64::from(entry.rows)));
    let open = view.open_rows(&view.wanted).into_iter();
    let open = open.filter_map(|Rows { times, .. }| {
        let range = range_of(&times, view.interval);
        let inside = &times[range];
        let span = Interval::new(*inside.first()?, *inside.last()?);
        Some((span, times.len() as u64))
    });
    blocks.chain(open).collect()
}

/// Returns the rows of a source with some of its columns.
fn rows(
    view: &Arc<SourceView>,
    interval: Interval,
    wanted: Vec<bool>,
    damages: &mut Damages,
) -> Result<Rows, Error> {
    let given = view.open_rows(&wanted);
    let mut sweep = Sweep::new(view, interval, wanted, given, Bounds::unlimited());
    let rows = sweep.all();
    damages.extend(std::mem::take(&mut sweep.damages));
    rows
}

/// Returns the times of a source's rows.
pub(crate) fn times(
    view: &Arc<SourceView>,
    interval: Interval,
    damages: &mut Damages,
) -> Result<Vec<i64>, Error> {
    let none = vec![false; view.wanted.len()];
    Ok(rows(view, interval, none, damages)?.times)
}

/// Returns the last text in each step, by the columns of texts.
fn last_texts(
    view: &Arc<SourceView>,
    step: u64,
    damages: &mut Damages,
) -> Result<BTreeMap<usize, BTreeMap<i64, String>>, Error> {
    let wanted: Vec<bool> = view
        .types()
        .iter()
        .map(|kind| *kind == FieldType::Str)
        .collect();
    let rows = rows(view, view.interval, wanted, damages)?;
    let mut found = BTreeMap::new();
    for (column, field) in rows.fields.iter().enumerate() {
        if let Some(field) = field
            && let Some((times, Column::Str(texts))) = within(&rows.times, field, view.interval)
        {
            let times = times.into_iter().enumerate();
            let last = times.map(|(at, time)| (step_start(time, step), texts.get(at).to_string()));
            found.insert(column, last.collect());
        }
    }
    Ok(found)
}

/// Returns the rows of a view as a level with steps of the given length.
fn level_rows(
    view: &Arc<SourceView>,
    interval: Interval,
    step: u64,
    damages: &mut Damages,
) -> Result<LevelRows, Error> {
    let rows = rows(view, interval, view.wanted.to_vec(), damages)?;
    let mut fields = Vec::new();
    for (column, name) in view.names().iter().enumerate() {
        if let Some(field) = name.strip_prefix(&Figure::Count.column("")) {
            fields.extend(level_field(view, &rows, column, field));
        }
    }
    let mut counts: BTreeMap<i64, u64> = rows.times.iter().map(|time| (*time, 0)).collect();
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

/// Returns the figures of a field whose counts are in a column.
fn level_field(view: &SourceView, rows: &Rows, counts: usize, field: &str) -> Option<LevelField> {
    let figure = |figure: Figure| {
        let column = match figure {
            Figure::Count => counts,
            figure => view.column_of(&figure.column(field))?,
        };
        within(&rows.times, rows.fields[column].as_ref()?, Interval::ALL)
    };
    let (times, _) = figure(Figure::Count)?;
    let empty = |&time: &i64| Bucket::of(time, time, f64::NAN);
    let mut buckets: Vec<Bucket> = times.iter().map(empty).collect();
    let mut texts = None;
    for kind in Figure::of(FieldType::F64) {
        // All figures of a field have the same rows, or the field is a text.
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
    set_exact_figures(view, rows, field, &mut buckets);
    Some(LevelField {
        field: field.into(),
        buckets,
        texts,
    })
}

/// Sets the exact figures of integers in the rows that have them.
fn set_exact_figures(view: &SourceView, rows: &Rows, field: &str, buckets: &mut [Bucket]) {
    let column = view.column_of(&exact_column(field));
    let exact = column.and_then(|column| rows.fields[column].as_ref());
    let found = exact.and_then(|exact| within(&rows.times, exact, Interval::ALL));
    let Some((times, Column::Str(texts))) = found else {
        return;
    };
    for (at, time) in times.iter().enumerate() {
        if let Ok(row) = buckets.binary_search_by_key(time, |bucket| bucket.start) {
            set_exact(&mut buckets[row], texts.get(at));
        }
    }
}

impl Source {
    /// Returns the remaining rows of a source's levels in a section without finer data, finest
    /// first.
    pub(crate) fn levels_in(
        &self,
        section: Interval,
        damages: &mut Damages,
    ) -> Result<Vec<LevelRows>, Error> {
        let mut found: Vec<LevelRows> = Vec::new();
        if self.levels.is_empty() || section.start >= self.levels_until {
            return Ok(found);
        }
        let part = Interval::new(section.start, section.end.min(self.levels_until - 1));
        for (step, view) in &self.levels {
            put_part(&mut found, level_rows(view, part, *step, damages)?);
        }
        let reach = found.iter().filter_map(LevelRows::end).max();
        let samples = match reach {
            Some(reach) => times(
                &self.own,
                Interval::new(section.start, reach - 1),
                // The samples are read again later, which reports their damage.
                &mut Damages::default(),
            )?,
            None => Vec::new(),
        };
        leave_the_finest(&mut found, &samples);
        Ok(found)
    }

    /// Returns the rows of levels in the layout of the samples, with the wanted columns.
    pub(crate) fn stand_ins(&self, levels: &[LevelRows], wanted: &[bool]) -> Rows {
        let names = self.own.names().iter().zip(self.own.types());
        let columns: Vec<BTreeMap<i64, (&LevelField, usize)>> = names
            .zip(wanted)
            .map(|((name, _), wanted)| {
                let levels = levels.iter().filter(|_| *wanted);
                let fields = levels.filter_map(|level| level.field(name));
                let each = fields.flat_map(|field| {
                    let buckets = field.buckets.iter().enumerate();
                    buckets.map(move |(at, bucket)| (bucket.start, (field, at)))
                });
                each.collect()
            })
            .collect();
        let times: BTreeSet<i64> = columns
            .iter()
            .flat_map(|rows| rows.keys().copied())
            .collect();
        let fields = columns.iter().zip(self.own.types()).map(|(rows, kind)| {
            if rows.is_empty() {
                return None;
            }
            let mut values = Column::new(*kind);
            for (field, at) in rows.values() {
                let text = field.texts.as_ref().map(|texts| texts.get(*at));
                push_stand_in(&mut values, &field.buckets[*at], text);
            }
            let present: Bitmap = times.iter().map(|time| rows.contains_key(time)).collect();
            Some(FieldColumn {
                present: (rows.len() < times.len()).then_some(present),
                values,
            })
        });
        Rows {
            fields: fields.collect(),
            times: times.iter().copied().collect(),
        }
    }

    /// Returns the buckets of a column in a section, from its samples and its levels.
    pub(crate) fn buckets_with_levels(
        &self,
        levels: &[LevelRows],
        column: usize,
        step: Step,
        samples: Vec<Bucket>,
    ) -> Vec<Bucket> {
        let name = &self.own.names()[column];
        let mut all: Vec<Bucket> = levels
            .iter()
            .filter(|_| self.own.wanted[column])
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
        if is_integer(self.own.types()[column]) {
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
