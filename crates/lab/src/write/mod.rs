//! `lab write`: very many sensors, written by one store after the other under the same load.
//!
//! The first paper's test: portions of B bytes for each of F sensors in turn, as fast as the system
//! takes them, or at the highest rate that it sustains. Everything is made before measuring starts; a
//! lap warms up; what the page cache still holds at the end is synced and counted.

mod drive;
mod pictures;
mod stores;

use crate::blocks::Recorder;
use crate::error::{Result, refuse};
use crate::group::Limit;
use crate::job::{Experiment, Job, Plan, Profile, Session, Task};
use crate::native::{self, Claims, Fresh, Recipe};
use crate::place::{Device, Place};
use crate::report::figure::{Figure, bytes};
use crate::results::{Backend, Cell, Line, Missing, Results, Settings};
use crate::runner::Bench;
use drive::{Drive, Phase};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use stores::Store;

/// A sample as sensors send it: a time and a value.
pub const SAMPLE_BYTES: u64 = 16;
/// Umax: files fill this share of the room at the most.
const FILL: f64 = 0.9;
/// A pass of the paced test delivers this share of what is due, the sync behind it included.
const DELIVERED: f64 = 0.95;
/// Rates tried by the paced test after the first.
const TRIALS: usize = 6;
/// Beyond this difference between the halves of a measurement the rate is not steady.
const STEADY: f64 = 0.15;

/// Who is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A file a sensor, appended (the paper's store).
    Files,
    /// A file a sensor, each sample updated in place at once (as RRDtool does).
    InPlace,
    /// Blocks of all sensors in one log with a tree inside (as Akumuli does).
    Akumuli,
    /// Samples in memory, and one record each in a log for recovery (as YAWNDB does).
    Yawndb,
    /// This project's engine, journal committed every 100 ms.
    Log,
    /// This project's engine without a journal.
    LogOnly,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Files,
        Kind::InPlace,
        Kind::Akumuli,
        Kind::Yawndb,
        Kind::Log,
        Kind::LogOnly,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::InPlace => "in-place",
            Kind::Akumuli => "akumuli",
            Kind::Yawndb => "yawndb",
            Kind::Log => "log",
            Kind::LogOnly => "log-only",
        }
    }

    /// Whether the size of portions is its user's choice.
    fn takes_portions(self) -> bool {
        self == Kind::Files
    }
}

/// How files are spread over directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// 100 entries a directory: `AB/CD/EF/name`.
    #[default]
    Tree,
    /// All in one directory.
    Flat,
}

/// How fast portions come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// As fast as they are taken.
    #[default]
    Greedy,
    /// At a fixed rate; the highest one that is sustained is searched.
    Paced,
}

/// Settings of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    /// Directories to write into; files are dealt out over all of them.
    pub directories: Vec<PathBuf>,
    /// A fresh file system on an image in the first directory, instead of the directories themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<String>,
    /// C: the room for data, bytes.
    pub room_bytes: u64,
    /// Who is tested.
    pub stores: Vec<Kind>,
    /// F: how many sensors.
    pub sensors: Vec<u64>,
    /// B: bytes of a portion.
    pub portions: Vec<u64>,
    /// R: files kept of each sensor, the current one included.
    pub kept: u64,
    /// M: threads that write.
    pub writers: u64,
    /// How files are spread.
    pub layout: Layout,
    /// Whether a buffer of B bytes is really kept for every sensor.
    pub is_buffered: bool,
    /// Whether every portion is synced before the next.
    pub is_synced: bool,
    /// How fast portions come.
    pub pace: Pace,
    /// Memory for all of it, page cache included, bytes; 0: no limit.
    pub memory_bytes: u64,
    /// Seconds of measuring a cell.
    pub seconds: f64,
    /// Bytes written by a cell at the most.
    pub most_bytes: u64,
}

impl Write {
    /// The settings of a profile.
    pub fn new(directory: PathBuf, profile: Profile) -> Write {
        let toy = profile == Profile::Toy;
        let (seconds, most_bytes, room_bytes) = match profile {
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
            room_bytes,
            stores: if toy {
                Kind::ALL.to_vec()
            } else {
                vec![
                    Kind::Files,
                    Kind::InPlace,
                    Kind::Akumuli,
                    Kind::Yawndb,
                    Kind::Log,
                ]
            },
            sensors,
            portions,
            kept: 2,
            writers: 1,
            layout: Layout::Tree,
            is_buffered: false,
            is_synced: false,
            pace: Pace::Greedy,
            memory_bytes: 0,
            seconds,
            most_bytes,
        }
    }

    /// Every cell, and those that would not fit.
    fn tasks(&self) -> (Vec<Task>, Vec<Missing>) {
        let (mut tasks, mut missing) = (Vec::new(), Vec::new());
        for store in &self.stores {
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
                                "{} would not fit into {}: choose more by --room",
                                bytes((self.kept * portion * sensors) as f64),
                                bytes(self.room_bytes as f64)
                            ),
                        });
                    } else {
                        tasks.push(task);
                    }
                }
            }
        }
        (tasks, missing)
    }

    fn task(&self, store: Kind, sensors: u64, portion: u64) -> Task {
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

    /// L: the size at which a file is rotated, so that all of them fill the room to [`FILL`].
    fn rotate_at(&self, sensors: u64) -> u64 {
        (FILL * self.room_bytes as f64 / (sensors * self.kept) as f64) as u64
    }

    fn check(&self, place: &Place) -> Result<()> {
        if self.sensors.is_empty() || self.portions.is_empty() || self.stores.is_empty() {
            return refuse("at least one store, one --sensors and one --portion must be named");
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
            return refuse("--writers must be between 1 and 1024, and --kept 2 at the least");
        }
        if !(0.01..=864_000.0).contains(&self.seconds) {
            return refuse("--seconds must be between 0.01 and 864000");
        }
        let free = place.free_bytes()?;
        if free < self.room_bytes + (self.room_bytes >> 3) + (64 << 20) {
            return refuse(format!(
                "{} has {} free, too little for --room {}; choose less",
                place.path.display(),
                bytes(free as f64),
                bytes(self.room_bytes as f64)
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
        self.check_inodes(place, most)
    }

    fn check_inodes(&self, place: &Place, sensors: u64) -> Result<()> {
        if self.fresh.is_some()
            || !self
                .stores
                .iter()
                .any(|store| matches!(store, Kind::Files | Kind::InPlace))
        {
            return Ok(());
        }
        let told = rustix::fs::statvfs(&place.path).map_err(anyhow::Error::from)?;
        let needed = sensors * self.kept + sensors / 50 + 1000;
        // File systems without a fixed number tell 0.
        if told.f_files > 0 && told.f_favail < needed {
            return refuse(format!(
                "{} has room for {} files more, {needed} are needed; choose fewer --sensors or --fresh ext4",
                place.path.display(),
                told.f_favail
            ));
        }
        Ok(())
    }
}

impl Experiment for Write {
    fn plan(&self, _job: &Job) -> Result<Plan> {
        let Some(first) = self.directories.first() else {
            return refuse("name a directory to write into");
        };
        for directory in &self.directories {
            if !directory.is_dir() {
                return refuse(format!("{} is no directory", directory.display()));
            }
        }
        let place = Place::find(first)?;
        self.check(&place)?;
        if let Some(kind) = &self.fresh {
            if let Some(obstacle) = native::obstacle(kind) {
                return refuse(format!("a fresh {kind} cannot be had: {obstacle}"));
            }
            if self.directories.len() > 1 {
                return refuse("a fresh file system and several directories do not go together");
            }
        }
        let (tasks, missing) = self.tasks();
        Ok(Plan {
            tasks,
            missing,
            backend: Backend::Native,
            place: Some(place),
        })
    }

    fn open(&self, job: &Job, bench: &Bench) -> Result<Box<dyn Session>> {
        if self.memory_bytes > 0 {
            crate::group::probe(self.memory_bytes, &bench.registry)?;
        }
        Ok(Box::new(Run {
            settings: self.clone(),
            seed: job.seed,
        }))
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        pictures::figures(results)
    }

    fn remarks(&self, results: &Results) -> Vec<String> {
        pictures::remarks(self, results)
    }
}

struct Run {
    settings: Write,
    seed: u64,
}

/// Where a cell writes. Everything goes when it is dropped.
struct Ground {
    directories: Vec<PathBuf>,
    device: Option<Device>,
    fresh: Option<Fresh>,
    _claims: Claims,
}

impl Ground {
    fn make(settings: &Write, sensors: u64, bench: &Bench) -> Result<Ground> {
        if let Some(kind) = &settings.fresh {
            let recipe = Recipe {
                kind: kind.clone(),
                options: String::new(),
                // The file system's own structures come on top.
                bytes: settings.room_bytes + (settings.room_bytes >> 3) + (64 << 20),
                inodes: sensors * settings.kept + sensors / 40 + 4096,
                offset: 0,
            };
            let fresh = Fresh::make(&recipe, &settings.directories[0], &bench.registry)?;
            // It goes with its image, so nobody removes it file by file.
            let directory = fresh.mounted.point().join("data");
            std::fs::create_dir(&directory)?;
            let device = Some(fresh.disk.device.clone());
            return Ok(Ground {
                directories: vec![directory],
                device,
                fresh: Some(fresh),
                _claims: Claims::default(),
            });
        }
        let device = Place::find(&settings.directories[0])?.device;
        let mut claims = Claims::default();
        let mut directories = Vec::new();
        for parent in &settings.directories {
            let (claim, directory) = bench.registry.tree(parent)?;
            claims.0.push(claim);
            directories.push(directory);
        }
        Ok(Ground {
            directories,
            device,
            fresh: None,
            _claims: claims,
        })
    }

    fn sync(&self) -> Result<()> {
        self.directories
            .iter()
            .try_for_each(|directory| native::sync_file_system(directory))
    }
}

impl Session for Run {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let number = |name: &str| task.settings[name].as_u64().expect("the task is ours");
        let (sensors, portion) = (number("F"), number("B"));
        let kind: Kind =
            serde_json::from_value(task.settings["store"].clone()).expect("the task is ours");
        let ground = Ground::make(&self.settings, sensors, bench)?;
        bench.say(format!("{}: making it", task.name));
        let store = stores::make(
            kind,
            &self.settings,
            sensors,
            portion,
            &ground.directories,
            &bench.interrupt,
        )?;
        ground.sync()?;
        let limit = match self.settings.memory_bytes {
            0 => None,
            memory => Some(Limit::set(memory, &bench.registry)?),
        };
        let drive = Drive::new(&*store, sensors, self.settings.writers, self.seed, portion);
        let cell = self.measure(task, &drive, &*store, &ground, bench);
        drop(drive);
        drop(store);
        drop(limit);
        let mut cell = cell?;
        cell.settings.extend(self.common_settings());
        Ok(cell)
    }
}

impl Run {
    fn common_settings(&self) -> Settings {
        let set = &self.settings;
        let pairs = [
            ("M", json!(set.writers)),
            ("R", json!(set.kept)),
            ("layout", json!(set.layout)),
            ("memory", json!(set.memory_bytes)),
            ("pace", json!(set.pace)),
            ("synced", json!(set.is_synced)),
            ("buffered", json!(set.is_buffered)),
        ];
        pairs.map(|(name, value)| (name.to_string(), value)).into()
    }

    fn measure(
        &self,
        task: &Task,
        drive: &Drive<'_>,
        store: &dyn Store,
        ground: &Ground,
        bench: &Bench,
    ) -> Result<Cell> {
        let lap = store.lap_bytes();
        let mut cell = Cell::default();
        bench.say(format!("{}: warming up", task.name));
        let half = Duration::from_secs_f64(self.settings.seconds / 2.0);
        let warm = drive.run(
            half,
            lap.min(self.settings.most_bytes),
            self.settings.most_bytes / 2,
            None,
            &bench.interrupt,
        )?;
        if warm.bytes < lap {
            cell.notes.push(
                "Warmed up for less than a lap over all sensors: what was measured is a beginning."
                    .to_string(),
            );
        }
        ground.sync()?;
        bench.say(format!("{}: measuring", task.name));
        let recorder = ground
            .device
            .as_ref()
            .map(|device| Recorder::start(device, &bench.registry));
        if let Some(why) = recorder
            .as_ref()
            .and_then(|recorder| recorder.without_types.as_ref())
        {
            cell.notes
                .push(format!("Types of block operations are not known: {why}."));
        }
        let phase = match self.settings.pace {
            Pace::Greedy => {
                let phase = self.phase(drive, ground, None, bench)?;
                tell(&phase, lap, &mut cell);
                phase
            }
            Pace::Paced => self.search(drive, ground, lap, &mut cell, bench)?,
        };
        if let Some(recorder) = recorder {
            let blocks = recorder.finish();
            if self.settings.pace == Pace::Greedy {
                cell.tell(
                    "K_wa",
                    blocks.written_bytes as f64 / phase.phase.bytes as f64,
                );
            }
            if ground.fresh.is_none() {
                cell.notes.push("Block operations of everybody on this disk are counted: K_wa is right only where nobody else writes.".to_string());
            }
            cell.blocks = Some(blocks);
        }
        Ok(cell)
    }

    /// One measurement with the sync behind it.
    fn phase(
        &self,
        drive: &Drive<'_>,
        ground: &Ground,
        rate: Option<f64>,
        bench: &Bench,
    ) -> Result<Synced> {
        let seconds = Duration::from_secs_f64(self.settings.seconds);
        let phase = drive.run(seconds, 0, self.settings.most_bytes, rate, &bench.interrupt)?;
        let start = std::time::Instant::now();
        ground.sync()?;
        Ok(Synced {
            phase,
            sync_s: start.elapsed().as_secs_f64(),
        })
    }

    /// The highest rate that is sustained.
    fn search(
        &self,
        drive: &Drive<'_>,
        ground: &Ground,
        lap: u64,
        cell: &mut Cell,
        bench: &Bench,
    ) -> Result<Synced> {
        let greedy = self.phase(drive, ground, None, bench)?;
        tell(&greedy, lap, cell);
        let (mut sustained, mut too_much) = (0.0, greedy.rate() * 1.25);
        let mut trials = Vec::new();
        let mut last = greedy;
        for _ in 0..TRIALS {
            let rate = (sustained + too_much) / 2.0;
            let trial = self.phase(drive, ground, Some(rate), bench)?;
            let passed = trial.rate() >= DELIVERED * rate;
            trials.push((rate / 1e6, f64::from(u8::from(passed))));
            if passed {
                sustained = rate;
            } else {
                too_much = rate;
            }
            last = trial;
        }
        cell.tell("sustained MB/s", sustained / 1e6);
        cell.lines.push(Line {
            name: "passed at MB/s".to_string(),
            points: trials,
        });
        Ok(last)
    }
}

/// A phase, and the sync behind it.
struct Synced {
    phase: Phase,
    sync_s: f64,
}

impl Synced {
    /// Bytes a second that reached the device.
    fn rate(&self) -> f64 {
        self.phase.bytes as f64 / (self.phase.took.as_secs_f64() + self.sync_s)
    }
}

fn tell(synced: &Synced, lap: u64, cell: &mut Cell) {
    let phase = &synced.phase;
    let seconds = phase.took.as_secs_f64();
    cell.tell("MB/s", synced.rate() / 1e6);
    cell.tell("accepted MB/s", phase.bytes as f64 / seconds / 1e6);
    cell.tell("samples/s", synced.rate() / SAMPLE_BYTES as f64);
    cell.tell("laps", phase.bytes as f64 / lap as f64);
    cell.tell("sync s", synced.sync_s);
    cell.tell("p99 ms", phase.p99_ms);
    let steady = steadiness(phase, lap);
    cell.tell("steady", f64::from(u8::from(steady.is_none())));
    cell.notes
        .extend(steady.map(|why| format!("Not steady: {why}.")));
    cell.lines.push(Line {
        name: "MB/s".to_string(),
        points: phase.rates.clone(),
    });
}

/// Why a measurement does not tell the rate that would be kept up; nothing if it does.
fn steadiness(phase: &Phase, lap: u64) -> Option<String> {
    if phase.bytes < lap {
        return Some("less than a lap over all sensors was measured".to_string());
    }
    if phase.rates.len() < 8 {
        return Some("too few seconds were measured".to_string());
    }
    let mean = |points: &[(f64, f64)]| {
        points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
    };
    let (first, second) = phase.rates.split_at(phase.rates.len() / 2);
    let (first, second) = (mean(first), mean(second));
    if (first - second).abs() > STEADY * first.max(second) {
        return Some(format!(
            "the second half ran at {:.0} % of the first",
            100.0 * second / first.max(f64::MIN_POSITIVE)
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(bytes: u64, rates: &[f64]) -> Phase {
        Phase {
            bytes,
            took: Duration::from_secs(1),
            rates: rates
                .iter()
                .enumerate()
                .map(|(second, rate)| (second as f64, *rate))
                .collect(),
            p99_ms: 0.0,
        }
    }

    #[test]
    fn what_is_steady() {
        assert_eq!(steadiness(&phase(10, &[5.0; 10]), 10), None);
        assert!(
            steadiness(&phase(9, &[5.0; 10]), 10)
                .unwrap()
                .contains("lap")
        );
        assert!(
            steadiness(&phase(10, &[5.0; 3]), 10)
                .unwrap()
                .contains("few")
        );
        let falling: Vec<f64> = (0..10)
            .map(|second| 100.0 - 8.0 * f64::from(second))
            .collect();
        assert!(
            steadiness(&phase(10, &falling), 10)
                .unwrap()
                .contains("second half")
        );
    }

    #[test]
    fn the_papers_pairs_are_left_out_where_they_would_not_fit() {
        let full = Write::new("/".into(), Profile::Full);
        let (tasks, missing) = full.tasks();
        let files = |name: &str| name.starts_with("files");
        // 2·B·F ≥ Umax·C: (350000, 128K) and beyond.
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
    }

    #[test]
    fn files_are_rotated_so_that_they_fit() {
        let settings = Write {
            room_bytes: 1_000_000,
            kept: 2,
            ..Write::new("/".into(), Profile::Toy)
        };
        assert_eq!(settings.rotate_at(10), 45_000);
    }
}
