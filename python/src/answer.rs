//! Answers: the series of a query, in memory shared with Arrow and NumPy.

use crate::failure::{Failure, invalid};
use crate::labels::{Label, labels, tags_of};
use crate::long_form;
use crate::series::{Aggregate, Series, Values};
use crate::stream::stream;
use arrow_array::{Array, LargeStringArray};
use arrow_schema::{DataType, SchemaRef};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use pyo3_arrow::buffer::PyArrowBuffer;
use seiner_engine::{SeriesData, SeriesSummary};
use seiner_model::FieldType;

/// Answer of `Store.query`.
#[pyclass(frozen, module = "seiner._seiner")]
pub struct Answer {
    labels: Vec<Label>,
    /// Names of the value columns, with their types for an answer without series.
    columns: Vec<(String, DataType)>,
    aggregates: Vec<Aggregate>,
    series: Vec<Series>,
}

impl Answer {
    /// Creates an empty answer of samples.
    pub fn samples(tag_columns: Option<Vec<String>>) -> Result<Answer, Failure> {
        Answer::of(
            vec![("value".to_string(), DataType::Float64)],
            Vec::new(),
            tag_columns,
        )
    }

    /// Creates an empty answer of aggregates.
    pub fn aggregates(
        names: Vec<String>,
        tag_columns: Option<Vec<String>>,
    ) -> Result<Answer, Failure> {
        if names.is_empty() || (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return invalid(format!(
                "aggregates = {names:?}: name at least one, and each once"
            ));
        }
        let aggregates = names
            .iter()
            .map(|name| Aggregate::named(name))
            .collect::<Result<Vec<_>, _>>()?;
        let types = aggregates
            .iter()
            .map(|aggregate| aggregate.of(FieldType::F64, &[]).data_type());
        Answer::of(
            names.into_iter().zip(types).collect(),
            aggregates,
            tag_columns,
        )
    }

    fn of(
        columns: Vec<(String, DataType)>,
        aggregates: Vec<Aggregate>,
        tag_columns: Option<Vec<String>>,
    ) -> Result<Answer, Failure> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let labels = labels(tag_columns, &names)?;
        Ok(Answer {
            labels,
            columns,
            aggregates,
            series: Vec::new(),
        })
    }

    /// Adds the samples of a series.
    pub fn push_samples(&mut self, series: SeriesData) {
        self.series.push(Series::of_samples(series));
    }

    /// Adds the aggregates of a series.
    pub fn push_summary(&mut self, series: SeriesSummary) {
        self.series
            .push(Series::of_aggregates(series, &self.aggregates));
    }

    fn schema(&self) -> Result<SchemaRef, Failure> {
        let are_aggregates = !self.aggregates.is_empty();
        long_form::schema(&self.series, &self.labels, &self.columns, are_aggregates)
    }

    fn at(&self, at: usize) -> Result<&Series, Failure> {
        match self.series.get(at) {
            Some(series) => Ok(series),
            None => invalid(format!(
                "there is no series {at}, only {}",
                self.series.len()
            )),
        }
    }
}

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
        self.columns.iter().map(|(name, _)| name.clone()).collect()
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
            tags_of(&series.key),
            &series.field,
            series.field_type.name(),
        ))
    }

    /// Returns the label columns of the long form, one text per series.
    ///
    /// # Errors
    /// If there is no long form, because the values have several types.
    fn labels(&self) -> PyResult<Vec<(String, Vec<Option<String>>)>> {
        self.schema()?;
        let texts = |label: &Label| self.series.iter().map(|one| label.text(one)).collect();
        Ok(self
            .labels
            .iter()
            .map(|label| (label.name().to_string(), texts(label)))
            .collect())
    }

    /// Returns the times of a series in ns since 1970, as a buffer of int64.
    fn times(&self, at: usize) -> PyResult<PyArrowBuffer> {
        Ok(PyArrowBuffer::new(self.at(at)?.times.inner().clone()))
    }

    /// Returns a value column of a series: a NumPy type and a buffer, or `None` and a list of texts.
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

    /// Returns the long form through the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (schema, batches) = py.detach(|| -> Result<_, Failure> {
            let schema = self.schema()?;
            let batches = long_form::batches(&self.series, &self.labels, &schema)
                .or_else(|error| invalid(format!("the answer has no long form: {error}")))?;
            Ok((schema, batches))
        })?;
        stream(py, schema, batches, requested_schema)
    }
}
