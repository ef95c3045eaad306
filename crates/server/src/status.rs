//! `/status`: the state of the server in JSON, for the page and for scripts.

use crate::device::Device;
use crate::figures::{FIGURES, ProcessFigures};
use crate::station::Station;
use seiner_engine::{ClassStatus, Durability, Status};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// The state now.
pub fn status(station: &Station) -> Value {
    let status = station.engine.status();
    let mut engine: Map<String, Value> = FIGURES
        .iter()
        .map(|figure| (figure.name.to_string(), json!((figure.of)(&status))))
        .collect();
    engine.insert("poisoned".to_string(), json!(status.poisoned));
    let (rows_per_s, samples_per_s) = station.meters.rates();
    let (process, volume) = (ProcessFigures::now(), station.volume());
    let ground = station.ground.as_ref();
    let mut warnings = warnings(&status, &station.engine.classes());
    warnings.extend(ground.map_or_else(Vec::new, |ground| ground.warnings()));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": station.started.elapsed().as_secs_f64(),
        "durability": durability(station.engine.durability()),
        "data_directory": station.place(),
        "array": ground.map(|ground| ground.status()),
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
            "used_by_store_bytes": status.journal_bytes + status.segment_bytes,
            "device": station.history.device().map(|device| &device.name),
            "device_written_bytes": station.history.device().and_then(Device::written),
        },
        "warnings": warnings,
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

/// What somebody should look at, with the remedy.
pub fn warnings(status: &Status, classes: &[ClassStatus]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(why) = &status.poisoned {
        warnings.push(format!(
            "writes are refused until a restart, as one to the disk failed: {why}"
        ));
    }
    if status.damaged_segments > 0 {
        warnings.push(format!(
            "{} segments or blocks are damaged and not served; the log names them, and `seiner check` finds all",
            status.damaged_segments
        ));
    }
    if let Some(why) = &status.ageing_waits {
        warnings.push(format!(
            "samples stay beyond their age, for no coarser steps can be made of them: {why}"
        ));
    }
    warnings.extend(idle_classes(classes));
    warnings
}

/// The classes that have no source, although the store has some.
pub fn idle_classes(classes: &[ClassStatus]) -> Vec<String> {
    let sources: u64 = classes.iter().map(|class| class.sources).sum();
    // The last class has the rest, which may be nothing.
    let rules = classes.iter().filter(|class| class.step_ns.is_none());
    let rules: Vec<&ClassStatus> = rules.collect();
    let idle = rules
        .split_last()
        .map_or(&[] as &[_], |(_, rules)| rules)
        .iter()
        .filter(|class| sources > 0 && class.sources == 0);
    idle.map(|ClassStatus { class, .. }| {
        format!(
            "no source is in the retention class {:?} ({}); see whether its selector is right, or whether a class before \
             it has them all",
            class.name, class.sources
        )
    })
    .collect()
}
