//! Merging of the rows of one source from several places.

use seiner_model::{Column, Columns, FieldType, Interval, SourceId, SourceKey, Value};
use seiner_store::SeriesData;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of a source from one place.
pub(crate) struct Part {
    /// Names of the fields, as many as columns.
    pub fields: Vec<Arc<str>>,
    /// Times and values.
    pub rows: Columns,
}

/// Merges parts to series, in the order of the fields' names. Of samples with the same time, that of the later part
/// counts. Samples of another type than `fields` states are converted.
pub(crate) fn merge(
    source: SourceId,
    key: &Arc<SourceKey>,
    fields: &BTreeMap<Arc<str>, FieldType>,
    parts: &[Part],
    interval: Interval,
    mut is_hidden: impl FnMut(usize, i64) -> bool,
) -> Vec<SeriesData> {
    let mut found = Vec::new();
    for (name, &field_type) in fields {
        // Time, part, and index of the value.
        let mut samples: Vec<(i64, usize, usize)> = Vec::new();
        for (nth, part) in parts.iter().enumerate() {
            let Some(at) = part.fields.iter().position(|field| field == name) else {
                continue;
            };
            let column = &part.rows.fields[at];
            let mut next = 0;
            for (row, &time) in part.rows.times.iter().enumerate() {
                let has = match &column.present {
                    None => row < column.values.len(),
                    Some(bits) => bits.get(row),
                };
                if has {
                    if interval.contains(time) && !is_hidden(nth, time) {
                        samples.push((time, nth, next));
                    }
                    next += 1;
                }
            }
        }
        samples.sort_unstable();
        let mut times = Vec::with_capacity(samples.len());
        let mut values = Column::new(field_type);
        for (at, &(time, nth, index)) in samples.iter().enumerate() {
            if samples.get(at + 1).is_some_and(|next| next.0 == time) {
                continue;
            }
            let part = &parts[nth];
            let field = part.fields.iter().position(|field| field == name);
            let column = &part.rows.fields[field.expect("the sample's part has the field")];
            times.push(time);
            push(&mut values, column.values.get(index), field_type);
        }
        if !times.is_empty() {
            found.push(SeriesData {
                source,
                key: key.clone(),
                field: name.clone(),
                times,
                values,
            });
        }
    }
    found
}

/// Appends a value to a column of another type, if necessary.
fn push(column: &mut Column, value: Value<'_>, field_type: FieldType) {
    if value.field_type() == field_type {
        return column.push(value);
    }
    if field_type == FieldType::Str {
        let text = match value {
            Value::F64(value) => value.to_string(),
            Value::F32(value) => value.to_string(),
            Value::I64(value) => value.to_string(),
            Value::U64(value) => value.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Str(value) => value.to_string(),
        };
        return column.push(Value::Str(&text));
    }
    column.push(Value::F64(seiner_store::answer::number(value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::{Bitmap, FieldColumn};

    fn part(times: &[i64], values: Column, present: Option<Bitmap>) -> Part {
        Part {
            fields: vec!["x".into()],
            rows: Columns {
                times: times.to_vec(),
                fields: vec![FieldColumn { present, values }],
            },
        }
    }

    fn merged(field_type: FieldType, parts: &[Part]) -> Vec<(i64, String)> {
        let key = Arc::new(SourceKey::new("m", [("a", "b")]).unwrap());
        let fields = BTreeMap::from([(Arc::from("x"), field_type)]);
        let series = merge(
            SourceId(0),
            &key,
            &fields,
            parts,
            Interval::ALL,
            |nth, time| nth == 0 && time == 9,
        );
        let Some(series) = series.into_iter().next() else {
            return Vec::new();
        };
        let samples = series.times.iter().enumerate();
        samples
            .map(|(at, &time)| (time, format!("{:?}", series.values.get(at))))
            .collect()
    }

    #[test]
    fn the_later_part_counts_and_missing_values_do_not() {
        let early = part(&[1, 5, 9], Column::I64(vec![10, 50, 90]), None);
        let gaps = [true, false].into_iter().collect();
        let late = part(&[1, 5], Column::I64(vec![11]), Some(gaps));
        let found = merged(FieldType::I64, &[early, late]);
        assert_eq!(found, [(1, "I64(11)".into()), (5, "I64(50)".into())]);
    }

    #[test]
    fn values_of_two_types_become_one() {
        let numbers = || part(&[1], Column::I64(vec![3]), None);
        let floats = part(&[2], Column::F64(vec![0.5]), None);
        let found = merged(FieldType::F64, &[numbers(), floats]);
        assert_eq!(found, [(1, "F64(3.0)".into()), (2, "F64(0.5)".into())]);
        let found = merged(FieldType::Str, &[numbers()]);
        assert_eq!(found, [(1, "Str(\"3\")".into())]);
    }
}
