//! Operations on the columns of one source.

use seiner_model::{Bitmap, Column, Columns, FieldColumn, FieldType};
use std::sync::Arc;

/// Rows of a source in one bundle, at most.
const ROWS: usize = 100_000;
/// Cells (rows × fields) of a source in one bundle, at most: half of the limit of the format.
const CELLS: usize = 1 << 19;
/// Bytes of texts of a source in one bundle, at most: half of the limit of the format.
const TEXTS: usize = 8 << 20;

/// Returns whether rows of a source are within the limits of one bundle.
pub(crate) fn fit(rows: &Columns) -> bool {
    rows.times.len() <= ROWS
        && rows.times.len() * rows.fields.len().max(1) <= CELLS
        && text_bytes(rows) <= TEXTS
}

fn text_bytes(rows: &Columns) -> usize {
    let texts = rows.fields.iter().map(|field| match &field.values {
        Column::Str(texts) => texts.bytes.len(),
        _ => 0,
    });
    texts.sum()
}

/// Divides rows into parts that are within the limits of one bundle.
pub(crate) fn divide(rows: Columns) -> Vec<Columns> {
    let count = rows.times.len();
    if count <= 1 || fit(&rows) {
        return vec![rows];
    }
    let (left, right): (Vec<usize>, Vec<usize>) = (0..count).partition(|row| *row < count / 2);
    let mut parts = divide(pick(&rows, &left));
    parts.extend(divide(pick(&rows, &right)));
    parts
}

/// Returns some rows, by ascending indices. Fields without values stay, with empty columns.
pub(crate) fn pick(rows: &Columns, kept: &[usize]) -> Columns {
    let columns = rows.fields.iter().map(|column| {
        let picked = column.pick(kept);
        picked.unwrap_or_else(|| empty(column.values.field_type(), kept.len()))
    });
    Columns {
        fields: columns.collect(),
        times: kept.iter().map(|&row| rows.times[row]).collect(),
    }
}

/// Returns a column without values.
pub(crate) fn empty(field_type: FieldType, rows: usize) -> FieldColumn {
    FieldColumn {
        present: Some((0..rows).map(|_| false).collect()),
        values: Column::new(field_type),
    }
}

/// Appends rows with the same fields.
pub(crate) fn extend(rows: &mut Columns, more: Columns) {
    let (before, after) = (rows.times.len(), more.times.len());
    for (own, new) in rows.fields.iter_mut().zip(more.fields) {
        if own.present.is_some() || new.present.is_some() {
            let all = || (0..before).map(|_| true).collect::<Bitmap>();
            let present = own.present.get_or_insert_with(all);
            for row in 0..after {
                present.push(new.present.as_ref().is_none_or(|bits| bits.get(row)));
            }
        }
        (0..new.values.len()).for_each(|nth| own.values.push(new.values.get(nth)));
    }
    rows.times.extend(more.times);
}

/// Fields of a source with their types.
pub(crate) type Fields = Vec<(Arc<str>, FieldType)>;

/// Returns the rows of a piece of an engine's scan, with all of its fields.
pub(crate) fn of_piece(piece: seiner_engine::Piece) -> (Fields, Columns) {
    let count = piece.times.len();
    let (mut fields, mut columns) = (Fields::new(), Vec::new());
    for field in piece.fields {
        columns.push(
            field
                .column
                .unwrap_or_else(|| empty(field.field_type, count)),
        );
        fields.push((field.name, field.field_type));
    }
    let rows = Columns {
        times: piece.times,
        fields: columns,
    };
    (fields, rows)
}

/// Removes fields without values.
pub(crate) fn without_empty(fields: Fields, rows: Columns) -> (Fields, Columns) {
    let kept = fields.into_iter().zip(rows.fields);
    let (fields, columns) = kept.filter(|(_, column)| !column.values.is_empty()).unzip();
    let rows = Columns {
        times: rows.times,
        fields: columns,
    };
    (fields, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Columns {
        Columns {
            times: (0..count as i64).collect(),
            fields: vec![
                FieldColumn {
                    present: None,
                    values: Column::I64((0..count as i64).collect()),
                },
                FieldColumn {
                    present: Some((0..count).map(|row| row % 2 == 0).collect()),
                    values: Column::Bool((0..count.div_ceil(2)).map(|_| true).collect()),
                },
            ],
        }
    }

    #[test]
    fn parts_fit_and_joined_are_the_whole() {
        let whole = rows(250_001);
        let parts = divide(whole.clone());
        assert!(parts.len() > 1 && parts.iter().all(fit));
        let mut parts = parts.into_iter();
        let mut joined = parts.next().unwrap();
        parts.for_each(|part| extend(&mut joined, part));
        assert_eq!(joined, whole);
    }

    #[test]
    fn fields_without_values_are_removed() {
        let fields: Fields = vec![("x".into(), FieldType::I64), ("y".into(), FieldType::Bool)];
        let one = pick(&rows(4), &[1, 3]);
        assert_eq!(one.times, [1, 3]);
        let (fields, one) = without_empty(fields, one);
        assert_eq!((fields.len(), one.fields.len()), (1, 1));
    }
}
