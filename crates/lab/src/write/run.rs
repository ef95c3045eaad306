//! Measurement of one cell of the write test.
//!
//! 1. The directory and the store are prepared.
//! 2. One lap is the warm-up. A lap is the load after which each sensor has filled a buffer once.
//! 3. The following load is measured.

use super::drive::{Drive, Phase, WriteLoad};
use super::pool::WorkerPool;
use super::stores::{self, Store};
use super::{Pace, SAMPLE_BYTES, StoreKind, TRIALS, Write};
use crate::bench::Bench;
use crate::blocks::Recorder;
use crate::cell::{Cell, CellSettings, Line};
use crate::error::Result;
use crate::experiment::{Session, Task};
use crate::group::Limit;
use crate::location::{Device, StorageLocation};
use crate::native::{self, Fresh, Recipe, ResourceGuards};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Minimum share of the planned rate, final sync included, with which a trial of the paced test passes.
const DELIVERED: f64 = 0.95;
/// Maximum relative difference between the halves of a steady measurement.
const STEADY: f64 = 0.15;

/// Session of the write test.
pub struct Run {
    /// Settings of the test.
    pub settings: Write,
    /// Seed of the contents.
    pub seed: u64,
}

/// Directories of a cell. Dropping them removes everything.
struct StorageTarget {
    directories: Vec<PathBuf>,
    device: Option<Device>,
    fresh: Option<Fresh>,
    _guards: ResourceGuards,
}

impl StorageTarget {
    fn make(settings: &Write, sensors: u64, bench: &Bench) -> Result<StorageTarget> {
        if let Some(kind) = &settings.fresh {
            let recipe = Recipe {
                kind: kind.clone(),
                options: String::new(),
                bytes: settings.image_bytes(),
                inodes: sensors * settings.kept + sensors / 40 + 4096,
                offset: 0,
            };
            let fresh = Fresh::make(&recipe, &settings.directories[0], &bench.registry)?;
            // The directory is removed with its image, which avoids removing the files one by one.
            let directory = fresh.mounted.point().join("data");
            std::fs::create_dir(&directory)?;
            let device = Some(fresh.disk.device.clone());
            return Ok(StorageTarget {
                directories: vec![directory],
                device,
                fresh: Some(fresh),
                _guards: ResourceGuards::default(),
            });
        }
        let device = StorageLocation::find(&settings.directories[0])?.device;
        let mut guards = ResourceGuards::default();
        let mut directories = Vec::new();
        for parent in &settings.directories {
            let (guard, directory) = bench.registry.tree(parent)?;
            guards.0.push(guard);
            directories.push(directory);
        }
        Ok(StorageTarget {
            directories,
            device,
            fresh: None,
            _guards: guards,
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
        let number = |name: &str| {
            task.settings[name]
                .as_u64()
                .expect("this experiment made the task")
        };
        let (sensors, portion) = (number("F"), number("B"));
        let kind: StoreKind = serde_json::from_value(task.settings["store"].clone())
            .expect("this experiment made the task");
        let target = StorageTarget::make(&self.settings, sensors, bench)?;
        bench.say(format!("{}: making it", task.name));
        let store = stores::make(
            kind,
            &self.settings,
            sensors,
            portion,
            &target.directories,
            &bench.interrupt,
        )?;
        target.sync()?;
        let limit = match self.settings.memory_bytes {
            0 => None,
            memory => Some(Limit::set(memory, &bench.registry)?),
        };
        let set = &self.settings;
        let drive: Box<dyn WriteLoad> = match set.is_by_processes {
            true => Box::new(WorkerPool::start(
                set,
                sensors,
                portion,
                self.seed,
                &target.directories,
            )?),
            false => Box::new(Drive::new(
                &*store,
                sensors,
                set.writers,
                self.seed,
                portion,
            )),
        };
        let cell = self.measure(task, &*drive, &*store, &target, bench);
        drop(drive);
        drop(store);
        drop(limit);
        let mut cell = cell?;
        cell.settings.extend(self.common_settings());
        Ok(cell)
    }
}

impl Run {
    fn common_settings(&self) -> CellSettings {
        let set = &self.settings;
        let pairs = [
            ("M", json!(set.writers)),
            ("processes", json!(set.is_by_processes)),
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
        drive: &dyn WriteLoad,
        store: &dyn Store,
        target: &StorageTarget,
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
                "The warm-up was shorter than a lap over all sensors: the figures are those of the first lap."
                    .to_string(),
            );
        }
        target.sync()?;
        bench.say(format!("{}: measuring", task.name));
        let recorder = target
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
                let phase = self.phase(drive, target, None, bench)?;
                record_synced(&phase, lap, &mut cell);
                phase
            }
            Pace::Paced => self.search(drive, target, lap, &mut cell, bench)?,
        };
        if let Some(recorder) = recorder {
            let blocks = recorder.finish();
            if self.settings.pace == Pace::Greedy {
                cell.record(
                    "K_wa",
                    blocks.written_bytes as f64 / phase.phase.bytes as f64,
                );
            }
            if target.fresh.is_none() {
                cell.notes.push("The counts of block operations include other programs on this disk: K_wa is right only if no other program writes.".to_string());
            }
            cell.blocks = Some(blocks);
        }
        Ok(cell)
    }

    /// Measures one phase with the sync after it.
    fn phase(
        &self,
        drive: &dyn WriteLoad,
        target: &StorageTarget,
        rate: Option<f64>,
        bench: &Bench,
    ) -> Result<Synced> {
        let seconds = Duration::from_secs_f64(self.settings.seconds);
        let phase = drive.run(seconds, 0, self.settings.most_bytes, rate, &bench.interrupt)?;
        let start = crate::time::now();
        target.sync()?;
        Ok(Synced {
            phase,
            sync_s: start.elapsed().as_secs_f64(),
        })
    }

    /// Searches for the highest rate that the store sustains, by bisection.
    fn search(
        &self,
        drive: &dyn WriteLoad,
        target: &StorageTarget,
        lap: u64,
        cell: &mut Cell,
        bench: &Bench,
    ) -> Result<Synced> {
        let greedy = self.phase(drive, target, None, bench)?;
        record_synced(&greedy, lap, cell);
        let (mut sustained, mut too_much) = (0.0, greedy.rate() * 1.25);
        let mut trials = Vec::new();
        let mut last = greedy;
        for _ in 0..TRIALS {
            let rate = (sustained + too_much) / 2.0;
            let trial = self.phase(drive, target, Some(rate), bench)?;
            let passed = trial.rate() >= DELIVERED * rate;
            trials.push((rate / 1e6, f64::from(u8::from(passed))));
            if passed {
                sustained = rate;
            } else {
                too_much = rate;
            }
            last = trial;
        }
        cell.record("sustained MB/s", sustained / 1e6);
        cell.lines.push(Line {
            name: "passed at MB/s".to_string(),
            points: trials,
        });
        Ok(last)
    }
}

/// A phase, and the sync after it.
struct Synced {
    phase: Phase,
    sync_s: f64,
}

impl Synced {
    /// Bytes per second that reached the device.
    fn rate(&self) -> f64 {
        self.phase.bytes as f64 / (self.phase.took.as_secs_f64() + self.sync_s)
    }
}

fn record_synced(synced: &Synced, lap: u64, cell: &mut Cell) {
    let phase = &synced.phase;
    let seconds = phase.took.as_secs_f64();
    cell.record("MB/s", synced.rate() / 1e6);
    cell.record("accepted MB/s", phase.bytes as f64 / seconds / 1e6);
    cell.record("samples/s", synced.rate() / SAMPLE_BYTES as f64);
    cell.record("laps", phase.bytes as f64 / lap as f64);
    cell.record("sync s", synced.sync_s);
    cell.record("p99 ms", phase.p99_ms);
    let steady = steadiness(phase, lap);
    cell.record("steady", f64::from(u8::from(steady.is_none())));
    cell.notes
        .extend(steady.map(|why| format!("Not steady: {why}.")));
    cell.lines.push(Line {
        name: "MB/s".to_string(),
        points: phase.rates.clone(),
    });
}

/// Returns the reason why the rate of a measurement would not last; `None` if it is steady.
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
    fn steadiness_needs_a_lap_enough_seconds_and_a_stable_rate() {
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
}
