//! Rows of a record batch, divided by source.

use super::gather;
use super::names::Names;
use super::ranges::Rows;
use super::roles::{Named, Roles};
use super::singles::{Columns as ColumnsByRow, SingleRows};
use super::{BadRows, BodyRows, SourceRows, number};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use seiner_model::{Columns, SourceKey};
use std::ops::Range;

/// Minimum number of rows of a record batch that is passed on row by row.
const MANY: usize = 256;
/// Number of neighbouring rows of one source, in the mean, from which on appending by columns pays.
const RUN: usize = 16;
/// Maximum number of single rows of one call.
const SINGLES: u32 = 4096;

/// Passes the rows of a record batch on: by source, or one by one if neighbouring rows are of different sources.
/// `before` is the number of earlier rows of the stream.
pub fn divide<E>(
    batch: &RecordBatch,
    roles: &Roles,
    before: u64,
    pass: &mut impl FnMut(BodyRows<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let divided = Divided {
        batch,
        roles,
        before,
        rows: BodyRows::default(),
    };
    let times = divided.times();
    let names = Names::new(batch, roles);
    // A record batch has less than 2^31 rows with a time: every time takes 8 bytes of a body.
    let count = batch.num_rows();
    let mut runs = names.runs(count);
    let is_scattered = count >= MANY && runs.len() * RUN > count;
    if is_scattered && let Some(columns) = ColumnsByRow::new(batch, roles, &names) {
        let others = pass_singles(count as u32, &columns, &times, before, pass)?;
        runs = others.into_iter().map(|row| row..row + 1).collect();
    }
    pass(divided.by_source(&names, runs, &times))
}

/// Passes all rows on one by one. Returns the rows that cannot be passed on in this way, in ascending order.
fn pass_singles<E>(
    rows: u32,
    columns: &ColumnsByRow<'_>,
    times: &Times,
    before: u64,
    pass: &mut impl FnMut(BodyRows<'_>) -> Result<(), E>,
) -> Result<Vec<u32>, E> {
    let (mut others, mut names) = (Vec::new(), Vec::new());
    for begin in (0..rows).step_by(SINGLES as usize) {
        let rows = begin..rows.min(begin + SINGLES);
        names.clear();
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            match (times.get(row), columns.put_name(row as usize, &mut names)) {
                (Some(time), Some(range)) => found.push((row, time, range)),
                _ => others.push(row),
            }
        }
        let mut singles = SingleRows::default();
        for (row, time, range) in found {
            let cells = singles.batch.cells.len();
            singles
                .batch
                .push(&names[range], time, columns.cells(row as usize));
            if singles.batch.cells.len() == cells {
                singles.batch.rows.pop();
                others.push(row);
                continue;
            }
            singles.numbers.push(number(before, row));
        }
        pass(BodyRows {
            singles,
            ..BodyRows::default()
        })?;
    }
    others.sort_unstable();
    Ok(others)
}

/// Times of the rows of a record batch.
struct Times {
    /// ns since 1970; 0 for a row without a time.
    values: Vec<i64>,
    /// True for each row with a time; `None` if all rows have one.
    present: Option<Vec<bool>>,
}

impl Times {
    /// Reads times in a unit. A row has no time if it is null, or does not fit.
    fn new(array: &dyn Array, values: &[i64], unit_ns: i64) -> Times {
        let limit = i64::MAX / unit_ns;
        let fits = |value: &i64| (-limit..=limit).contains(value);
        if array.null_count() == 0 && values.iter().all(fits) {
            return Times {
                values: values.iter().map(|value| value * unit_ns).collect(),
                present: None,
            };
        }
        let rows = values.iter().enumerate();
        let times: Vec<Option<i64>> = rows
            .map(|(row, value)| value.checked_mul(unit_ns).filter(|_| array.is_valid(row)))
            .collect();
        Times {
            values: times.iter().map(|time| time.unwrap_or_default()).collect(),
            present: Some(times.iter().map(Option::is_some).collect()),
        }
    }

    fn get(&self, row: u32) -> Option<i64> {
        let has = self
            .present
            .as_ref()
            .is_none_or(|present| present[row as usize]);
        has.then(|| self.values[row as usize])
    }

    /// Returns those rows that have a time, and the others.
    fn timed(&self, rows: Rows) -> (Rows, Rows) {
        match &self.present {
            None => (rows, Rows::default()),
            Some(present) => {
                let rows = rows.iter().map(|row| row as u32);
                rows.partition(|row| present[*row as usize])
            }
        }
    }
}

/// Record batch whose rows are being divided.
struct Divided<'a> {
    batch: &'a RecordBatch,
    roles: &'a Roles,
    before: u64,
    rows: BodyRows<'static>,
}

impl Divided<'_> {
    /// Divides rows by source.
    fn by_source(
        mut self,
        names: &Names<'_>,
        runs: Vec<Range<u32>>,
        times: &Times,
    ) -> BodyRows<'static> {
        for group in names.groups(runs) {
            let key = group.get(0).map(|first| names.key(first as usize));
            match key {
                Some(Ok(key)) => self.source(key, group, times),
                Some(Err(reason)) => self.reject(&group, &reason),
                None => {}
            }
        }
        self.rows
    }

    /// Returns the times of all rows.
    fn times(&self) -> Times {
        let array = self.batch.column(self.roles.time).as_ref();
        let values: &[i64] = match array.data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                array.as_primitive::<TimestampNanosecondType>().values()
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                array.as_primitive::<TimestampMicrosecondType>().values()
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                array.as_primitive::<TimestampMillisecondType>().values()
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                array.as_primitive::<TimestampSecondType>().values()
            }
            _ => array.as_primitive::<Int64Type>().values(),
        };
        Times::new(array, values, self.roles.unit_ns)
    }

    /// Adds the rows of a source.
    fn source(&mut self, key: SourceKey, group: Rows, times: &Times) {
        let (timed, untimed) = times.timed(group);
        self.reject(
            &untimed,
            "the time is missing, or outside the years 1677 to 2262",
        );
        if timed.is_empty() {
            return;
        }
        let (mut fields, mut columns) = (Vec::<String>::new(), Vec::new());
        for Named { name, column } in &self.roles.fields {
            let values = gather::field(self.batch.column(*column).as_ref(), &timed);
            let Some(values) = values else { continue };
            if fields.contains(name) {
                let reason = format!("two columns have values of field {name:?}");
                return self.reject(&timed, &reason);
            }
            fields.push(name.clone());
            columns.push(values);
        }
        if fields.is_empty() {
            return self.reject(&timed, "the row has no field");
        }
        self.rows.sources.push(SourceRows {
            key,
            fields,
            columns: Columns {
                times: timed.of(&times.values, |time| time),
                fields: columns,
            },
            before: self.before,
            rows: timed,
        });
    }

    fn reject(&mut self, rows: &Rows, reason: &str) {
        if let Some(first) = rows.get(0) {
            self.rows.bad.push(BadRows {
                first: number(self.before, first),
                count: rows.len() as u64,
                reason: reason.to_string(),
            });
        }
    }
}
