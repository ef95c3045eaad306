//! Samples of a server.

use crate::export::{Origin, Selection};
use crate::import::table::TableSink;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use crate::target::Open;
use anyhow::{Context, Result, anyhow};
use seiner_model::{Condition, Interval, Matcher, Selector};
use seiner_plan::{Recording, scratch_store};
use seiner_store::Store;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Number of sources that are read, over all measurements.
const SOURCES: u64 = 256;
/// Number of rows after which a source is left.
const ROWS: usize = 16_384;

/// Reads samples of sources of all measurements.
///
/// # Errors
/// If the server cannot be reached, or has too few samples.
pub fn read(address: &str, access: &ServerAccess) -> Result<Recording> {
    let remote = Remote::new(address, access)?;
    let found: Vec<Value> = fetch(&remote, "/api/v1/summary", &[])?;
    let number = |one: &Value| one["sources"].as_u64().unwrap_or_default();
    let all: u64 = found.iter().map(number).sum();
    let mut reader = Reader {
        store: scratch_store()?,
        origin: Origin::Server(Remote::new(address, access)?),
    };
    for one in &found {
        let Some(measurement) = one["measurement"].as_str() else {
            continue;
        };
        // Each measurement is read in proportion to its number of sources.
        let share = (number(one) * SOURCES).div_ceil(all.max(1));
        for matchers in sources(&remote, measurement, share)? {
            reader.read(measurement, matchers)?;
        }
    }
    let mut recording = Recording::read(address, &*reader.store, None)?;
    recording.all_sources = all;
    Ok(recording)
}

/// Reader of single sources.
struct Reader {
    store: Arc<dyn Store>,
    origin: Origin,
}

impl Reader {
    /// Copies the first rows of a source into the store of the reader.
    fn read(&mut self, measurement: &str, matchers: Vec<Matcher>) -> Result<()> {
        let selector = Selector {
            measurement: None,
            matchers,
        };
        let selection = Selection {
            selector: &selector,
            fields: None,
            measurement,
            interval: Interval::ALL,
        };
        let mut sink = TableSink::new(Open::Store(self.store.clone()));
        let mut rows = 0;
        let read = self.origin.rows(&selection, &mut |batch| {
            let mut file = sink.begin(&batch.schema())?;
            file.take(&batch, &mut |_, _| ())?;
            rows += batch.num_rows();
            match rows < ROWS {
                true => Ok(()),
                false => Err(anyhow!("there are enough rows")),
            }
        });
        match rows < ROWS {
            true => read,
            // The error above ended the answer.
            false => Ok(()),
        }
    }
}

/// Returns the tags of some sources of a measurement, as conditions.
fn sources(remote: &Remote, measurement: &str, limit: u64) -> Result<Vec<Vec<Matcher>>> {
    let parameters = [
        ("select", format!("{measurement:?}")),
        ("limit", limit.to_string()),
    ];
    let answer: Value = fetch(remote, "/api/v1/sources", &parameters)?;
    let sources = answer["sources"].as_array().into_iter().flatten();
    let conditions = sources.map(|source| {
        let tags = source["tags"].as_object().into_iter().flatten();
        tags.map(|(tag, value)| Matcher {
            tag: tag.clone(),
            condition: Condition::Is(value.as_str().unwrap_or_default().to_string()),
        })
        .collect()
    });
    Ok(conditions.collect())
}

/// Sends a GET request and returns the JSON of the answer.
fn fetch<T: DeserializeOwned>(
    remote: &Remote,
    path: &str,
    parameters: &[(&str, String)],
) -> Result<T> {
    let answer = remote.get(path, parameters)?;
    serde_json::from_reader(answer).with_context(|| format!("the answer of {path} is incomplete"))
}
