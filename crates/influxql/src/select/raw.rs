//! Queries without functions over rows: the values of each row.

use super::plan::{Plan, Raw};
use super::rows::{Input, Rows, each_row};
use super::windows::{Extent, Windows};
use crate::answer::Table;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::Error;
use crate::text::statement::Select;
use seiner_model::Interval;
use std::collections::BTreeMap;

/// Number of rows beyond a limit that are kept until the next cut.
const SLACK: usize = 4096;
/// Bytes of a row besides its values.
const ROW: usize = 40;

/// Row of an answer.
type Row = (i64, Vec<Option<Cell>>);

/// Returns one table for each group.
pub fn tables(
    context: &Context,
    query: &Select,
    plan: &Plan,
    raw: &Raw,
    name: &str,
    input: &Input<'_>,
) -> Result<Vec<Table>, Error> {
    let mut collector = Collector {
        context,
        query,
        plan,
        raw,
        groups: BTreeMap::new(),
        group: Vec::new(),
    };
    match query.rows.end() {
        Some(end) if matches!(input, Input::Measurement) => collector.read_limited(end)?,
        _ => collector.read(input, plan.condition.interval)?,
    }
    let mut tables = Vec::new();
    for (group, mut rows) in collector.groups {
        sort(&mut rows, query.descending);
        let rows = query.rows.cut(rows);
        if rows.is_empty() {
            continue;
        }
        tables.push(table(plan, name, group, rows));
    }
    Ok(tables)
}

/// Creates the table of a group.
pub fn table(plan: &Plan, name: &str, group: Vec<String>, rows: Vec<Row>) -> Table {
    let columns = std::iter::once("time".to_string()).chain(plan.columns.iter().cloned());
    let rows = rows.into_iter().map(|(time, mut values)| {
        values.insert(0, Some(Cell::Time(time)));
        values
    });
    Table {
        name: name.to_string(),
        tags: plan.dimensions.iter().cloned().zip(group).collect(),
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

/// Sorts rows by time. Rows of the same time keep their order.
fn sort(rows: &mut [Row], descending: bool) {
    match descending {
        false => rows.sort_by_key(|(time, _)| *time),
        true => rows.sort_by_key(|(time, _)| std::cmp::Reverse(*time)),
    }
}

/// Receiver that keeps the rows of each group, up to the limit.
struct Collector<'c, 'a> {
    context: &'c Context<'a>,
    query: &'c Select,
    plan: &'c Plan,
    raw: &'c Raw,
    groups: BTreeMap<Vec<String>, Vec<Row>>,
    /// Group of the present source.
    group: Vec<String>,
}

impl Collector<'_, '_> {
    /// Reads the rows of an interval.
    fn read(&mut self, input: &Input<'_>, interval: Interval) -> Result<(), Error> {
        let plan = self.plan;
        let (selector, variables) = (&plan.selector, &plan.variables);
        each_row(self.context, input, selector, variables, interval, self)
    }

    /// Reads the rows of the measurement part by part, until each group has as many rows as the limit.
    fn read_limited(&mut self, rows: usize) -> Result<(), Error> {
        let interval = self.plan.condition.interval;
        let Some(extent) = Extent::of(self.context, self.plan) else {
            return self.read(&Input::Measurement, interval);
        };
        let mut windows = Windows::new(interval, &extent, rows, self.query.descending);
        while let Some(window) = windows.next() {
            self.read(&Input::Measurement, window)?;
            let has_enough =
                |group: &[String]| self.groups.get(group).is_some_and(|of| of.len() >= rows);
            if extent.is_read(windows.rest(), has_enough) {
                break;
            }
        }
        Ok(())
    }
}

impl Rows for Collector<'_, '_> {
    fn source(&mut self, tags: &[(&str, &str)]) -> bool {
        self.group = self.plan.group(tags);
        self.plan.wants(tags)
    }

    fn row(&mut self, time: i64, row: &[Option<Cell>]) -> Result<(), Error> {
        let plan = self.plan;
        // A row without the wanted fields is none, whatever its tags are.
        let has_field = self.raw.fields.iter().any(|place| row[*place].is_some());
        if !has_field || !plan.holds(row) {
            return Ok(());
        }
        let nodes = self.raw.nodes.iter();
        let values: Vec<Option<Cell>> = nodes.map(|node| node.value(row)).collect();
        let bytes = ROW + values.iter().map(Cell::bytes).sum::<usize>();
        self.context.budget.hold(bytes)?;
        if !self.groups.contains_key(&self.group) {
            self.groups.insert(self.group.clone(), Vec::new());
        }
        let rows = self.groups.get_mut(&self.group).expect("added before");
        rows.push((time, values));
        if let Some(end) = self.query.rows.end()
            && rows.len() > end.saturating_add(SLACK)
        {
            sort(rows, self.query.descending);
            let cut: usize = rows[end..]
                .iter()
                .map(|(_, values)| ROW + values.iter().map(Cell::bytes).sum::<usize>())
                .sum();
            rows.truncate(end);
            self.context.budget.release(cut);
        }
        Ok(())
    }
}
