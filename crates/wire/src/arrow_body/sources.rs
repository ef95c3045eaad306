//! Rows of a record batch, divided by source.

use super::gather::{self, Texts};
use super::roles::{Measurement, Named, Roles};
use super::{BadRows, BodyRows, SourceRows};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};
use seiner_model::{Columns, SourceKey};
use std::collections::HashMap;

/// Divides the rows of a record batch. `before` is the number of earlier rows of the stream.
pub fn divide(batch: &RecordBatch, roles: &Roles, before: u64) -> BodyRows {
    let mut out = Divided {
        batch,
        roles,
        before,
        rows: BodyRows::default(),
    };
    let times = out.times();
    let names = Names::new(batch, roles);
    for group in names.groups(batch.num_rows()) {
        match names.key(group[0] as usize) {
            Ok(key) => out.source(key, &group, &times),
            Err(reason) => out.reject(&group, &reason),
        }
    }
    out.rows
}

/// Columns that name the source of a row.
struct Names<'a> {
    measurement: Result<Texts<'a>, &'a str>,
    tags: Vec<(&'a str, Texts<'a>)>,
}

impl<'a> Names<'a> {
    fn new(batch: &'a RecordBatch, roles: &'a Roles) -> Names<'a> {
        let texts = |column: usize| Texts::new(batch.column(column).as_ref());
        let tags = roles.tags.iter();
        Names {
            measurement: match &roles.measurement {
                Measurement::Column(column) => Ok(texts(*column)),
                Measurement::Text(text) => Err(text),
            },
            tags: tags
                .map(|Named { name, column }| (name.as_str(), texts(*column)))
                .collect(),
        }
    }

    /// Returns the rows of each source, in the order of the sources' first rows.
    fn groups(&self, rows: usize) -> Vec<Vec<u32>> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut known: HashMap<Vec<Option<&str>>, usize> = HashMap::new();
        let mut current = 0;
        for row in 0..rows {
            if row == 0 || !self.is_same(row, row - 1) {
                current = *known.entry(self.texts(row)).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
            }
            // A record batch has less than 2^31 rows with a time: every time takes 8 bytes of a body.
            groups[current].push(row as u32);
        }
        groups
    }

    fn columns(&self) -> impl Iterator<Item = &Texts<'a>> {
        let measurement = self.measurement.as_ref().ok();
        measurement
            .into_iter()
            .chain(self.tags.iter().map(|(_, texts)| texts))
    }

    fn is_same(&self, row: usize, other: usize) -> bool {
        self.columns().all(|texts| texts.is_same(row, other))
    }

    fn texts(&self, row: usize) -> Vec<Option<&'a str>> {
        self.columns().map(|texts| texts.get(row)).collect()
    }

    fn key(&self, row: usize) -> Result<SourceKey, String> {
        let measurement = match &self.measurement {
            Ok(texts) => texts.get(row).ok_or("the row has no measurement")?,
            Err(text) => text,
        };
        let tags = self.tags.iter();
        let tags = tags.filter_map(|(name, texts)| Some((*name, texts.get(row)?)));
        SourceKey::new(measurement, tags).map_err(|error| error.to_string())
    }
}

/// Record batch whose rows are being divided.
struct Divided<'a> {
    batch: &'a RecordBatch,
    roles: &'a Roles,
    before: u64,
    rows: BodyRows,
}

impl Divided<'_> {
    /// Returns the times of all rows, ns; `None` if a row has none or it does not fit.
    fn times(&self) -> Vec<Option<i64>> {
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
        let rows = values.iter().enumerate();
        rows.map(|(row, value)| match array.is_valid(row) {
            true => value.checked_mul(self.roles.unit_ns),
            false => None,
        })
        .collect()
    }

    /// Adds the rows of a source.
    fn source(&mut self, key: SourceKey, group: &[u32], times: &[Option<i64>]) {
        let (timed, untimed): (Vec<u32>, Vec<u32>) = group
            .iter()
            .partition(|&&row| times[row as usize].is_some());
        if !untimed.is_empty() {
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
                times: timed
                    .iter()
                    .filter_map(|&row| times[row as usize])
                    .collect(),
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
