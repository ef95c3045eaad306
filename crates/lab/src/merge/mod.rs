//! `lab merge`: the sweeps of *Riak* on this project's engine. Measures the rate of a store that is
//! overwritten continuously, and the bytes that merging writes, by V, R, B and policy.

mod disk;
mod pictures;
mod store;

use crate::backend::Backend;
use crate::bench::Bench;
use crate::cell::{Cell, CellSettings, Line};
use crate::error::{Result, refuse};
use crate::experiment::{Experiment, ExperimentPlan, Measurements, Profile, Session, Task};
use crate::location::StorageLocation;
use seiner_chart::{Figure, bytes, plain};
use seiner_engine::MergePolicy;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use store::{IntervalCounts, LoadedStore, StoreLoad};

/// Number of points of a cell's lines over time.
const POINTS: u64 = 40;
/// Bytes that a cell stores per second, for estimates.
const RATE: f64 = 10e6;

/// Settings of the sweeps. A sweep varies one setting; the other settings have their first value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merge {
    /// Directory of the stores.
    pub directory: PathBuf,
    /// Disk budget of a store, C, in bytes.
    pub budget_bytes: u64,
    /// Live shares of the budget, V, swept for each policy.
    pub v: Vec<f64>,
    /// Live share of the budget, V, while R and B are swept.
    pub v_of_sizes: f64,
    /// Names of the policies. R and B are swept for the first policy.
    pub policies: Vec<String>,
    /// Sizes of a segment, R, in bytes.
    pub segments: Vec<u64>,
    /// Sizes of a block, B, in bytes.
    pub blocks: Vec<u32>,
    /// Fill at which merging begins, Um.
    pub merge_from: f64,
    /// Standard deviation of the logarithm of the sensors' rates; 0 for equal rates.
    pub sigma: f64,
    /// Number of lanes.
    pub lanes: u32,
    /// Bytes stored during the warm-up, as a multiple of C. The measurement stores as many bytes again.
    pub turns: f64,
}

impl Merge {
    /// Returns the settings of a profile.
    pub fn new(directory: PathBuf, profile: Profile) -> Merge {
        let (budget_bytes, turns) = match profile {
            Profile::Toy => (16 << 20, 1.0),
            Profile::Safe => (128 << 20, 2.0),
            Profile::Full => (8 << 30, 4.0),
        };
        let (v, policies, segments, blocks): (Vec<f64>, Vec<&str>, Vec<u64>, Vec<u32>) =
            match profile {
                Profile::Toy => (
                    vec![0.8],
                    vec!["patient", "fifo"],
                    vec![64 << 10],
                    vec![4096],
                ),
                Profile::Safe => (
                    vec![0.3, 0.6, 0.8, 0.9],
                    vec!["patient", "fisherman", "fifo"],
                    [1u64, 2, 4].map(|parts| (128 << 20) / 512 * parts).into(),
                    vec![4096, 1024, 16_384],
                ),
                Profile::Full => (
                    vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
                    vec!["patient", "fisherman", "greedy", "cost-benefit", "fifo"],
                    [16u64, 4, 8, 32, 64]
                        .map(|mebibytes| mebibytes << 20)
                        .into(),
                    vec![4096, 1024, 2048, 8192, 16_384, 65_536],
                ),
            };
        Merge {
            directory,
            budget_bytes,
            v,
            v_of_sizes: 0.8,
            policies: policies.into_iter().map(String::from).collect(),
            segments,
            blocks,
            merge_from: 0.95,
            sigma: 1.0,
            lanes: 32,
            turns,
        }
    }

    fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        let mut add = |policy: &str, v: f64, segment: u64, block: u32| {
            let task = self.task(policy, v, segment, block);
            if tasks.iter().all(|other| other.name != task.name) {
                tasks.push(task);
            }
        };
        for policy in &self.policies {
            for v in &self.v {
                add(policy, *v, self.segments[0], self.blocks[0]);
            }
        }
        for segment in &self.segments {
            add(&self.policies[0], self.v_of_sizes, *segment, self.blocks[0]);
        }
        for block in &self.blocks {
            add(&self.policies[0], self.v_of_sizes, self.segments[0], *block);
        }
        tasks
    }

    fn task(&self, policy: &str, v: f64, segment: u64, block: u32) -> Task {
        let settings = [
            ("policy", json!(policy)),
            ("V", json!(v)),
            ("R", json!(segment)),
            ("B", json!(block)),
        ];
        Task {
            name: format!(
                "{policy} V={} R={} B={}",
                plain(v),
                bytes(segment as f64),
                bytes(f64::from(block))
            ),
            settings: settings
                .map(|(name, value)| (name.to_string(), value))
                .into(),
            estimate_s: 2.0 * self.turns * self.budget_bytes as f64 / RATE,
        }
    }

    fn check(&self, location: &StorageLocation) -> Result<()> {
        if self.v.is_empty()
            || self.policies.is_empty()
            || self.segments.is_empty()
            || self.blocks.is_empty()
        {
            return refuse("name at least one V, policy, R and B each");
        }
        let shares = self.v.iter().chain([&self.v_of_sizes]);
        if let Some(v) = shares.into_iter().find(|v| !(0.01..=0.93).contains(*v)) {
            return refuse(format!(
                "V = {v}: use a live share between 0.01 and 0.93; merges need space for their output"
            ));
        }
        for policy in &self.policies {
            if let Err(error) = policy.parse::<MergePolicy>() {
                return refuse(format!("--policy: {error}"));
            }
        }
        if !(0.0..=3.0).contains(&self.sigma) || !(0.1..=50.0).contains(&self.turns) {
            return refuse("--sigma must be between 0 and 3, --turns between 0.1 and 50");
        }
        for segment in &self.segments {
            if self.budget_bytes / segment < 64 || *segment < 64 << 10 {
                return refuse(format!(
                    "R = {}: segments must have 64 KiB at least, and 64 of them must fit into the budget of {}",
                    bytes(*segment as f64),
                    bytes(self.budget_bytes as f64)
                ));
            }
        }
        if self
            .blocks
            .iter()
            .any(|block| !(256..=65_536).contains(block))
        {
            return refuse("B must be between 256 B and 64 KiB");
        }
        if location.free_bytes()? < self.budget_bytes + (256 << 20) {
            return refuse(format!(
                "{} has {} free, too little for --budget {}; choose a smaller budget",
                location.path.display(),
                bytes(location.free_bytes()? as f64),
                bytes(self.budget_bytes as f64)
            ));
        }
        Ok(())
    }
}

impl Experiment for Merge {
    fn plan(&self, _profile: Profile) -> Result<ExperimentPlan> {
        let location = StorageLocation::find(&self.directory)?;
        self.check(&location)?;
        Ok(ExperimentPlan {
            tasks: self.tasks(),
            missing: Vec::new(),
            backend: Backend::Native,
            location: Some(location),
        })
    }

    fn open(&self, seed: u64, _bench: &Bench) -> Result<Box<dyn Session>> {
        Ok(Box::new(Run {
            settings: self.clone(),
            seed,
        }))
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        pictures::figures(self, results)
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        pictures::remarks(self, results)
    }
}

struct Run {
    settings: Merge,
    seed: u64,
}

impl Session for Run {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let set = &self.settings;
        let number = |name: &str| {
            task.settings[name]
                .as_u64()
                .expect("this experiment made the task")
        };
        let policy = task.settings["policy"]
            .as_str()
            .expect("this experiment made the task");
        let load = StoreLoad {
            budget: set.budget_bytes,
            v: task.settings["V"]
                .as_f64()
                .expect("this experiment made the task"),
            segment_bytes: number("R"),
            block_bytes: number("B") as u32,
            merge_from: set.merge_from,
            sigma: set.sigma,
            policy: policy.parse().expect("the name of the policy was checked"),
            lanes: set.lanes,
            seed: self.seed,
        };
        let (guard, root) = bench.registry.tree(&set.directory)?;
        let mut running = LoadedStore::start(&load, &root, &bench.interrupt)?;
        let all = (set.budget_bytes as f64 * set.turns) as u64;
        let measured = measure(&mut running, all, &task.name, bench)?;
        let cell = measured.unwrap_or_else(|| rejected(&running));
        drop(running);
        guard.release()?;
        Ok(Cell {
            settings: CellSettings::from([("S".to_string(), json!(load.sensors()))]),
            ..cell
        })
    }
}

/// Returns the cell of a store that rejected rows, which is a result as well.
fn rejected(running: &LoadedStore) -> Cell {
    let mut cell = Cell::default();
    tell_fill(&mut cell, &running.log());
    cell.notes.push(
        "The store was full and rejected rows: this policy is too slow for this V, R and B."
            .to_string(),
    );
    cell
}

fn tell_fill(cell: &mut Cell, log: &seiner_engine::LogStatus) {
    cell.record("V reached", log.fill.v());
    cell.record("U reached", log.fill.u());
}

/// Warms up and measures. Returns `None` if the store rejected rows.
fn measure(running: &mut LoadedStore, all: u64, name: &str, bench: &Bench) -> Result<Option<Cell>> {
    bench.say(format!("{name}: warming up"));
    let Some(start) = running.feed(all, &bench.interrupt)? else {
        return Ok(None);
    };
    bench.say(format!("{name}: measuring"));
    let mut cell = Cell::default();
    let mut stretches: Vec<IntervalCounts> = Vec::new();
    let (mut rates, mut fills) = (Vec::new(), Vec::new());
    let mut seconds = start.work_s + start.wait_s;
    for _ in 0..POINTS {
        let Some(counts) = running.feed(all / POINTS, &bench.interrupt)? else {
            return Ok(None);
        };
        let took = counts.work_s + counts.wait_s;
        seconds += took;
        rates.push((seconds, counts.stored as f64 / took / 1e6));
        fills.push((seconds, running.log().fill.u()));
        stretches.push(counts);
    }
    let sum = |of: fn(&IntervalCounts) -> f64| stretches.iter().map(of).sum::<f64>();
    let stored = sum(|one| one.stored as f64);
    cell.record("MB/s", stored / sum(|one| one.work_s + one.wait_s) / 1e6);
    cell.record("MB/s of work", stored / sum(|one| one.work_s) / 1e6);
    cell.record(
        "written per byte",
        (stored + sum(|one| one.merged as f64)) / stored,
    );
    cell.record("segments per byte", sum(|one| one.written as f64) / stored);
    cell.record("dropped unread", sum(|one| one.dropped as f64));
    cell.record("merged", sum(|one| one.merges as f64));
    cell.record("waited s", sum(|one| one.wait_s));
    let dead: Vec<f64> = stretches
        .iter()
        .map(|one| one.mean_dead)
        .filter(|dead| dead.is_finite())
        .collect();
    cell.record(
        "mean D of merged",
        dead.iter().sum::<f64>() / dead.len() as f64,
    );
    let log = running.log();
    tell_fill(&mut cell, &log);
    cell.lines = vec![
        Line {
            name: "MB/s".to_string(),
            points: rates,
        },
        Line {
            name: "U".to_string(),
            points: fills,
        },
        Line {
            name: "live share by segment".to_string(),
            points: live_by_segment(&log),
        },
    ];
    Ok(Some(cell))
}

/// Live shares of the sealed segments in ascending order, over their rank in percent: figure 9 of
/// *Riak*.
fn live_by_segment(log: &seiner_engine::LogStatus) -> Vec<(f64, f64)> {
    let mut shares: Vec<f64> = log
        .segments
        .iter()
        .filter(|segment| !segment.open)
        .map(|segment| &segment.stat)
        .map(|stat| stat.live as f64 / (stat.live + stat.dead).max(1) as f64)
        .collect();
    shares.sort_by(f64::total_cmp);
    let last = shares.len().saturating_sub(1).max(1) as f64;
    (0u32..)
        .zip(shares)
        .map(|(index, share)| (100.0 * f64::from(index) / last, share))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_setting_is_varied_at_a_time() {
        let safe = Merge::new("/".into(), Profile::Safe);
        let tasks = safe.tasks();
        // 3 policies × 4 values of V, then two more of R and two more of B.
        assert_eq!(tasks.len(), 16);
        let full = Merge::new("/".into(), Profile::Full);
        assert_eq!(full.tasks().len(), 45 + 4 + 5);
    }

    #[test]
    fn impossible_settings_are_rejected() {
        let location = StorageLocation::find(std::path::Path::new(".")).unwrap();
        let good = Merge::new(".".into(), Profile::Toy);
        assert!(good.check(&location).is_ok());
        let bad = [
            Merge {
                v: vec![0.99],
                ..good.clone()
            },
            Merge {
                policies: vec!["hungry".into()],
                ..good.clone()
            },
            Merge {
                segments: vec![8 << 20],
                ..good.clone()
            },
            Merge {
                blocks: vec![1],
                ..good.clone()
            },
        ];
        for settings in bad {
            assert!(settings.check(&location).is_err(), "{settings:?}");
        }
    }
}
