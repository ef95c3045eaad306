//! Meaning of the columns of a stream: time, measurement, tags, fields.

use super::{ArrowBodyError, BodyOptions};
use crate::line::Precision;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

/// Column of a tag or field.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name of the tag or field.
    pub name: String,
    /// Index of the column.
    pub column: usize,
}

/// Origin of the measurement of a row.
#[derive(Clone, Debug)]
pub enum Measurement {
    /// Index of a column.
    Column(usize),
    /// The same text for all rows.
    Text(String),
}

/// Meaning of the columns of a stream.
#[derive(Clone, Debug)]
pub struct Roles {
    /// Index of the column of times.
    pub time: usize,
    /// Length of the unit of the times, ns.
    pub unit_ns: i64,
    pub measurement: Measurement,
    pub tags: Vec<Named>,
    pub fields: Vec<Named>,
}

impl Roles {
    /// Finds the meaning of each column from its metadata, its name and its type.
    ///
    /// # Errors
    /// If a column has no meaning, or a column is missing.
    pub fn new(schema: &Schema, options: &BodyOptions) -> Result<Roles, ArrowBodyError> {
        let (mut time, mut measurement) = (None, None);
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for (column, field) in schema.fields().iter().enumerate() {
            let metadata = |key: &str| field.metadata().get(key).map(String::as_str);
            let name = metadata("name").unwrap_or(field.name()).to_string();
            match metadata("kind").unwrap_or_else(|| kind(field, options)) {
                "time" => time = Some((column, unit(field, options)?)),
                "measurement" => {
                    texts(field)?;
                    measurement = Some(column);
                }
                "tag" => {
                    texts(field)?;
                    tags.push(Named { name, column });
                }
                // A column without a single value.
                "field" if field.data_type() == &DataType::Null => {}
                "field" => {
                    values(field)?;
                    fields.push(Named { name, column });
                }
                other => {
                    return Err(ArrowBodyError::new(format!(
                        "column {:?} has the kind {other:?} in its metadata; there are time, measurement, tag and field",
                        field.name()
                    )));
                }
            }
        }
        let missing = options
            .tags
            .iter()
            .find(|tag| schema.index_of(tag).is_err());
        if let Some(tag) = missing {
            return Err(ArrowBodyError::new(format!(
                "the parameter tags names {tag:?}, and there is no such column"
            )));
        }
        let (time, unit_ns) = time.ok_or_else(|| {
            ArrowBodyError::new("there is no column \"time\"; add one with timestamps")
        })?;
        let measurement = match (measurement, &options.measurement) {
            (Some(column), _) => Measurement::Column(column),
            (None, Some(text)) => Measurement::Text(text.clone()),
            (None, None) => {
                return Err(ArrowBodyError::new(
                    "there is no column \"measurement\"; add one, or the parameter measurement=NAME",
                ));
            }
        };
        Ok(Roles {
            time,
            unit_ns,
            measurement,
            tags,
            fields,
        })
    }
}

/// Returns the kind of a column without metadata.
fn kind(field: &Field, options: &BodyOptions) -> &'static str {
    match field.name().as_str() {
        "time" => "time",
        "measurement" if options.measurement.is_none() => "measurement",
        name if options.tags.iter().any(|tag| tag == name) => "tag",
        _ => match field.data_type() {
            DataType::Dictionary(..) => "tag",
            _ => "field",
        },
    }
}

/// Returns the unit of a column of times, ns.
fn unit(field: &Field, options: &BodyOptions) -> Result<i64, ArrowBodyError> {
    match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(1),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(1_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Ok(1_000_000),
        DataType::Timestamp(TimeUnit::Second, _) => Ok(1_000_000_000),
        DataType::Int64 => options.precision.map(Precision::ns).ok_or_else(|| {
            ArrowBodyError::new(format!(
                "column {:?} has integers without a unit; add the parameter precision=ns, us, ms or s, or convert \
                 the column to timestamps",
                field.name()
            ))
        }),
        other => Err(unusable(field, other, "timestamps or 64-bit integers")),
    }
}

fn texts(field: &Field) -> Result<(), ArrowBodyError> {
    let is_text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    match field.data_type() {
        DataType::Dictionary(_, values) if is_text(values) => Ok(()),
        other if is_text(other) => Ok(()),
        other => Err(unusable(field, other, "texts, or a dictionary of texts")),
    }
}

fn values(field: &Field) -> Result<(), ArrowBodyError> {
    use DataType::{
        Boolean, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    match field.data_type() {
        Float64 | Float32 | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64
        | Boolean => Ok(()),
        _ if texts(field).is_ok() => Ok(()),
        other => Err(unusable(
            field,
            other,
            "floats, integers, booleans or texts",
        )),
    }
}

fn unusable(field: &Field, data_type: &DataType, wanted: &str) -> ArrowBodyError {
    ArrowBodyError::new(format!(
        "column {:?} has the type {data_type}; convert it to {wanted}",
        field.name()
    ))
}
