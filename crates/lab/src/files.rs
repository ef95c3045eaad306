//! `lab files`: common file operations, by file system and mount options.
//!
//! The time of an operation includes the unmounting after it, so no cost is left in the page
//! cache.

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::{Cell, CellSettings, Missing};
use crate::error::{Result, refuse};
use crate::experiment::{
    Experiment, ExperimentPlan, GuestNeeds, Measurements, Profile, Session, Task,
};
use crate::interrupt::Interrupt;
use crate::location::StorageLocation;
use crate::native::{self, Fresh, Recipe};
use crate::papers;
use crate::registry::ResourceGuard;
use crate::tree::{self, TreeShape};
use seiner_chart::{Axis, BarSeries, Figure, TableRow, bytes, plain};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the case that uses the directory's own file system instead of a new one.
const AS_MOUNTED: &str = "as mounted";

/// Cases of a run as root or in guests. Mount options follow a colon.
const SYSTEMS: [&str; 12] = [
    "ext2",
    "ext3",
    "ext4",
    "ext4:data=journal",
    "ext4:data=writeback",
    "xfs",
    "btrfs",
    "f2fs",
    "jfs",
    "reiserfs",
    "nilfs2",
    "ufs",
];

/// Settings of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Files {
    /// Directory of inputs and images.
    pub directory: PathBuf,
    /// File systems, optionally with mount options after a colon. `as mounted` is the directory's
    /// own.
    pub systems: Vec<String>,
    /// Bytes of mixed data.
    pub mixed_bytes: u64,
    /// Bytes of the small files.
    pub small_bytes: u64,
    /// Bytes of the large file.
    pub large_bytes: u64,
    /// Number of runs to average.
    pub runs: u64,
    /// Kernel that is measured: this one, or one in an emulated machine.
    #[serde(default, skip_serializing_if = "Backend::is_native")]
    pub backend: Backend,
    /// Directory of the user to copy instead of generated mixed data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
}

impl Files {
    /// Returns the settings of a profile: all of the lab's file systems for root, otherwise `as
    /// mounted` only.
    pub fn new(directory: PathBuf, profile: Profile) -> Files {
        let (mixed_bytes, small_bytes, large_bytes, runs) = match profile {
            Profile::Toy => (2 << 20, 256 << 10, 2 << 20, 1),
            Profile::Safe => (96 << 20, 8 << 20, 96 << 20, 3),
            Profile::Full => (830_000_000, 25_000_000, 693_000_000, 3),
        };
        let mut systems = vec![AS_MOUNTED.to_string()];
        if rustix::process::geteuid().is_root() {
            systems.extend(SYSTEMS.map(String::from));
        }
        Files {
            directory,
            systems,
            mixed_bytes,
            small_bytes,
            large_bytes,
            runs,
            backend: Backend::Native,
            tree: None,
        }
    }

    /// Returns these settings for guests, with all of the lab's file systems.
    pub fn in_guests(mut self) -> Files {
        self.backend = Backend::Guest;
        self.systems = SYSTEMS.map(String::from).into();
        self
    }

    /// Returns these settings for a guest, where `directory` replaces the directories of this machine.
    pub fn inside(&self, directory: &Path) -> Files {
        Files {
            directory: directory.to_owned(),
            backend: Backend::Native,
            ..self.clone()
        }
    }

    /// Bytes of an image: twice the largest input plus 64 MiB, and at least 512 MiB. Small files
    /// count 8 times, because they waste space and are also copied.
    fn image_bytes(&self) -> u64 {
        let data = self
            .mixed_bytes
            .max(2 * self.small_bytes * 4)
            .max(self.large_bytes);
        (data * 2 + (64 << 20)).max(512 << 20)
    }
}

/// Splits `kind:options`.
fn system(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

impl Experiment for Files {
    fn plan(&self, _profile: Profile) -> Result<ExperimentPlan> {
        let location = StorageLocation::find(&self.directory)?;
        let (mut tasks, mut missing) = (Vec::new(), Vec::new());
        let needed = match self.backend {
            // A guest keeps its files in memory. Only its archive is on disk, and the archive
            // contains only programs.
            Backend::Guest => 512 << 20,
            _ => {
                self.image_bytes()
                    + self.mixed_bytes * 2
                    + self.large_bytes * 2
                    + self.small_bytes * 12
            }
        };
        if location.free_bytes()? < needed {
            return refuse(format!(
                "{} needs {} free; choose a smaller --profile or another directory",
                location.path.display(),
                bytes(needed as f64)
            ));
        }
        if self.tree.is_some() && self.backend == Backend::Guest {
            return refuse(
                "a guest cannot read a directory of this machine; leave out --tree or --backend guest",
            );
        }
        if self.runs == 0 || self.systems.is_empty() {
            return refuse("the test needs at least one run of one file system");
        }
        for name in &self.systems {
            let (kind, options) = system(name);
            let obstacle = match (kind, self.backend) {
                (AS_MOUNTED, Backend::Guest) => {
                    Some("a guest has no disk of this machine".to_string())
                }
                (AS_MOUNTED, _) => None,
                _ => self.backend.obstacle(kind),
            };
            match obstacle {
                Some(why) if why.starts_with("unknown") => return refuse(format!("{name}: {why}")),
                Some(why) => missing.push(Missing {
                    name: name.clone(),
                    why,
                }),
                None => tasks.push(Task {
                    name: name.clone(),
                    settings: CellSettings::from([
                        ("kind".to_string(), json!(kind)),
                        ("options".to_string(), json!(options)),
                    ]),
                    estimate_s: self.runs as f64
                        * (5.0 + (self.mixed_bytes + self.large_bytes) as f64 / 100e6),
                }),
            }
        }
        if tasks.is_empty() {
            return refuse(format!(
                "none of these file systems is available here: {}",
                missing
                    .iter()
                    .map(|cell| format!("{} ({})", cell.name, cell.why))
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        Ok(ExperimentPlan {
            tasks,
            missing,
            backend: self.backend,
            location: Some(location),
        })
    }

    fn open(&self, seed: u64, bench: &Bench) -> Result<Box<dyn Session>> {
        let (guard, root) = bench.registry.tree(&self.directory)?;
        bench.say("creating the input files");
        let input = Input::make(self, &root, seed, &bench.interrupt)?;
        Ok(Box::new(Run {
            settings: self.clone(),
            input,
            _guard: guard,
        }))
    }

    fn guest_needs(&self) -> Option<GuestNeeds> {
        Some(GuestNeeds {
            directory: self.directory.clone(),
            medium_bytes: self.image_bytes(),
            // The guest's inputs are in memory. An archive is larger than the contents of its small
            // files.
            memory_bytes: self.mixed_bytes + self.large_bytes + self.small_bytes * 4,
        })
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        vec![table(results), bars(results)]
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        let mut remarks = Vec::new();
        for operation in papers::FILE_OPERATIONS {
            let mut timed: Vec<(&str, f64)> = results
                .cells
                .iter()
                .filter_map(|cell| {
                    Some((cell.name.as_str(), cell.figure(&format!("{operation} s"))?))
                })
                .collect();
            timed.sort_by(|a, b| a.1.total_cmp(&b.1));
            if let (Some((best, least)), Some((worst, most))) = (timed.first(), timed.last())
                && timed.len() > 1
            {
                remarks.push(format!(
                    "{operation}: {best} is fastest ({} s), {worst} slowest ({} s).",
                    plain(*least),
                    plain(*most)
                ));
            }
        }
        remarks.push(match self.backend {
            Backend::Guest => "Every file system was measured in a separate emulated machine. The clock of the machine counts instructions: compare these file systems with each other, not with real disks. \
                 The input files and the disk are in the memory of that machine. The disk takes no time."
                .to_string(),
            _ => "Images are files on the disk's own file system, whose cost is part of every figure. Most of the copied data comes from the page cache."
                .to_string(),
        });
        remarks
    }
}

/// Files that the operations copy and unpack.
struct Input {
    mixed: PathBuf,
    archive: PathBuf,
    large: PathBuf,
}

impl Input {
    fn make(settings: &Files, root: &Path, seed: u64, interrupt: &Interrupt) -> Result<Input> {
        let input = Input {
            mixed: settings.tree.clone().unwrap_or_else(|| root.join("mixed")),
            archive: root.join("small.tar"),
            large: root.join("large"),
        };
        if settings.tree.is_none() {
            tree::grow(
                &input.mixed,
                TreeShape::mixed(settings.mixed_bytes),
                seed,
                interrupt,
            )?;
        }
        tree::archive(
            &input.archive,
            TreeShape::small(settings.small_bytes),
            seed,
            interrupt,
        )?;
        let one = TreeShape {
            bytes: settings.large_bytes,
            median: settings.large_bytes,
            spread: 0.0,
            largest: settings.large_bytes,
            per_directory: 1,
        };
        tree::grow(&root.join("one"), one, seed, interrupt)?;
        fs::rename(root.join("one/00/000/00"), &input.large)?;
        Ok(input)
    }
}

struct Run {
    settings: Files,
    input: Input,
    _guard: ResourceGuard,
}

/// File system under test.
enum StorageTarget {
    /// Made for this cell.
    Fresh(Box<Fresh>),
    /// Directory on the existing file system.
    Existing {
        path: PathBuf,
        _guard: ResourceGuard,
    },
}

impl StorageTarget {
    fn root(&self) -> PathBuf {
        match self {
            StorageTarget::Fresh(fresh) => fresh.mounted.point().to_owned(),
            StorageTarget::Existing { path, .. } => path.clone(),
        }
    }

    /// Writes everything to the device: unmounts a new file system, syncs an existing one.
    fn write_back(&mut self) -> Result<()> {
        match self {
            StorageTarget::Fresh(fresh) => fresh.mounted.unmount(),
            StorageTarget::Existing { path, .. } => native::sync_file_system(path),
        }
    }

    fn mount_again(&mut self) -> Result<()> {
        match self {
            StorageTarget::Fresh(fresh) => fresh.mounted.mount_again(),
            StorageTarget::Existing { .. } => Ok(()),
        }
    }
}

impl Session for Run {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let kind = task.settings["kind"]
            .as_str()
            .expect("this experiment made the task");
        let options = task.settings["options"]
            .as_str()
            .expect("this experiment made the task");
        let mut sums = [0.0; papers::FILE_OPERATIONS.len()];
        let mut cell = Cell::default();
        for run in 1..=self.settings.runs {
            bench.say(format!(
                "{}: run {run} of {}",
                task.name, self.settings.runs
            ));
            let mut target = self.target(kind, options, bench)?;
            let seconds = self.operations(&mut target, &bench.interrupt)?;
            for ((sum, second), operation) in
                sums.iter_mut().zip(seconds).zip(papers::FILE_OPERATIONS)
            {
                *sum += second;
                cell.record(&format!("{operation} s, run {run}"), second);
            }
        }
        for (operation, sum) in papers::FILE_OPERATIONS.iter().zip(sums) {
            cell.record(&format!("{operation} s"), sum / self.settings.runs as f64);
        }
        if kind == AS_MOUNTED {
            cell.notes.push(
                "The directory's own file system cannot be unmounted. Its figures include a sync instead."
                    .to_string(),
            );
        }
        Ok(cell)
    }
}

impl Run {
    fn target(&self, kind: &str, options: &str, bench: &Bench) -> Result<StorageTarget> {
        if kind == AS_MOUNTED {
            let (guard, path) = bench.registry.tree(&self.settings.directory)?;
            return Ok(StorageTarget::Existing {
                path,
                _guard: guard,
            });
        }
        let bytes = self.settings.image_bytes();
        let recipe = Recipe {
            kind: kind.to_string(),
            options: options.to_string(),
            bytes,
            inodes: bytes >> 13,
            offset: 0,
        };
        Ok(StorageTarget::Fresh(Box::new(Fresh::make(
            &recipe,
            &self.settings.directory,
            &bench.registry,
        )?)))
    }

    /// Returns the seconds of each operation, in the order of [`papers::FILE_OPERATIONS`]. The time
    /// includes the unmounting or the sync after the operation.
    fn operations(&self, target: &mut StorageTarget, interrupt: &Interrupt) -> Result<Vec<f64>> {
        let root = target.root();
        let at = |name: &str| root.join(name);
        let input = &self.input;
        let operations: [&dyn Fn() -> Result<()>; 6] = [
            &|| tree::copy(&input.mixed, &at("mixed"), interrupt),
            &|| tree::remove(&at("mixed")),
            &|| tree::unpack(&input.archive, &at("small"), interrupt),
            &|| tree::copy(&at("small"), &at("again"), interrupt),
            &|| tree::remove(&at("small")),
            &|| tree::copy_file(&input.large, &at("large"), interrupt),
        ];
        let mut seconds = Vec::new();
        for operation in operations {
            let start = crate::time::now();
            operation()?;
            target.write_back()?;
            seconds.push(start.elapsed().as_secs_f64());
            target.mount_again()?;
        }
        Ok(seconds)
    }
}

fn table(results: &Measurements<'_>) -> Figure {
    let head = std::iter::once("file system".to_string());
    let ours = results.cells.iter().map(|cell| {
        let seconds = papers::FILE_OPERATIONS.iter().map(|name| {
            cell.figure(&format!("{name} s"))
                .map(plain)
                .unwrap_or_default()
        });
        TableRow {
            fields: std::iter::once(cell.name.clone()).chain(seconds).collect(),
            is_reference: false,
        }
    });
    let absent = results.missing.iter().map(|cell| {
        let fields = std::iter::once(format!("{}: not available here", cell.name))
            .chain(papers::FILE_OPERATIONS.map(|_| "–".to_string()));
        TableRow {
            fields: fields.collect(),
            is_reference: false,
        }
    });
    let papers = papers::files().into_iter().map(|(name, seconds)| TableRow {
        fields: std::iter::once(format!("paper: {name}"))
            .chain(seconds.into_iter().map(plain))
            .collect(),
        is_reference: true,
    });
    Figure::Table {
        title: "Seconds by operation".to_string(),
        caption: "Mean of the runs, unmounting included. In italics: the paper's laptop of 2004 with other amounts of data: 830 MB mixed, 25 MB small, 693 MB large."
            .to_string(),
        columns: head.chain(papers::FILE_OPERATIONS.map(String::from)).collect(),
        rows: ours.chain(absent).chain(papers).collect(),
    }
}

fn bars(results: &Measurements<'_>) -> Figure {
    let series = papers::FILE_OPERATIONS.iter().map(|operation| BarSeries {
        name: operation.to_string(),
        values: results
            .cells
            .iter()
            .map(|cell| cell.figure(&format!("{operation} s")))
            .collect(),
        is_reference: false,
        twin: None,
    });
    Figure::Bars {
        title: "Operations by file system".to_string(),
        caption: String::new(),
        y: Axis::linear("seconds"),
        categories: results.cells.iter().map(|cell| cell.name.clone()).collect(),
        series: series.collect(),
        is_stacked: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options_of_file_systems() {
        assert_eq!(
            system("ext4:data=journal,noatime"),
            ("ext4", "data=journal,noatime")
        );
        assert_eq!(system(AS_MOUNTED), (AS_MOUNTED, ""));
    }
}
