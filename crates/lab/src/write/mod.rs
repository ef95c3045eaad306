//! `lab write`: writes samples of very many sensors, into one store after the other under the same load.
//!
//! This is the first paper's test: portions of B bytes for each of F sensors in turn, either as fast as the system
//! accepts them or at the highest sustainable rate. All files are created before the measurement. One lap is the
//! warm-up. At the end the page cache is synced, and the time of the sync counts.

mod drive;
mod pictures;
mod pool;
mod run;
mod stores;

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::Missing;
use crate::error::{Result, refuse};
use crate::experiment::{
    Experiment, ExperimentPlan, GuestNeeds, Measurements, Profile, Session, Task,
};
use crate::location::StorageLocation;
pub use pool::work;
use run::Run;
use seiner_chart::{Figure, bytes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Bytes of a sample from a sensor: a time and a value.
pub const SAMPLE_BYTES: u64 = 16;
/// Umax: maximum share of the space that files fill.
const FILL: f64 = 0.9;
/// Default of C in a guest.
const GUEST_SPACE: u64 = 512 << 20;
/// Name of the cell that measures the rate of one file, and the size of its pieces in bytes. With smaller pieces,
/// the cost of opening files would dominate.
pub const SEQUENTIAL: &str = "one file in sequence";
const SEQUENTIAL_PIECE: u64 = 1 << 20;
/// Number of rates that the paced test tries after the first rate.
pub const TRIALS: usize = 6;

/// Stores to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// One file per sensor, which is appended to (the paper's store).
    Files,
    /// One file per sensor, in which each sample is updated in place at once (as in RRDtool).
    InPlace,
    /// Blocks of all sensors in one log that contains a tree (as in Akumuli).
    Akumuli,
    /// Samples in memory, with one record per sample in a log for recovery (as in YAWNDB).
    Yawndb,
    /// This project's engine, with a commit of the journal every 100 ms.
    Log,
    /// This project's engine without a journal.
    LogOnly,
    /// SQLite with one row per sample in one table, as an external reference (feature `references`).
    Sqlite,
    /// RocksDB with one key per sample, as an external reference (feature `rocksdb`).
    Rocksdb,
}

impl StoreKind {
    /// All stores that are implemented here.
    pub const ALL: [StoreKind; 6] = [
        StoreKind::Files,
        StoreKind::InPlace,
        StoreKind::Akumuli,
        StoreKind::Yawndb,
        StoreKind::Log,
        StoreKind::LogOnly,
    ];

    /// Returns the name of the store.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Files => "files",
            StoreKind::InPlace => "in-place",
            StoreKind::Akumuli => "akumuli",
            StoreKind::Yawndb => "yawndb",
            StoreKind::Log => "log",
            StoreKind::LogOnly => "log-only",
            StoreKind::Sqlite => "sqlite",
            StoreKind::Rocksdb => "rocksdb",
        }
    }

    /// Returns the reason why this program cannot test the store; `None` if it can.
    fn obstacle(self) -> Option<&'static str> {
        match self {
            StoreKind::Sqlite if !cfg!(feature = "references") => {
                Some("this program was built without SQLite; build it with --features references")
            }
            StoreKind::Rocksdb if !cfg!(feature = "rocksdb") => {
                Some("this program was built without RocksDB; build it with --features rocksdb")
            }
            _ => None,
        }
    }

    /// Returns true if the user chooses the size of portions for this store.
    fn takes_portions(self) -> bool {
        self == StoreKind::Files
    }
}

/// Distribution of files over directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// 100 entries per directory: `AB/CD/EF/name`.
    #[default]
    Tree,
    /// All files in one directory.
    Flat,
}

/// Rate of portions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as the store accepts them.
    #[default]
    Greedy,
    /// A fixed rate. The test searches for the highest sustainable one.
    Paced,
}

/// Settings of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// Directories to write to. Files are distributed over all of them.
    pub directories: Vec<PathBuf>,
    /// Kind of a new file system. Its image is in the first directory, and it replaces the directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<String>,
    /// C: space for data in bytes.
    pub space_bytes: u64,
    /// Stores to test.
    pub stores: Vec<StoreKind>,
    /// F: numbers of sensors.
    pub sensors: Vec<u64>,
    /// B: sizes of a portion in bytes.
    pub portions: Vec<u64>,
    /// R: number of files kept per sensor, the current one included.
    pub kept: u64,
    /// M: number of threads that write.
    pub writers: u64,
    /// True if processes write instead of threads.
    #[serde(default)]
    pub is_by_processes: bool,
    /// Distribution of files over directories.
    pub layout: Layout,
    /// True if a buffer of B bytes is allocated for every sensor.
    pub is_buffered: bool,
    /// True if every portion is synced before the next one.
    pub is_synced: bool,
    /// Rate of portions.
    pub pace: Pace,
    /// Memory limit in bytes, page cache included; 0 for no limit.
    pub memory_bytes: u64,
    /// Seconds of measurement per cell.
    pub seconds: f64,
    /// Maximum number of bytes written per cell.
    pub most_bytes: u64,
    /// Backend: this kernel, or another one in an emulated machine.
    #[serde(default, skip_serializing_if = "Backend::is_native")]
    pub backend: Backend,
}

impl Write {
    /// Returns the settings of a profile.
    pub fn new(directory: PathBuf, profile: Profile) -> Write {
        let toy = profile == Profile::Toy;
        let (seconds, most_bytes, space_bytes) = match profile {
            Profile::Toy => (0.2, 16 << 20, 64 << 20),
            Profile::Safe => (8.0, 2 << 30, 6 << 30),
            Profile::Full => (3600.0, u64::MAX >> 1, 100_000_000_000),
        };
        let (sensors, portions) = match profile {
            Profile::Toy => (vec![1, 100], vec![4 << 10]),
            Profile::Safe => (
                vec![1, 1000, 10_000, 100_000],
                vec![1 << 10, 4 << 10, 64 << 10],
            ),
            Profile::Full => (
                vec![
                    1, 100, 1000, 10_000, 50_000, 100_000, 350_000, 700_000, 1_000_000,
                ],
                [1, 2, 4, 8, 16, 32, 48, 64, 128]
                    .map(|kibibytes| kibibytes << 10)
                    .to_vec(),
            ),
        };
        Write {
            directories: vec![directory],
            fresh: None,
            space_bytes,
            stores: if toy {
                StoreKind::ALL.to_vec()
            } else {
                vec![
                    StoreKind::Files,
                    StoreKind::InPlace,
                    StoreKind::Akumuli,
                    StoreKind::Yawndb,
                    StoreKind::Log,
                ]
            },
            sensors,
            portions,
            kept: 2,
            writers: 1,
            is_by_processes: false,
            layout: Layout::Tree,
            is_buffered: false,
            is_synced: false,
            pace: Pace::Greedy,
            memory_bytes: 0,
            seconds,
            most_bytes,
            backend: Backend::Native,
        }
    }

    /// Changes the settings for guests, whose disks are in memory: less space, unless it was given.
    pub fn in_guests(&mut self, is_space_chosen: bool) {
        self.backend = Backend::Guest;
        if !is_space_chosen {
            self.space_bytes = self.space_bytes.min(GUEST_SPACE);
        }
    }

    /// Returns the size of a file system's image in bytes: the data plus the file system's own structures.
    fn image_bytes(&self) -> u64 {
        self.space_bytes + (self.space_bytes >> 3) + (64 << 20)
    }

    /// Returns the reference for all other cells: one file, in large pieces.
    fn sequential(&self) -> Task {
        Task {
            name: SEQUENTIAL.to_string(),
            ..self.task(StoreKind::Files, 1, SEQUENTIAL_PIECE)
        }
    }

    /// Returns all cells, and the cells that do not fit into the space.
    fn tasks(&self) -> (Vec<Task>, Vec<Missing>) {
        let (mut tasks, mut missing) = (Vec::new(), Vec::new());
        for store in &self.stores {
            let alone = "it keeps its store in the memory of one process: leave out --processes";
            let is_alone = self.is_by_processes && *store != StoreKind::Files;
            if let Some(why) = store.obstacle().or(is_alone.then_some(alone)) {
                missing.push(Missing {
                    name: store.name().to_string(),
                    why: why.to_string(),
                });
                continue;
            }
            let portions = if store.takes_portions() {
                self.portions.as_slice()
            } else {
                &[stores::FIXED_PORTION]
            };
            for portion in portions {
                for sensors in &self.sensors {
                    let task = self.task(*store, *sensors, *portion);
                    if store.takes_portions() && self.rotate_at(*sensors) < 2 * portion {
                        missing.push(Missing {
                            name: task.name,
                            why: format!(
                                "{} would not fit into {}: choose a larger --space",
                                bytes((self.kept * portion * sensors) as f64),
                                bytes(self.space_bytes as f64)
                            ),
                        });
                    } else {
                        tasks.push(task);
                    }
                }
            }
        }
        if !tasks.is_empty() && self.rotate_at(1) >= 2 * SEQUENTIAL_PIECE {
            tasks.insert(0, self.sequential());
        }
        (tasks, missing)
    }

    fn task(&self, store: StoreKind, sensors: u64, portion: u64) -> Task {
        let name = if store.takes_portions() {
            format!(
                "{} F={sensors} B={}",
                store.name(),
                bytes(portion as f64).replace(" KiB", "K")
            )
        } else {
            format!("{} F={sensors}", store.name())
        };
        let settings = [
            ("store", json!(store)),
            ("F", json!(sensors)),
            ("B", json!(portion)),
        ];
        let making = sensors as f64 / 15_000.0;
        let measuring = self.seconds
            * if self.pace == Pace::Paced {
                TRIALS as f64 + 2.0
            } else {
                1.5
            };
        Task {
            name,
            settings: settings
                .map(|(name, value)| (name.to_string(), value))
                .into(),
            estimate_s: making + measuring,
        }
    }

    /// Returns L: the size at which a file is rotated, so that all files together fill [`FILL`] of the space.
    fn rotate_at(&self, sensors: u64) -> u64 {
        (FILL * self.space_bytes as f64 / (sensors * self.kept) as f64) as u64
    }

    fn check(&self, location: &StorageLocation) -> Result<()> {
        if self.sensors.is_empty() || self.portions.is_empty() || self.stores.is_empty() {
            return refuse("name at least one store, one --sensors and one --portion");
        }
        if self
            .sensors
            .iter()
            .any(|sensors| !(1..=100_000_000).contains(sensors))
        {
            return refuse("--sensors must be between 1 and 100 million");
        }
        if self
            .portions
            .iter()
            .any(|portion| !(16..=16 << 20).contains(portion))
        {
            return refuse("--portion must be between 16 B and 16 MiB");
        }
        if !(1..=1024).contains(&self.writers) || self.kept < 2 {
            return refuse("--writers must be between 1 and 1024, and --kept at least 2");
        }
        if self.is_by_processes && self.is_buffered {
            return refuse("--buffered keeps buffers in one process; leave out --processes");
        }
        if !(0.01..=864_000.0).contains(&self.seconds) {
            return refuse("--seconds must be between 0.01 and 864000");
        }
        if self.backend == Backend::Guest {
            return self.check_guest();
        }
        let free = location.free_bytes()?;
        if free < self.image_bytes() {
            return refuse(format!(
                "{} has {} free, too little for --space {}; choose a smaller --space",
                location.path.display(),
                bytes(free as f64),
                bytes(self.space_bytes as f64)
            ));
        }
        let most = self.sensors.iter().max().copied().unwrap_or(0);
        if self.is_buffered {
            let portion = self.portions.iter().max().copied().unwrap_or(0);
            let memory = if self.memory_bytes > 0 {
                self.memory_bytes
            } else {
                crate::machine::Machine::this().memory
            };
            if most * portion > memory {
                return refuse(format!(
                    "a buffer for every sensor takes {}, memory is {}",
                    bytes((most * portion) as f64),
                    bytes(memory as f64)
                ));
            }
        }
        self.check_inodes(location, most)
    }

    /// Returns these settings for a guest, where `directory` replaces the directories of this machine.
    pub fn inside(&self, directory: &Path) -> Write {
        Write {
            directories: vec![directory.to_owned()],
            backend: Backend::Native,
            ..self.clone()
        }
    }

    /// Checks the limits of a guest: its disk is in its own memory.
    fn check_guest(&self) -> Result<()> {
        if self.fresh.is_none() {
            return refuse(
                "a guest has no disk of this machine: name a file system by --fresh, such as ext4",
            );
        }
        if self.memory_bytes > 0 {
            return refuse(
                "a guest's disk is in its memory, which a limit would include: leave out --memory",
            );
        }
        if self.is_by_processes {
            return refuse("a guest has one process and one processor: leave out --processes");
        }
        let memory = crate::machine::Machine::this().memory;
        let needed = self.guest_memory() + self.image_bytes();
        if needed > memory / 2 {
            return refuse(format!(
                "the guest would take {} of this machine's {}; choose a smaller --space",
                bytes(needed as f64),
                bytes(memory as f64)
            ));
        }
        Ok(())
    }

    /// Returns the memory of a guest without its disk: for the page cache and for stores that keep samples in memory.
    fn guest_memory(&self) -> u64 {
        self.space_bytes
    }

    fn check_inodes(&self, location: &StorageLocation, sensors: u64) -> Result<()> {
        if self.fresh.is_some()
            || !self
                .stores
                .iter()
                .any(|store| matches!(store, StoreKind::Files | StoreKind::InPlace))
        {
            return Ok(());
        }
        let space = rustix::fs::statvfs(&location.path).map_err(anyhow::Error::from)?;
        let needed = sensors * self.kept + sensors / 50 + 1000;
        // File systems without a fixed number of inodes report 0.
        if space.f_files > 0 && space.f_favail < needed {
            return refuse(format!(
                "{} has space for {} more files, and {needed} are needed; choose fewer --sensors or --fresh ext4",
                location.path.display(),
                space.f_favail
            ));
        }
        Ok(())
    }
}

impl Experiment for Write {
    fn plan(&self, _profile: Profile) -> Result<ExperimentPlan> {
        let Some(first) = self.directories.first() else {
            return refuse("name a directory to write into");
        };
        for directory in &self.directories {
            if !directory.is_dir() {
                return refuse(format!("{} is not a directory", directory.display()));
            }
        }
        let location = StorageLocation::find(first)?;
        self.check(&location)?;
        if let Some(kind) = &self.fresh {
            if let Some(obstacle) = self.backend.obstacle(kind) {
                return refuse(format!("a new {kind} cannot be created: {obstacle}"));
            }
            if self.directories.len() > 1 {
                return refuse("a fresh file system takes one directory");
            }
        }
        let (tasks, missing) = self.tasks();
        if let (true, Some(first)) = (tasks.is_empty(), missing.first()) {
            return refuse(format!("{}: {}", first.name, first.why));
        }
        Ok(ExperimentPlan {
            tasks,
            missing,
            backend: self.backend,
            location: Some(location),
        })
    }

    fn open(&self, seed: u64, bench: &Bench) -> Result<Box<dyn Session>> {
        if self.memory_bytes > 0 {
            crate::group::probe(self.memory_bytes, &bench.registry)?;
        }
        Ok(Box::new(Run {
            settings: self.clone(),
            seed,
        }))
    }

    fn guest_needs(&self) -> Option<GuestNeeds> {
        Some(GuestNeeds {
            directory: self.directories.first()?.clone(),
            medium_bytes: self.image_bytes(),
            memory_bytes: self.guest_memory(),
        })
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        pictures::figures(results)
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        pictures::remarks(self, results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_the_paper_that_do_not_fit_are_omitted() {
        let full = Write::new("/".into(), Profile::Full);
        let (tasks, missing) = full.tasks();
        let files = |name: &str| name.starts_with("files");
        // 2·B·F ≥ Umax·C holds for (350000, 128K) and beyond.
        assert!(
            missing
                .iter()
                .any(|cell| cell.name == "files F=1000000 B=48K")
        );
        assert!(tasks.iter().any(|task| task.name == "files F=700000 B=8K"));
        assert_eq!(
            tasks.iter().filter(|task| files(&task.name)).count() + missing.len(),
            81
        );
        assert_eq!(tasks[0].name, "one file in sequence");
    }

    #[test]
    fn files_are_rotated_so_that_they_fit() {
        let settings = Write {
            space_bytes: 1_000_000,
            kept: 2,
            ..Write::new("/".into(), Profile::Toy)
        };
        assert_eq!(settings.rotate_at(10), 45_000);
    }
}
