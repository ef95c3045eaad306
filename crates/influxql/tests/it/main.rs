//! Tests of statements on a store in memory. Answers are compared with those of InfluxDB in `e2e/test_influxql.py`.

mod databases;
mod limits;
mod parts;
mod statements;

use seiner_influxql::{Answer, Cell, Databases, Error, Limits, parse, run};
use seiner_store::MemoryStore;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Value of `now()`, ns.
const NOW: i64 = 1_000_000_000_000;
/// A second, ns.
const SECOND: i64 = 1_000_000_000;

/// Runs the only statement of a text.
fn ask(store: &MemoryStore, text: &str) -> Result<Answer, Error> {
    ask_within(store, text, Limits::default())
}

fn ask_within(store: &MemoryStore, text: &str, limits: Limits) -> Result<Answer, Error> {
    let databases = Databases::default();
    let statements = parse(text, &BTreeMap::new())?;
    let stopper = Arc::new(|| None);
    run(store, &statements[0], NOW, &databases, limits, stopper)
}

/// Writes an answer: `name{tag=value} column,column: 0,1.5; 10,null`, a line for each table. Times are in s.
fn text(answer: &Answer) -> String {
    let cell = |cell: &Option<Cell>| match cell {
        None => "null".to_string(),
        Some(Cell::Time(ns)) => (ns / SECOND).to_string(),
        Some(Cell::Float(value)) => format!("{value:?}"),
        Some(Cell::Single(value)) => format!("{value:?}"),
        Some(Cell::Integer(value)) => value.to_string(),
        Some(Cell::Unsigned(value)) => value.to_string(),
        Some(Cell::Bool(value)) => value.to_string(),
        Some(Cell::Text(text)) => text.to_string(),
    };
    let table = |table: &seiner_influxql::Table| {
        let tags = table
            .tags
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let rows = table.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(cell).collect();
            cells.join(",")
        });
        let (tags, rows): (Vec<String>, Vec<String>) = (tags.collect(), rows.collect());
        let columns = table.columns.join(",");
        format!(
            "{}{{{}}} {columns}: {}",
            table.name,
            tags.join(","),
            rows.join("; ")
        )
    };
    let tables: Vec<String> = answer.tables.iter().map(table).collect();
    tables.join("\n")
}
