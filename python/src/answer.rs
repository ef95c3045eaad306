//! An answer: the series of a query, in memory that Arrow and NumPy share.
//!
//! Times and values stay where the engine put them. In the long form, a long series is a record
//! batch of its own over that memory, with labels that cost four shared bytes a row; short series
//! are copied together, so that a million of them are not a million batches.

use crate::failure::{Failure, invalid};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array,
    Int64Array, LargeStringArray, RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use pyo3_arrow::buffer::PyArrowBuffer;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use seiner_engine::{Bucket, SeriesData, SeriesSummary};
use seiner_model::{Column, FieldType, SourceId, SourceKey, Strings};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows from which a series is a record batch of its own.
const LONG_ROWS: usize = 4096;
/// Rows of a batch of short series, about.
const BATCH_ROWS: usize = 64 << 10;

/// How series are labelled in the long form.
pub struct Labels {
    /// The tags that get columns of their own, instead of one column with all tags as a text.
    pub tag_columns: Option<Vec<String>>,
}

/// One series, or its aggregates.
struct Series {
    source: SourceId,
    key: Arc<SourceKey>,
    field: Arc<str>,
    field_type: FieldType,
    times: ScalarBuffer<i64>,
    columns: Vec<Values>,
}

/// Values in memory that can be handed out.
enum Values {
    Array(ArrayRef),
    /// A byte each, as NumPy has them; Arrow wants a bit each.
    Bools(Buffer),
}

/// What `Store.query` answers.
#[pyclass(frozen, module = "seiner._seiner")]
pub struct Answer {
    labels: Labels,
    /// The names of the value columns: `value`, or aggregates.
    names: Vec<String>,
    kinds: Vec<Aggregate>,
    series: Vec<Series>,
}

/// A column of aggregates.
#[derive(Clone, Copy)]
enum Aggregate {
    Count,
    Number(fn(&Bucket) -> f64),
    Time(fn(&Bucket) -> i64),
}

const AGGREGATES: [(&str, Aggregate); 9] = [
    ("count", Aggregate::Count),
    ("sum", Aggregate::Number(|bucket| bucket.sum)),
    ("min", Aggregate::Number(|bucket| bucket.min)),
    ("max", Aggregate::Number(|bucket| bucket.max)),
    ("mean", Aggregate::Number(Bucket::mean)),
    ("first", Aggregate::Number(|bucket| bucket.first.1)),
    ("last", Aggregate::Number(|bucket| bucket.last.1)),
    ("first_time", Aggregate::Time(|bucket| bucket.first.0)),
    ("last_time", Aggregate::Time(|bucket| bucket.last.0)),
];

impl Aggregate {
    fn named(name: &str) -> Result<Aggregate, Failure> {
        match AGGREGATES.iter().find(|(known, _)| *known == name) {
            Some((_, aggregate)) => Ok(*aggregate),
            None => {
                let known: Vec<&str> = AGGREGATES.iter().map(|(known, _)| *known).collect();
                invalid(format!(
                    "{name:?} is no aggregate; there are {}",
                    known.join(", ")
                ))
            }
        }
    }

    fn of(self, buckets: &[Bucket]) -> Values {
        Values::Array(match self {
            Aggregate::Count => Arc::new(UInt64Array::from_iter_values(
                buckets.iter().map(|bucket| bucket.count),
            )),
            Aggregate::Number(number) => {
                Arc::new(Float64Array::from_iter_values(buckets.iter().map(number)))
            }
            Aggregate::Time(time) => Arc::new(times_array(
                buckets.iter().map(time).collect::<Vec<i64>>().into(),
            )),
        })
    }
}

// ---- gathering

impl Answer {
    /// An answer of samples, still empty.
    pub fn samples(labels: Labels) -> Answer {
        Answer {
            labels,
            names: vec!["value".to_string()],
            kinds: Vec::new(),
            series: Vec::new(),
        }
    }

    /// An answer of aggregates, still empty.
    pub fn aggregates(labels: Labels, names: &[String]) -> Result<Answer, Failure> {
        let kinds = names
            .iter()
            .map(|name| Aggregate::named(name))
            .collect::<Result<_, _>>()?;
        if names.is_empty() || (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return invalid(format!(
                "aggregates = {names:?}: name at least one, and each once"
            ));
        }
        Ok(Answer {
            labels,
            names: names.to_vec(),
            kinds,
            series: Vec::new(),
        })
    }

    /// Adds the samples of a series.
    pub fn push_series(&mut self, series: SeriesData) {
        self.series.push(Series {
            source: series.source,
            key: series.key,
            field: series.field,
            field_type: series.values.field_type(),
            times: series.times.into(),
            columns: vec![Values::from(series.values)],
        });
    }

    /// Adds the aggregates of a series.
    pub fn push_summary(&mut self, series: &SeriesSummary) {
        self.series.push(Series {
            source: series.source,
            key: series.key.clone(),
            field: series.field.clone(),
            field_type: series.field_type,
            times: series
                .buckets
                .iter()
                .map(|bucket| bucket.start)
                .collect::<Vec<i64>>()
                .into(),
            columns: self
                .kinds
                .iter()
                .map(|kind| kind.of(&series.buckets))
                .collect(),
        });
    }
}

impl From<Column> for Values {
    fn from(column: Column) -> Values {
        Values::Array(match column {
            Column::F64(values) => Arc::new(Float64Array::new(values.into(), None)),
            Column::F32(values) => Arc::new(Float32Array::new(values.into(), None)),
            Column::I64(values) => Arc::new(Int64Array::new(values.into(), None)),
            Column::U64(values) => Arc::new(UInt64Array::new(values.into(), None)),
            Column::Bool(values) => {
                return Values::Bools(Buffer::from_vec(
                    values.into_iter().map(u8::from).collect::<Vec<u8>>(),
                ));
            }
            Column::Str(texts) => Arc::new(text_array(texts)),
        })
    }
}

/// The bytes of the texts stay where they are; offsets are widened.
fn text_array(texts: Strings) -> LargeStringArray {
    let offsets = OffsetBuffer::from_lengths((0..texts.len()).map(|at| {
        let start = if at == 0 { 0 } else { texts.ends[at - 1] };
        (texts.ends[at] - start) as usize
    }));
    LargeStringArray::new(offsets, Buffer::from_vec(texts.bytes), None)
}

fn times_array(times: ScalarBuffer<i64>) -> TimestampNanosecondArray {
    TimestampNanosecondArray::new(times, None).with_timezone("UTC")
}

impl Values {
    fn array(&self) -> ArrayRef {
        match self {
            Values::Array(array) => array.clone(),
            Values::Bools(bytes) => Arc::new(BooleanArray::new(
                BooleanBuffer::collect_bool(bytes.len(), |at| bytes[at] != 0),
                None,
            )),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Values::Array(array) => array.data_type().clone(),
            Values::Bools(_) => DataType::Boolean,
        }
    }
}

// ---- handing out

#[pymethods]
impl Answer {
    fn __len__(&self) -> usize {
        self.series.len()
    }

    #[getter]
    fn rows(&self) -> usize {
        self.series.iter().map(|series| series.times.len()).sum()
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    #[expect(
        clippy::type_complexity,
        reason = "a key: source, measurement, tags, field and its type"
    )]
    fn key(&self, at: usize) -> PyResult<(u32, &str, Vec<(String, String)>, &str, &'static str)> {
        let series = self.at(at)?;
        Ok((
            series.source.0,
            series.key.measurement(),
            series.key.tags().to_vec(),
            &series.field,
            series.field_type.name(),
        ))
    }

    /// The label columns of the long form, a text a series.
    ///
    /// # Errors
    /// Where there is no long form, because the values have several types.
    #[expect(clippy::type_complexity, reason = "names with a text or none a series")]
    fn labels(&self) -> PyResult<Vec<(String, Vec<Option<String>>)>> {
        let labels = self.labels.columns()?;
        self.schema(&labels)?;
        Ok(labels
            .iter()
            .map(|label| {
                (
                    label.name().to_string(),
                    self.series.iter().map(|one| label.text(one)).collect(),
                )
            })
            .collect())
    }

    /// The times of a series in ns: a buffer of int64.
    fn times(&self, at: usize) -> PyResult<PyArrowBuffer> {
        Ok(PyArrowBuffer::new(self.at(at)?.times.inner().clone()))
    }

    /// A value column of a series: a NumPy type and a buffer of it; for texts, none and a list.
    fn values<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        column: usize,
    ) -> PyResult<(Option<&'static str>, Bound<'py, PyAny>)> {
        let Some(values) = self.at(at)?.columns.get(column) else {
            return Ok(invalid(format!("there is no value column {column}"))?);
        };
        let array = match values {
            Values::Bools(bytes) => {
                return Ok((
                    Some("?"),
                    PyArrowBuffer::new(bytes.clone()).into_bound_py_any(py)?,
                ));
            }
            Values::Array(array) => array,
        };
        if let Some(texts) = array.as_any().downcast_ref::<LargeStringArray>() {
            return Ok((None, PyList::new(py, texts.iter().flatten())?.into_any()));
        }
        let numpy_type = match array.data_type() {
            DataType::Float64 => "f8",
            DataType::Float32 => "f4",
            DataType::UInt64 => "u8",
            DataType::Timestamp(..) => "M8[ns]",
            _ => "i8",
        };
        let buffer = array.to_data().buffers()[0].clone();
        Ok((
            Some(numpy_type),
            PyArrowBuffer::new(buffer).into_bound_py_any(py)?,
        ))
    }

    /// The long form, by the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (schema, batches) = py.detach(|| self.long_form())?;
        let field = Arc::new(Field::new_struct("", schema.fields().clone(), false));
        let arrays = batches
            .into_iter()
            .map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef));
        Ok(to_stream_pycapsule(
            py,
            Box::new(ArrayIterator::new(arrays, field)),
            requested_schema,
        )?)
    }
}

impl Answer {
    fn at(&self, at: usize) -> Result<&Series, Failure> {
        match self.series.get(at) {
            Some(series) => Ok(series),
            None => invalid(format!(
                "there is no series {at}, only {}",
                self.series.len()
            )),
        }
    }

    fn long_form(&self) -> Result<(SchemaRef, Vec<RecordBatch>), Failure> {
        let labels = self.labels.columns()?;
        let schema = self.schema(&labels)?;
        let longest = self
            .series
            .iter()
            .map(|series| series.times.len())
            .max()
            .unwrap_or(0);
        let zeros = ScalarBuffer::from(vec![0_i32; longest]);
        let mut batches = Vec::new();
        for run in runs(&self.series) {
            let mut columns: Vec<ArrayRef> = labels
                .iter()
                .map(|label| label.column(run, &zeros))
                .collect::<Result<_, _>>()?;
            columns.push(times_of(run));
            for at in 0..self.names.len() {
                columns.push(values_of(run, at)?);
            }
            batches.push(RecordBatch::try_new(schema.clone(), columns).map_err(broken)?);
        }
        Ok((schema, batches))
    }

    fn schema(&self, labels: &[Label]) -> Result<SchemaRef, Failure> {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let mut fields: Vec<Field> = labels
            .iter()
            .map(|label| Field::new(label.name(), dictionary.clone(), label.may_lack()))
            .collect();
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        fields.push(Field::new("time", time, false));
        for (at, name) in self.names.iter().enumerate() {
            let value_type = self
                .series
                .first()
                .map_or(DataType::Float64, |series| series.columns[at].data_type());
            if let Some(other) = self
                .series
                .iter()
                .find(|series| series.columns[at].data_type() != value_type)
            {
                return invalid(format!(
                    "one column cannot hold {} of field {:?} and {} of field {:?}; \
                     ask for fields of one type by fields=[...], or use by_series() or numpy()",
                    self.series[0].field_type.name(),
                    self.series[0].field,
                    other.field_type.name(),
                    other.field
                ));
            }
            fields.push(Field::new(name, value_type, false));
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// Long series alone, short ones together.
fn runs(series: &[Series]) -> Vec<&[Series]> {
    let mut runs = Vec::new();
    let (mut start, mut rows) = (0, 0);
    for (at, one) in series.iter().enumerate() {
        let long = one.times.len() >= LONG_ROWS;
        if at > start && (long || rows >= BATCH_ROWS || series[start].times.len() >= LONG_ROWS) {
            runs.push(&series[start..at]);
            (start, rows) = (at, 0);
        }
        rows += one.times.len();
    }
    if start < series.len() {
        runs.push(&series[start..]);
    }
    runs
}

fn times_of(run: &[Series]) -> ArrayRef {
    let times = match run {
        [series] => series.times.clone(),
        _ => run
            .iter()
            .flat_map(|series| series.times.iter().copied())
            .collect::<Vec<i64>>()
            .into(),
    };
    Arc::new(times_array(times))
}

fn values_of(run: &[Series], column: usize) -> Result<ArrayRef, Failure> {
    let arrays: Vec<ArrayRef> = run
        .iter()
        .map(|series| series.columns[column].array())
        .collect();
    match arrays.as_slice() {
        [array] => Ok(array.clone()),
        _ => arrow_select::concat::concat(
            &arrays
                .iter()
                .map(AsRef::as_ref)
                .collect::<Vec<&dyn Array>>(),
        )
        .map_err(broken),
    }
}

/// What the checks before have ruled out.
fn broken(error: ArrowError) -> Failure {
    Failure::Invalid(format!("the answer has no long form: {error}"))
}

// ---- labels

/// A column that says which series a row belongs to.
enum Label {
    Measurement,
    Tags,
    Tag(String),
    Field,
}

impl Labels {
    fn columns(&self) -> Result<Vec<Label>, Failure> {
        let tags = match &self.tag_columns {
            None => vec![Label::Tags],
            Some(tags) => tags.iter().cloned().map(Label::Tag).collect(),
        };
        for label in &tags {
            if let Label::Tag(tag) = label
                && ["measurement", "field", "time", "value"].contains(&tag.as_str())
            {
                return invalid(format!(
                    "tag {tag:?} cannot be a column beside that of the same name; leave it out of tag_columns"
                ));
            }
        }
        Ok([Label::Measurement]
            .into_iter()
            .chain(tags)
            .chain([Label::Field])
            .collect())
    }
}

impl Label {
    fn name(&self) -> &str {
        match self {
            Label::Measurement => "measurement",
            Label::Tags => "tags",
            Label::Tag(tag) => tag,
            Label::Field => "field",
        }
    }

    fn may_lack(&self) -> bool {
        matches!(self, Label::Tag(_))
    }

    fn text(&self, series: &Series) -> Option<String> {
        match self {
            Label::Measurement => Some(series.key.measurement().to_string()),
            Label::Tags => Some(tags_text(&series.key)),
            Label::Tag(tag) => {
                Some(series.key.tag(tag).to_string()).filter(|value| !value.is_empty())
            }
            Label::Field => Some(series.field.to_string()),
        }
    }

    /// The label of each row. A single series has the same key, 0, in every row.
    fn column(&self, run: &[Series], zeros: &ScalarBuffer<i32>) -> Result<ArrayRef, Failure> {
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
        Ok(Arc::new(
            DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values)).map_err(broken)?,
        ))
    }
}

/// All tags as line protocol writes them: `core=0,host=a`.
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
