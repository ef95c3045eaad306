//! Columns of aggregates, with sums that no field type can hold.

use super::plan::Aggregate;
use seiner_model::{Column, FieldType};
use seiner_store::{Bucket, Exact};
use seiner_wire::answer::Cells;

/// Values of an aggregate, one per bucket.
#[derive(Clone, Debug)]
pub enum AggregateColumn {
    /// Values of a field type.
    Column(Column),
    /// Sums of integers of a type.
    Sums(FieldType, Vec<i128>),
}

impl AggregateColumn {
    /// Converts the values into a column of an answer.
    pub fn cells(&self) -> Cells<'_> {
        match self {
            AggregateColumn::Column(column) => Cells::Values(column),
            AggregateColumn::Sums(field_type, sums) => Cells::Sums(*field_type, sums),
        }
    }
}

impl Aggregate {
    /// Returns the value of each bucket of a series: integers for fields of integers, except for the mean.
    pub fn column(self, field_type: FieldType, buckets: &[Bucket]) -> AggregateColumn {
        let exact: fn(&Exact) -> i128 = match self {
            Aggregate::Sum => |exact| exact.sum,
            Aggregate::Min => |exact| exact.min,
            Aggregate::Max => |exact| exact.max,
            Aggregate::First => |exact| exact.first,
            Aggregate::Last => |exact| exact.last,
            Aggregate::Count | Aggregate::Mean => return self.floats(buckets),
        };
        let integer = |bucket: &Bucket| match &bucket.exact {
            Some(figures) => exact(figures),
            None => self.float()(bucket) as i128,
        };
        let integers = buckets.iter().map(integer);
        match (field_type, self) {
            (FieldType::I64 | FieldType::U64, Aggregate::Sum) => {
                AggregateColumn::Sums(field_type, integers.collect())
            }
            // The values are samples, or rounded samples: casts keep them in the range.
            (FieldType::I64, _) => AggregateColumn::Column(Column::I64(
                integers
                    .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
                    .collect(),
            )),
            (FieldType::U64, _) => AggregateColumn::Column(Column::U64(
                integers
                    .map(|value| u64::try_from(value).unwrap_or(u64::MAX))
                    .collect(),
            )),
            _ => self.floats(buckets),
        }
    }

    /// Returns the value of each bucket of a series for any type of field: counts, and floats.
    pub fn floats(self, buckets: &[Bucket]) -> AggregateColumn {
        AggregateColumn::Column(match self {
            Aggregate::Count => Column::U64(buckets.iter().map(|bucket| bucket.count).collect()),
            _ => Column::F64(buckets.iter().map(self.float()).collect()),
        })
    }

    fn float(self) -> fn(&Bucket) -> f64 {
        match self {
            Aggregate::Count => |bucket| bucket.count as f64,
            Aggregate::Sum => |bucket| bucket.sum,
            Aggregate::Min => |bucket| bucket.min,
            Aggregate::Max => |bucket| bucket.max,
            Aggregate::First => |bucket| bucket.first.1,
            Aggregate::Last => |bucket| bucket.last.1,
            Aggregate::Mean => Bucket::mean,
        }
    }
}
