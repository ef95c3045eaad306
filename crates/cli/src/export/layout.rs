//! Columns of the files, derived from those of a wide answer.
//!
//! The measurement and the day are in the names of the folders, so the files have no columns with these names.

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Name of the folders of measurements, and key of the measurement in the metadata of a file.
pub const MEASUREMENT: &str = "measurement";

/// Name of the folders of days.
pub const DAY: &str = "day";

/// Key of the time at which the export of a file began, ns since 1970, in the metadata of the file.
pub const BEGUN: &str = "seiner.begun";

/// Key of the intervals of roll-ups in the metadata of an answer and of a file.
pub const LEVELS: &str = "levels";

/// Columns of a file.
pub struct Layout {
    /// Schema of the file.
    pub schema: SchemaRef,
    /// Indices of the columns in the wide answer.
    columns: Vec<usize>,
}

impl Layout {
    /// Creates the columns for the rows of a measurement. `begun` is the time at which the query began.
    pub fn new(wide: &Schema, measurement: &str, begun: i64) -> Layout {
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for (at, field) in wide.fields().iter().enumerate() {
            if kind(field) == MEASUREMENT {
                continue;
            }
            columns.push(at);
            fields.push(field.as_ref().clone().with_name(title(field, wide)));
        }
        let mut metadata: HashMap<String, String> = wide.metadata().clone();
        metadata.insert(MEASUREMENT.to_string(), measurement.to_string());
        metadata.insert(BEGUN.to_string(), begun.to_string());
        Layout {
            schema: Arc::new(Schema::new(fields).with_metadata(metadata)),
            columns,
        }
    }

    /// Returns the columns of a batch of the wide answer.
    ///
    /// # Errors
    /// If the batch has another schema.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|&at| batch.column(at).clone());
        Ok(RecordBatch::try_new(
            self.schema.clone(),
            columns.collect(),
        )?)
    }
}

fn kind(field: &Field) -> &str {
    field.metadata().get("kind").map_or("", String::as_str)
}

/// Returns the title of a column: its title in the wide answer, with a suffix if a folder has that name.
fn title(field: &Field, wide: &Schema) -> String {
    let mut title = field.name().clone();
    while title == DAY || title == MEASUREMENT || title != *field.name() && has(wide, &title) {
        title = format!("{title}::{}", kind(field));
    }
    title
}

fn has(schema: &Schema, title: &str) -> bool {
    schema.field_with_name(title).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::DataType;

    #[test]
    fn no_column_has_the_name_of_a_folder() {
        let field = |title: &str, kind: &str| {
            let metadata = HashMap::from([("kind".to_string(), kind.to_string())]);
            Field::new(title, DataType::Int64, true).with_metadata(metadata)
        };
        let wide = Schema::new(vec![
            field("time", "time"),
            field("measurement", "measurement"),
            field("measurement::tag", "tag"),
            field("day", "tag"),
            field("day::tag", "field"),
        ]);
        let layout = Layout::new(&wide, "cpu", 7);
        let titles: Vec<&str> = layout
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(
            titles,
            ["time", "measurement::tag", "day::tag::tag", "day::tag"]
        );
        assert_eq!(layout.schema.metadata()[MEASUREMENT], "cpu");
        assert_eq!(layout.schema.metadata()[BEGUN], "7");
    }
}
