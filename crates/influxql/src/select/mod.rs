//! Queries for samples: plan, rows, groups, tables.

pub mod compile;
pub mod condition;
mod fill;
mod function;
mod grouped;
mod names;
mod plan;
mod raw;
mod rows;
mod series;
mod state;
mod transform;
mod windows;

use crate::answer::Table;
use crate::context::Context;
use crate::error::Error;
use crate::schema::{Schema, measurements};
use crate::text::statement::{Dimension, Fill, Select, Source};
use condition::{Clock, Condition};
use plan::{Plan, Shape};
use rows::Input;
use seiner_model::{Interval, Selector};
use std::collections::BTreeMap;

/// Clauses that a query inherits from the query that reads its result.
#[derive(Clone)]
struct Outer {
    interval: Interval,
    bounds: (bool, bool),
    every: Option<(i64, i64)>,
    dimensions: Vec<Dimension>,
}

/// Answers a query.
pub fn select(context: &Context, query: &Select) -> Result<Vec<Table>, Error> {
    of_query(context, query, None)
}

fn of_query(context: &Context, query: &Select, outer: Option<&Outer>) -> Result<Vec<Table>, Error> {
    let query = &inherited(query, outer);
    let mut tables = Vec::new();
    for name in measurements(context, &query.sources)? {
        let schema = Schema::of_measurement(context, &name)?;
        let found = of_input(context, query, outer, &name, &schema, &Input::Measurement)?;
        tables.extend(found);
    }
    for source in &query.sources {
        let Source::Query(inner) = source else {
            continue;
        };
        let mut by_name: BTreeMap<String, Vec<Table>> = BTreeMap::new();
        let limits = limits(context, query, outer)?;
        for table in of_query(context, inner, Some(&limits))? {
            by_name.entry(table.name.clone()).or_default().push(table);
        }
        for (name, inner) in by_name {
            let schema = Schema::of_tables(&inner);
            let input = Input::Tables(&inner);
            tables.extend(of_input(context, query, outer, &name, &schema, &input)?);
            context.budget.release(inner.iter().map(bytes).sum());
        }
    }
    Ok(query.tables.cut(tables))
}

/// Returns the query with what it inherits.
fn inherited(query: &Select, outer: Option<&Outer>) -> Select {
    let mut query = query.clone();
    let Some(outer) = outer else {
        return query;
    };
    query.dimensions.extend(outer.dimensions.iter().cloned());
    // As in InfluxDB, buckets without samples have no effect on the outer query.
    if query.fill == Fill::Null {
        query.fill = Fill::None;
    }
    let fields = &query.fields;
    let over_rows = fields
        .iter()
        .any(|field| names::has_function(&field.expression));
    if over_rows && query.every.is_none() {
        query.every = outer.every;
    }
    query.descending &= query.rows.limit.is_some();
    query
}

/// Returns the clauses that an inner query inherits.
fn limits(context: &Context, query: &Select, outer: Option<&Outer>) -> Result<Outer, Error> {
    let condition = condition(context, query, outer, &Schema::default())?;
    Ok(Outer {
        interval: condition.interval,
        bounds: condition.bounds,
        every: query.every,
        dimensions: query.dimensions.clone(),
    })
}

/// Returns the condition of a query within the times of the query that reads its result.
fn condition(
    context: &Context,
    query: &Select,
    outer: Option<&Outer>,
    schema: &Schema,
) -> Result<Condition, Error> {
    let mut condition = match &query.condition {
        None => Condition::default(),
        Some(condition) => {
            let clock = Clock {
                now: context.now,
                zone: query.zone.as_ref(),
            };
            condition::split(condition, schema, clock)?
        }
    };
    if let Some(outer) = outer {
        let interval = &mut condition.interval;
        interval.start = interval.start.max(outer.interval.start);
        interval.end = interval.end.min(outer.interval.end);
        condition.bounds.0 |= outer.bounds.0;
        condition.bounds.1 |= outer.bounds.1;
    }
    Ok(condition)
}

fn of_input(
    context: &Context,
    query: &Select,
    outer: Option<&Outer>,
    name: &str,
    schema: &Schema,
    input: &Input<'_>,
) -> Result<Vec<Table>, Error> {
    let mut condition = condition(context, query, outer, schema)?;
    // As in InfluxDB, buckets end now if nothing else is said.
    if query.every.is_some() && !condition.bounds.1 {
        condition.interval.end = condition.interval.end.min(context.now);
    }
    if condition.interval.is_empty() {
        return Ok(Vec::new());
    }
    context.warn_of_losses(condition.interval);
    // The result of a query has only the tags by which it is grouped.
    let selector = match input {
        Input::Measurement => context.databases.selector(name),
        Input::Tables(_) => Selector::default(),
    };
    let plan = Plan::new(query, selector, schema, condition)?;
    if plan.reads_nothing() {
        return Ok(Vec::new());
    }
    match &plan.shape {
        Shape::Raw(raw) => raw::tables(context, query, &plan, raw, name, input),
        Shape::Grouped(grouped) => grouped::tables(context, query, &plan, grouped, name, input),
    }
}

fn bytes(table: &Table) -> usize {
    let cells = table.rows.iter().flatten();
    cells.map(crate::cell::Cell::bytes).sum()
}
