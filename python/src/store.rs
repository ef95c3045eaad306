//! The store of the Python package.
//!
//! Python's lock is released while the engine works. Long operations check for signals regularly.

use crate::answer::Answer;
use crate::append::{self, Outcome, ROWS_AT_ONCE};
use crate::arrays::array;
use crate::failure::{Failure, invalid};
use crate::labels::tags_of;
use crate::lines;
use crate::query::{Moment, drain, interval, now, range, selected, wide};
use crate::retention;
use crate::roles::{Roles, Tags};
use crate::status::status_dict;
use crate::table::Table;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::input::AnyRecordBatch;
use seiner_engine::{Durability, Engine, Given, MergePolicy, Options, Rule, SeriesData, Step};
use seiner_model::{Selector, SourceId, SourceKey, parse_duration};
use seiner_wire::line::Precision;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A store in a directory, until it is closed.
#[pyclass(frozen, module = "seiner._seiner")]
pub struct Store {
    store: RwLock<Option<Arc<dyn seiner_store::Store>>>,
    /// Process that opened the directory. A forked child has no background threads, and must not touch the
    /// files of its parent.
    process: u32,
}

/// Outcome of an append: rows, samples, the first rejected rows with reasons, and the number of rejected rows.
type Counts = (usize, usize, Vec<(u64, String)>, usize);

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, durability, interval_ms, memory, block_bytes, segment_bytes, journal_bytes, idle_seal_s, disk, leave_free, merge_from, policy, extra_writes, lanes, classes, given, apply_retention))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one for each setting, all of them named"
    )]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        durability: &str,
        interval_ms: u64,
        memory: Option<u64>,
        block_bytes: u32,
        segment_bytes: u64,
        journal_bytes: u64,
        idle_seal_s: f64,
        disk: Option<u64>,
        leave_free: u64,
        merge_from: f64,
        policy: &str,
        extra_writes: f64,
        lanes: u32,
        classes: Vec<retention::Given>,
        given: Vec<String>,
        apply_retention: bool,
    ) -> PyResult<Store> {
        let durability = match durability {
            "sync" => Durability::Sync,
            "interval" => Durability::Interval(Duration::from_millis(interval_ms)),
            "memory" => Durability::Memory,
            other => {
                return Ok(invalid(format!(
                    "durability = {other:?} is none of \"interval\", \"sync\" and \"memory\""
                ))?);
            }
        };
        let Ok(idle_seal) = Duration::try_from_secs_f64(idle_seal_s) else {
            let what = format!("idle_seal_s = {idle_seal_s} is not a number of seconds");
            return Ok(invalid(what)?);
        };
        let options = Options {
            durability,
            memory: memory.unwrap_or_else(Options::automatic_memory),
            block_bytes,
            segment_bytes,
            journal_bytes,
            idle_seal,
            disk,
            leave_free,
            merge_from,
            policy: policy.parse::<MergePolicy>().map_err(Failure::Invalid)?,
            extra_writes,
            lanes,
            classes: retention::classes(classes)?,
            given: Given::these(
                Rule::ALL
                    .into_iter()
                    .filter(|rule| given.iter().any(|name| name == rule.name())),
            ),
            apply_retention,
            ..Options::default()
        };
        let store = py
            .detach(|| Engine::open_directory(&path, options))
            .map_err(Failure::from)?;
        Ok(Store {
            store: RwLock::new(Some(store)),
            process: std::process::id(),
        })
    }

    /// Makes everything durable and closes the directory. A second call has no effect.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        py.detach(|| {
            let store = self
                .store
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            store.map_or(Ok(()), |store| store.close().map_err(Failure::from))
        })?;
        Ok(())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.store().is_err()
    }

    // ---- appending

    fn source(
        &self,
        py: Python<'_>,
        measurement: &str,
        tags: Vec<(String, String)>,
    ) -> PyResult<u32> {
        let store = self.store()?;
        Ok(py.detach(|| register(&*store, measurement, tags))?.0)
    }

    fn append(
        &self,
        py: Python<'_>,
        measurement: &str,
        tags: Vec<(String, String)>,
        data: AnyRecordBatch,
        time: String,
        fields: Option<Vec<String>>,
    ) -> PyResult<Counts> {
        let store = self.store()?;
        let source = py.detach(|| register(&*store, measurement, tags))?;
        let roles = Roles {
            time,
            measurement: Some(measurement.to_string()),
            tags: Tags::Named(Vec::new()),
            fields,
        };
        self.take(py, &*store, data, |batch, first, outcome| {
            append::append_rows(&*store, source, &roles, batch, first, outcome)
        })
    }

    fn append_table(
        &self,
        py: Python<'_>,
        measurement: Option<String>,
        data: AnyRecordBatch,
        time: String,
        tags: Option<Vec<String>>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Counts> {
        let store = self.store()?;
        let roles = Roles {
            time,
            measurement,
            tags: tags.map_or(Tags::Dictionaries, Tags::Named),
            fields,
        };
        self.take(py, &*store, data, |batch, first, outcome| {
            append::append_table(&*store, &roles, batch, first, outcome)
        })
    }

    fn samples(
        &self,
        py: Python<'_>,
        field: &str,
        sources: &Bound<'_, PyAny>,
        times: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<Counts> {
        let store = self.store()?;
        let (sources, times, values) = (array(sources)?, array(times)?, array(values)?);
        if *values.data_type() != DataType::Float64 {
            return Ok(invalid(format!(
                "samples are float64, not {}; use append for other types",
                values.data_type()
            ))?);
        }
        let mut outcome = Outcome::default();
        if sources.len() != times.len() || sources.len() != values.len() {
            let (sources, times, values) = (sources.len(), times.len(), values.len());
            return Ok(invalid(format!(
                "{sources} sources, {times} times and {values} values are not equally many"
            ))?);
        }
        for start in (0..values.len()).step_by(ROWS_AT_ONCE) {
            let len = ROWS_AT_ONCE.min(values.len() - start);
            py.detach(|| -> Result<(), Failure> {
                let sources = append::sources(&sources.slice(start, len))?;
                let times = append::times("times", &times.slice(start, len), |row| {
                    (start + row) as u64
                })?;
                let values = values.slice(start, len);
                let receipt = store.append_samples(
                    field,
                    &sources,
                    &times,
                    values.as_primitive::<Float64Type>().values(),
                )?;
                outcome.add(&receipt, |row| (start + row) as u64);
                Ok(())
            })?;
            py.check_signals()?;
        }
        finish(py, &*store, outcome)
    }

    fn write_lines(&self, py: Python<'_>, lines: &[u8], precision: &str) -> PyResult<Counts> {
        let store = self.store()?;
        let precision: Precision = precision
            .parse()
            .or_else(|error| invalid(format!("{error}")))?;
        let outcome = py.detach(|| lines::write(&*store, lines, precision, now()))?;
        finish(py, &*store, outcome)
    }

    // ---- querying

    #[expect(clippy::too_many_arguments, reason = "one for each part of a query")]
    fn query(
        &self,
        py: Python<'_>,
        select: &str,
        start: Option<Moment>,
        end: Option<Moment>,
        fields: Option<Vec<String>>,
        step: Option<Moment>,
        aggregates: Option<Vec<String>>,
        tag_columns: Option<Vec<String>>,
    ) -> PyResult<Answer> {
        let store = self.store()?;
        let query = selected(select, start, end, fields)?;
        let Some(aggregates) = aggregates else {
            let mut answer = Answer::samples(tag_columns)?;
            let mut series = py
                .detach(|| store.select(&query, None))
                .map_err(Failure::from)?;
            drain(py, &mut series, |series| answer.push_samples(series))?;
            return Ok(answer);
        };
        let step = match step {
            None => Step::Whole,
            Some(Moment::Ns(ns)) => Step::Every(ns),
            Some(Moment::Text(text)) => Step::Every(parse_duration(&text).map_err(Failure::from)?),
        };
        let mut answer = Answer::aggregates(aggregates, tag_columns)?;
        let mut series = py
            .detach(|| store.aggregate(&query, step, None))
            .map_err(Failure::from)?;
        drain(py, &mut series, |series| answer.push_summary(series))?;
        Ok(answer)
    }

    fn latest(
        &self,
        py: Python<'_>,
        select: &str,
        start: Option<Moment>,
        end: Option<Moment>,
        fields: Option<Vec<String>>,
        tag_columns: Option<Vec<String>>,
    ) -> PyResult<Answer> {
        let store = self.store()?;
        let query = selected(select, start, end, fields)?;
        let mut answer = Answer::samples(tag_columns)?;
        let mut series = py
            .detach(|| store.latest(&query, None))
            .map_err(Failure::from)?;
        drain(py, &mut series, |latest| {
            answer.push_samples(SeriesData {
                source: latest.source,
                key: latest.key,
                field: latest.field,
                times: vec![latest.time],
                values: latest.value,
            });
        })?;
        Ok(answer)
    }

    fn rows(
        &self,
        py: Python<'_>,
        select: &str,
        start: Option<Moment>,
        end: Option<Moment>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Table> {
        wide(py, &*self.store()?, &selected(select, start, end, fields)?)
    }

    fn range(
        &self,
        py: Python<'_>,
        select: &str,
        start: Option<Moment>,
        end: Option<Moment>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Option<(i64, i64)>> {
        range(py, &*self.store()?, &selected(select, start, end, fields)?)
    }

    fn measurements(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let store = self.store()?;
        Ok(py.detach(|| store.measurements()).map_err(Failure::from)?)
    }

    fn tags(&self, py: Python<'_>, select: &str) -> PyResult<Vec<String>> {
        let (store, selector) = self.select(select)?;
        Ok(py
            .detach(|| store.tag_names(&selector))
            .map_err(Failure::from)?)
    }

    /// Returns the values, and true if there are more values than the limit.
    fn values(
        &self,
        py: Python<'_>,
        tag: &str,
        select: &str,
        limit: usize,
    ) -> PyResult<(Vec<String>, bool)> {
        let (store, selector) = self.select(select)?;
        // One more value shows that there are more values than the limit.
        let most = limit.saturating_add(1);
        let mut values = py
            .detach(|| store.tag_values(&selector, tag, most))
            .map_err(Failure::from)?;
        let truncated = values.len() > limit;
        values.truncate(limit);
        Ok((values, truncated))
    }

    fn fields(&self, py: Python<'_>, select: &str) -> PyResult<Vec<(String, &'static str)>> {
        let (store, selector) = self.select(select)?;
        let fields = py
            .detach(|| store.fields(&selector))
            .map_err(Failure::from)?;
        Ok(fields
            .into_iter()
            .map(|(name, field_type)| (name, field_type.name()))
            .collect())
    }

    #[expect(
        clippy::type_complexity,
        reason = "number, measurement and tags of a source, once"
    )]
    /// Returns the sources, and true if there are more sources than the limit.
    fn sources(
        &self,
        py: Python<'_>,
        select: &str,
        limit: usize,
    ) -> PyResult<(Vec<(u32, String, Vec<(String, String)>)>, bool)> {
        let (store, selector) = self.select(select)?;
        let list = || -> Result<_, Failure> {
            let found = store.sources(&selector)?;
            let mut sources = Vec::new();
            for source in found.iter().take(limit) {
                if let Some(key) = store.source_key(*source)? {
                    let (measurement, tags) = (key.measurement().to_string(), tags_of(&key));
                    sources.push((source.0, measurement, tags));
                }
            }
            Ok((sources, found.len() > limit))
        };
        Ok(py.detach(list)?)
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let status = py.detach(|| store.status());
        status_dict(py, &status, store.durability())
    }

    /// Deletes samples. Returns the number of sources that the selector matched.
    fn delete(
        &self,
        py: Python<'_>,
        select: &str,
        start: Option<Moment>,
        end: Option<Moment>,
    ) -> PyResult<u64> {
        let (store, selector) = self.select(select)?;
        let interval = interval(start, end)?;
        Ok(py
            .detach(|| store.delete(&selector, interval))
            .map_err(Failure::from)?)
    }

    fn log<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let log = py
            .detach(|| store.with_log().map(|part| part.log()))
            .map_err(Failure::from)?;
        retention::log_dict(py, &log)
    }

    fn decisions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let store = self.store()?;
        let decisions = store.with_log().map_err(Failure::from)?.decisions();
        let dicts = decisions
            .iter()
            .map(|one| retention::decision_dict(py, one));
        dicts.collect()
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store()?;
        Ok(py
            .detach(|| store.with_log()?.commit())
            .map_err(Failure::from)?)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store()?;
        Ok(py
            .detach(|| store.with_log()?.flush())
            .map_err(Failure::from)?)
    }
}

impl Store {
    fn store(&self) -> Result<Arc<dyn seiner_store::Store>, Failure> {
        if self.process != std::process::id() {
            return invalid(
                "this store was opened before the process forked; open one in the child, in another directory",
            );
        }
        self.store
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or(Failure::Closed)
    }

    fn select(&self, select: &str) -> Result<(Arc<dyn seiner_store::Store>, Selector), Failure> {
        Ok((self.store()?, Selector::parse(select)?))
    }

    /// Passes record batches to `append`, some rows at a time.
    fn take<F>(
        &self,
        py: Python<'_>,
        store: &dyn seiner_store::Store,
        data: AnyRecordBatch,
        append: F,
    ) -> PyResult<Counts>
    where
        F: Fn(&RecordBatch, u64, &mut Outcome) -> Result<(), Failure> + Sync,
    {
        let mut reader = data.into_reader()?;
        let mut outcome = Outcome::default();
        let mut first = 0;
        while let Some(batch) = py.detach(|| reader.next()) {
            let batch = batch
                .map_err(|error| Failure::Invalid(format!("the rows cannot be read: {error}")))?;
            for start in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                let piece = batch.slice(start, ROWS_AT_ONCE.min(batch.num_rows() - start));
                py.detach(|| append(&piece, first + start as u64, &mut outcome))?;
                py.check_signals()?;
            }
            first += batch.num_rows() as u64;
        }
        finish(py, store, outcome)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let store = self
            .store
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match store {
            // A forked child must not write to its parent's files.
            Some(store) if self.process != std::process::id() => std::mem::forget(store),
            // An error cannot be reported here.
            Some(store) => drop(store.close()),
            None => {}
        }
    }
}

fn register(
    store: &dyn seiner_store::Store,
    measurement: &str,
    tags: Vec<(String, String)>,
) -> Result<SourceId, Failure> {
    let key = SourceKey::new(measurement, tags).or_else(|error| invalid(error.to_string()))?;
    Ok(store.register(&key)?)
}

/// Waits for the disk if the durability requires it, and returns the counts.
fn finish(py: Python<'_>, store: &dyn seiner_store::Store, outcome: Outcome) -> PyResult<Counts> {
    if store.durability() == Durability::Sync {
        py.detach(|| store.wait_durable(outcome.position))
            .map_err(Failure::from)?;
    }
    Ok((
        outcome.rows,
        outcome.samples,
        outcome.rejected,
        outcome.rejected_total,
    ))
}
