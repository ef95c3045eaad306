//! `seiner plan`: computes a configuration and a forecast from sensors, rates and disks.

mod like;

use crate::failure::Failure;
use crate::lab_failure::failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::Context;
use clap::{Args, ValueEnum};
use like::Like;
use seiner_chart::page::of_figures;
use seiner_chart::{Axis, BarSeries, Figure, TableRow, any_colour, plain};
use seiner_lab::Interrupt;
use seiner_lab::check::{Severity, findings};
use seiner_lab::location::StorageLocation;
use seiner_lab::machine::Machine;
use seiner_lab::registry::{Registry, state_directory};
use seiner_lab::results::Results;
use seiner_plan::form::{bytes, class, count, raid, seconds};
use seiner_plan::soak::{self, Soak};
use seiner_plan::{
    Calibration, Clockwork, Demand, Disk, Forecast, Lifetime, Observed, Raid, Recording, StorePlan,
    Values,
};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Compute a configuration and a forecast from sensors, rates and disks.
///
/// The plan states whether one machine suffices, the settings, the bytes written and kept, the loss
/// in a power cut, the duration of a start, and the lifetime of an SSD. If the demand does not fit,
/// the plan lists changes with which the demand fits. Planning takes a few seconds: the engine runs
/// in memory to measure compression and the cost of samples. --measured takes the figures of disks
/// from runs of `seiner lab disk`; without it, the plan assumes them.
#[derive(Args)]
pub struct Plan {
    /// S: number of sensors (sources), for example 1e6.
    #[arg(long, value_parser = count, required_unless_present_any = ["like", "from", "prove_all"])]
    sensors: Option<u64>,
    /// Interval between two rows of a sensor [default: 10s, or that of --like]
    #[arg(long, value_parser = seconds)]
    every: Option<f64>,
    /// Number of values per row [default: 1]
    #[arg(long, value_parser = count, conflicts_with = "like")]
    fields: Option<u64>,
    /// Number of sensors of a host. They share its tag values, so that a sensor takes about half of the memory. 1: each
    /// sensor has a tag value of its own.
    #[arg(long, value_name = "N", value_parser = count, default_value = "1")]
    per_host: u64,
    /// Age up to which samples are kept, such as 30d or 5y. A longer age needs more disk.
    #[arg(long, value_parser = seconds, default_value = "365d")]
    keep: f64,
    /// Class of sensors with an age of its own. May be given several times. The shares must sum to
    /// 100 %.
    #[arg(long = "class", value_name = "NAME:SHARE:KEEP[:SELECTOR]", value_parser = class,
        conflicts_with = "keep")]
    classes: Vec<Lifetime>,
    /// Kind of values. It determines how well samples compress.
    #[arg(long, value_enum, default_value = "decimals", conflicts_with = "like")]
    values: ValueKind,
    /// Plan for times that are some milliseconds late, at random. Such times compress worse.
    #[arg(long, conflicts_with = "like")]
    jittered: bool,
    /// Plan for a store that loses no acknowledged sample in a power cut. Each acknowledgement then
    /// waits for a sync.
    #[arg(long)]
    synced: bool,
    /// Memory of the machine [default: the memory of this machine]
    #[arg(long, value_parser = bytes)]
    ram: Option<u64>,
    /// Number of processors of the machine [default: those of this machine]
    #[arg(long)]
    processors: Option<f64>,
    /// Directories on the disks for the data. The free space of these disks counts.
    #[arg(long = "disk", value_name = "DIR", default_value = ".")]
    disks: Vec<PathBuf>,
    /// Space on each disk, in place of the free space.
    #[arg(long, alias = "room", value_parser = bytes)]
    space: Option<u64>,
    /// C: maximum disk usage of the store [default: nearly the whole space]
    #[arg(long, value_parser = bytes)]
    budget: Option<u64>,
    /// Results of `seiner lab disk`, one for each disk in the same order.
    #[arg(long, value_name = "RUN")]
    measured: Vec<PathBuf>,
    /// Bytes that may be written to each disk during its life, for example 290TB.
    #[arg(long, value_parser = bytes)]
    tbw: Option<u64>,
    /// Array of the disks, as LEVEL:MEMBERS:STRIP, for example 6:6:16KiB.
    #[arg(long, value_parser = raid)]
    raid: Option<Raid>,
    #[command(flatten)]
    like: Like,
    /// Take sensors, fields, present rate and samples from a running server at this address.
    #[arg(long, value_name = "URL", conflicts_with_all = ["sensors", "fields", "every"])]
    from: Option<String>,
    #[command(flatten)]
    access: ServerAccess,
    /// Print only the configuration, for `seiner serve --config`.
    #[arg(long)]
    toml: bool,
    /// Test the plan: run the real engine in this directory, with a scaled-down load, and compare
    /// the results.
    #[arg(long, value_name = "DIR")]
    prove: Option<PathBuf>,
    /// With --prove: approximate number of samples. More samples take longer, and are from more sensors, up to those of
    /// the plan.
    #[arg(long, value_name = "N", value_parser = count, default_value = "24M", requires = "prove")]
    prove_samples: u64,
    /// Test the planner itself with many kinds of demands. Takes minutes.
    #[arg(long, value_name = "DIR", conflicts_with = "prove")]
    prove_all: Option<PathBuf>,
    /// With --prove-all: write this page with a chart and a table.
    #[arg(long, value_name = "FILE", requires = "prove_all")]
    page: Option<PathBuf>,
}

/// Default interval between two rows of a sensor in seconds.
const EVERY_S: f64 = 10.0;

/// Kind of values.
#[derive(Clone, Copy, ValueEnum)]
enum ValueKind {
    /// Gauges with one decimal that change little.
    Decimals,
    /// Rising whole numbers.
    Counters,
    /// Floats with all their digits.
    Floats,
}

impl Plan {
    /// Computes the plan, and proves it if requested.
    pub fn run(self) -> Result<(), Failure> {
        let demand = self.demand()?;
        demand.check().map_err(Failure::Usage)?;
        if let Some(directory) = &self.prove_all {
            return prove_all(&demand, directory, self.page.as_deref());
        }
        let calibration = Calibration::make(&demand)?;
        let plan = StorePlan::make(&demand, &calibration);
        let mut out = stdout().lock();
        match plan.to_toml() {
            Some(toml) if self.toml => write!(out, "{toml}")?,
            None if self.toml => {
                let obstacles = plan.obstacles.join("; ");
                let error =
                    format!("there is no configuration: the demand does not fit: {obstacles}");
                return Err(Failure::Failed(anyhow::anyhow!(error)));
            }
            _ => write!(out, "{}", plan.to_text())?,
        }
        if let Some(directory) = &self.prove {
            let soak = prove(
                &demand,
                &calibration,
                &plan,
                (directory, self.prove_samples as f64),
            )?;
            write_soak(&mut out, &soak)?;
        }
        Ok(())
    }

    fn demand(&self) -> Result<Demand, Failure> {
        let machine = Machine::this();
        let recording = self.like.read(self.from.as_deref(), &self.access)?;
        let mut demand = Demand {
            sensors: self.sensors.unwrap_or(1) as f64,
            every_s: self.every.unwrap_or(EVERY_S),
            fields: self.fields.unwrap_or(1),
            per_host: self.per_host,
            lifetimes: match self.classes.is_empty() {
                true => Lifetime::of_all(self.keep),
                false => self.classes.clone(),
            },
            values: match self.values {
                ValueKind::Decimals => Values::Decimals,
                ValueKind::Counters => Values::Counters,
                ValueKind::Floats => Values::Floats,
            },
            clockwork: if self.jittered {
                Clockwork::Jittered
            } else {
                Clockwork::Regular
            },
            ram: self.ram.unwrap_or(machine.memory) as f64,
            processors: self.processors.unwrap_or(machine.processors as f64),
            is_synced: self.synced,
            disks: self.disks(&machine)?,
            budget: self.budget.map(|bytes| bytes as f64),
            tbw: self.tbw.map(|bytes| bytes as f64),
            raid: self.raid,
            recording: None,
        };
        if let Some(recording) = recording {
            self.fill(&mut demand, &recording)?;
            demand.record(recording);
        }
        Ok(demand)
    }

    /// Sets the sensors and their interval to those of the server or of the recording, unless they are given.
    fn fill(&self, demand: &mut Demand, recording: &Recording) -> Result<(), Failure> {
        if let Some(from) = &self.from {
            let observed = observe(from, &self.access)?;
            return observed
                .fill(demand)
                .map_err(|error| Failure::Failed(anyhow::anyhow!(error)));
        }
        if self.sensors.is_none() {
            demand.sensors = recording.all_sources as f64;
        }
        if self.every.is_none() {
            let name = &recording.name;
            demand.every_s = recording.interval_s().ok_or_else(|| {
                Failure::Usage(format!(
                    "no source of {name} has two rows; state their interval by --every"
                ))
            })?;
        }
        Ok(())
    }

    fn disks(&self, machine: &Machine) -> Result<Vec<Disk>, Failure> {
        if self.measured.len() > self.disks.len() {
            return Err(Failure::Usage(
                "more runs by --measured than disks by --disk".to_string(),
            ));
        }
        let mut disks = Vec::new();
        for (number, path) in self.disks.iter().enumerate() {
            let mut disk = look_at(path, machine)?;
            disk.free_bytes = self.space.map_or(disk.free_bytes, |space| space as f64);
            if let Some(run) = self.measured.get(number) {
                take_measured(run, &mut disk)?;
            }
            disks.push(disk);
        }
        Ok(disks)
    }
}

fn look_at(path: &Path, machine: &Machine) -> Result<Disk, Failure> {
    let location = StorageLocation::find(path)
        .map_err(|error| Failure::Usage(format!("--disk: {error:#}")))?;
    let warnings = findings(&location, machine.is_virtual)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Warn)
        .map(|finding| finding.text);
    Ok(Disk {
        name: path.display().to_string(),
        free_bytes: location.free_bytes()? as f64,
        warnings: warnings.collect(),
        ..Disk::default()
    })
}

fn take_measured(run: &Path, disk: &mut Disk) -> Result<(), Failure> {
    let results =
        Results::read(run).map_err(|error| Failure::Usage(format!("--measured: {error:#}")))?;
    if results.experiment() != "disk" {
        return Err(Failure::Usage(format!(
            "--measured: {} is a run of `lab {}`, not of `lab disk`",
            run.display(),
            results.experiment()
        )));
    }
    let cell = |name: &str| results.cells.iter().find(|cell| cell.name == name);
    let long = cell("sustained write");
    disk.sustained = long
        .and_then(|cell| {
            cell.figure("sustained MB/s")
                .or_else(|| cell.figure("MB/s"))
        })
        .map(|rate| rate * 1e6);
    disk.sync_s = cell("sync 4 KiB")
        .and_then(|cell| cell.figure("p99 ms"))
        .map(|ms| ms / 1e3);
    disk.measured = Some(
        results
            .started
            .split('T')
            .next()
            .unwrap_or_default()
            .to_string(),
    );
    Ok(())
}

/// Requests the figures of a running server.
fn observe(address: &str, access: &ServerAccess) -> Result<Observed, Failure> {
    let answer = Remote::new(address, access)?.get("/status", &[])?;
    let status: serde_json::Value =
        serde_json::from_reader(answer).context("the answer of /status is incomplete")?;
    let number = |pointer: &str| {
        let number = status.pointer(pointer).and_then(serde_json::Value::as_f64);
        number.with_context(|| format!("{address}: {pointer} is missing: is this a Seiner server?"))
    };
    Ok(Observed {
        sources: number("/engine/sources")?,
        rows_per_s: number("/ingest/rows_per_s")?,
        samples_per_s: number("/ingest/samples_per_s")?,
    })
}

/// Runs the engine in a directory that is removed afterwards, and compares it with the plan.
fn prove(
    demand: &Demand,
    calibration: &Calibration,
    plan: &StorePlan,
    (directory, samples): (&Path, f64),
) -> Result<Soak, Failure> {
    let interrupt = Interrupt::listen().map_err(failure)?;
    let registry = Registry::open(&state_directory().map_err(failure)?).map_err(failure)?;
    let (guard, tree) = registry.tree(directory).map_err(failure)?;
    let soak = soak::run(
        demand,
        calibration,
        &plan.choice,
        (&tree.join("store"), samples),
        &|| interrupt.is_set(),
    );
    guard.release().map_err(failure)?;
    Ok(soak?)
}

fn write_soak(out: &mut impl Write, soak: &Soak) -> std::io::Result<()> {
    writeln!(
        out,
        "Proof: {} sensors, {} rows each, {:.1} s",
        soak.sensors, soak.rounds, soak.took_s
    )?;
    writeln!(
        out,
        "{:26} {:>14} {:>14} {:>8}",
        "", "forecast", "measured", "error"
    )?;
    for check in &soak.checks {
        writeln!(
            out,
            "{:26} {:>14.4} {:>14.4} {:>+7.1}%",
            check.name,
            check.forecast,
            check.measured,
            100.0 * check.error()
        )?;
    }
    Ok(())
}

/// Proves the planner with many kinds of demands. Prints CSV and writes a page.
fn prove_all(machine: &Demand, directory: &Path, page: Option<&Path>) -> Result<(), Failure> {
    if !directory.is_dir() {
        return Err(Failure::Usage(format!(
            "--prove-all: {} is not a directory; make it first",
            directory.display()
        )));
    }
    let mut out = stdout().lock();
    writeln!(
        out,
        "demand,sensors,fields,values,times,figure,forecast,measured,off_by_percent"
    )?;
    let mut proofs = Vec::new();
    for (name, demand) in soak::gallery(machine) {
        let calibration = Calibration::make(&demand)?;
        let plan = StorePlan::make_exactly(&demand, &calibration);
        let soak = prove(&demand, &calibration, &plan, (directory, soak::SAMPLES))?;
        for check in &soak.checks {
            writeln!(
                out,
                "{name:?},{},{},{:?},{:?},{:?},{:.4},{:.4},{:.1}",
                demand.sensors,
                demand.fields,
                demand.values,
                demand.clockwork,
                check.name,
                check.forecast,
                check.measured,
                100.0 * check.error()
            )?;
        }
        out.flush()?;
        let forecast = Forecast::make(&demand, &calibration, &plan.choice);
        eprintln!(
            "{name}: {} sensors of {}, {:.0} rows a block, {:.1} s",
            soak.sensors, demand.sensors, forecast.rows, soak.took_s
        );
        proofs.push((name, soak));
    }
    if let Some(page) = page {
        std::fs::write(page, proof_page(&proofs))
            .with_context(|| format!("{} was not written", page.display()))?;
    }
    Ok(())
}

/// Target accuracy of a forecast, %.
const AIM_PERCENT: f64 = 15.0;
/// Figures drawn on the page. The table contains all figures.
const DRAWN: [&str; 4] = [
    "rows of a block",
    "bytes written a row",
    "memory in use, bytes",
    "start after a crash, s",
];

fn proof_page(proofs: &[(&str, Soak)]) -> String {
    let of = |soak: &Soak, name: &str| {
        let check = soak.checks.iter().find(|check| check.name == name)?;
        Some(100.0 * check.error().abs())
    };
    let remarks = DRAWN.map(|name| {
        let all: Vec<f64> = proofs
            .iter()
            .filter_map(|(_, soak)| of(soak, name))
            .collect();
        format!(
            "{name}: error of at most {} %; within {AIM_PERCENT} % for {} of {} demands.",
            plain(all.iter().copied().fold(0.0, f64::max)),
            all.iter().filter(|error| **error <= AIM_PERCENT).count(),
            all.len()
        )
    });
    let bars = Figure::Bars {
        title: "Error of the forecast".to_string(),
        caption: "Percent of the measured figure, in either direction.".to_string(),
        y: Axis::linear("error, %"),
        categories: proofs.iter().map(|(name, _)| name.to_string()).collect(),
        series: DRAWN
            .map(|name| {
                let values = proofs.iter().map(|(_, soak)| of(soak, name));
                BarSeries::new(name, values.collect())
            })
            .into(),
        is_stacked: false,
    };
    let rows = proofs.iter().flat_map(|(name, soak)| {
        soak.checks.iter().map(move |check| {
            TableRow::new(vec![
                name.to_string(),
                check.name.to_string(),
                plain(check.forecast),
                plain(check.measured),
                format!("{:+.1}", 100.0 * check.error()),
            ])
        })
    });
    let table = Figure::Table {
        title: "Figure by figure".to_string(),
        caption:
            "Sensors, memory and journal are scaled down together. Figures per sensor are not scaled. The time of \
             a start is processor time, without the waits for other programs."
                .to_string(),
        columns: ["demand", "figure", "forecast", "measured", "error, %"]
            .map(String::from)
            .into(),
        rows: rows.collect(),
    };
    of_figures(
        "seiner plan: forecast and proof",
        &remarks,
        &[bars, table],
        any_colour,
    )
}
