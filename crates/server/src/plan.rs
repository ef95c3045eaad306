//! `/api/v1/plan`: the planner, for this machine and its data directory.

use crate::refusal::Refusal;
use crate::station::Station;
use axum::Json;
use axum::extract::{Query, State};
use procfs::{Current, Meminfo};
use seiner_plan::form::{self, Surroundings};
use seiner_plan::{Calibration, Demand, Disk, Observed, StorePlan};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Field that requests the sensors, fields and rate of this store.
const OWN: &str = "own";

/// Returns a plan. Fields have the names of the options of `seiner plan`: `sensors=1e6&every=10s&keep=1y`. `own=true` takes
/// sensors, fields and rate from this store. Omitted memory, processors and space are those of this
/// machine.
pub async fn plan(
    State(station): State<Arc<Station>>,
    Query(fields): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, Refusal> {
    // Invalid fields are refused without a place.
    let asked = tokio::task::spawn_blocking({
        let station = station.clone();
        move || Asked::read(&station, fields)
    });
    let asked = asked.await.map_err(Refusal::internal)??;
    let place = station.plans.enter()?;
    let (waiting, is_over) = Waiting::begin();
    let answer = tokio::task::spawn_blocking(move || {
        let _place = place;
        make(&asked, &is_over)
    });
    let answer = answer.await.map_err(Refusal::internal)?;
    drop(waiting);
    answer
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
struct Asked {
    demand: Demand,
    own: Option<Observed>,
}

impl Asked {
    fn read(station: &Station, mut fields: Vec<(String, String)>) -> Result<Asked, Refusal> {
        let is_own = fields
            .iter()
            .any(|(name, text)| name == OWN && text == "true");
        fields.retain(|(name, _)| name != OWN);
        if is_own {
            fields.retain(|(name, _)| !["sensors", "every", "fields"].contains(&name.as_str()));
            // A placeholder until the store's own figures replace it.
            fields.push(("sensors".to_string(), "1".to_string()));
        }
        let pairs = fields
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        let mut demand = form::read(pairs, &surroundings(station)).map_err(Refusal::invalid)?;
        let own = is_own.then(|| observed(station));
        if let Some(own) = &own {
            own.fill(&mut demand).map_err(Refusal::invalid)?;
            demand.check().map_err(Refusal::invalid)?;
        }
        Ok(Asked { demand, own })
    }
}

fn make(asked: &Asked, is_over: &dyn Fn() -> bool) -> Result<Json<Value>, Refusal> {
    let Asked { demand, own } = asked;
    let mut calibration = Calibration::make_until(demand, is_over).map_err(Refusal::internal)?;
    if let Some(own) = own {
        own.correct(&mut calibration);
    }
    if is_over() {
        return Err(Refusal::unavailable("the plan was given up"));
    }
    let plan = StorePlan::make(demand, &calibration);
    let figure = |figure: &seiner_plan::Figure| {
        json!({
            "name": figure.name.trim(),
            "value": figure.value,
            "origin": figure.origin.to_string(),
        })
    };
    let way = |way: &seiner_plan::Alternative| {
        json!({
            "what": way.what,
            "gives_up": way.gives_up,
            "v": way.live,
            "written_per_s": way.written_per_s,
            "memory": way.memory,
        })
    };
    Ok(Json(json!({
        "fits": plan.obstacles.is_empty(),
        "sensors": demand.sensors,
        "fields": demand.fields,
        "every_s": demand.every_s,
        "obstacles": plan.obstacles,
        "figures": plan.figures.iter().map(figure).collect::<Vec<_>>(),
        "ways": plan.alternatives.iter().map(way).collect::<Vec<_>>(),
        "warnings": plan.warnings,
        "toml": plan.to_toml(),
    })))
}

/// Returns the figures of this store.
fn observed(station: &Station) -> Observed {
    let status = station.store.status();
    Observed {
        sources: status.sources as f64,
        series: status.series as f64,
        rows_per_s: station.meters.rates().0,
        samples_sealed: status.samples_sealed as f64,
        blocks_sealed: status.blocks_sealed as f64,
        block_bytes_sealed: status.block_bytes_sealed as f64,
    }
}

/// Returns the figures of this machine. Its space is the free space and the space of the store.
fn surroundings(station: &Station) -> Surroundings {
    let status = station.store.status();
    let volume = station.volume();
    let own = status.journal_bytes + status.segment_bytes;
    Surroundings {
        ram: Meminfo::current().map_or(0.0, |memory| memory.mem_total as f64),
        processors: std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64),
        disk: Disk {
            name: "the data directory".to_string(),
            free_bytes: (volume.free_bytes + own) as f64,
            ..Disk::default()
        },
    }
}
