//! Source of exported rows: a server, or a directory.

use crate::arrow_stream::{BatchWriter, TakeBatch};
use crate::remote::Remote;
use anyhow::{Context, Result, anyhow};
use seiner_model::{Interval, Selector};
use seiner_server::query::{LOSSES, Parameters, QueryPlan, write_answer};
use seiner_store::{Error, Step, Store};
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Address of queries.
const QUERY: &str = "/api/v1/query";

/// An opened source of rows.
pub enum Origin {
    /// A server.
    Server(Remote),
    /// A store in this process.
    Directory(Arc<dyn Store>),
}

/// Rows of one measurement in an interval.
pub struct Selection<'a> {
    /// Selector of the export, whose measurement is replaced.
    pub selector: &'a Selector,
    /// Names of fields, separated by commas; `None` for all.
    pub fields: Option<&'a str>,
    /// Measurement of the rows.
    pub measurement: &'a str,
    pub interval: Interval,
}

impl Selection<'_> {
    fn parameters(&self) -> Parameters {
        let selector = Selector {
            measurement: Some(self.measurement.to_string()),
            matchers: self.selector.matchers.clone(),
        };
        Parameters {
            select: Some(selector.to_string()),
            fields: self.fields.map(str::to_string),
            from: Some(moment(self.interval.start)),
            to: Some(moment(self.interval.end)),
            ..Parameters::default()
        }
    }
}

impl Origin {
    /// Returns the measurements that a selector may select.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn measurements(&self, selector: &Selector) -> Result<Vec<String>> {
        if let Some(measurement) = &selector.measurement {
            return Ok(vec![measurement.clone()]);
        }
        match self {
            Origin::Directory(store) => Ok(store.measurements()?),
            Origin::Server(remote) => {
                let answer = remote.get("/api/v1/measurements", &[])?;
                serde_json::from_reader(answer).context("the list of measurements is incomplete")
            }
        }
    }

    /// Returns true if the selection has rows, or data that are damaged. Reads aggregates of blocks, where possible.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn has_rows(&self, selection: &Selection<'_>) -> Result<bool> {
        let parameters = selection.parameters();
        match self {
            Origin::Directory(store) => {
                let query = plan(&parameters)?.query;
                let mut series = store.aggregate(&query, Step::Whole, None)?;
                match series.next() {
                    Some(Err(Error::Damage { .. })) => Ok(true),
                    Some(Err(error)) => Err(error.into()),
                    found => Ok(found.is_some()),
                }
            }
            Origin::Server(remote) => {
                let parameters = Parameters {
                    points: Some("1".to_string()),
                    aggregate: Some("count".to_string()),
                    limit: Some("1".to_string()),
                    ..parameters
                };
                let ([losses], answer) = remote.get_with(QUERY, &parameters.pairs(), [LOSSES])?;
                let answer: Value = serde_json::from_reader(answer)
                    .context("an answer of the server is incomplete")?;
                // The warnings are the losses, which say nothing about these rows, and damaged data.
                let losses = losses.and_then(|count| count.parse().ok()).unwrap_or(0);
                let warnings = answer["warnings"].as_array().map_or(0, Vec::len);
                Ok(answer["series"][0].is_object() || warnings > losses)
            }
        }
    }

    /// Returns true if the source answers at all.
    pub fn is_alive(&self) -> bool {
        match self {
            Origin::Directory(_) => true,
            Origin::Server(remote) => remote.get("/ping", &[]).is_ok(),
        }
    }

    /// Reads the rows of a selection in the wide shape, and passes each record batch to a function.
    ///
    /// # Errors
    /// If the source cannot be read, and the errors of the function.
    pub fn rows(&self, selection: &Selection<'_>, batch: &mut TakeBatch<'_>) -> Result<()> {
        let parameters = Parameters {
            format: Some("arrow".to_string()),
            shape: Some("wide".to_string()),
            ..selection.parameters()
        };
        let mut failed = None;
        let mut keep_error = |rows| {
            batch(rows).map_err(|error| {
                // The copy below returns its errors as `io::Error`, without the chain of reasons.
                failed = Some(error);
                anyhow!("the rows were not taken")
            })
        };
        let mut writer = BatchWriter::new(&mut keep_error);
        let copied = match self {
            Origin::Directory(store) => {
                let plan = plan(&parameters)?;
                let answered = write_answer(&**store, &plan, &mut writer, Arc::new(|| false));
                answered.map(|_| ())
            }
            Origin::Server(remote) => {
                let mut answer = remote.get(QUERY, &parameters.pairs())?;
                io::copy(&mut answer, &mut writer).map(|_| ())
            }
        };
        let finished = copied
            .context("the answer broke off")
            .and_then(|()| writer.finish());
        match failed {
            Some(error) => Err(error),
            None => finished,
        }
    }
}

/// Returns a time in the notation of queries. A negative number with a unit would be an offset.
fn moment(time: i64) -> String {
    match time < 0 {
        true => time.to_string(),
        false => format!("{time}ns"),
    }
}

fn plan(parameters: &Parameters) -> Result<QueryPlan> {
    QueryPlan::read(parameters, seiner_server::ingest::now())
        .map_err(|rejection| anyhow!("{rejection}"))
}
