//! Columns of aggregates, with sums that no field type can hold.

use super::plan::Aggregate;
use seiner_model::{Column, FieldType};
use seiner_store::{Bucket, Exact};
use seiner_wire::answer::Cells;

/// Figures of an aggregate, one per bucket.
#[derive(Clone, Debug)]
pub enum Figures {
    /// Figures with a field type.
    Column(Column),
    /// Sums of integers of a type.
    Sums(FieldType, Vec<i128>),
}

impl Figures {
    /// Converts the figures into a column of an answer.
    pub fn cells(&self) -> Cells<'_> {
        match self {
            Figures::Column(column) => Cells::Values(column),
            Figures::Sums(field_type, sums) => Cells::Sums(*field_type, sums),
        }
    }
}

impl Aggregate {
    /// Returns the figures of each bucket of a series: integers for fields of integers, except for the mean.
    pub fn figures(self, field_type: FieldType, buckets: &[Bucket]) -> Figures {
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
                Figures::Sums(field_type, integers.collect())
            }
            // The figures are samples, or rounded samples: casts keep them in the range.
            (FieldType::I64, _) => Figures::Column(Column::I64(
                integers
                    .map(|value| i64::try_from(value).unwrap_or(i64::MAX))
                    .collect(),
            )),
            (FieldType::U64, _) => Figures::Column(Column::U64(
                integers
                    .map(|value| u64::try_from(value).unwrap_or(u64::MAX))
                    .collect(),
            )),
            _ => self.floats(buckets),
        }
    }

    /// Returns the figures of each bucket of a series for any type of field: counts, and floats.
    pub fn floats(self, buckets: &[Bucket]) -> Figures {
        Figures::Column(match self {
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
