//! `/status`: the state of the server in JSON, for the page and for scripts.

use crate::app_state::AppState;
use crate::device::Device;
use crate::renamed::old_name;
use crate::store_metrics::STORE_METRICS;
use crate::system::ProcessStats;
use seiner_store::{Durability, Loss};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// Returns the present state.
pub fn status(app: &AppState) -> Value {
    let status = app.store.status();
    let mut engine = Map::new();
    for metric in STORE_METRICS {
        let value = json!((metric.of)(&status));
        if let Some(old) = old_name(metric.key) {
            engine.insert(old.to_string(), value.clone());
        }
        engine.insert(metric.key.to_string(), value);
    }
    engine.insert("poisoned".to_string(), json!(status.poisoned));
    let (rows_per_s, samples_per_s) = app.traffic.rates();
    let (process, file_system) = (ProcessStats::now(), app.file_system());
    let troubles = app.troubles(&status, &app.store.classes());
    let warnings: Vec<&String> = troubles.iter().map(|trouble| &trouble.text).collect();
    let rejected_requests = app.traffic.rejected_requests.load(Relaxed);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": app.started.elapsed().as_secs_f64(),
        "durability": durability(app.store.durability()),
        "data_directory": app.location(),
        "array": app.array(),
        "cluster": app.cluster.as_ref().map(|cluster| cluster.status()),
        "engine": engine,
        "ingest": {
            "rows_per_s": rows_per_s,
            "samples_per_s": samples_per_s,
            "rows": app.traffic.total(|protocol| &protocol.rows),
            "samples": app.traffic.total(|protocol| &protocol.samples),
            "rejected_lines": app.traffic.total(|protocol| &protocol.rejected),
            "requests_in_flight": app.writes.in_use(),
            "queries_in_flight": app.queries.in_use(),
            "rejected_requests": rejected_requests,
            // The old key.
            "turned_away": rejected_requests,
        },
        "mqtt": app.mqtt.status(),
        "scrape": app.scrape.status(),
        "statsd": app.statsd.status(),
        "process": {
            "rss_bytes": process.rss_bytes,
            "cpu_s": process.cpu_s,
            "written_bytes": process.written_bytes,
        },
        "disk": {
            "total_bytes": file_system.total_bytes,
            "free_bytes": file_system.free_bytes,
            "used_by_store_bytes": status.disk_files,
            "device": app.history.device().map(|device| &device.name),
            "device_written_bytes": app.history.device().and_then(Device::written),
        },
        "warnings": warnings,
        "troubles": troubles,
        "losses": app.store.losses().iter().map(loss).collect::<Vec<_>>(),
    })
}

/// Unacknowledged loss. Times are texts, because not every reader keeps numbers of this size exact.
fn loss(loss: &Loss) -> Value {
    let (from, to) = loss.times.unzip();
    json!({
        "file": loss.file,
        "what": loss.what,
        "rows": loss.rows,
        "at_most": loss.at_most,
        "from": from.map(|time| time.to_string()),
        "to": to.map(|time| time.to_string()),
        "found_at": loss.found_at.to_string(),
    })
}

fn durability(durability: Durability) -> Value {
    match durability {
        Durability::Sync => json!({ "mode": "sync" }),
        Durability::Interval(interval) => {
            json!({ "mode": "interval", "interval_ms": interval.as_millis() as u64 })
        }
        Durability::Memory => json!({ "mode": "memory" }),
    }
}
