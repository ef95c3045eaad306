//! Rows of a measurement, or of the result of a query.

use super::plan::Variable;
use crate::answer::Table;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::Error;
use crate::text::statement::Kind;
use seiner_model::{FieldColumn, Interval, Selector};
use seiner_store::{Piece, Query};

/// Source of rows.
pub enum Input<'t> {
    /// Measurement.
    Measurement,
    /// Tables of a query.
    Tables(&'t [Table]),
}

/// Receiver of rows.
pub trait Rows {
    /// Begins the rows of a source. Returns false if they are not wanted.
    fn source(&mut self, tags: &[(&str, &str)]) -> bool;

    /// Takes a row, with one value for each variable.
    fn row(&mut self, time: i64, row: &[Option<Cell>]) -> Result<(), Error>;
}

/// Passes the rows of an interval on, source by source, each in the order of its times. A row without a value of any
/// field is left out. All rows of an inner query are passed on, because that query has the interval, too.
pub fn each_row(
    context: &Context,
    input: &Input<'_>,
    selector: &Selector,
    variables: &[Variable],
    interval: Interval,
    rows: &mut impl Rows,
) -> Result<(), Error> {
    match input {
        Input::Measurement => of_store(context, selector, variables, interval, rows),
        Input::Tables(tables) => {
            for table in *tables {
                of_table(table, selector, variables, rows)?;
                context.budget.check()?;
            }
            Ok(())
        }
    }
}

fn of_store(
    context: &Context,
    selector: &Selector,
    variables: &[Variable],
    interval: Interval,
    rows: &mut impl Rows,
) -> Result<(), Error> {
    let fields = variables.iter().filter(|one| one.kind == Kind::Field);
    let query = Query {
        selector: selector.clone(),
        fields: Some(fields.map(|one| one.name.clone()).collect()),
        interval,
    };
    let mut row: Vec<Option<Cell>> = vec![None; variables.len()];
    let mut source = None;
    let mut wanted = false;
    for piece in context.store.scan(&query, Some(context.budget.is_over()))? {
        let Some(piece) = context.item(piece)? else {
            continue;
        };
        if source != Some(piece.source) {
            source = Some(piece.source);
            let tags: Vec<_> = piece.key.tags().collect();
            wanted = rows.source(&tags);
            set_tags(&mut row, variables, &|tag| piece.key.tag(tag));
        }
        if wanted {
            of_piece(&piece, variables, &mut row, rows)?;
        }
    }
    context.budget.check()
}

/// Sets the values of tags. An absent tag has none.
fn set_tags<'k>(row: &mut [Option<Cell>], variables: &[Variable], tag: &dyn Fn(&str) -> &'k str) {
    for (cell, variable) in row.iter_mut().zip(variables) {
        if variable.kind == Kind::Tag {
            let value = tag(&variable.name);
            *cell = (!value.is_empty()).then(|| Cell::text(value));
        }
    }
}

/// Reader of the values of a column, row by row.
struct Cursor<'p> {
    place: usize,
    column: &'p FieldColumn,
    next: usize,
}

impl Cursor<'_> {
    fn value(&mut self, row: usize) -> Option<Cell> {
        let present = self.column.present.as_ref();
        if !present.is_none_or(|bits| bits.get(row)) {
            return None;
        }
        let value = Cell::of(self.column.values.get(self.next));
        self.next += 1;
        // InfluxDB has no infinite values and no NaN.
        match value.number() {
            Some(number) if !number.is_finite() => None,
            _ => Some(value),
        }
    }
}

fn of_piece(
    piece: &Piece,
    variables: &[Variable],
    row: &mut [Option<Cell>],
    rows: &mut impl Rows,
) -> Result<(), Error> {
    let mut cursors = Vec::new();
    for (place, variable) in variables.iter().enumerate() {
        if variable.kind == Kind::Tag {
            continue;
        }
        row[place] = None;
        let fields = piece.fields.iter().zip(&piece.columns);
        for ((name, _), column) in fields {
            if let Some(column) = column.as_ref().filter(|_| **name == *variable.name) {
                cursors.push(Cursor {
                    place,
                    column,
                    next: 0,
                });
            }
        }
    }
    for (at, time) in piece.times.iter().enumerate() {
        let mut has_value = false;
        for cursor in &mut cursors {
            row[cursor.place] = cursor.value(at);
            has_value |= row[cursor.place].is_some();
        }
        if has_value {
            rows.row(*time, row)?;
        }
    }
    Ok(())
}

fn of_table(
    table: &Table,
    selector: &Selector,
    variables: &[Variable],
    rows: &mut impl Rows,
) -> Result<(), Error> {
    let tag = |name: &str| {
        let found = table.tags.iter().find(|(tag, _)| tag == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let mut matchers = selector.matchers.iter();
    let holds = matchers.all(|matcher| matcher.condition.holds(tag(&matcher.tag)));
    let tags = table.tags.iter();
    let tags: Vec<(&str, &str)> = tags.map(|(tag, value)| (&**tag, &**value)).collect();
    if !holds || !rows.source(&tags) {
        return Ok(());
    }
    let mut row: Vec<Option<Cell>> = vec![None; variables.len()];
    set_tags(&mut row, variables, &tag);
    let columns: Vec<(usize, usize)> = variables
        .iter()
        .enumerate()
        .filter(|(_, variable)| variable.kind == Kind::Field)
        .filter_map(|(place, variable)| {
            let at = table
                .columns
                .iter()
                .position(|name| *name == variable.name)?;
            Some((place, at))
        })
        .collect();
    for values in &table.rows {
        let Some(Cell::Time(time)) = values[0] else {
            continue;
        };
        let mut has_value = false;
        for (place, at) in &columns {
            row[*place] = values[*at].clone();
            has_value |= row[*place].is_some();
        }
        if has_value {
            rows.row(time, &row)?;
        }
    }
    Ok(())
}
