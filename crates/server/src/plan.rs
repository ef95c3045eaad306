//! `/api/v1/plan`: the planner, for this machine and its data directory.
//!
//! The server does not compute plans. The program that contains a planner implements [`Planner`].

use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::port;
use axum::Json;
use axum::extract::{Query, State};
use procfs::{Current, Meminfo};
use seiner_store::Store;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Field that requests the sensors, fields and rate of this store.
const OWN: &str = "own";

/// Planner: computes configurations and forecasts.
pub trait Planner: Send + Sync {
    /// Parses the fields of the page's form, which have the names of the options of `seiner plan`. Omitted fields have
    /// the values of `host`. With `own`, the sensors, rate and samples are those of the store.
    ///
    /// # Errors
    /// A sentence that names the field and the remedy.
    fn read(
        &self,
        fields: &[(String, String)],
        host: &PlanningHost,
        own: Option<OwnStore>,
    ) -> Result<Box<dyn PlanRequest>, String>;
}

/// Parsed form, for which a plan can be computed.
pub trait PlanRequest: Send {
    /// Computes the plan, which takes seconds.
    ///
    /// # Errors
    /// If the trials of the engine fail, or `is_over` returned true before the end.
    fn plan(&self, is_over: &dyn Fn() -> bool) -> anyhow::Result<PlanReport>;
}

/// Machine of the server: the default for omitted fields.
#[derive(Clone, Debug)]
pub struct PlanningHost {
    /// Memory, bytes.
    pub memory: u64,
    /// Number of processors.
    pub processors: usize,
    /// Free space, with the space of the store, bytes.
    pub free_bytes: u64,
}

/// The running store, from which the planner takes sensors, rate and samples.
#[derive(Clone)]
pub struct OwnStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Accepted rows per second.
    pub rows_per_s: f64,
    /// Accepted samples per second.
    pub samples_per_s: f64,
}

/// Plan, as the page receives it.
#[derive(Clone, Debug, Serialize)]
pub struct PlanReport {
    /// True if the demand fits this machine.
    pub fits: bool,
    /// Number of sensors.
    pub sensors: f64,
    /// Number of fields of each sensor.
    pub fields: u64,
    /// Interval between two rows of a sensor, seconds.
    pub every_s: f64,
    /// Reasons why the demand does not fit.
    pub obstacles: Vec<String>,
    /// Lines of the forecast.
    pub figures: Vec<PlanFigure>,
    /// Changes with which the demand fits.
    pub ways: Vec<PlanChange>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Configuration, for `seiner serve --config`. A demand that does not fit has none.
    pub toml: Option<String>,
}

/// Line of a forecast.
#[derive(Clone, Debug, Serialize)]
pub struct PlanFigure {
    /// Name.
    pub name: String,
    /// Value with its unit.
    pub value: String,
    /// Origin of the value, such as a measurement.
    pub origin: String,
    /// True for a line that only experts need.
    pub is_detail: bool,
}

/// Change of the demand with which it fits.
#[derive(Clone, Debug, Serialize)]
pub struct PlanChange {
    /// Change.
    pub what: String,
    /// Disadvantage of the change.
    pub gives_up: String,
    /// V, the live share of the budget after the change.
    pub v: f64,
    /// Bytes written per second after the change.
    pub written_per_s: f64,
    /// Memory after the change, bytes.
    pub memory: f64,
}

/// Returns a plan. Fields have the names of the options of `seiner plan`: `sensors=1e6&every=10s&keep=1y`. `own=true`
/// takes sensors, rate and samples from this store. Omitted memory, processors and space are those of this machine.
pub async fn plan(
    State(app): State<Arc<AppState>>,
    Query(fields): Query<Vec<(String, String)>>,
) -> Result<Json<PlanReport>, ApiError> {
    let Some(planner) = app.planner.clone() else {
        return Err(ApiError::not_found("this program contains no planner"));
    };
    // Invalid fields are rejected without a permit.
    let request = port::blocking({
        let app = app.clone();
        move || read(&*planner, &app, fields)
    });
    let request = request.await.map_err(ApiError::internal)??;
    let permit = app.plans.acquire()?;
    let (waiting, is_over) = Waiting::begin();
    let plan = port::blocking(move || {
        let _permit = permit;
        request.plan(&is_over)
    });
    let plan = plan.await?.map_err(ApiError::internal)?;
    drop(waiting);
    Ok(Json(plan))
}

/// Client that waits for an answer: a task that is dropped when the client has gone.
struct Waiting(Arc<AtomicBool>);

impl Waiting {
    /// Returns a waiting client, and a function that reports whether it has gone.
    fn begin() -> (Waiting, impl Fn() -> bool) {
        let gone = Arc::new(AtomicBool::new(false));
        (Waiting(gone.clone()), move || gone.load(Relaxed))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Reads the fields, and the store's own figures if they are requested.
fn read(
    planner: &dyn Planner,
    app: &AppState,
    mut fields: Vec<(String, String)>,
) -> Result<Box<dyn PlanRequest>, ApiError> {
    let is_own = fields
        .iter()
        .any(|(name, text)| name == OWN && text == "true");
    fields.retain(|(name, _)| name != OWN);
    let own = is_own.then(|| own_store(app));
    planner
        .read(&fields, &host(app), own)
        .map_err(ApiError::invalid)
}

/// Returns this store with its rates.
fn own_store(app: &AppState) -> OwnStore {
    let (rows_per_s, samples_per_s) = app.traffic.rates();
    OwnStore {
        store: app.store.clone(),
        rows_per_s,
        samples_per_s,
    }
}

/// Returns the figures of this machine. Its space is the free space and the space of the store.
fn host(app: &AppState) -> PlanningHost {
    let status = app.store.status();
    let own = status.journal_bytes + status.segment_bytes;
    PlanningHost {
        memory: Meminfo::current().map_or(0, |memory| memory.mem_total),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get()),
        free_bytes: app.file_system().free_bytes + own,
    }
}
