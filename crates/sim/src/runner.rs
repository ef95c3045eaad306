//! Runs of many seeds, on several threads.

use crate::world::{Report, Violation, World, Wrap};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Set of runs.
pub struct Campaign {
    /// Seeds to run.
    pub seeds: Range<u64>,
    /// Wrapper of the simulated disk.
    pub wrap: Wrap,
    /// True if every step is printed to stderr.
    pub verbose: bool,
    /// Number of threads.
    pub threads: usize,
    /// Number of violations that end the campaign. Runs on other threads are finished.
    pub violations: usize,
}

/// Result of a [`Campaign`].
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of seeds that were run.
    pub runs: u64,
    /// Sums over all runs without a violation.
    pub total: Report,
    /// Violations, sorted by seed.
    pub violations: Vec<Violation>,
}

impl Campaign {
    /// Returns a campaign for the seeds named by the environment: the single seed
    /// `SEINER_SIM_SEED`, with each step on stderr; otherwise `SEINER_SIM_RUNS` seeds, or else
    /// `runs` seeds, from `SEINER_SIM_FIRST` (default 0).
    ///
    /// # Panics
    /// If a variable is not a whole number.
    pub fn from_env(runs: u64) -> Campaign {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name}={text:?}: expected a whole number")),
            )
        };
        let seed = number("SEINER_SIM_SEED");
        let first = number("SEINER_SIM_FIRST").unwrap_or(0);
        Campaign {
            seeds: match seed {
                Some(seed) => seed..seed + 1,
                None => first..first + number("SEINER_SIM_RUNS").unwrap_or(runs),
            },
            wrap: World::plain,
            verbose: seed.is_some(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            violations: 1,
        }
    }

    /// Runs all seeds. Calls `progress` after each run without a violation, with the number of runs
    /// and the sums so far.
    pub fn run(&self, progress: impl Fn(u64, &Report) + Sync) -> Outcome {
        let next = AtomicU64::new(self.seeds.start);
        let stop = AtomicBool::new(false);
        let outcome = Mutex::new(Outcome::default());
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.seeds.end {
                    break;
                }
                let result = run_one(seed, self.wrap, self.verbose);
                let mut outcome = outcome.lock().expect("runs are caught when they panic");
                outcome.runs += 1;
                match result {
                    Ok(report) => {
                        outcome.total.add(&report);
                        progress(outcome.runs, &outcome.total);
                    }
                    Err(violation) => {
                        outcome.violations.push(violation);
                        stop.store(
                            outcome.violations.len() >= self.violations,
                            Ordering::Relaxed,
                        );
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(work);
            }
        });
        let mut outcome = outcome
            .into_inner()
            .expect("runs are caught when they panic");
        outcome.violations.sort_by_key(|violation| violation.seed);
        outcome
    }
}

impl Outcome {
    /// Returns a summary in one line.
    pub fn summary(&self, seeds: &Range<u64>) -> String {
        format!(
            "{} seeds of {}..{}: {}",
            self.runs, seeds.start, seeds.end, self.total
        )
    }
}

/// Runs one seed with the four kinds of store. A panic counts as a violation.
fn run_one(seed: u64, wrap: Wrap, verbose: bool) -> Result<Report, Violation> {
    let run = || {
        let mut report = World::new(seed, wrap, verbose).run()?;
        report.add(&World::expiring(seed, wrap, verbose).run()?);
        report.add(&World::rolling_up(seed, wrap, verbose).run()?);
        report.add(&World::churning(seed, wrap, verbose).run()?);
        Ok(report)
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Violation {
                seed,
                step: None,
                what: format!("panic: {what}"),
                events: Vec::new(),
            })
        }
    }
}
