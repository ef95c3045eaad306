//! `/status`: the state of the server in JSON, for the page and for scripts.

use crate::device::Device;
use crate::figures::{FIGURES, ProcessFigures};
use crate::station::Station;
use seiner_store::{Durability, Loss};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// Returns the present state.
pub fn status(station: &Station) -> Value {
    let status = station.store.status();
    let mut engine: Map<String, Value> = FIGURES
        .iter()
        .map(|figure| (figure.name.to_string(), json!((figure.of)(&status))))
        .collect();
    engine.insert("poisoned".to_string(), json!(status.poisoned));
    let (rows_per_s, samples_per_s) = station.meters.rates();
    let (process, volume) = (ProcessFigures::now(), station.volume());
    let troubles = station.troubles(&status, &station.store.classes());
    let warnings: Vec<&String> = troubles.iter().map(|trouble| &trouble.text).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": station.started.elapsed().as_secs_f64(),
        "durability": durability(station.store.durability()),
        "data_directory": station.place(),
        "array": station.array(),
        "engine": engine,
        "ingest": {
            "rows_per_s": rows_per_s,
            "samples_per_s": samples_per_s,
            "rows": station.meters.rows.load(Relaxed),
            "samples": station.meters.samples.load(Relaxed),
            "rejected_lines": station.meters.rejected_lines.load(Relaxed),
            "requests_in_flight": station.writes.taken(),
            "queries_in_flight": station.queries.taken(),
            "turned_away": station.meters.turned_away.load(Relaxed),
        },
        "process": {
            "rss_bytes": process.rss_bytes,
            "cpu_s": process.cpu_s,
            "written_bytes": process.written_bytes,
        },
        "disk": {
            "total_bytes": volume.total_bytes,
            "free_bytes": volume.free_bytes,
            "used_by_store_bytes": status.disk_files,
            "device": station.history.device().map(|device| &device.name),
            "device_written_bytes": station.history.device().and_then(Device::written),
        },
        "warnings": warnings,
        "troubles": troubles,
        "losses": station.store.losses().iter().map(loss).collect::<Vec<_>>(),
    })
}

/// Loss that nobody has acknowledged. Times are texts, because not every reader keeps numbers of this size exact.
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
