//! The array under faults, from a seed: members die, lose and tear what was not flushed, have sectors that cannot be read
//! or, where they have checksums, that are wrong and do not say so; power is cut at any step; and every read is checked
//! against what was written.
//!
//! Blocks have eight bytes here, which makes a run a fraction of a millisecond; everything else is the array's own code.

mod block;
mod disk;
mod member_faults;
mod power_cut;
mod run;

use run::FaultRun;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Severity of the faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// At no time more members are lost than the level tolerates. No request may fail.
    Borne,
    /// More members may be lost. Requests may fail, but no wrong data may be read.
    Beyond,
}

/// Something wrong on purpose, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Members acknowledge a write now and then, and forget it.
    ForgottenWrites,
    /// After a power cut, syndromes are not made to fit.
    NoResync,
    /// Members have checksums and do not look at them.
    UncheckedReads,
    /// After a power cut, checksums of what was being written count like all others.
    NoAdoption,
    /// Writes begin before the intent record has their region.
    EarlyWrites,
    /// A region leaves the intent record before its writes are durable.
    EarlyClears,
    /// While a member is missing, writes begin before the intent record has their stripe.
    EarlyStripes,
    /// While a member is missing, stripes leave the intent record before their writes are durable.
    EarlyStripeClears,
}

impl Canary {
    /// Every deliberate fault with its name, the severity of runs that show it, and the number of seeds among which
    /// several do. An error of the record shows only if power is cut, and a member is then lost or missing, before the
    /// stripe is written again.
    pub const ALL: [(Canary, &str, Severity, u64); 8] = [
        (
            Canary::ForgottenWrites,
            "forgotten writes",
            Severity::Borne,
            500,
        ),
        (Canary::NoResync, "no resync", Severity::Borne, 500),
        (
            Canary::UncheckedReads,
            "unchecked reads",
            Severity::Borne,
            500,
        ),
        (
            Canary::NoAdoption,
            "no adoption of checksums",
            Severity::Borne,
            500,
        ),
        (
            Canary::EarlyWrites,
            "writes before their region is on record",
            Severity::Borne,
            2000,
        ),
        (
            Canary::EarlyClears,
            "regions off the record too early",
            Severity::Borne,
            2000,
        ),
        (
            Canary::EarlyStripes,
            "writes before their stripe is on record",
            Severity::Beyond,
            2000,
        ),
        (
            Canary::EarlyStripeClears,
            "stripes off the record too early",
            Severity::Beyond,
            6000,
        ),
    ];
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of answered requests.
    pub answered: u64,
    /// Of these, with an error.
    pub failed: u64,
    /// Members that died.
    pub deaths: u64,
    /// Members rebuilt.
    pub rebuilt: u64,
    /// Sectors that became unreadable.
    pub sectors: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Sectors that became wrong without saying so.
    pub corrupted: u64,
    /// Of these, those that the array found.
    pub found: u64,
    /// Blocks that were trimmed.
    pub trimmed: u64,
    /// Stripes that lost data of which the syndrome that was left over said, after a power cut, that nothing is in doubt.
    pub vouched: u64,
    /// Members that were filled in the end although some stripes could not be at first.
    pub resumed: u64,
    /// Marks that left the intent record while the array ran.
    pub cleared: u64,
    /// Power cuts with single stripes on record.
    pub cuts_with_stripes: u64,
}

/// Runs a seed.
///
/// # Errors
/// Says what was wrong, and in which step.
pub fn run(seed: u64, severity: Severity, canary: Option<Canary>) -> Result<Summary, String> {
    let mut run = FaultRun::new(seed, severity, canary);
    let steps = run.rng.between(30, 300);
    let done = (0..steps)
        .try_for_each(|_| run.step())
        .and_then(|()| run.finish());
    match done {
        Ok(()) => Ok(run.summary),
        Err(wrong) => Err(format!(
            "seed {seed}, {severity:?}, step {}, {:?} of {} with {}: {wrong}",
            run.step,
            run.geometry.level(),
            run.geometry.members(),
            run.settings.merging.name()
        )),
    }
}

/// Runs many seeds on all cores. Calls `ended` from time to time with the number of seeds that have ended.
///
/// # Errors
/// The description of the fault that the lowest failing seed found.
pub fn run_all(
    seeds: Range<u64>,
    severity: Severity,
    ended: &(dyn Fn(u64) + Sync),
) -> Result<Summary, String> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Summary::default(), None::<(u64, String)>));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(SHARE, Ordering::Relaxed);
                    if first >= seeds.end {
                        return;
                    }
                    let share = first..seeds.end.min(first + SHARE);
                    let done: Vec<_> = share
                        .clone()
                        .map(|seed| (seed, run(seed, severity, None)))
                        .collect();
                    let mut found = found.lock().expect("no thread panics with the lock");
                    for (seed, one) in done {
                        match one {
                            Ok(summary) => found.0.add(&summary),
                            Err(wrong) if found.1.as_ref().is_none_or(|(at, _)| seed < *at) => {
                                found.1 = Some((seed, wrong));
                            }
                            Err(_) => {}
                        }
                    }
                    drop(found);
                    ended(share.end - share.start);
                }
            });
        }
    });
    match found.into_inner().expect("no thread panics with the lock") {
        (sum, None) => Ok(sum),
        (_, Some((_, wrong))) => Err(wrong),
    }
}

/// Seeds that a thread runs before it says so.
const SHARE: u64 = 64;

impl Summary {
    fn add(&mut self, other: &Summary) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.deaths += other.deaths;
        self.rebuilt += other.rebuilt;
        self.sectors += other.sectors;
        self.cuts += other.cuts;
        self.corrupted += other.corrupted;
        self.found += other.found;
        self.trimmed += other.trimmed;
        self.vouched += other.vouched;
        self.resumed += other.resumed;
        self.cleared += other.cleared;
        self.cuts_with_stripes += other.cuts_with_stripes;
    }
}
