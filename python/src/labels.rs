//! Labels: the columns of the long form that identify the series of a row.

use crate::failure::{Failure, invalid};
use crate::series::Series;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::ArrowError;
use seiner_model::SourceKey;
use std::collections::HashMap;
use std::sync::Arc;

/// A label column.
pub enum Label {
    /// Measurement of the series.
    Measurement,
    /// All tags in one text.
    Tags,
    /// Value of one tag.
    Tag(String),
    /// Name of the field.
    Field,
}

/// Returns the label columns of an answer. `tag_columns` selects one column per tag instead of one for all
/// tags. `columns` are the names of the other columns, which must differ.
pub fn labels(tag_columns: Option<Vec<String>>, columns: &[String]) -> Result<Vec<Label>, Failure> {
    let tags = match tag_columns {
        None => vec![Label::Tags],
        Some(tags) => {
            let taken = |tag: &String| {
                ["measurement", "field", "time"].contains(&tag.as_str()) || columns.contains(tag)
            };
            if let Some(tag) = tags.iter().find(|tag| taken(tag)) {
                return invalid(format!(
                    "tag {tag:?} cannot be a column beside that of the same name; leave it out of tag_columns"
                ));
            }
            if let Some(at) = (1..tags.len()).find(|at| tags[..*at].contains(&tags[*at])) {
                return invalid(format!("tag {:?} stands twice in tag_columns", tags[at]));
            }
            tags.into_iter().map(Label::Tag).collect()
        }
    };
    Ok([Label::Measurement]
        .into_iter()
        .chain(tags)
        .chain([Label::Field])
        .collect())
}

impl Label {
    /// Returns the name of the column.
    pub fn name(&self) -> &str {
        match self {
            Label::Measurement => "measurement",
            Label::Tags => "tags",
            Label::Tag(tag) => tag,
            Label::Field => "field",
        }
    }

    /// Returns true if a series may lack this label.
    pub fn may_lack(&self) -> bool {
        matches!(self, Label::Tag(_))
    }

    /// Returns the label of a series.
    pub fn text(&self, series: &Series) -> Option<String> {
        match self {
            Label::Measurement => Some(series.key.measurement().to_string()),
            Label::Tags => Some(tags_text(&series.key)),
            Label::Tag(tag) => {
                Some(series.key.tag(tag).to_string()).filter(|value| !value.is_empty())
            }
            Label::Field => Some(series.field.to_string()),
        }
    }

    /// Returns the label of each row. A single series has the same dictionary key in every row: a slice of
    /// `zeros`, which has as many elements as the longest series has rows.
    pub fn column(
        &self,
        run: &[Series],
        zeros: &ScalarBuffer<i32>,
    ) -> Result<ArrayRef, ArrowError> {
        let mut places: HashMap<String, i32> = HashMap::new();
        let mut texts: Vec<String> = Vec::new();
        let mut numbers: Vec<Option<i32>> = Vec::with_capacity(run.len());
        for series in run {
            numbers.push(self.text(series).map(|text| {
                *places.entry(text).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    texts.len() as i32 - 1
                })
            }));
        }
        let keys = match (run, numbers.as_slice()) {
            ([series], [Some(_)]) => Int32Array::new(zeros.slice(0, series.times.len()), None),
            _ => run
                .iter()
                .zip(numbers)
                .flat_map(|(series, number)| std::iter::repeat_n(number, series.times.len()))
                .collect(),
        };
        let values = StringArray::from_iter_values(texts);
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            keys,
            Arc::new(values),
        )?))
    }
}

/// Returns the tags of a source, as texts of their own.
pub fn tags_of(key: &SourceKey) -> Vec<(String, String)> {
    let tags = key.tags();
    tags.map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// Returns all tags in the notation of line protocol: `core=0,host=a`.
fn tags_text(key: &SourceKey) -> String {
    let mut text = String::new();
    for (name, value) in key.tags() {
        if !text.is_empty() {
            text.push(',');
        }
        push_escaped(&mut text, name);
        text.push('=');
        push_escaped(&mut text, value);
    }
    text
}

fn push_escaped(text: &mut String, name: &str) {
    for character in name.chars() {
        if matches!(character, ',' | '=' | ' ') {
            text.push('\\');
        }
        text.push(character);
    }
}
