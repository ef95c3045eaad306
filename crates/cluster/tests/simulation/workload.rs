//! Rows of the workload: several fields and types, gaps, overwrites.

use crate::oracle::SeriesId;
use crate::surroundings::START;
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, SourceKey, Value};
use seiner_platform::sim::Rng;

/// Number of sources.
pub const SOURCES: usize = 5;
/// Fields.
pub const FIELDS: [&str; 4] = ["v", "f", "s", "x"];
const SECOND: i64 = 1_000_000_000;

/// Rows of one source.
#[derive(Clone, Debug)]
pub struct Rows {
    pub source: usize,
    times: Vec<i64>,
    /// Fields with a number for each row, from which the value follows. `None`: no value.
    fields: Vec<(&'static str, Vec<Option<u64>>)>,
}

/// Returns the key of a source.
pub fn key(source: usize) -> SourceKey {
    SourceKey::new(format!("m{source}"), [("tag", format!("{}", source % 2))]).unwrap()
}

/// Returns the number of the source with a key.
pub fn source_of(key: &SourceKey) -> Option<usize> {
    (0..SOURCES).find(|&source| self::key(source) == *key)
}

/// Returns a time that many rows have, or a rare one.
pub fn time(rng: &mut Rng) -> i64 {
    let second = match rng.chance(1, 8) {
        true => rng.below(4000) as i64 - 2000,
        false => rng.below(40) as i64,
    };
    START + second * SECOND
}

/// Returns a value as the model compares it.
pub fn text(value: Value<'_>) -> String {
    match value {
        Value::F64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Str(value) => value.to_string(),
    }
}

impl Rows {
    /// Chooses rows whose values have not been used before.
    pub fn new(rng: &mut Rng, next: &mut u64) -> Rows {
        let count = rng.between(1, 12);
        let mut times: Vec<i64> = (0..count).map(|_| time(rng)).collect();
        times.sort_unstable();
        times.dedup();
        let first = rng.below(FIELDS.len() as u64) as usize;
        let fields = (0..rng.between(1, 3) as usize).map(|nth| {
            // The first field has all values, so that no row is empty.
            let numbers = times.iter().map(|_| {
                *next += 1;
                (nth == 0 || rng.chance(2, 3)).then_some(*next)
            });
            let numbers: Vec<Option<u64>> = numbers.collect();
            (FIELDS[(first + nth) % FIELDS.len()], numbers)
        });
        let fields: Vec<_> = fields.collect();
        Rows {
            source: rng.below(SOURCES as u64) as usize,
            times,
            fields: fields
                .into_iter()
                .filter(|(_, numbers)| numbers.iter().any(Option::is_some))
                .collect(),
        }
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|(name, _)| *name).collect()
    }

    /// Returns the rows as a port stores them. The type of one field differs between ports.
    pub fn columns(&self, port: usize) -> Columns {
        let fields = self.fields.iter().map(|(name, numbers)| {
            let field_type = match *name {
                "v" => FieldType::I64,
                "s" => FieldType::Str,
                "x" if port == 0 => FieldType::I64,
                _ => FieldType::F64,
            };
            let mut values = Column::new(field_type);
            let mut present = Bitmap::new();
            for number in numbers {
                present.push(number.is_some());
                let Some(number) = *number else {
                    continue;
                };
                match field_type {
                    FieldType::I64 => values.push(Value::I64(number as i64)),
                    FieldType::Str => values.push(Value::Str(&format!("t{number}"))),
                    _ if *name == "f" => values.push(Value::F64(number as f64 + 0.5)),
                    _ => values.push(Value::F64(number as f64)),
                }
            }
            FieldColumn {
                present: numbers.iter().any(Option::is_none).then_some(present),
                values,
            }
        });
        Columns {
            times: self.times.clone(),
            fields: fields.collect(),
        }
    }

    /// Returns the samples as the model compares them.
    pub fn samples(&self) -> Vec<(SeriesId, i64, String)> {
        let mut samples = Vec::new();
        for (name, numbers) in &self.fields {
            for (time, number) in self.times.iter().zip(numbers) {
                let Some(number) = *number else {
                    continue;
                };
                let text = match *name {
                    "s" => format!("t{number}"),
                    "f" => (number as f64 + 0.5).to_string(),
                    _ => number.to_string(),
                };
                samples.push(((self.source, *name), *time, text));
            }
        }
        samples
    }
}
