//! Queries with functions over rows: one state for each group, function and bucket.

use super::fill::{Buckets, Series, count, filled};
use super::function::{Aggregate, Transform};
use super::plan::{Grouped, Plan, Slot};
use super::raw::table;
use super::rows::{Input, Rows, each_row};
use super::series::{Row, places, rows, values};
use super::state::{Sample, State, integral};
use super::transform::transformed;
use crate::answer::Table;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::Error;
use crate::text::statement::{Fill, Select};
use seiner_model::{FieldType, Interval};
use seiner_store::{Query, Step};
use std::collections::BTreeMap;

/// Bytes that a state counts besides its samples.
const STATE: usize = size_of::<(i64, State)>();
/// Bytes of a value of a series.
const VALUE: usize = size_of::<(i64, Option<Cell>)>();
/// Bytes of a row besides its values.
const ROW: usize = 96;
/// Bytes that a group counts besides its states.
const GROUP: usize = 192;

/// Returns one table for each group.
pub fn tables(
    context: &Context,
    query: &Select,
    plan: &Plan,
    grouped: &Grouped,
    name: &str,
    input: &Input<'_>,
) -> Result<Vec<Table>, Error> {
    let buckets = query.every.map(|(every, offset)| Buckets {
        every,
        offset,
        zone: query.zone.as_ref(),
    });
    let interval = widened(plan, grouped, buckets);
    let mut collector = Collector {
        context,
        plan,
        grouped,
        buckets,
        // The rows of an inner query begin with their bucket.
        first: match input {
            Input::Measurement => plan.condition.interval.start,
            Input::Tables(_) => i64::MIN,
        },
        groups: BTreeMap::new(),
        group: Vec::new(),
    };
    match answers_from_blocks(query, plan, grouped, input) {
        true => {
            from_blocks(context, &mut collector, plan.condition.interval, false)?;
            from_blocks(context, &mut collector, interval, true)?;
        }
        false => each_row(
            context,
            input,
            &plan.selector,
            &plan.variables,
            interval,
            &mut collector,
        )?,
    }
    let finish = Finish {
        context,
        query,
        plan,
        grouped,
        buckets,
        interval,
    };
    let mut tables = Vec::new();
    for (group, states) in collector.groups {
        context.budget.check()?;
        let mut found = finish.rows(states)?;
        if query.descending {
            found.reverse();
        }
        let found = query.rows.cut(found);
        if !found.is_empty() {
            tables.push(table(plan, name, group, found));
        }
    }
    Ok(tables)
}

/// Returns the interval with the buckets before it that transformations need.
fn widened(plan: &Plan, grouped: &Grouped, buckets: Option<Buckets<'_>>) -> Interval {
    let mut interval = plan.condition.interval;
    let before = grouped.slots.iter().map(|slot| match slot {
        Slot::Transform(transform, _) => Transform::buckets_before(*transform),
        _ => 0,
    });
    let before = before.max().unwrap_or(0);
    if let Some(buckets) = buckets
        && plan.condition.bounds.0
    {
        let length = buckets.every.saturating_mul(before as i64);
        interval.start = interval.start.saturating_sub(length);
        if buckets.zone.is_some() && before > 0 {
            // A day may have 25 hours.
            interval.start = buckets.start(interval.start);
        }
    }
    interval
}

/// Returns whether the aggregates of blocks contain the answer.
fn answers_from_blocks(query: &Select, plan: &Plan, grouped: &Grouped, input: &Input<'_>) -> bool {
    let is_aligned = query
        .every
        .is_none_or(|(every, offset)| offset % every == 0);
    let is_plain = matches!(input, Input::Measurement)
        && is_aligned
        && (query.zone.is_none() || query.every.is_none())
        && plan.row_filter.is_empty()
        && grouped.extras.is_empty();
    if !is_plain {
        return false;
    }
    // The only selected sample has its own time, which the aggregates have for the first and the last.
    let is_alone = grouped.slots.len() == 1 && query.every.is_none();
    let fits = |slot: &Slot| match slot {
        Slot::Transform(..) => true,
        Slot::Points(_) => false,
        Slot::Aggregate {
            aggregate,
            variable,
            ..
        } => {
            let has_time = matches!(aggregate, Aggregate::First | Aggregate::Last);
            aggregate.is_in_blocks()
                && (!is_alone || !aggregate.selects() || has_time)
                && (*aggregate == Aggregate::Count || plan.variables[*variable].is_numeric)
        }
    };
    grouped.slots.iter().all(fits)
}

/// Reads the aggregates of blocks for the functions whose result is transformed, or for the others.
fn from_blocks(
    context: &Context,
    collector: &mut Collector<'_, '_>,
    interval: Interval,
    transformed: bool,
) -> Result<(), Error> {
    let plan = collector.plan;
    // Place of the slot, function, and name of the field.
    let functions: Vec<(usize, Aggregate, &str)> = collector
        .grouped
        .slots
        .iter()
        .enumerate()
        .filter_map(|(place, slot)| match slot {
            Slot::Aggregate {
                aggregate,
                variable,
                widened,
                ..
            } if *widened == transformed => {
                Some((place, *aggregate, plan.variables[*variable].name.as_str()))
            }
            _ => None,
        })
        .collect();
    if functions.is_empty() {
        return Ok(());
    }
    let fields = functions.iter().map(|(_, _, field)| field.to_string());
    let query = Query {
        selector: plan.selector.clone(),
        fields: Some(fields.collect()),
        interval,
    };
    let step = collector
        .buckets
        .map_or(Step::Whole, |buckets| Step::Every(buckets.every));
    let found = context
        .store
        .aggregate(&query, step, Some(context.budget.is_over()))?;
    for summary in found {
        let Some(summary) = context.item(summary)? else {
            continue;
        };
        let tags: Vec<_> = summary.key.tags().collect();
        if !collector.source(&tags) {
            continue;
        }
        for (place, aggregate, _) in functions
            .iter()
            .filter(|(_, _, field)| **field == *summary.field)
        {
            for bucket in &summary.buckets {
                // NaN is no number in InfluxDB.
                if bucket.sum.is_nan() && summary.field_type != FieldType::Str {
                    continue;
                }
                let start = collector.start(bucket.start);
                let state = collector.state(*place, *aggregate, start)?;
                state.absorb(*aggregate, bucket, summary.field_type);
            }
        }
    }
    context.budget.check()
}

/// States of one function, ascending by bucket.
#[derive(Default)]
struct States {
    list: Vec<(i64, State)>,
    /// Index of the state that was used last.
    last: usize,
}

impl States {
    /// Returns the index of the state of a bucket, or the index at which it is to be added.
    fn find(&self, start: i64) -> Result<usize, usize> {
        match self.list.get(self.last) {
            Some((last, _)) if *last == start => return Ok(self.last),
            _ => {}
        }
        self.list.binary_search_by_key(&start, |(start, _)| *start)
    }
}

/// Receiver that aggregates rows.
struct Collector<'c, 'a> {
    context: &'c Context<'a>,
    plan: &'c Plan,
    grouped: &'c Grouped,
    buckets: Option<Buckets<'c>>,
    /// Time of the first row for functions that are not transformed.
    first: i64,
    groups: BTreeMap<Vec<String>, Vec<States>>,
    /// Group of the present source.
    group: Vec<String>,
}

impl Collector<'_, '_> {
    fn start(&self, time: i64) -> i64 {
        self.buckets.map_or(0, |buckets| buckets.start(time))
    }

    /// Returns the state of a function and a bucket in the present group.
    fn state(
        &mut self,
        place: usize,
        aggregate: Aggregate,
        start: i64,
    ) -> Result<&mut State, Error> {
        if !self.groups.contains_key(&self.group) {
            self.context.budget.hold(GROUP)?;
            let states = self.grouped.slots.iter().map(|_| States::default());
            self.groups.insert(self.group.clone(), states.collect());
        }
        let states = self.groups.get_mut(&self.group).expect("added before");
        let states = &mut states[place];
        let at = match states.find(start) {
            Ok(at) => at,
            Err(at) => {
                self.context.budget.hold(STATE)?;
                states.list.insert(at, (start, State::new(aggregate)));
                at
            }
        };
        states.last = at;
        Ok(&mut states.list[at].1)
    }
}

impl Rows for Collector<'_, '_> {
    fn source(&mut self, tags: &[(&str, &str)]) -> bool {
        self.group = self.plan.group(tags);
        self.plan.wants(tags)
    }

    fn row(&mut self, time: i64, row: &[Option<Cell>]) -> Result<(), Error> {
        if !self.plan.holds(row) {
            return Ok(());
        }
        let grouped = self.grouped;
        let extras = || -> Vec<Option<Cell>> {
            let extras = grouped.extras.iter();
            extras.map(|place| row[*place].clone()).collect()
        };
        for (place, slot) in grouped.slots.iter().enumerate() {
            let (aggregate, variable, widened) = match slot {
                Slot::Aggregate {
                    aggregate,
                    variable,
                    widened,
                    ..
                } => (*aggregate, *variable, *widened),
                // All samples are kept, as for the median.
                Slot::Points(variable) => (Aggregate::Distinct, *variable, false),
                Slot::Transform(..) => continue,
            };
            if !widened && time < self.first {
                continue;
            }
            let Some(value) = &row[variable] else {
                continue;
            };
            let start = match (slot, aggregate) {
                // The area is cut into buckets when all samples are known.
                (_, Aggregate::Integral(_)) => 0,
                _ => self.start(time),
            };
            let bytes = self
                .state(place, aggregate, start)?
                .add(aggregate, time, value, extras);
            self.context.budget.hold(bytes)?;
        }
        Ok(())
    }
}

/// Computation of the rows of a group from its states.
struct Finish<'f, 'a> {
    context: &'f Context<'a>,
    query: &'f Select,
    plan: &'f Plan,
    grouped: &'f Grouped,
    buckets: Option<Buckets<'f>>,
    /// Interval of the samples that were read.
    interval: Interval,
}

impl Finish<'_, '_> {
    fn rows(&self, states: Vec<States>) -> Result<Vec<Row>, Error> {
        let outputs = &self.grouped.outputs;
        let mut series: Vec<Series> = Vec::new();
        for (slot, states) in self.grouped.slots.iter().zip(states) {
            let next = match slot {
                Slot::Aggregate {
                    aggregate,
                    distinct,
                    widened,
                    ..
                } => {
                    if self.is_alone() && aggregate.selects() {
                        return Ok(self.selected(*aggregate, distinct, states));
                    }
                    self.aggregated((*aggregate, *widened), distinct, states)?
                }
                Slot::Points(_) => self.held(points(states))?,
                Slot::Transform(transform, node) => {
                    self.held(transformed(*transform, &values(&series, node)))?
                }
            };
            self.context
                .budget
                .hold(next.len() * size_of::<(i64, Option<Cell>)>())?;
            series.push(next);
        }
        let first = match (self.buckets, self.plan.condition.bounds.0) {
            (Some(buckets), true) => buckets.start(self.plan.condition.interval.start),
            _ => i64::MIN,
        };
        let places = places(outputs);
        let longest = places.iter().map(|place| series[*place].len()).max();
        let row = ROW + (outputs.len() + series.len()) * size_of::<Option<Cell>>();
        self.context.budget.hold(longest.unwrap_or(0) * row)?;
        let found = rows(&series, &places).into_iter();
        let found = found.filter(|(time, _)| *time >= first);
        let value = |row: &[Option<Cell>]| outputs.iter().map(|node| node.value(row)).collect();
        let found = found.map(|(time, row)| (time, value(&row))).collect();
        let held: usize = series.iter().map(Vec::len).sum();
        self.context.budget.release(held * VALUE);
        Ok(found)
    }

    /// Counts the memory of a series.
    fn held(&self, series: Series) -> Result<Series, Error> {
        self.context.budget.hold(series.len() * VALUE)?;
        Ok(series)
    }

    /// Returns whether the only function can return other values of its row, and its own time.
    fn is_alone(&self) -> bool {
        let many = matches!(
            self.grouped.slots.as_slice(),
            [Slot::Aggregate { aggregate, .. }] if aggregate.has_many()
        );
        self.grouped.slots.len() == 1
            && (self.buckets.is_none() || many || !self.grouped.extras.is_empty())
    }

    /// Returns the rows of selected samples.
    fn selected(&self, aggregate: Aggregate, distinct: &[usize], states: States) -> Vec<Row> {
        let extras = &self.grouped.extras;
        let distinct: Vec<usize> = distinct
            .iter()
            .filter_map(|variable| extras.iter().position(|extra| extra == variable))
            .collect();
        let mut found = Vec::new();
        for (start, state) in states.list {
            for sample in state.results(aggregate, start, &distinct) {
                let in_bucket = self.buckets.is_some() && !aggregate.has_many();
                let time = if in_bucket { start } else { sample.time };
                let mut row = vec![Some(sample.value)];
                row.extend(sample.extras);
                let outputs = self.grouped.outputs.iter();
                found.push((time, outputs.map(|node| node.value(&row)).collect()));
            }
        }
        found.sort_by_key(|(time, _)| *time);
        found
    }

    /// Returns the results of a function, one for each bucket.
    fn aggregated(
        &self,
        (aggregate, widened): (Aggregate, bool),
        distinct: &[usize],
        states: States,
    ) -> Result<Series, Error> {
        let series = self.held(match aggregate {
            Aggregate::Integral(unit) => self.areas(unit, states),
            _ => self.results(aggregate, distinct, states),
        })?;
        // As in InfluxDB, areas of empty buckets are part of the next area.
        let is_filled = !aggregate.has_many() && !matches!(aggregate, Aggregate::Integral(_));
        let Some(buckets) = self.buckets.filter(|_| is_filled) else {
            return Ok(series);
        };
        let Some((first_time, _)) = series.first() else {
            return Ok(series);
        };
        let first = match self.plan.condition.bounds.0 {
            true if widened => buckets.start(self.interval.start),
            true => buckets.start(self.plan.condition.interval.start),
            false => *first_time,
        };
        let last = buckets.start(self.interval.end);
        let fill = match (aggregate, self.query.fill) {
            (Aggregate::Count | Aggregate::CountDistinct, Fill::Null) => Fill::Number(0.0),
            (_, fill) => fill,
        };
        if fill == Fill::None {
            return Ok(series);
        }
        let count = count(buckets, (first, last))?;
        self.context.budget.hold(count * VALUE)?;
        self.context.budget.release(series.len() * VALUE);
        Ok(filled(series, buckets, (first, last), fill))
    }

    fn results(&self, aggregate: Aggregate, distinct: &[usize], states: States) -> Series {
        let mut series = Vec::new();
        for (start, state) in states.list {
            let start = self.time(start);
            // The deviation of one sample is null, which is not filled.
            let is_null = matches!(state, State::Deviation(1, ..));
            series.extend(is_null.then_some((start, None)));
            let results = state.results(aggregate, start, distinct).into_iter();
            series.extend(results.map(|sample| (start, Some(sample.value))));
        }
        series
    }

    fn areas(&self, unit: i64, states: States) -> Series {
        let samples = states
            .list
            .into_iter()
            .flat_map(|(_, state)| samples(state));
        let bucket = |time: i64| match self.buckets {
            None => (0, i64::MAX),
            Some(buckets) => {
                let start = buckets.start(time);
                (start, buckets.next(start).unwrap_or(i64::MAX))
            }
        };
        let areas = integral(samples.collect(), unit, bucket).into_iter();
        areas
            .map(|(start, area)| (self.time(start), Some(Cell::Float(area))))
            .collect()
    }

    /// Returns the time of a result: the begin of its bucket, or of the interval. As in InfluxDB, 0 without a begin.
    fn time(&self, start: i64) -> i64 {
        match (self.buckets, self.plan.condition.bounds.0) {
            (Some(_), _) => start,
            (None, true) => self.plan.condition.interval.start,
            (None, false) => 0,
        }
    }
}

fn samples(state: State) -> Vec<Sample> {
    match state {
        State::All(samples) => samples,
        _ => Vec::new(),
    }
}

/// Returns the samples of a group in the order of their times.
fn points(states: States) -> Series {
    let samples = states
        .list
        .into_iter()
        .flat_map(|(_, state)| samples(state));
    let mut series: Series = samples
        .map(|sample| (sample.time, Some(sample.value)))
        .collect();
    series.sort_by_key(|(time, _)| *time);
    series
}
