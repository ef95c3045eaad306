//! Columns of a measurement's table, and the batches of the server's stream in the order of these columns.

use crate::client::error;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::error::Result;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Kind of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Time of the row.
    Time,
    /// Tag of the source.
    Tag,
    /// Field, with the name of its type as the server prints it.
    Field(String),
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Kind.
    pub kind: Kind,
    /// Name of the tag or the field.
    pub name: String,
}

/// Columns of a table, and their names and types in SQL.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Columns in the order of the table.
    pub all: Vec<Column>,
    /// Names and types in SQL.
    pub schema: SchemaRef,
}

impl Columns {
    /// Returns the columns of sources with these tags and fields: time, tags and fields by name. A field with several
    /// types has one column per type, `name::type`. A name that is taken gets the suffix `::tag` or `::type`.
    pub fn new(tags: &[String], fields: &[(String, String)]) -> Columns {
        let mut builder = Builder::default();
        builder.add("time".into(), time_type(), Kind::Time, "time");
        for tag in tags {
            let suffix = if builder.taken.contains(tag) {
                "::tag"
            } else {
                ""
            };
            builder.add(format!("{tag}{suffix}"), DataType::Utf8View, Kind::Tag, tag);
        }
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, field_type) in fields {
            by_name.entry(name).or_default().push(field_type);
        }
        for (name, types) in by_name {
            let is_alone = types.len() == 1 && !builder.taken.contains(name);
            for field_type in types {
                let sql_name = if is_alone {
                    name.to_string()
                } else {
                    format!("{name}::{field_type}")
                };
                builder.add(
                    sql_name,
                    data_type(field_type),
                    Kind::Field(field_type.to_string()),
                    name,
                );
            }
        }
        let Builder { all, named, .. } = builder;
        Columns {
            all,
            schema: Arc::new(Schema::new(named)),
        }
    }

    /// Returns the column with this name in SQL.
    pub fn find(&self, sql_name: &str) -> Option<&Column> {
        self.schema.index_of(sql_name).ok().map(|at| &self.all[at])
    }

    /// Returns the columns at these places.
    pub fn project(&self, places: &[usize]) -> Result<Columns> {
        Ok(Columns {
            all: places.iter().map(|at| self.all[*at].clone()).collect(),
            schema: Arc::new(self.schema.project(places)?),
        })
    }

    /// Returns, for each column, its place in a stream of the server. `None`: the stream does not have the column,
    /// because no selected source has the tag or the field.
    pub fn places(&self, stream: &Schema) -> Vec<Option<usize>> {
        let has_f64 = |name: &str| self.all.iter().any(|column| is_field(column, name, "f64"));
        self.all
            .iter()
            .map(|column| {
                stream.fields().iter().position(|field| {
                    let metadata = field.metadata();
                    let name = metadata
                        .get("name")
                        .map_or(field.name().as_str(), String::as_str);
                    let kind = metadata.get("kind").map_or("", String::as_str);
                    name == column.name
                        && match &column.kind {
                            Kind::Time => kind == "time",
                            Kind::Tag => kind == "tag",
                            Kind::Field(wanted) => {
                                kind == "field" && {
                                    let given = type_name(field, name);
                                    given == wanted
                                        || (given == "f64" && wanted == "f32" && !has_f64(name))
                                }
                            }
                        }
                })
            })
            .collect()
    }

    /// Returns a batch with these columns from a batch of the server's stream. `places` are those of
    /// [`Columns::places`].
    ///
    /// # Errors
    /// If a column has an unexpected type, or there is no time.
    pub fn align(&self, batch: &RecordBatch, places: &[Option<usize>]) -> Result<RecordBatch> {
        let fields = self.schema.fields().iter().zip(places);
        let arrays = fields.map(|(field, place)| match place {
            Some(at) if batch.column(*at).data_type() == field.data_type() => {
                Ok(batch.column(*at).clone())
            }
            Some(at) => Ok(cast(batch.column(*at), field.data_type())?),
            None if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
            None => Err(error(format!(
                "server: the stream has no column {:?}",
                field.name()
            ))),
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays,
            &options,
        )?)
    }
}

/// Columns so far.
#[derive(Default)]
struct Builder {
    taken: HashSet<String>,
    all: Vec<Column>,
    named: Vec<Field>,
}

impl Builder {
    fn add(&mut self, sql_name: String, data_type: DataType, kind: Kind, name: &str) {
        self.named
            .push(Field::new(&sql_name, data_type, kind != Kind::Time));
        self.taken.insert(sql_name);
        self.all.push(Column {
            kind,
            name: name.to_string(),
        });
    }
}

fn is_field(column: &Column, name: &str, field_type: &str) -> bool {
    column.name == name && matches!(&column.kind, Kind::Field(of) if of == field_type)
}

/// Returns the type of times.
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Returns the SQL type of a field with this type name.
fn data_type(field_type: &str) -> DataType {
    match field_type {
        "f64" => DataType::Float64,
        "f32" => DataType::Float32,
        "i64" => DataType::Int64,
        "u64" => DataType::UInt64,
        "bool" => DataType::Boolean,
        _ => DataType::Utf8View,
    }
}

/// Returns the type name of a column of the stream: the suffix of its name, otherwise by its Arrow type.
fn type_name<'a>(field: &'a Field, name: &str) -> &'a str {
    let suffix = field
        .name()
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix("::"));
    if let Some(suffix) = suffix {
        return suffix;
    }
    match field.data_type() {
        DataType::Float64 => "f64",
        DataType::Float32 => "f32",
        DataType::Int64 => "i64",
        DataType::UInt64 => "u64",
        DataType::Boolean => "bool",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(columns: &Columns) -> Vec<&str> {
        columns
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }

    #[test]
    fn taken_names_and_names_with_several_types_get_suffixes() {
        let text = |name: &str, of: &str| (name.to_string(), of.to_string());
        let columns = Columns::new(
            &["host".into(), "time".into()],
            &[
                text("a", "f64"),
                text("a", "i64"),
                text("host", "bool"),
                text("b", "string"),
            ],
        );
        assert_eq!(
            names(&columns),
            [
                "time",
                "host",
                "time::tag",
                "a::f64",
                "a::i64",
                "b",
                "host::bool"
            ]
        );
        assert_eq!(
            columns.find("time::tag").unwrap(),
            &Column {
                kind: Kind::Tag,
                name: "time".into()
            }
        );
        assert_eq!(columns.schema.field(3).data_type(), &DataType::Float64);
    }

    #[test]
    fn streams_are_aligned_by_kind_name_and_type() {
        let columns = Columns::new(
            &["host".into()],
            &[("a".into(), "f64".into()), ("a".into(), "i64".into())],
        );
        let field = |name: &str, kind: &str, of: DataType| {
            let pairs = [
                ("kind".to_string(), kind.to_string()),
                ("name".to_string(), name.to_string()),
            ];
            Field::new(name, of, true).with_metadata(pairs.into())
        };
        // A narrower selection, in which the field has one type.
        let stream = Schema::new(vec![
            field("a", "field", DataType::Int64),
            field("time", "time", time_type()),
        ]);
        assert_eq!(columns.places(&stream), [Some(1), None, None, Some(0)]);
    }
}
