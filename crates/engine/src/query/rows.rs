//! Rows of a source as columns: slices, selections and merges.

use crate::block::{self, present_rows};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType, Interval};
use std::ops::Range;

/// Rows of a source in ascending time, with one field per column of its layout. `None` is a column
/// without values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub times: Vec<i64>,
    pub fields: Vec<Option<FieldColumn>>,
}

impl Rows {
    /// Returns the memory of the values, bytes.
    pub fn bytes(&self) -> usize {
        let field = |field: &FieldColumn| {
            let bits = field
                .present
                .as_ref()
                .map_or(0, |bits| bits.words().len() * 8);
            bits + field.values.bytes()
        };
        self.times.len() * 8 + self.fields.iter().flatten().map(field).sum::<usize>()
    }

    /// Returns the rows of a range.
    pub fn slice(&self, range: Range<usize>) -> Rows {
        let cut = |field: &Option<FieldColumn>| slice_field(field.as_ref()?, range.clone());
        Rows {
            fields: self.fields.iter().map(cut).collect(),
            times: self.times[range.clone()].to_vec(),
        }
    }

    /// Returns the rows within an interval.
    pub fn clip(self, interval: Interval) -> Rows {
        let range = range_of(&self.times, interval);
        match range.len() == self.times.len() {
            true => self,
            false => self.slice(range),
        }
    }

    /// Removes rows without a value in any column.
    pub fn with_values(self) -> Rows {
        let mut columns = self.fields.iter().flatten();
        if columns.any(|field| field.present.is_none()) {
            return self;
        }
        let columns: Vec<&Bitmap> = self
            .fields
            .iter()
            .flatten()
            .filter_map(|field| field.present.as_ref())
            .collect();
        let has_value = |row: &usize| columns.iter().any(|bits| bits.get(*row));
        let kept: Vec<usize> = (0..self.times.len()).filter(has_value).collect();
        match kept.len() == self.times.len() {
            true => self,
            false => self.pick(&kept),
        }
    }

    /// Returns the rows with these indexes, in their order.
    pub fn pick(self, kept: &[usize]) -> Rows {
        let fields = self.fields.iter().map(|field| field.as_ref()?.pick(kept));
        Rows {
            fields: fields.collect(),
            times: kept.iter().map(|&row| self.times[row]).collect(),
        }
    }
}

/// Merges runs of rows, each in ascending time. For rows at the same time, each column takes the
/// value of the last run that has one.
pub(crate) fn merge(mut runs: Vec<Rows>, types: &[FieldType]) -> Rows {
    runs.retain(|run| !run.times.is_empty());
    if runs.len() == 1 {
        return runs.pop().expect("the length is 1");
    }
    let in_order = runs
        .windows(2)
        .all(|pair| pair[0].times.last() < pair[1].times.first());
    let joined = join(&runs, types);
    if in_order {
        return joined;
    }
    let Rows { times, fields } = joined;
    let columns: Vec<Option<usize>> = {
        let mut next = 0;
        fields
            .iter()
            .map(|field| {
                field.as_ref().map(|_| {
                    next += 1;
                    next - 1
                })
            })
            .collect()
    };
    let sorted = block::sorted(Columns {
        times,
        fields: fields.into_iter().flatten().collect(),
    });
    let mut sorted_fields: Vec<Option<FieldColumn>> = sorted.fields.into_iter().map(Some).collect();
    let fields = columns
        .into_iter()
        .map(|column| column.and_then(|column| sorted_fields[column].take()))
        .collect();
    Rows {
        times: sorted.times,
        fields,
    }
}

/// Concatenates runs. A run without a column has gaps in it.
fn join(runs: &[Rows], types: &[FieldType]) -> Rows {
    let mut times = Vec::with_capacity(runs.iter().map(|run| run.times.len()).sum());
    runs.iter()
        .for_each(|run| times.extend_from_slice(&run.times));
    let fields = types
        .iter()
        .enumerate()
        .map(|(column, &field_type)| join_field(runs, column, field_type))
        .collect();
    Rows { times, fields }
}

fn join_field(runs: &[Rows], column: usize, field_type: FieldType) -> Option<FieldColumn> {
    if runs.iter().all(|run| run.fields[column].is_none()) {
        return None;
    }
    let mut values = Column::new(field_type);
    let mut present = Bitmap::new();
    let whole = runs.iter().all(|run| {
        run.fields[column]
            .as_ref()
            .is_some_and(|field| field.present.is_none())
    });
    for run in runs {
        match &run.fields[column] {
            Some(field) => {
                append(&mut values, &field.values);
                if !whole {
                    (0..run.times.len()).for_each(|row| {
                        present.push(field.present.as_ref().is_none_or(|bits| bits.get(row)))
                    });
                }
            }
            None => (0..run.times.len()).for_each(|_| present.push(false)),
        }
    }
    Some(FieldColumn {
        present: (!whole).then_some(present),
        values,
    })
}

fn append(to: &mut Column, from: &Column) {
    match (to, from) {
        (Column::F64(to), Column::F64(from)) => to.extend_from_slice(from),
        (Column::F32(to), Column::F32(from)) => to.extend_from_slice(from),
        (Column::I64(to), Column::I64(from)) => to.extend_from_slice(from),
        (Column::U64(to), Column::U64(from)) => to.extend_from_slice(from),
        (Column::Bool(to), Column::Bool(from)) => to.extend_from_slice(from),
        (to, from) => (0..from.len()).for_each(|index| to.push(from.get(index))),
    }
}

/// Returns the range of ascending times that are in an interval.
pub(crate) fn range_of(times: &[i64], interval: Interval) -> Range<usize> {
    let start = times.partition_point(|&time| time < interval.start);
    let end = times.partition_point(|&time| time <= interval.end);
    start..end.max(start)
}

/// Returns the number of set bits before a position.
fn ones_before(bits: &Bitmap, end: usize) -> usize {
    let words = &bits.words()[..end / 64];
    let whole: usize = words.iter().map(|word| word.count_ones() as usize).sum();
    whole + (end / 64 * 64..end).filter(|&row| bits.get(row)).count()
}

/// Returns a range of a column, or `None` if no row in the range has a value.
fn slice_field(field: &FieldColumn, range: Range<usize>) -> Option<FieldColumn> {
    let Some(present) = &field.present else {
        return (!range.is_empty()).then(|| FieldColumn {
            present: None,
            values: slice(&field.values, range),
        });
    };
    let start = ones_before(present, range.start);
    let bits: Bitmap = range.clone().map(|row| present.get(row)).collect();
    let values = slice(&field.values, start..start + bits.count_ones());
    let whole = values.len() == range.len();
    (!values.is_empty()).then_some(FieldColumn {
        present: (!whole).then_some(bits),
        values,
    })
}

/// Returns the samples of a column in an interval, or `None` if there are none.
pub(crate) fn within(
    times: &[i64],
    field: &FieldColumn,
    interval: Interval,
) -> Option<(Vec<i64>, Column)> {
    let Range { start, end } = range_of(times, interval);
    if start >= end {
        return None;
    }
    if field.present.is_none() {
        return Some((times[start..end].to_vec(), slice(&field.values, start..end)));
    }
    let before = present_rows(&times[..start], &field.present).count();
    let inside: Vec<i64> = present_rows(&times[..end], &field.present)
        .skip(before)
        .collect();
    if inside.is_empty() {
        return None;
    }
    let values = slice(&field.values, before..before + inside.len());
    Some((inside, values))
}

fn slice(values: &Column, range: Range<usize>) -> Column {
    match values {
        Column::F64(values) => Column::F64(values[range].to_vec()),
        Column::F32(values) => Column::F32(values[range].to_vec()),
        Column::I64(values) => Column::I64(values[range].to_vec()),
        Column::U64(values) => Column::U64(values[range].to_vec()),
        Column::Bool(values) => Column::Bool(values[range].to_vec()),
        Column::Str(_) => {
            let mut texts = Column::new(FieldType::Str);
            range.for_each(|index| texts.push(values.get(index)));
            texts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds rows at `times` with two columns. `None` is a gap.
    fn rows(times: &[i64], columns: [&[Option<i64>]; 2]) -> Rows {
        let column = |cells: &[Option<i64>]| {
            let present: Bitmap = cells.iter().map(Option::is_some).collect();
            let values: Vec<i64> = cells.iter().copied().flatten().collect();
            let whole = values.len() == cells.len();
            (!values.is_empty()).then_some(FieldColumn {
                present: (!whole).then_some(present),
                values: Column::I64(values),
            })
        };
        Rows {
            times: times.to_vec(),
            fields: columns.map(column).to_vec(),
        }
    }

    #[test]
    fn a_slice_has_the_values_of_its_rows() {
        let all: Vec<Option<i64>> = (0..200).map(|row| (row % 3 != 0).then_some(row)).collect();
        let times: Vec<i64> = (0..200).collect();
        let whole: Vec<Option<i64>> = times.iter().copied().map(Some).collect();
        let all_rows = rows(&times, [&all, &whole]);
        for range in [0..200, 0..1, 1..3, 63..130, 64..128, 199..200, 7..7] {
            let expected = rows(
                &times[range.clone()],
                [&all[range.clone()], &whole[range.clone()]],
            );
            assert_eq!(all_rows.slice(range.clone()), expected, "{range:?}");
            let interval = Interval::new(range.start as i64, range.end as i64 - 1);
            assert_eq!(all_rows.clone().clip(interval), expected, "{range:?}");
        }
    }

    #[test]
    fn each_column_takes_the_last_value_of_equal_times() {
        let types = [FieldType::I64; 2];
        let older = rows(
            &[1, 2, 5],
            [&[Some(1), Some(2), None], &[Some(1), None, Some(5)]],
        );
        let younger = rows(
            &[2, 3, 5],
            [&[None, Some(30), Some(50)], &[Some(20), None, None]],
        );
        let expected = rows(
            &[1, 2, 3, 5],
            [
                &[Some(1), Some(2), Some(30), Some(50)],
                &[Some(1), Some(20), None, Some(5)],
            ],
        );
        assert_eq!(merge(vec![older, younger], &types), expected);
    }

    #[test]
    fn rows_without_a_value_are_left_out() {
        let some = rows(&[1, 2, 3], [&[Some(1), None, None], &[None, None, Some(3)]]);
        let expected = rows(&[1, 3], [&[Some(1), None], &[None, Some(3)]]);
        assert_eq!(some.with_values(), expected);
        let none = rows(&[1, 2], [&[None, None], &[None, None]]);
        assert_eq!(none.with_values().times, Vec::<i64>::new());
    }
}
