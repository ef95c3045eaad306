//! Many runs, one after another and side by side.

use crate::world::{Report, Violation, World, Wrap};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs to be made.
pub struct Campaign {
    /// Their seeds.
    pub seeds: Range<u64>,
    /// What stands between the engine and the simulated disk.
    pub wrap: Wrap,
    /// Whether every step is told on stderr.
    pub tell: bool,
    /// How many threads share the work.
    pub threads: usize,
    /// How many violations end the campaign; runs on other threads are finished.
    pub violations: usize,
}

/// What came of a [`Campaign`].
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many seeds were run.
    pub runs: u64,
    /// What they did, added up.
    pub total: Report,
    /// What was wrong; the run with the smallest seed first.
    pub violations: Vec<Violation>,
}

impl Campaign {
    /// The seeds that the environment asks for: `SEINER_SIM_SEED` is one, told step by step,
    /// `SEINER_SIM_RUNS` is how many from 0; otherwise `runs`.
    ///
    /// # Panics
    /// If a variable holds no number.
    pub fn from_env(runs: u64) -> Campaign {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name}={text:?}: expected a whole number")),
            )
        };
        let seed = number("SEINER_SIM_SEED");
        Campaign {
            seeds: match seed {
                Some(seed) => seed..seed + 1,
                None => 0..number("SEINER_SIM_RUNS").unwrap_or(runs),
            },
            wrap: World::plain,
            tell: seed.is_some(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            violations: 1,
        }
    }

    /// Makes the runs; `progress` hears of each that ended well, and how many there were.
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
                let result = run_one(seed, self.wrap, self.tell);
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
    /// What was done, in one line.
    pub fn summary(&self, seeds: &Range<u64>) -> String {
        format!(
            "{} seeds of {}..{}: {}",
            self.runs, seeds.start, seeds.end, self.total
        )
    }
}

/// The runs of a seed: one of a store that keeps everything, one of a store that lets go of data, and one of a
/// store that makes what is old coarser.
/// A panic of the engine is a violation like any other.
fn run_one(seed: u64, wrap: Wrap, tell: bool) -> Result<Report, Violation> {
    let run = || {
        let mut report = World::new(seed, wrap, tell).run()?;
        report.add(&World::forgetful(seed, wrap, tell).run()?);
        report.add(&World::coarsening(seed, wrap, tell).run()?);
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
