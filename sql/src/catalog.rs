//! Schema `public`: one table per measurement of the server. Names are read when a query needs them, and kept for a
//! few seconds.

use crate::client::{Client, error};
use crate::columns::Columns;
use crate::pushdown::quoted;
use crate::table::Measurement;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which names are kept.
const KEPT: Duration = Duration::from_secs(3);
/// Number of measurements whose columns are kept.
const KEPT_TABLES: usize = 1000;

/// Field as the server lists it.
#[derive(Debug, Deserialize)]
struct ListedField {
    name: String,
    #[serde(rename = "type")]
    field_type: String,
}

#[derive(Debug, Default)]
struct Kept {
    measurements: Option<(Instant, Vec<String>)>,
    columns: HashMap<String, (Instant, Columns)>,
}

/// Measurements of a server.
#[derive(Debug)]
pub struct Catalog {
    client: Client,
    kept: Mutex<Kept>,
}

impl Catalog {
    /// Returns the measurements of the server.
    pub fn new(client: Client) -> Catalog {
        Catalog {
            client,
            kept: Mutex::default(),
        }
    }

    /// Returns the client of the server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of all measurements.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn measurements(&self) -> Result<Vec<String>> {
        if let Some((read, names)) = &self.kept().measurements
            && read.elapsed() < KEPT
        {
            return Ok(names.clone());
        }
        let names: Vec<String> = self.client.json("/api/v1/measurements", &[]).await?;
        self.kept().measurements = Some((Instant::now(), names.clone()));
        Ok(names)
    }

    /// Returns the columns of a measurement; `None` if the server has no such measurement.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn columns(&self, measurement: &str) -> Result<Option<Columns>> {
        if let Some((read, columns)) = self.kept().columns.get(measurement)
            && read.elapsed() < KEPT
        {
            return Ok(Some(columns.clone()));
        }
        let select = format!("{}{{}}", quoted(measurement));
        let select = [("select", select.as_str())];
        let fields: Vec<ListedField> = self.client.json("/api/v1/fields", &select).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let tags: Vec<String> = self.client.json("/api/v1/tags", &select).await?;
        let fields: Vec<(String, String)> = fields
            .into_iter()
            .map(|field| (field.name, field.field_type))
            .collect();
        let columns = Columns::new(&tags, &fields);
        let mut kept = self.kept();
        if kept.columns.len() >= KEPT_TABLES {
            kept.columns.clear();
        }
        kept.columns
            .insert(measurement.to_string(), (Instant::now(), columns.clone()));
        Ok(Some(columns))
    }
}

/// Returns whether two names differ only in capital letters.
pub fn is_other_case(known: &str, name: &str) -> bool {
    known != name && known.to_lowercase() == name.to_lowercase()
}

/// Returns the text of an error for a name that differs from a known one only in capital letters. SQL changes names
/// without quotes to small letters.
pub fn quotes_hint(kind: &str, name: &str, known: &str) -> String {
    format!(
        "there is no {kind} \"{name}\", but \"{known}\"; write double quotes around names with capital letters"
    )
}

/// Runs a request to its end on a thread that is allowed to block.
pub fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}

#[async_trait]
impl SchemaProvider for Catalog {
    fn table_names(&self) -> Vec<String> {
        // The trait has no errors here. A query that reads a table reports them.
        wait(self.measurements()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let columns = self.columns(name).await?;
        if columns.is_none() {
            let names = self.measurements().await?;
            if let Some(known) = names.iter().find(|known| is_other_case(known, name)) {
                return Err(error(quotes_hint("table", name, known)));
            }
        }
        let table = |columns| {
            Arc::new(Measurement::new(self.client.clone(), name, columns)) as Arc<dyn TableProvider>
        };
        Ok(columns.map(table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
