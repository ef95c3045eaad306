//! `soak`: a small volume, nearly full, overwritten hundreds of times.

mod rival;

use crate::log::load::{StoreLoad, Values};
use crate::log::store::ThreadedStore;
use crate::log::stream::Stream;
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::volume::Volume;
use anyhow::Result;
use clap::Args;
use rival::{Fared, Task, watching};
use seiner_engine::MergePolicy;
use serde::Serialize;
use serde_json::json;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Settings of `soak`.
#[derive(Args)]
pub struct SoakSettings {
    /// Size of the volume, in MiB
    #[arg(long, default_value_t = 2048)]
    volume: u64,
    /// Multiples of the volume to store. The bound applies to 200, which takes an hour or more; use 3
    /// for a quick look
    #[arg(long, default_value_t = 201.0)]
    turns: f64,
    /// Live share of the volume
    #[arg(long, default_value_t = 0.8)]
    live: f64,
    /// Other servers that get the same rows (as floats) on a volume of the same size:
    /// influxdb,victoriametrics
    #[arg(long, default_value = "")]
    peers: String,
    /// Multiples of the volume that the other servers must store
    #[arg(long, default_value_t = 4.0)]
    peer_turns: f64,
}

/// Fill at which merging begins, Um.
const MERGE_FROM: f64 = 0.96;
/// Bytes per text. Such large rows and blocks make the disk work more than the processor.
const TEXT_BYTES: u32 = 8192;
const BLOCK_BYTES: u32 = 64 << 10;
/// Number of points in the table.
const POINTS: u32 = 20;

/// State at one moment.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// Multiples of the volume stored so far.
    turns: f64,
    u: f64,
    v: f64,
    /// MB of blocks per second since the point before.
    rate: f64,
    /// Blocks written per block stored, so far.
    written: f64,
}

const PURPOSE: &str = "One store with its threads, the system's clock and a disk budget, interval durability. Rings of 50 \
    blocks of 64 KiB, lognormal rates (σ = 0.5). Each row is a random text of 8 KiB that does not compress, so that much is written for little \
    processor time. The store is overwritten at full speed. A separate thread measures the size of the directory (allocated \
    blocks of all its files) twenty times per second.";
const PEERS_PURPOSE: &str = "Stores that get the same rows, in the same order, on a small volume each: lognormal rates \
    (σ = 0.5), one float between 1 and 2 with 52 random bits per row, with the current time. Ours is embedded, with the volume as its disk \
    budget, rings of 50 blocks of 4 KiB for each source, and interval durability. The others have no such budget, \
    only retention by age, set to the shortest that they accept. They get line protocol over HTTP on loopback, about ten thousand \
    rows per request. So only space and failures are compared, not rates. Where possible, the volume is a file system of its own in memory, as large \
    as the budget. After the first failure a server is offered rows for 10 s more. Then its \
    volume is enlarged by a quarter, and the benchmark checks if the server accepts rows again. Otherwise the volume is a folder, and a server that \
    takes more than 1.2 of the budget is stopped. The size on the volume is measured twenty times per second. A turn is the number of rows \
    that fill the volume once in our blocks.";

/// Runs the benchmark.
pub fn run(settings: &SoakSettings, places: &OutputPaths) -> Result<()> {
    let peers = rival::named(&settings.peers)?;
    let (name, purpose) = match peers.is_empty() {
        true => ("soak", PURPOSE),
        false => ("soak-peers", PEERS_PURPOSE),
    };
    let mut report = Report::new(name, purpose);
    std::fs::create_dir_all(&places.output)?;
    for peer in &peers {
        let version = peer.version()?;
        report.versions.insert(peer.name().to_string(), version);
    }
    let load = load(settings, !peers.is_empty());
    let budget = load.budget;
    let folder = tempfile::tempdir_in(&places.output)?;
    let own = store(
        settings,
        &load,
        !peers.is_empty(),
        folder.path(),
        &mut report,
    )?;
    let mut fared = Vec::new();
    for peer in &peers {
        let task = Task {
            rows: (settings.peer_turns * budget as f64 / own.row_bytes) as u64,
            budget,
            row_bytes: own.row_bytes,
            output: folder.path(),
        };
        fared.push(rival::run(peer.as_ref(), Stream::new(&load), &task)?);
    }
    if !peers.is_empty() {
        report.tables.push(beside(&own, &fared, budget));
        report.notes.extend(fared.iter().map(words));
    }
    report.measured = json!({ "budget": budget, "own": own, "peers": fared });
    report.finish(places)
}

/// Returns the load: texts if our store is alone, floats if other servers get the same rows.
fn load(settings: &SoakSettings, with_peers: bool) -> StoreLoad {
    let budget = settings.volume << 20;
    let rings = StoreLoad::rings(budget, settings.live, 0.5, MergePolicy::default());
    let load = match with_peers {
        false => StoreLoad {
            values: Values::Texts(TEXT_BYTES),
            ..rings.with_blocks(BLOCK_BYTES)
        },
        true => StoreLoad {
            values: Values::Fractions,
            ..rings
        },
    };
    StoreLoad {
        merge_from: MERGE_FROM,
        ..load
    }
}

/// Results of our store.
#[derive(Clone, Debug, Serialize)]
struct Own {
    points: Vec<Point>,
    rows: u64,
    row_bytes: f64,
    stored: f64,
    most: u64,
    failed: Option<String>,
}

/// Feeds our store and checks the results.
fn store(
    settings: &SoakSettings,
    load: &StoreLoad,
    mounted: bool,
    output: &std::path::Path,
    report: &mut Report,
) -> Result<Own> {
    let budget = load.budget;
    let volume = match mounted {
        true => Some(Volume::make(output.join("volume"), budget)?),
        false => None,
    };
    let output = volume.as_ref().map_or(output, |volume| volume.path());
    let journal = (budget / 32).clamp(64 << 10, 128 << 20);
    let mut store = ThreadedStore::start(load, budget, Some(journal), output)?;
    let folder = store.folder().to_path_buf();
    let most = AtomicU64::new(0);
    let mut points = Vec::new();
    let began = Instant::now();
    let (fed, samples) = watching(&folder, &most, || {
        let part = (budget as f64 * settings.turns / f64::from(POINTS)) as u64;
        for _ in 0..POINTS {
            let start = Instant::now();
            store.feed(part)?;
            points.push(point(
                &store,
                budget,
                part as f64 / start.elapsed().as_secs_f64() / 1e6,
            ));
        }
        anyhow::Ok(())
    });
    let status = store.status();
    let own = Own {
        points,
        rows: status.rows_accepted,
        row_bytes: store.row_bytes(),
        stored: status.block_bytes_sealed as f64 / budget as f64,
        most: most.into_inner(),
        failed: fed.err().map(|error| format!("{error:#}")),
    };
    let on = match &volume {
        Some(volume) if volume.is_own() => ", a file system of its own",
        Some(_) => ", a folder: no file system could be mounted",
        None => "",
    };
    report.notes.push(format!(
        "volume {} MiB{on}, V = {}, Um = {MERGE_FROM}; {:.0} s; {samples} measurements of the directory{}",
        settings.volume,
        settings.live,
        began.elapsed().as_secs_f64(),
        own.failed
            .as_ref()
            .map_or(String::new(), |why| format!("; failed: {why}"))
    ));
    report.tables.push(table(&own.points));
    report.checks = checks(&own, budget, if mounted { settings.turns } else { 200.0 });
    Ok(own)
}

fn checks(own: &Own, budget: u64, turns: f64) -> Vec<Check> {
    let later = own.points.iter().skip(own.points.len() / 2);
    let least_u = later.map(|point| point.u).fold(1.0, f64::min);
    let most = own.most as f64 / budget as f64;
    let failed = f64::from(u8::from(own.failed.is_some()));
    let at_most = Relation::AtMost;
    vec![
        Check::new(
            "multiples of the volume stored",
            Some(own.stored),
            Relation::AtLeast,
            Some(turns),
            "",
        ),
        Check::new(
            "maximum size of the directory, of its budget",
            Some(most),
            at_most,
            Some(1.0),
            "",
        ),
        Check::new(
            "minimum used share in the second half",
            Some(least_u),
            Relation::AtLeast,
            Some(0.95),
            "",
        ),
        Check::new(
            "batches that were not acknowledged",
            Some(failed),
            at_most,
            Some(0.0),
            "",
        ),
    ]
}

/// Returns the table of our store and the others.
fn beside(own: &Own, fared: &[Fared], budget: u64) -> Table {
    let mut table = Table::new(
        "The same rows on volumes of the same size",
        &[
            "store",
            "rows offered, millions",
            "acknowledged, millions",
            "requests that failed",
            "turns before the first failure",
            "maximum size, of the budget",
            "acknowledged when full, millions",
            "accepts rows again when there is space",
            "after a restart",
        ],
    );
    let millions = |rows: u64| cell(Some(rows as f64 / 1e6));
    let share = |most: u64| cell(Some(most as f64 / budget as f64));
    let yes = |yes: Option<bool>| {
        yes.map_or("–", |yes| if yes { "yes" } else { "no" })
            .to_string()
    };
    let none = match own.failed {
        Some(_) => cell(Some(own.stored)),
        None => format!("none in {}", cell(Some(own.stored))),
    };
    table.rows.push(vec![
        "Seiner".to_string(),
        millions(own.rows),
        millions(own.rows),
        u8::from(own.failed.is_some()).to_string(),
        none,
        share(own.most),
        "–".to_string(),
        "–".to_string(),
        "–".to_string(),
    ]);
    for one in fared {
        let turns = one
            .turns
            .map_or("none".to_string(), |turns| cell(Some(turns)));
        table.rows.push(vec![
            one.server.clone(),
            millions(one.rows_offered),
            millions(one.rows_acknowledged),
            one.requests_failed.to_string(),
            turns,
            share(one.most),
            millions(one.acknowledged_when_full),
            yes(one.accepts_again),
            yes(one.after_restart),
        ]);
    }
    table
}

/// Describes the end of another server's run.
fn words(fared: &Fared) -> String {
    let error = match &fared.first_error {
        Some(why) => format!("; the first request that failed: {why}"),
        None => String::new(),
    };
    let ended = if fared.ended {
        "; the server had already exited"
    } else {
        ""
    };
    format!(
        "{}: {:.0} s, {}{ended}{error}",
        fared.server, fared.seconds, fared.end
    )
}

fn point(store: &ThreadedStore, budget: u64, rate: f64) -> Point {
    let (log, status) = (store.log(), store.status());
    Point {
        turns: status.block_bytes_sealed as f64 / budget as f64,
        u: log.fill.u(),
        v: log.fill.v(),
        rate,
        written: log.write_amplification(),
    }
}

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "Course of the run",
        &[
            "stored, of the volume",
            "U",
            "V",
            "MB/s",
            "written per byte stored (blocks)",
        ],
    );
    for point in points {
        let figures = [point.turns, point.u, point.v, point.rate, point.written];
        table
            .rows
            .push(figures.map(|figure| cell(Some(figure))).to_vec());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short soak that runs with the tests. The benchmark is the long soak.
    #[test]
    fn a_small_volume_that_is_overwritten_stays_within_its_budget() {
        let settings = SoakSettings {
            volume: 64,
            turns: 6.0,
            live: 0.7,
            peers: String::new(),
            peer_turns: 0.0,
        };
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new("soak", PURPOSE);
        let load = load(&settings, false);
        let own = store(&settings, &load, false, folder.path(), &mut report).unwrap();
        assert_eq!(own.failed, None);
        assert!(own.stored >= settings.turns, "{}", own.stored);
        assert!(own.most <= load.budget, "{} bytes", own.most);
        // Checks that the store was full enough for the test to be meaningful.
        assert!(own.most >= load.budget / 10 * 9, "{} bytes", own.most);
    }
}
