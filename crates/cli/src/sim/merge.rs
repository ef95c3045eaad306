//! `seiner sim merge`: runs every policy on the same stream of blocks.

use super::picture;
use super::run::Run;
use crate::failure::Failure;
use crate::output::{Form, Output};
use crate::progress;
use anyhow::Context;
use clap::{Args, ValueEnum};
use seiner_merge::simulate::{self, Arrival, Settings, Stream, Workload, trace};
use seiner_merge::{LaneSettings, MergePolicy, Throttle};
use seiner_model::parse_duration;
use seiner_server::parse_size;
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Compare the bytes that merging writes, by policy and by live share.
///
/// Simulates a store whose blocks expire continuously, because their source's ring overwrites them or
/// because they expire by age. The simulation runs the merge code of the store. "written" is the
/// number of bytes written to segments per byte of blocks stored: 1 means that all segments expired
/// as a whole and merges rewrote nothing.
#[derive(Args)]
pub struct Merge {
    /// Policies to compare. 'patient', the default of the store, has lanes. All others write a
    /// single log.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', num_args = 1.., default_values_t = MergePolicy::ALL)]
    policy: Vec<MergePolicy>,
    /// Live shares of the store, V. A higher share uses the disk better, but fewer segments are
    /// worth merging.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', num_args = 1.., default_values_t = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9])]
    v: Vec<f64>,
    /// Fill at which merging begins, Um. A later start finds more dead blocks. The space above Um
    /// must suffice for the output of a merge.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    um: f64,
    /// Number of lanes of 'patient', 0 for none. Each lane costs memory for a buffer and
    /// disk space for an open segment. It saves writes, because blocks that expire together are stored
    /// together.
    #[arg(long, value_name = "COUNT", default_value_t = 32)]
    lanes: u32,
    /// Blocks per segment, R/B. Small segments expire as a whole sooner. Large segments are fewer and are
    /// written with less overhead, which is not simulated.
    #[arg(long, value_name = "BLOCKS", default_value_t = 96)]
    segment_blocks: u32,
    /// Number of sources.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    sources: u32,
    /// Number of blocks that each source keeps.
    #[arg(long, value_name = "BLOCKS", default_value_t = 50)]
    ring: u32,
    /// Keep by age instead: one class for each of these ages, with equal arrival rates. Only the
    /// proportions of ages count, because they are scaled to the store.
    #[arg(
        long,
        value_name = "AGES",
        value_delimiter = ',',
        num_args = 1..,
        conflicts_with = "ring"
    )]
    ages: Vec<String>,
    /// Spread of the rates of sources: standard deviation of their logarithm; 0 for equal rates.
    #[arg(long, value_name = "DEVIATION", default_value_t = 1.0)]
    sigma: f64,
    /// Arrival pattern of the blocks of a source.
    #[arg(long, value_enum, default_value_t = Arrivals::Steady)]
    arrivals: Arrivals,
    /// Number of blocks of a source after which its rate changes, on average. Without it, rates do not change.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..))]
    rate_blocks: Option<u32>,
    /// Start with an empty store instead of a full one. Slow sources then take long to fill their
    /// rings.
    #[arg(long)]
    from_empty: bool,
    /// Multiples of the capacity that are written before the measurement.
    #[arg(long, value_name = "TIMES", default_value_t = 3)]
    warm_up: u64,
    /// Multiples of the capacity that are written during the measurement.
    #[arg(long, value_name = "TIMES", default_value_t = 3)]
    turns: u64,
    /// Seed of all pseudo-random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Recorded stream (docs/format/merge-trace.md) to use instead of a generated one. V then
    /// follows from the budget.
    #[arg(long, value_name = "FILE", requires = "budget")]
    trace: Option<PathBuf>,
    /// Budgets to try a trace with, such as 10GiB,20GiB.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', num_args = 1.., requires = "trace", value_parser = parse_size)]
    budget: Vec<u64>,
    /// Maximum segment size for a trace.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    segment_size: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Arrivals {
    /// One block per period, like a sensor with a clock.
    Steady,
    /// Blocks at random, independent of each other (Poisson).
    Random,
}

/// Stream of blocks to simulate.
enum Load {
    Made(Workload),
    Recorded(Vec<Arrival>),
}

impl Merge {
    /// Runs the simulations and prints the results.
    pub fn run(self) -> Result<(), Failure> {
        self.validate()?;
        let load = self.load()?;
        let runs = self.simulate(&load);
        self.output.draw(|| picture::page(&runs, self.um))?;
        let mut out = stdout().lock();
        match self.output.form() {
            Form::Json => {
                let all: Vec<Value> = runs.iter().map(Run::json).collect();
                writeln!(out, "{:#}", json!(all))?;
            }
            Form::Csv => write_csv(&runs, &mut out)?,
            Form::Table => write_table(&runs, &mut out)?,
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        if let Some(v) = self.v.iter().find(|&&v| !(v > 0.0 && v < 1.0)) {
            return usage(format!(
                "--v {v}: a live share lies between 0 and 1, such as 0.8"
            ));
        }
        if !(self.um > 0.0 && self.um < 1.0) {
            return usage(format!(
                "--um {}: it lies between 0 and 1, such as 0.95",
                self.um
            ));
        }
        if !(self.sigma >= 0.0 && self.sigma <= 5.0) {
            return usage(format!("--sigma {}: it lies between 0 and 5", self.sigma));
        }
        if self.lanes == 1 {
            return usage(
                "--lanes 1: one lane is for blocks that never expire; use 2 or more, or 0"
                    .to_string(),
            );
        }
        let counts = [
            ("--sources", u64::from(self.sources)),
            ("--ring", u64::from(self.ring)),
            ("--segment-blocks", u64::from(self.segment_blocks)),
            ("--turns", self.turns),
            ("--segment-size", self.segment_size),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((flag, _)) => usage(format!("{flag} 0: use 1 or more")),
            None => Ok(()),
        }
    }

    fn load(&self) -> Result<Load, Failure> {
        if let Some(file) = &self.trace {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("reading {}", file.display()))?;
            let arrivals = trace::parse(&text).with_context(|| file.display().to_string())?;
            return Ok(Load::Recorded(arrivals));
        }
        let rings = Workload::rings(self.sources, self.ring, self.sigma, self.seed);
        let mut workload = if self.ages.is_empty() {
            rings
        } else {
            let age = |text: &String| parse_duration(text).map(|age| age as f64);
            let ages: Result<Vec<f64>, _> = self.ages.iter().map(age).collect();
            let ages = ages.map_err(|error| Failure::Usage(format!("--ages: {error}")))?;
            if ages.iter().any(|&age| age <= 0.0) {
                return Err(Failure::Usage("--ages: an age is above 0".to_string()));
            }
            Workload::ages(
                self.sources,
                &ages,
                rings.live_blocks,
                self.sigma,
                self.seed,
            )
        };
        workload.from_empty = self.from_empty;
        workload.rate_blocks = self.rate_blocks;
        workload.arrivals = match self.arrivals {
            Arrivals::Steady => simulate::Arrivals::Steady,
            Arrivals::Random => simulate::Arrivals::Random,
        };
        Ok(Load::Made(workload))
    }

    /// Returns the settings to simulate with their live shares, in the order of the table.
    fn settings(&self, load: &Load) -> Vec<(f64, Settings)> {
        let (sizes, segment_bytes): (Vec<(f64, u64)>, u64) = match load {
            Load::Recorded(_) => {
                let sizes = self.budget.iter().map(|&budget| (0.0, budget));
                (sizes.collect(), self.segment_size)
            }
            Load::Made(workload) => {
                let block = u64::from(workload.block_bytes);
                let live = (workload.live_blocks * block) as f64;
                let sizes = self.v.iter().map(|&v| (v, (live / v) as u64));
                (sizes.collect(), u64::from(self.segment_blocks) * block)
            }
        };
        let (warm_up, measured) = match load {
            Load::Made(_) => (self.warm_up, self.turns),
            Load::Recorded(_) => (0, u64::MAX),
        };
        let one = |v: f64, budget: u64, policy: MergePolicy| {
            let lanes =
                (policy == MergePolicy::Patient && self.lanes > 0).then_some(LaneSettings {
                    lanes: self.lanes,
                    segment_bytes,
                    least_bytes: segment_bytes / 16,
                });
            let settings = Settings {
                budget,
                um: self.um,
                segment_bytes,
                policy,
                lanes,
                throttle: Throttle::default(),
                warm_up: warm_up * budget,
                measured: measured.saturating_mul(budget),
            };
            (v, settings)
        };
        let of_size = |(v, budget): (f64, u64)| {
            let policies = self.policy.iter();
            policies.map(move |&policy| one(v, budget, policy))
        };
        sizes.into_iter().flat_map(of_size).collect()
    }

    /// Runs all simulations, as many at a time as there are processors.
    fn simulate(&self, load: &Load) -> Vec<Run> {
        let settings = self.settings(load);
        let total = match load {
            Load::Made(_) => settings
                .iter()
                .map(|(_, one)| one.warm_up + one.measured)
                .sum(),
            Load::Recorded(arrivals) => {
                let bytes: u64 = arrivals.iter().map(|one| u64::from(one.bytes)).sum();
                bytes * settings.len() as u64
            }
        };
        let bar = progress::bytes(Some(total), "simulated");
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Run)>> = Mutex::new(Vec::new());
        let work = || {
            while let Some((index, (v, settings))) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                settings.get(index).map(|one| (index, one))
            } {
                let mut arrived = 0;
                let progress = |now: u64| {
                    bar.inc(now.saturating_sub(arrived));
                    arrived = now;
                };
                let outcome = match load {
                    Load::Made(made) => simulate::run(settings, Stream::new(made), progress),
                    Load::Recorded(all) => simulate::run(settings, all.iter().copied(), progress),
                };
                let run = Run {
                    policy: settings.policy,
                    v: if *v > 0.0 { *v } else { outcome.v },
                    budget: settings.budget,
                    lanes: settings.lanes.map_or(1, |lanes| lanes.lanes),
                    outcome,
                };
                let mut done = done
                    .lock()
                    .expect("no simulation panics while it has the lock");
                done.push((index, run));
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            (0..threads).for_each(|_| {
                scope.spawn(work);
            });
        });
        bar.finish_and_clear();
        let mut done = done.into_inner().expect("no simulation panicked");
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, run)| run).collect()
    }
}

fn write_table(runs: &[Run], out: &mut impl Write) -> Result<(), Failure> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in runs {
        let columns = run.columns();
        if rows.is_empty() {
            rows.push(columns.iter().map(|(name, _)| name.to_string()).collect());
        }
        rows.push(columns.into_iter().map(|(_, text)| text).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(text, &width)| format!("{text:>width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  "))?;
    }
    Ok(())
}

fn write_csv(runs: &[Run], out: &mut impl Write) -> Result<(), Failure> {
    let mut writer = csv::Writer::from_writer(out);
    for (index, run) in runs.iter().enumerate() {
        let columns = run.columns();
        if index == 0 {
            writer.write_record(columns.iter().map(|(name, _)| name))?;
        }
        writer.write_record(columns.iter().map(|(_, text)| text))?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        merge: Merge,
    }

    fn merge(line: &str) -> Merge {
        Line::try_parse_from(std::iter::once("merge").chain(line.split_whitespace()))
            .unwrap()
            .merge
    }

    const SMALL: &str =
        "--sources 100 --ring 20 --segment-blocks 16 --v 0.7,0.85 --turns 1 --warm-up 1";

    fn runs(line: &str) -> Vec<Run> {
        let merge = merge(line);
        merge.validate().unwrap();
        merge.simulate(&merge.load().unwrap())
    }

    #[test]
    fn every_policy_is_simulated_at_every_v() {
        let runs = runs(SMALL);
        assert_eq!(runs.len(), 10);
        assert!(
            runs.iter()
                .all(|run| run.outcome.full.is_none() && run.outcome.peak_u <= 1.0)
        );
        let (fifo, ours) = (&runs[0], &runs[4]);
        assert_eq!(
            (fifo.policy, ours.policy),
            (MergePolicy::Fifo, MergePolicy::Patient)
        );
        assert!(ours.outcome.written_per_byte() < fifo.outcome.written_per_byte());
        let mut csv = Vec::new();
        write_csv(&runs, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().count(), 11);
        assert!(csv.starts_with("V,policy,lanes,written,"), "{csv}");
        let page = picture::page(&runs, 0.95);
        assert_eq!(page.matches("<svg class=\"wide\"").count(), 4);
        assert!(!page.contains("NaN") && !page.contains("http"));
        assert_eq!(ours.json()["policy"], "patient");
    }

    #[test]
    fn a_trace_is_simulated_with_every_budget() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.csv");
        let lines = (0..2000).map(|at| format!("{},{},1000,ring:5\n", at * 1_000_000, at % 7));
        let text: String = std::iter::once(format!("{}\n", trace::HEAD))
            .chain(lines)
            .collect();
        std::fs::write(&file, text).unwrap();
        let line = format!(
            "--trace {} --budget 100KiB,1MiB --segment-size 8KiB --policy fifo,patient --lanes 3",
            file.display()
        );
        let runs = runs(&line);
        assert_eq!(runs.len(), 4);
        assert!(
            runs.iter()
                .all(|run| run.outcome.counts.arrived == 2_000_000),
            "the whole trace"
        );
        assert!(runs[2].v < runs[0].v, "a larger store has a lower fill");
    }

    #[test]
    fn invalid_values_of_flags_are_rejected_with_a_reason() {
        for (line, word) in [
            ("--v 1.5", "--v 1.5"),
            ("--um 0", "--um 0"),
            ("--sigma -1", "--sigma"),
            ("--lanes 1", "2 or more"),
            ("--sources 0", "--sources 0"),
            ("--ring 0", "--ring 0"),
        ] {
            let line = line.replacen(' ', "=", 1);
            match merge(&line).validate() {
                Err(Failure::Usage(text)) => assert!(text.contains(word), "{text}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(
            merge("--ages soon").load(),
            Err(Failure::Usage(_))
        ));
    }
}
