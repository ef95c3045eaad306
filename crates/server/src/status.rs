//! `/status`: the state of the server in JSON, for the page and for scripts.

use crate::device::Device;
use crate::figures::{FIGURES, ProcessFigures};
use crate::health::{surroundings, troubles};
use crate::station::Station;
use seiner_engine::{ClassStatus, Durability, Loss, Status};
use seiner_model::duration_text;
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
    warnings.extend(loss_warning(&station.engine.losses()));
    match ground {
        Some(ground) => warnings.extend(ground.warnings()),
        None => warnings.extend(surroundings(&volume, &process)),
    }
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
            "used_by_store_bytes": status.disk_files,
            "device": station.history.device().map(|device| &device.name),
            "device_written_bytes": station.history.device().and_then(Device::written),
        },
        "warnings": warnings,
        "losses": station.engine.losses().iter().map(loss).collect::<Vec<_>>(),
    })
}

/// A loss that nobody acknowledged. Times are texts, as numbers of this size are not exact in every reader.
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

/// What to say of losses that nobody acknowledged, if there are any.
pub fn loss_warning(losses: &[Loss]) -> Option<String> {
    let first = losses.first()?;
    let count = match losses.len() {
        1 => "data was lost".to_string(),
        count => format!("data was lost in {count} places, at first"),
    };
    Some(format!(
        "{count}: {first}; `/status` lists the losses, and `seiner acknowledge` clears the list"
    ))
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
    let troubles = troubles(status).into_iter();
    let mut warnings: Vec<String> = troubles.map(|trouble| trouble.text).collect();
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
    warnings.extend(clock_warning(status));
    warnings.extend(idle_classes(classes));
    warnings
}

/// Differences between the clock and the time that the store has seen that are told, ns.
const CLOCK_BEHIND: u64 = 300_000_000_000;

/// Whether the host's clock is not what the store goes by, and what to do.
pub fn clock_warning(status: &Status) -> Option<String> {
    let whole = |ns: u64| duration_text(ns / 1_000_000_000 * 1_000_000_000);
    if status.clock_held_ns > 0 {
        return Some(format!(
            "the host's clock jumped ahead by {}, and nothing is let go by it: if the clock is right, confirm it with \
             `seiner clock --accept`; if it is wrong, set it; otherwise it is believed when the store has run for the \
             longest age that the jump exceeds",
            whole(status.clock_held_ns)
        ));
    }
    (status.clock_behind_ns > CLOCK_BEHIND).then(|| {
        format!(
            "the store has seen a time that is {} ahead of the host's clock, and goes by it: samples that are too old by \
             it are hidden and refused; if the clock is wrong, set it; if the clock was wrong before, stop the server and \
             set the store's time back with `seiner clock --data DIR --accept`",
            whole(status.clock_behind_ns)
        )
    })
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
