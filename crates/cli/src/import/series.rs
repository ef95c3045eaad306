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
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Labels of a series, with its name as `__name__`.
pub type Labels = BTreeMap<String, String>;

/// Name of the metric, and the measurement of its samples.
const NAME: &str = "__name__";

/// Maximum number of cells of a record batch.
const BATCH_CELLS: usize = 1 << 21;

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
        let (times, values) = (&times, &values);
        for rows in pieces(&runs, times.len()) {
            let first = rows.start as u64;
            let batch = batch(&runs, rows, times, values)?;
            let mut report = |row: u64, reason: &str| report(first + row, reason);
            let mut rows = sink.begin(&batch.schema())?;
            rows.take(&batch, &mut report)?;
            rows.flush(&mut report)?;
        }
        Ok(())
    }
}

/// Returns the names of all labels.
fn names(runs: &[Run]) -> BTreeSet<&str> {
    let labels = runs.iter().flat_map(|run| run.labels.keys());
    labels.map(String::as_str).collect()
}

/// Divides the samples into ranges, so that a batch has a bounded number of cells.
fn pieces(runs: &[Run], samples: usize) -> impl Iterator<Item = Range<usize>> {
    let most = (BATCH_CELLS / (names(runs).len() + 2)).max(1);
    let starts = (0..samples).step_by(most);
    starts.map(move |start| start..(start + most).min(samples))
}

/// Builds the record batch of some samples, with a column for each label.
fn batch(runs: &[Run], rows: Range<usize>, times: &[i64], values: &[f64]) -> Result<RecordBatch> {
    let first = runs.partition_point(|run| run.start + run.samples <= rows.start);
    let end = runs.partition_point(|run| run.start < rows.end);
    let runs = &runs[first..end];
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for name in names(runs) {
        let (kind, title) = match name {
            NAME => ("measurement", "measurement"),
            tag => ("tag", tag),
        };
        let array = dictionary(runs, &rows, name)?;
        fields.push(described(kind, title, array.data_type().clone()));
        arrays.push(Arc::new(array));
    }
    let time_type = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    fields.push(described("time", "time", time_type));
    let times = TimestampNanosecondArray::from(times[rows.clone()].to_vec());
    arrays.push(Arc::new(times.with_timezone("UTC")));
    fields.push(described("field", "value", DataType::Float64));
    arrays.push(Arc::new(Float64Array::from(values[rows].to_vec())));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// Returns a column with its meaning.
pub fn described(kind: &str, name: &str, data_type: DataType) -> Field {
    let metadata = [("kind", kind), ("name", name)];
    let metadata = metadata.map(|(key, text)| (key.to_string(), text.to_string()));
    Field::new(name, data_type, true).with_metadata(HashMap::from(metadata))
}

/// Returns a column that contains one text in all rows.
///
/// # Errors
/// If Arrow rejects the column.
pub fn constant(text: &str, rows: usize) -> Result<ArrayRef> {
    let texts = Arc::new(StringArray::from(vec![text]));
    let keys = Int32Array::from(vec![0; rows]);
    Ok(Arc::new(DictionaryArray::try_new(keys, texts)?))
}

/// Returns the values of a label for some samples, as a dictionary. A missing label is null.
fn dictionary(runs: &[Run], rows: &Range<usize>, name: &str) -> Result<DictionaryArray<Int32Type>> {
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
        let end = rows.end.min(run.start + run.samples);
        let samples = end.saturating_sub(rows.start.max(run.start));
        keys.extend(std::iter::repeat_n(key, samples));
    }
    let texts = Arc::new(StringArray::from(texts));
    Ok(DictionaryArray::try_new(Int32Array::from(keys), texts)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;

    #[test]
    fn large_parts_of_series_are_divided() {
        let mut series = Series::new(&[]);
        let long = BATCH_CELLS / 3;
        for (name, samples) in [("a", 10), ("b", long), ("c", 1)] {
            let labels = Labels::from([(NAME.to_string(), name.to_string())]);
            let times = (0..samples as i64).map(Some).collect();
            assert_eq!(series.add(labels, times, vec![1.0; samples], 1), []);
        }
        let all = series.samples();
        let pieces: Vec<Range<usize>> = pieces(&series.runs, all).collect();
        assert_eq!(pieces, [0..long, long..all]);
        let names = |rows: Range<usize>| {
            let batch = batch(&series.runs, rows, &series.times, &series.values).unwrap();
            let column = batch.column(0).as_dictionary::<Int32Type>().clone();
            let texts = column.downcast_dict::<StringArray>().unwrap();
            let texts: Vec<String> = texts.into_iter().flatten().map(String::from).collect();
            (
                texts[0].clone(),
                texts[texts.len() - 1].clone(),
                texts.len(),
            )
        };
        assert_eq!(names(0..long), ("a".into(), "b".into(), long));
        assert_eq!(names(long..all), ("b".into(), "c".into(), 11));
    }
}
