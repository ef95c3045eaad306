//! `lab disk`: profile of a disk in about two minutes. The profile has the rates of sequential and
//! random reads and writes by size and depth, the latency of a sync, and the rate of a long write.
//!
//! All loads use one file of the lab, with direct I/O if the file system supports it.

mod fio;
mod load;

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::{Cell, CellSettings, Line};
use crate::error::{Result, refuse};
use crate::experiment::{Experiment, ExperimentPlan, Measurements, Profile, Session, Task};
use crate::location::StorageLocation;
use crate::registry::ResourceGuard;
use load::{Access, DiskLoad, Measured, RequestOrder, TestFile};
use seiner_chart::{Axis, BarSeries, Figure, LineSeries, TableRow, bytes, plain};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Smallest write of the sync cells, bytes.
const PAGE: u64 = 4096;
/// Bytes that must stay free in addition to the test file.
const SPARE: u64 = 256 << 20;

/// Settings of the profile of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Directory on the disk.
    pub directory: PathBuf,
    /// Bytes of the test file.
    pub file_bytes: u64,
    /// Seconds per cell.
    pub seconds: f64,
    /// Seconds of the long write.
    pub sustained_seconds: f64,
    /// True if fio repeats each cell for comparison.
    #[serde(default)]
    pub is_checked_by_fio: bool,
}

impl Disk {
    /// Returns the settings of a profile.
    pub fn new(directory: PathBuf, profile: Profile) -> Disk {
        let (file_bytes, seconds, sustained_seconds) = match profile {
            Profile::Toy => (32 << 20, 0.1, 0.5),
            Profile::Safe => (2 << 30, 3.0, 24.0),
            Profile::Full => (16 << 30, 15.0, 600.0),
        };
        Disk {
            directory,
            file_bytes,
            seconds,
            sustained_seconds,
            is_checked_by_fio: false,
        }
    }

    /// Returns all cells: the first of each kind, then the others, with syncs last. So a run that
    /// ends early has measured some cells of every kind.
    fn tasks(&self, profile: Profile) -> Vec<Task> {
        let mut tasks = vec![self.task(
            "sustained write",
            AccessPattern::Sustained,
            1 << 20,
            4,
            self.sustained_seconds,
        )];
        let (sequential, random, depths): (&[u64], &[u64], &[u64]) = match profile {
            Profile::Toy => (&[1 << 20], &[4096], &[1, 4]),
            Profile::Safe => (
                &[64 << 10, 1 << 20],
                &[4096, 16 << 10, 64 << 10],
                &[1, 8, 32],
            ),
            Profile::Full => (
                &[4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20],
                &[4096, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10],
                &[1, 2, 4, 8, 16, 32],
            ),
        };
        for (kind, sizes) in [
            (AccessPattern::SequentialWrite, sequential),
            (AccessPattern::SequentialRead, sequential),
            (AccessPattern::RandomWrite, random),
            (AccessPattern::RandomRead, random),
        ] {
            let is_random = matches!(kind, AccessPattern::RandomWrite | AccessPattern::RandomRead);
            for size in sizes {
                for depth in depths.iter().filter(|depth| is_random || **depth <= 8) {
                    let name = format!("{} {} × {depth}", kind.name(), bytes(*size as f64));
                    tasks.push(self.task(&name, kind, *size, *depth, self.seconds));
                }
            }
        }
        for size in [PAGE, 64 << 10, 1 << 20] {
            let name = format!("sync {}", bytes(size as f64));
            tasks.push(self.task(&name, AccessPattern::Sync, size, 1, self.seconds));
        }
        first_of_each_kind_first(tasks)
    }

    fn task(&self, name: &str, kind: AccessPattern, size: u64, depth: u64, seconds: f64) -> Task {
        let settings = [
            ("kind", json!(kind)),
            ("bytes", json!(size)),
            ("depth", json!(depth)),
            ("seconds", json!(seconds)),
        ];
        Task {
            name: name.to_string(),
            settings: settings
                .map(|(name, value)| (name.to_string(), value))
                .into(),
            estimate_s: seconds * if self.is_checked_by_fio { 2.2 } else { 1.0 },
        }
    }
}

/// Load of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AccessPattern {
    Sustained,
    SequentialWrite,
    SequentialRead,
    RandomWrite,
    RandomRead,
    Sync,
}

impl AccessPattern {
    fn name(self) -> &'static str {
        match self {
            AccessPattern::Sustained => "sustained write",
            AccessPattern::SequentialWrite => "sequential write",
            AccessPattern::SequentialRead => "sequential read",
            AccessPattern::RandomWrite => "random write",
            AccessPattern::RandomRead => "random read",
            AccessPattern::Sync => "sync",
        }
    }

    fn of(settings: &CellSettings) -> Option<AccessPattern> {
        serde_json::from_value(settings.get("kind")?.clone()).ok()
    }
}

/// Moves the first cell of each kind to the start. Keeps the order otherwise.
fn first_of_each_kind_first(tasks: Vec<Task>) -> Vec<Task> {
    let mut seen = Vec::new();
    let (mut first, others): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(|task| {
        let kind = AccessPattern::of(&task.settings);
        let is_new = !seen.contains(&kind);
        seen.push(kind);
        is_new
    });
    first.extend(others);
    first
}

impl Experiment for Disk {
    fn plan(&self, profile: Profile) -> Result<ExperimentPlan> {
        let location = StorageLocation::find(&self.directory)?;
        if !location.path.is_dir() {
            return refuse(format!(
                "{} is not a directory; name a directory on the disk",
                location.path.display()
            ));
        }
        let free = location.free_bytes()?;
        if free < self.file_bytes + SPARE {
            return refuse(format!(
                "{} has {} free; the test file takes {} and {} must stay free: choose a smaller --size",
                location.path.display(),
                bytes(free as f64),
                bytes(self.file_bytes as f64),
                bytes(SPARE as f64)
            ));
        }
        if self.is_checked_by_fio && !fio::is_there() {
            return refuse(
                "--fio: the program fio is not installed; install it or leave out --fio",
            );
        }
        if self.file_bytes < 16 << 20 || !self.file_bytes.is_multiple_of(1 << 20) {
            return refuse("--size must be a whole number of MiB, at least 16");
        }
        if !(0.01..=86_400.0).contains(&self.seconds)
            || !(0.01..=86_400.0).contains(&self.sustained_seconds)
        {
            return refuse("--seconds must be between 0.01 and 86400");
        }
        Ok(ExperimentPlan {
            tasks: self.tasks(profile),
            missing: Vec::new(),
            backend: Backend::Native,
            location: Some(location),
        })
    }

    fn open(&self, seed: u64, bench: &Bench) -> Result<Box<dyn Session>> {
        let (guard, directory) = bench.registry.tree(&self.directory)?;
        bench.say("writing the test file");
        let file = TestFile::create(
            &directory.join("file"),
            self.file_bytes,
            seed,
            &bench.interrupt,
        )?;
        Ok(Box::new(Run {
            file,
            path: directory.join("file"),
            settings: self.clone(),
            seed,
            _guard: guard,
        }))
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (kind, figure, unit) in [
            (
                AccessPattern::RandomRead,
                "operations/s",
                "operations per second",
            ),
            (
                AccessPattern::RandomWrite,
                "operations/s",
                "operations per second",
            ),
            (AccessPattern::SequentialRead, "MB/s", "MB/s"),
            (AccessPattern::SequentialWrite, "MB/s", "MB/s"),
        ] {
            figures.push(by_depth(results, kind, figure, unit));
        }
        figures.push(latencies(results));
        figures.push(sustained(results));
        figures.push(beside_fio(results));
        figures
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        remarks(results)
    }
}

struct Run {
    file: TestFile,
    path: PathBuf,
    settings: Disk,
    seed: u64,
    _guard: ResourceGuard,
}

impl Session for Run {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let kind = AccessPattern::of(&task.settings).expect("this experiment made the task");
        let number = |name: &str| {
            task.settings[name]
                .as_f64()
                .expect("this experiment made the task")
        };
        let load = DiskLoad {
            access: match kind {
                AccessPattern::SequentialRead | AccessPattern::RandomRead => Access::Read,
                AccessPattern::Sync => Access::SyncedWrite,
                _ => Access::Write,
            },
            order: match kind {
                AccessPattern::RandomRead | AccessPattern::RandomWrite => RequestOrder::Random,
                _ => RequestOrder::Sequential,
            },
            bytes: number("bytes") as u64,
            depth: number("depth") as usize,
            duration: Duration::from_secs_f64(number("seconds")),
            seed: self.seed,
        };
        let measured = self.file.run(&load, &bench.interrupt)?;
        let mut cell = as_cell(&load, measured);
        if self.settings.is_checked_by_fio {
            let rate = fio::rate(&load, &self.path, self.settings.file_bytes)?;
            cell.record("fio MB/s", rate / 1e6);
        }
        if let Some(why) = &self.file.is_cached_because {
            cell.notes
                .push(format!("The page cache was in use: {why}."));
        }
        Ok(cell)
    }
}

fn as_cell(load: &DiskLoad, measured: Measured) -> Cell {
    let mut cell = Cell::default();
    let seconds = measured.took.as_secs_f64();
    // Threads keep only a part of the latencies, so the count comes from `done`.
    let count = measured.done as f64;
    cell.record("operations/s", count / seconds);
    cell.record("MB/s", count * load.bytes as f64 / seconds / 1e6);
    let mut latencies = measured.latencies_ns;
    latencies.sort_unstable();
    for (name, share) in [
        ("p50 ms", 0.5),
        ("p99 ms", 0.99),
        ("p99.9 ms", 0.999),
        ("max ms", 1.0),
    ] {
        let index =
            ((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1));
        if let Some(latency) = latencies.get(index) {
            cell.record(name, f64::from(*latency) / 1e6);
        }
    }
    let points: Vec<(f64, f64)> = measured.rates;
    let mean = |points: &[(f64, f64)]| {
        points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
    };
    if points.len() >= 6 {
        let third = points.len() / 3;
        cell.record("burst MB/s", mean(&points[..third.min(4)]));
        cell.record("sustained MB/s", mean(&points[points.len() - third..]));
    }
    cell.lines.push(Line {
        name: "MB/s".to_string(),
        points,
    });
    cell
}

fn cells<'a>(results: &Measurements<'a>, kind: AccessPattern) -> impl Iterator<Item = &'a Cell> {
    results
        .cells
        .iter()
        .filter(move |cell| AccessPattern::of(&cell.settings) == Some(kind))
}

fn by_depth(results: &Measurements<'_>, kind: AccessPattern, figure: &str, unit: &str) -> Figure {
    let mut series: Vec<LineSeries> = Vec::new();
    for cell in cells(results, kind) {
        let (Some(size), Some(depth), Some(value)) = (
            cell.number("bytes"),
            cell.number("depth"),
            cell.figure(figure),
        ) else {
            continue;
        };
        let name = bytes(size);
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((depth, value)),
            None => series.push(LineSeries {
                name,
                points: vec![(depth, value)],
                is_reference: false,
                twin: None,
            }),
        }
    }
    let name = kind.name();
    Figure::Lines {
        title: format!("{}{} by depth", name[..1].to_uppercase(), &name[1..]),
        caption: "One line per request size. Depth: number of requests at the same time."
            .to_string(),
        x: Axis::log("depth"),
        y: Axis::linear(unit),
        series,
    }
}

fn latencies(results: &Measurements<'_>) -> Figure {
    let cells: Vec<&Cell> = cells(results, AccessPattern::Sync).collect();
    let series = ["p50 ms", "p99 ms", "max ms"].map(|name| BarSeries {
        name: name.to_string(),
        values: cells.iter().map(|cell| cell.figure(name)).collect(),
        is_reference: false,
        twin: None,
    });
    Figure::Bars {
        title: "Duration of a write with a sync".to_string(),
        caption: "Cost of an acknowledgement that survives a power cut.".to_string(),
        y: Axis::linear("ms"),
        categories: cells
            .iter()
            .map(|cell| bytes(cell.number("bytes").unwrap_or(0.0)))
            .collect(),
        series: series.into(),
        is_stacked: false,
    }
}

fn sustained(results: &Measurements<'_>) -> Figure {
    let lines = cells(results, AccessPattern::Sustained).flat_map(|cell| &cell.lines);
    Figure::Lines {
        title: "A long write".to_string(),
        caption: "Requests of 1 MiB, 4 at a time. The rate of a disk with a fast cache falls when the cache is full."
            .to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("MB/s"),
        series: lines
            .map(|line| LineSeries {
                name: String::new(),
                points: line.points.clone(),
                is_reference: false,
                twin: None,
            })
            .collect(),
    }
}

fn beside_fio(results: &Measurements<'_>) -> Figure {
    let row = |cell: &Cell| {
        let (ours, theirs) = (cell.figure("MB/s")?, cell.figure("fio MB/s")?);
        let fields = [plain(ours), plain(theirs), plain(ours / theirs)];
        Some(TableRow {
            fields: std::iter::once(cell.name.clone()).chain(fields).collect(),
            is_reference: false,
        })
    };
    Figure::Table {
        title: "Beside fio".to_string(),
        caption: "fio repeated each cell on the same file: one thread per request, without the page cache."
            .to_string(),
        columns: ["cell", "MB/s", "fio MB/s", "ours ÷ fio"].map(String::from).into(),
        rows: results.cells.iter().filter_map(row).collect(),
    }
}

/// Returns the main results as sentences for readers who skip the figures.
fn remarks(results: &Measurements<'_>) -> Vec<String> {
    let best = |kind: AccessPattern, figure: &str| {
        cells(results, kind)
            .filter_map(|cell| cell.figure(figure))
            .fold(0.0, f64::max)
    };
    let mut remarks = Vec::new();
    let (read, write) = (
        best(AccessPattern::SequentialRead, "MB/s"),
        best(AccessPattern::SequentialWrite, "MB/s"),
    );
    // A run that ended early may lack reads or writes.
    let rates = [(read, "reads"), (write, "writes")].into_iter();
    let rates = rates.filter(|(rate, _)| *rate > 0.0);
    let rates: Vec<String> = rates
        .map(|(rate, name)| format!("{name} {} MB/s", plain(rate)))
        .collect();
    if !rates.is_empty() {
        remarks.push(format!("Best sequential rate: {}.", rates.join(" and ")));
    }
    let small = |kind: AccessPattern, depth: f64| {
        cells(results, kind)
            .find(|cell| {
                cell.number("bytes") == Some(4096.0) && cell.number("depth") == Some(depth)
            })
            .and_then(|cell| cell.figure("MB/s"))
    };
    if let Some(one) =
        small(AccessPattern::RandomWrite, 1.0).filter(|one| *one > 0.0 && write > 0.0)
    {
        remarks.push(format!(
            "Random writes of 4 KiB one at a time reach {} MB/s: a sequential stream is {} times as fast. \
             This ratio is what a log gains over files that are updated in place.",
            plain(one),
            plain(write / one)
        ));
    }
    let sync =
        cells(results, AccessPattern::Sync).find(|cell| cell.number("bytes") == Some(4096.0));
    if let Some(p50) = sync.and_then(|cell| cell.figure("p50 ms")) {
        let device = results
            .location
            .as_ref()
            .and_then(|location| location.device.as_ref());
        remarks.push(crate::check::judge_sync(
            p50,
            device,
            results.machine.is_virtual,
        ));
    }
    let long = cells(results, AccessPattern::Sustained).next();
    let pair =
        long.and_then(|cell| Some((cell.figure("burst MB/s")?, cell.figure("sustained MB/s")?)));
    if let Some((burst, sustained)) = pair {
        let word = if sustained < 0.7 * burst {
            "falls"
        } else {
            "holds"
        };
        remarks.push(format!(
            "A long write begins at {} MB/s and {word} at {} MB/s: plan with the latter.",
            plain(burst),
            plain(sustained)
        ));
    }
    if results.machine.is_virtual {
        remarks.push("This is a virtual machine: its disk may share, cache or throttle in ways that do not show here.".to_string());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_measured_early_and_syncs_last() {
        for profile in [Profile::Toy, Profile::Safe, Profile::Full] {
            let tasks = Disk::new(PathBuf::from("/"), profile).tasks(profile);
            let kinds: Vec<AccessPattern> = tasks
                .iter()
                .map(|task| AccessPattern::of(&task.settings).unwrap())
                .collect();
            let each = [
                AccessPattern::Sustained,
                AccessPattern::SequentialWrite,
                AccessPattern::SequentialRead,
                AccessPattern::RandomWrite,
                AccessPattern::RandomRead,
                AccessPattern::Sync,
            ];
            assert_eq!(kinds[..6], each);
            let last = kinds.len() - 2;
            assert_eq!(kinds[last..], [AccessPattern::Sync, AccessPattern::Sync]);
            assert!(!kinds[6..last].contains(&AccessPattern::Sync));
            // The points of a curve are measured in their order.
            let depths = |kind: AccessPattern| {
                let of_kind = tasks
                    .iter()
                    .filter(|task| AccessPattern::of(&task.settings) == Some(kind));
                let depths = of_kind.map(|task| (&task.settings["bytes"], &task.settings["depth"]));
                let depths = depths.map(|(bytes, depth)| (bytes.as_u64(), depth.as_u64()));
                depths.collect::<Vec<_>>()
            };
            for kind in each {
                assert!(depths(kind).is_sorted(), "{kind:?}");
            }
        }
    }

    #[test]
    fn rates_count_requests_whose_latencies_were_not_kept() {
        let load = DiskLoad {
            access: Access::Read,
            order: RequestOrder::Random,
            bytes: 4096,
            depth: 1,
            duration: Duration::from_secs(2),
            seed: 1,
        };
        let measured = Measured {
            done: 1000,
            latencies_ns: vec![1_000_000; 10],
            took: Duration::from_secs(2),
            rates: Vec::new(),
        };
        let cell = as_cell(&load, measured);
        assert_eq!(cell.figure("operations/s"), Some(500.0));
        assert_eq!(cell.figure("MB/s"), Some(500.0 * 4096.0 / 1e6));
        assert_eq!(cell.figure("p50 ms"), Some(1.0));
    }
}
