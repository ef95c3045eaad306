//! Rows of a record batch, divided by source.

use super::gather;
use super::names::Names;
use super::roles::{Named, Roles};
use super::singles::{Columns as ColumnsByRow, SingleRows};
use super::{BadRows, BodyRows, SourceRows};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use seiner_model::{Columns, SourceKey};
use std::borrow::Cow;

/// Minimum number of rows of a record batch that is passed on row by row.
const MANY: usize = 256;
/// Number of neighbouring rows of one source, in the mean, from which on appending by columns pays.
const RUN: usize = 16;
/// Maximum number of single rows of one call.
const SINGLES: usize = 4096;

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
    let mut rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let is_scattered = rows.len() >= MANY && names.runs(rows.len()) * RUN > rows.len();
    if is_scattered && let Some(columns) = ColumnsByRow::new(batch, roles, &names) {
        rows = pass_singles(&rows, &columns, &times, before, pass)?;
    }
    pass(divided.by_source(&names, &rows, &times))
}

/// Passes rows on one by one. Returns the rows that cannot be passed on in this way.
fn pass_singles<E>(
    rows: &[u32],
    columns: &ColumnsByRow<'_>,
    times: &Times,
    before: u64,
    pass: &mut impl FnMut(BodyRows<'_>) -> Result<(), E>,
) -> Result<Vec<u32>, E> {
    let (mut others, mut names) = (Vec::new(), Vec::new());
    for rows in rows.chunks(SINGLES) {
        names.clear();
        let mut found = Vec::with_capacity(rows.len());
        for &row in rows {
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
            singles.numbers.push(before + u64::from(row) + 1);
        }
        pass(BodyRows {
            singles,
            ..BodyRows::default()
        })?;
    }
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

    /// Returns those rows that have a time.
    fn timed<'r>(&self, rows: &'r [u32]) -> Cow<'r, [u32]> {
        match &self.present {
            None => Cow::Borrowed(rows),
            Some(present) => rows
                .iter()
                .copied()
                .filter(|row| present[*row as usize])
                .collect(),
        }
    }

    /// Returns the times of rows that have one.
    fn of(&self, rows: &[u32]) -> Vec<i64> {
        match gather::range(rows) {
            Some(range) => self.values[range].to_vec(),
            None => rows.iter().map(|row| self.values[*row as usize]).collect(),
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
    fn by_source(mut self, names: &Names<'_>, rows: &[u32], times: &Times) -> BodyRows<'static> {
        for group in names.groups(rows) {
            match names.key(group[0] as usize) {
                Ok(key) => self.source(key, &group, times),
                Err(reason) => self.reject(&group, &reason),
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
    fn source(&mut self, key: SourceKey, group: &[u32], times: &Times) {
        let timed = times.timed(group);
        if timed.len() < group.len() {
            let untimed: Vec<u32> = group
                .iter()
                .copied()
                .filter(|row| times.get(*row).is_none())
                .collect();
            self.reject(
                &untimed,
                "the time is missing, or outside the years 1677 to 2262",
            );
        }
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
                times: times.of(&timed),
                fields: columns,
            },
            numbers: timed.iter().map(|&row| self.number(row)).collect(),
        });
    }

    fn reject(&mut self, rows: &[u32], reason: &str) {
        if let Some(&first) = rows.first() {
            self.rows.bad.push(BadRows {
                first: self.number(first),
                count: rows.len() as u64,
                reason: reason.to_string(),
            });
        }
    }

    /// Returns the number of a row in the stream, from 1.
    fn number(&self, row: u32) -> u64 {
        self.before + u64::from(row) + 1
    }
}
