//! `amplification`: bytes written to the device for each byte of sealed blocks.

use crate::client::Connection;
use crate::feed::feed_generated;
use crate::peer::seiner::Seiner;
use crate::peer::{self, Peer};
use crate::process::{DiskUse, device_written};
use crate::report::{Check, OutputPaths, Relation, Report, Table, cell};
use crate::workload::Workload;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Settings of `amplification`.
#[derive(Args)]
pub struct AmplificationSettings {
    /// Share of the samples to load, for a quick look; bounds apply to 1
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Number of connections, each for its own share of the hosts
    #[arg(long, default_value_t = 2)]
    agents: u32,
    /// Lines per request body
    #[arg(long, default_value_t = 10_000)]
    lines: u64,
    /// Path of our server
    #[arg(long, default_value = "target/release/seiner")]
    seiner: PathBuf,
}

/// Bytes written by one load.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    workload: String,
    durability: &'static str,
    samples: u64,
    /// Bytes that the server's process wrote (`write_bytes` of /proc/PID/io).
    process_written: u64,
    /// Bytes that all programs wrote to the block device during the load.
    device_written: Option<u64>,
    /// Bytes of all sealed blocks.
    block_bytes_sealed: u64,
    /// Bytes allocated in the data folder at the end.
    disk_allocated: u64,
    /// Status of the server at the end.
    status: Value,
}

const PURPOSE: &str = "Bytes written to disk, including journal and footers, per byte of sealed blocks. The server \
    is fed over HTTP at full speed, then flushed and synced. The bytes written are the kernel's count for the \
    server's process. The count of the whole block device, beside it, includes the file system's \
    journal and the writes of other programs.";

/// Runs the benchmark.
pub fn run(settings: &AmplificationSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("amplification", PURPOSE);
    report
        .versions
        .insert("Seiner".into(), Seiner::new(&settings.seiner).version()?);
    report.notes.push(format!(
        "{} connections, bodies of {} lines, generated while they are sent, scale {}",
        settings.agents, settings.lines, settings.scale
    ));
    std::fs::create_dir_all(&places.output)?;
    let long = Workload {
        name: "a, four times as long",
        ticks: 10_000,
        ..Workload::named('a').context("workload a")?
    };
    let wide = Workload::named('d').context("workload d")?;
    let mut measured = Vec::new();
    for workload in [long, wide] {
        for durability in ["interval", "memory"] {
            let one = measure(
                settings,
                &workload.clone().scaled(settings.scale),
                durability,
                &places.output,
            )?;
            eprintln!(
                "{} {durability}: {}",
                one.workload,
                cell(Some(one.amplification()))
            );
            measured.push(one);
        }
    }
    report.tables.push(table(&measured));
    report.checks = checks(&measured);
    report.measured = json!({ "scale": settings.scale, "loads": measured });
    report.finish(places)
}

impl Measured {
    fn amplification(&self) -> f64 {
        self.process_written as f64 / self.block_bytes_sealed as f64
    }
}

fn measure(
    settings: &AmplificationSettings,
    workload: &Workload,
    durability: &'static str,
    output: &Path,
) -> Result<Measured> {
    let peer = Seiner {
        durability,
        ..Seiner::new(&settings.seiner)
    };
    let folder = tempfile::tempdir_in(output)?;
    // Earlier writes of other programs must not reach the device during the measurement.
    rustix::fs::sync();
    let device_before = device_written(folder.path());
    let server = peer::start(&peer, folder.path())?;
    feed_generated(
        server.address,
        peer.write_target(),
        workload,
        settings.agents,
        settings.lines,
    )
    .with_context(|| server.log_tail())?;
    let mut connection = Connection::open(server.address)?;
    peer.flush(&mut connection, folder.path())?;
    rustix::fs::sync();
    let status = Seiner::status(&mut connection)?;
    let measured = Measured {
        workload: workload.describe(),
        durability,
        samples: workload.samples(),
        process_written: server.usage()?.written,
        device_written: device_written(folder.path())
            .zip(device_before)
            .map(|(after, before)| after - before),
        block_bytes_sealed: status["engine"]["block_bytes_sealed"]
            .as_u64()
            .context("/status has no engine.block_bytes_sealed")?,
        disk_allocated: DiskUse::of(&peer::data(folder.path())).allocated,
        status,
    };
    server.stop()?;
    Ok(measured)
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Bytes written per byte of sealed blocks",
        &[
            "workload",
            "durability",
            "process over blocks",
            "device over blocks",
            "MB by the process",
            "MB to the device",
            "MB of blocks",
            "MB on disk at the end",
        ],
    );
    for one in measured {
        let blocks = one.block_bytes_sealed as f64;
        let mega = |bytes: u64| cell(Some(bytes as f64 / 1e6));
        table.rows.push(vec![
            one.workload.clone(),
            if one.durability == "memory" {
                "memory"
            } else {
                "interval 100 ms"
            }
            .to_string(),
            cell(Some(one.amplification())),
            cell(one.device_written.map(|bytes| bytes as f64 / blocks)),
            mega(one.process_written),
            one.device_written.map_or("–".into(), mega),
            mega(one.block_bytes_sealed),
            mega(one.disk_allocated),
        ]);
    }
    table
}

fn checks(measured: &[Measured]) -> Vec<Check> {
    [
        ("interval", "with the journal", 2.2),
        ("memory", "without a journal", 1.1),
    ]
    .map(|(durability, words, bound)| {
        let first = measured.iter().find(|one| one.durability == durability);
        let name = format!("bytes written per byte of sealed blocks, {words}");
        Check::new(
            name,
            first.map(Measured::amplification),
            Relation::AtMost,
            Some(bound),
            "",
        )
    })
    .to_vec()
}
