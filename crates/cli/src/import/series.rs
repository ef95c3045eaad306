//! Samples of many series, as record batches of Arrow. These can carry any bits of a value to every target.

use super::fault::Fault;
use super::rejects::Reporter;
use super::table::sink::TableSink;
use anyhow::Result;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Labels of a series, with its name as `__name__`.
pub type Labels = BTreeMap<String, String>;

/// Name of the metric, and the measurement of its samples.
const NAME: &str = "__name__";

/// A part of a series.
struct Run {
    labels: Labels,
    /// Number of samples of all earlier runs.
    start: usize,
    samples: usize,
    /// Line number in the file.
    line: u64,
}

/// Samples that were not written yet.
pub struct Series<'a> {
    tags: &'a [(String, String)],
    runs: Vec<Run>,
    times: Vec<i64>,
    values: Vec<f64>,
}

impl Series<'_> {
    /// Creates an empty set. `tags` are added to all series.
    pub fn new(tags: &[(String, String)]) -> Series<'_> {
        Series {
            tags,
            runs: Vec::new(),
            times: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> usize {
        self.times.len()
    }

    /// Adds samples of a series: times in ns since 1970, and values. Returns the samples whose time does not fit.
    pub fn add(
        &mut self,
        mut labels: Labels,
        times: Vec<Option<i64>>,
        values: Vec<f64>,
        line: u64,
    ) -> Vec<Fault> {
        labels.extend(self.tags.iter().cloned());
        let start = self.times.len();
        let mut faults = Vec::new();
        for (time, value) in times.into_iter().zip(values) {
            match time {
                Some(time) => {
                    self.times.push(time);
                    self.values.push(value);
                }
                None => faults.push(Fault {
                    line,
                    reason: "the time of a sample is outside the years 1677 to 2262".to_string(),
                    text: value.to_string(),
                    ..Fault::default()
                }),
            }
        }
        self.runs.push(Run {
            labels,
            start,
            samples: self.times.len() - start,
            line,
        });
        faults
    }

    /// Writes all samples and removes them.
    ///
    /// # Errors
    /// If the target fails.
    pub fn write(&mut self, sink: &mut TableSink, reporter: &mut Reporter<'_>) -> Result<()> {
        let runs = std::mem::take(&mut self.runs);
        let times = std::mem::take(&mut self.times);
        let values = std::mem::take(&mut self.values);
        if times.is_empty() {
            return Ok(());
        }
        let texts: Vec<(i64, f64)> = match reporter.rejects.has_file() {
            true => times.iter().copied().zip(values.iter().copied()).collect(),
            false => Vec::new(),
        };
        let mut report = |row: u64, reason: &str| {
            let row = usize::try_from(row).unwrap_or(0).saturating_sub(1);
            let at = runs
                .partition_point(|run| run.start <= row)
                .saturating_sub(1);
            let (run, sample) = (&runs[at], texts.get(row));
            let sample = sample.map(|(time, value)| format!("{:?} {value:?} {time}", run.labels));
            reporter.report(&Fault {
                line: run.line,
                column: String::new(),
                reason: match run.labels.get(NAME) {
                    Some(name) => format!("{name}: {reason}"),
                    None => reason.to_string(),
                },
                text: sample.unwrap_or_default(),
            });
        };
        let batch = batch(&runs, times, values)?;
        let mut rows = sink.begin(&batch.schema())?;
        rows.take(&batch, &mut report)?;
        rows.flush(&mut report)
    }
}

/// Builds the record batch of all samples, with a column for each label.
fn batch(runs: &[Run], times: Vec<i64>, values: Vec<f64>) -> Result<RecordBatch> {
    let names: BTreeMap<&str, ()> = runs
        .iter()
        .flat_map(|run| run.labels.keys().map(|name| (name.as_str(), ())))
        .collect();
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for name in names.into_keys() {
        let (kind, title) = match name {
            NAME => ("measurement", "measurement"),
            tag => ("tag", tag),
        };
        let array = dictionary(runs, name)?;
        fields.push(described(kind, title, array.data_type().clone()));
        arrays.push(Arc::new(array));
    }
    let time_type = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    fields.push(described("time", "time", time_type));
    arrays.push(Arc::new(
        TimestampNanosecondArray::from(times).with_timezone("UTC"),
    ));
    fields.push(described("field", "value", DataType::Float64));
    arrays.push(Arc::new(Float64Array::from(values)));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn described(kind: &str, name: &str, data_type: DataType) -> Field {
    let metadata = [("kind", kind), ("name", name)];
    let metadata = metadata.map(|(key, text)| (key.to_string(), text.to_string()));
    Field::new(name, data_type, true).with_metadata(HashMap::from(metadata))
}

/// Returns the values of a label for all samples, as a dictionary. A missing label is null.
fn dictionary(runs: &[Run], name: &str) -> Result<DictionaryArray<Int32Type>> {
    let mut numbers: HashMap<&str, i32> = HashMap::new();
    let (mut texts, mut keys) = (Vec::new(), Vec::<Option<i32>>::new());
    for run in runs {
        let value = run.labels.get(name).filter(|value| !value.is_empty());
        let key = match value {
            Some(value) => {
                let next = i32::try_from(texts.len())?;
                Some(*numbers.entry(value).or_insert_with(|| {
                    texts.push(value.as_str());
                    next
                }))
            }
            None => None,
        };
        keys.extend(std::iter::repeat_n(key, run.samples));
    }
    let texts = Arc::new(StringArray::from(texts));
    Ok(DictionaryArray::try_new(Int32Array::from(keys), texts)?)
}
