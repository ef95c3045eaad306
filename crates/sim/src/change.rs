//! Changes of the samples of a store with roll-ups.

use crate::datum::Datum;
use crate::generator::{NUMBER, VALUE};
use crate::samples::{Samples, Series};
use seiner_model::Interval;
use std::collections::BTreeMap;

/// The sample of a series at one time.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Values that the sample may have.
    pub(crate) datums: Vec<Datum>,
    /// True if the sample certainly exists until it expires by age.
    pub(crate) sure: bool,
}

/// Samples of a store with roll-ups, by series and time.
pub(crate) type Cells = BTreeMap<Series, BTreeMap<i64, Cell>>;

/// An accepted row.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedRow {
    pub(crate) source: u32,
    pub(crate) time: i64,
    pub(crate) cells: Vec<(u32, Datum)>,
    /// True if the row was, or may have been, too old on arrival. Then a level may or may not
    /// include the row.
    pub(crate) late: bool,
}

/// A change of the samples.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Row(AcceptedRow),
    /// The samples of a source in an interval are deleted or expired.
    Gone(u32, Interval),
    /// The samples of a source in an interval may be deleted or expired.
    Doubt(u32, Interval),
}

impl Change {
    /// Applies the change to the samples of a store.
    pub(crate) fn apply(&self, cells: &mut Cells) {
        match self {
            Change::Row(row) => row.apply(cells),
            Change::Gone(source, interval) => {
                for (_, cells) in of_source(cells, *source) {
                    cells.retain(|time, _| !interval.contains(*time));
                }
            }
            Change::Doubt(source, interval) => {
                for (_, cells) in of_source(cells, *source) {
                    let within = cells.range_mut(interval.start..=interval.end);
                    within.for_each(|(_, cell)| cell.sure = false);
                }
            }
        }
    }
}

impl AcceptedRow {
    fn apply(&self, cells: &mut Cells) {
        for (field, datum) in &self.cells {
            let cells = cells.entry((self.source, *field)).or_default();
            let cell = cells.entry(self.time).or_insert(Cell {
                datums: Vec::new(),
                sure: false,
            });
            if !self.late {
                (cell.datums, cell.sure) = (vec![datum.clone()], true);
            } else if !cell.datums.contains(datum) {
                cell.datums.push(datum.clone());
            }
        }
    }
}

fn of_source(
    cells: &mut Cells,
    source: u32,
) -> impl Iterator<Item = (&Series, &mut BTreeMap<i64, Cell>)> {
    cells.range_mut((source, 0)..=(source, u32::MAX))
}

/// Returns true if the samples contain the number of a row.
pub(crate) fn is_there(row: &AcceptedRow, found: &Samples) -> bool {
    row.cells.iter().any(|(field, datum)| {
        let samples = found.get(&(row.source, *field));
        let there = samples.and_then(|samples| samples.get(&row.time));
        [NUMBER, VALUE].contains(field) && there == Some(datum)
    })
}
