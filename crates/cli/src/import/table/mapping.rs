//! Meaning of the columns of a file, and their conversion into a stream that every store accepts.

use super::convert::{self, Change};
use anyhow::Result;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Roles of columns as given on the command line.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Title of the time column; `None` selects it by kind, name or type.
    pub time: Option<String>,
    /// Unit of times that are integers, ns.
    pub unit_ns: Option<i64>,
    /// Titles of the tags; `None` selects them by kind or type.
    pub tags: Option<Vec<String>>,
    /// Titles of the fields; `None` selects all other columns.
    pub fields: Option<Vec<String>>,
    /// Measurement of all rows.
    pub measurement: Option<String>,
    /// Tags of all rows.
    pub constants: Vec<(String, String)>,
}

/// Names that the path of a file contains.
#[derive(Debug, Default)]
pub struct PathNames {
    /// Names and values of its folders, as in `name=value`.
    pub folders: Vec<(String, String)>,
    /// Name of the file up to the first dot.
    pub stem: String,
}

/// A column with its meaning.
#[derive(Debug)]
pub struct Mapped {
    /// Index in the file.
    pub column: usize,
    /// `time`, `measurement`, `tag` or `field`.
    pub kind: &'static str,
    /// Name of the tag or field.
    pub name: String,
    change: Change,
}

/// Meaning of the columns of a file.
#[derive(Debug)]
pub struct Mapping {
    /// Columns in use, in the order of the file.
    pub columns: Vec<Mapped>,
    /// Measurement and tags of all rows: kind, name, text.
    pub constants: Vec<(&'static str, String, String)>,
    /// Schema of the converted batches.
    pub schema: SchemaRef,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Mapping {
    /// Finds the meaning of each column.
    ///
    /// # Errors
    /// If a column is missing, or has a type that no role accepts.
    pub fn find(schema: &Schema, wanted: &Wanted, path: &PathNames) -> Result<Mapping, String> {
        let finder = Finder {
            schema,
            wanted,
            path,
        };
        let time = finder.time()?;
        let time_change = convert::time(schema.field(time), wanted.unit_ns)?;
        let mut constants = Vec::new();
        let measurement = finder.measurement(time);
        if let Err(text) = &measurement {
            constants.push(("measurement", "measurement".to_string(), text.clone()));
        }
        let measurement = measurement.ok();
        finder.check_titles()?;
        for (name, value) in finder.constant_tags() {
            constants.push(("tag", name, value));
        }
        let mut columns = Vec::new();
        for (column, field) in schema.fields().iter().enumerate() {
            let kind = match column {
                _ if column == time => "time",
                _ if Some(column) == measurement => "measurement",
                _ if finder.is_tag(field) => "tag",
                _ if finder.is_field(field) => "field",
                _ => continue,
            };
            // A column without any value.
            if field.data_type() == &DataType::Null {
                continue;
            }
            let change = match kind {
                "time" => time_change,
                "field" => convert::field(field)?,
                _ => convert::name(field)?,
            };
            columns.push(Mapped {
                column,
                kind,
                name: metadata(field, "name").unwrap_or(field.name()).to_string(),
                change,
            });
        }
        if columns.iter().all(|column| column.kind != "field") {
            return Err("no column is left for a field".to_string());
        }
        Ok(Mapping {
            schema: Arc::new(converted_schema(schema, &columns, &constants)),
            notes: finder.notes(),
            columns,
            constants,
        })
    }

    /// Returns the indices of the columns in use, ascending.
    pub fn indices(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.column).collect()
    }

    /// Converts a batch of the columns in use.
    ///
    /// # Errors
    /// If the batch has another schema.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (column, array) in self.columns.iter().zip(batch.columns()) {
            arrays.push(column.change.apply(array)?);
        }
        for (_, _, text) in &self.constants {
            let keys = Int32Array::from(vec![0; batch.num_rows()]);
            let texts = Arc::new(StringArray::from(vec![text.as_str()]));
            arrays.push(Arc::new(DictionaryArray::<Int32Type>::try_new(
                keys, texts,
            )?));
        }
        Ok(RecordBatch::try_new(self.schema.clone(), arrays)?)
    }
}

fn converted_schema(
    schema: &Schema,
    columns: &[Mapped],
    constants: &[(&'static str, String, String)],
) -> Schema {
    let described = |kind: &str, name: &str, data_type: DataType| {
        let metadata = [("kind", kind), ("name", name)];
        let metadata = metadata.map(|(key, text)| (key.to_string(), text.to_string()));
        Field::new(name, data_type, true).with_metadata(HashMap::from(metadata))
    };
    let mut fields = Vec::new();
    for mapped in columns {
        let data_type = mapped
            .change
            .data_type(schema.field(mapped.column).data_type());
        fields.push(described(mapped.kind, &mapped.name, data_type));
    }
    let names = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    for (kind, name, _) in constants {
        fields.push(described(kind, name, names.clone()));
    }
    Schema::new(fields)
}

/// Returns an entry of a column's metadata.
fn metadata<'f>(field: &'f Field, key: &str) -> Option<&'f str> {
    field.metadata().get(key).map(String::as_str)
}

/// Search for the meaning of columns.
struct Finder<'a> {
    schema: &'a Schema,
    wanted: &'a Wanted,
    path: &'a PathNames,
}

impl Finder<'_> {
    fn time(&self) -> Result<usize, String> {
        let fields = self.schema.fields();
        if let Some(title) = &self.wanted.time {
            return self.place(title);
        }
        let stated = |field: &Arc<Field>| metadata(field, "kind") == Some("time");
        if let Some(at) = fields.iter().position(stated) {
            return Ok(at);
        }
        let named = |name: &&str| {
            fields
                .iter()
                .position(|field| field.name().eq_ignore_ascii_case(name))
        };
        if let Some(at) = crate::import::detect::TIME_NAMES.iter().find_map(named) {
            return Ok(at);
        }
        let is_time = |at: &usize| matches!(fields[*at].data_type(), DataType::Timestamp(..));
        let mut times = (0..fields.len()).filter(is_time);
        match (times.next(), times.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(format!(
                "no column is called {}; name the one with the time by --time-column; there are {}",
                crate::import::detect::TIME_NAMES.join(", "),
                self.titles()
            )),
        }
    }

    /// Returns the column of measurements, or the measurement of all rows.
    fn measurement(&self, time: usize) -> Result<usize, String> {
        if let Some(text) = &self.wanted.measurement {
            return Err(text.clone());
        }
        let fields = self.schema.fields().iter();
        let column = fields.enumerate().position(|(at, field)| {
            at != time
                // A column without any value names nothing.
                && field.data_type() != &DataType::Null
                && match metadata(field, "kind") {
                    Some(kind) => kind == "measurement",
                    None => {
                        field.name() == "measurement"
                            && convert::is_text(field.data_type())
                            && !is_listed(&self.wanted.tags, field)
                            && !is_listed(&self.wanted.fields, field)
                    }
                }
        });
        if let Some(column) = column {
            return Ok(column);
        }
        let folders = self.path.folders.iter();
        let mut folders = folders.filter(|(name, _)| name == "measurement");
        let stated = self.schema.metadata().get("measurement").cloned();
        let stated = stated.or_else(|| folders.next_back().map(|(_, value)| value.clone()));
        Err(stated.unwrap_or_else(|| self.path.stem.clone()))
    }

    fn is_tag(&self, field: &Field) -> bool {
        match (&self.wanted.tags, metadata(field, "kind")) {
            (Some(titles), _) => titles.contains(field.name()),
            (None, _) if is_listed(&self.wanted.fields, field) => false,
            (None, Some(kind)) => kind == "tag",
            (None, None) => convert::is_dictionary_of_texts(field.data_type()),
        }
    }

    fn is_field(&self, field: &Field) -> bool {
        match (&self.wanted.fields, metadata(field, "kind")) {
            (Some(titles), _) => titles.contains(field.name()),
            // --measurement replaces this column.
            (None, Some("measurement")) => false,
            (None, _) => true,
        }
    }

    /// Checks that all titles on the command line exist.
    fn check_titles(&self) -> Result<(), String> {
        for title in self.wanted.fields.iter().flatten() {
            self.place(title)?;
        }
        for title in self.wanted.tags.iter().flatten() {
            if !self.path.folders.iter().any(|(name, _)| name == title) {
                self.place(title)?;
            }
        }
        Ok(())
    }

    /// Returns the tags that all rows have: those of the command line, and folders that are tags.
    fn constant_tags(&self) -> Vec<(String, String)> {
        let tags = self.wanted.tags.iter().flatten();
        let folders = tags.filter(|title| self.schema.field_with_name(title).is_err());
        let folders = folders.filter_map(|title| {
            let found = self.path.folders.iter().find(|(name, _)| name == title);
            found.cloned()
        });
        self.wanted
            .constants
            .iter()
            .cloned()
            .chain(folders)
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        let is_used = |name: &str| {
            matches!(name, "measurement" | "day")
                || self.wanted.tags.iter().flatten().any(|tag| tag == name)
        };
        let folders = self.path.folders.iter();
        let unused = folders.filter(|(name, _)| !is_used(name));
        unused
            .map(|(name, value)| {
                format!(
                    "the folder {name}={value} is not stored; --tag-columns {name} makes it a tag"
                )
            })
            .collect()
    }

    fn place(&self, title: &str) -> Result<usize, String> {
        let fields = self.schema.fields().iter().enumerate();
        let mut found = fields.filter(|(_, field)| field.name() == title);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (Some(_), Some(_)) => Err(format!("two columns are called {title:?}; rename one")),
            (None, _) => Err(format!(
                "there is no column {title:?}; there are {}",
                self.titles()
            )),
        }
    }

    fn titles(&self) -> String {
        let titles = self.schema.fields().iter();
        let titles: Vec<&str> = titles.map(|field| field.name().as_str()).collect();
        titles.join(", ")
    }
}

fn is_listed(list: &Option<Vec<String>>, field: &Field) -> bool {
    list.as_ref()
        .is_some_and(|titles| titles.contains(field.name()))
}
