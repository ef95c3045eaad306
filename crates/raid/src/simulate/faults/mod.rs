//! Simulation of an array under faults, from a seed. Members die, lose or tear unflushed writes, and have
//! unreadable sectors or, with checksums, silently corrupt ones. Power is cut at any step. Every read is checked
//! against the writes.
//!
//! Blocks have eight bytes, so that a run takes a fraction of a millisecond. All other code is that of the array.

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
    Tolerated,
    /// More members may be lost. Requests may fail, but no wrong data may be read.
    Excessive,
}

/// Deliberate faults, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Members sometimes acknowledge a write without effect.
    ForgottenWrites,
    /// After a power cut, syndromes are not recomputed.
    NoResync,
    /// Members have checksums but do not verify them.
    UncheckedReads,
    /// After a power cut, the checksums of blocks that were being written are not replaced.
    NoAdoption,
    /// Writes start before the intent record contains their region.
    EarlyWrites,
    /// A region leaves the intent record before its writes are durable.
    EarlyClears,
    /// While a member is missing, writes start before the intent record contains their stripe.
    EarlyStripes,
    /// While a member is missing, stripes leave the intent record before their writes are durable.
    EarlyStripeClears,
}

impl Canary {
    /// All deliberate faults, each with its name, the severity of runs that show it, and a number of seeds among
    /// which several show it. An error of the record shows only if power is cut, and a member is then lost or
    /// missing, before the stripe is written again.
    pub const ALL: [(Canary, &str, Severity, u64); 8] = [
        (
            Canary::ForgottenWrites,
            "forgotten writes",
            Severity::Tolerated,
            500,
        ),
        (Canary::NoResync, "no resync", Severity::Tolerated, 500),
        (
            Canary::UncheckedReads,
            "unchecked reads",
            Severity::Tolerated,
            500,
        ),
        (
            Canary::NoAdoption,
            "no adoption of checksums",
            Severity::Tolerated,
            500,
        ),
        (
            Canary::EarlyWrites,
            "writes before their region is on record",
            Severity::Tolerated,
            2000,
        ),
        (
            Canary::EarlyClears,
            "regions off the record too early",
            Severity::Tolerated,
            2000,
        ),
        (
            Canary::EarlyStripes,
            "writes before their stripe is on record",
            Severity::Excessive,
            2000,
        ),
        (
            Canary::EarlyStripeClears,
            "stripes off the record too early",
            Severity::Excessive,
            6000,
        ),
    ];
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of answered requests.
    pub answered: u64,
    /// Number of these that failed.
    pub failed: u64,
    /// Number of members that died.
    pub deaths: u64,
    /// Number of members rebuilt.
    pub rebuilt: u64,
    /// Number of sectors that became unreadable.
    pub sectors: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of sectors that became silently corrupt.
    pub corrupted: u64,
    /// Number of these that the array found.
    pub found: u64,
    /// Number of blocks that were trimmed.
    pub trimmed: u64,
    /// Number of stripes with lost data whose redundant syndrome proved, after a power cut, that they are
    /// consistent.
    pub proved: u64,
    /// Number of members that were rebuilt completely after some of their stripes had failed at first.
    pub resumed: u64,
    /// Number of marks that left the intent record while the array ran.
    pub cleared: u64,
    /// Number of power cuts while single stripes were recorded.
    pub cuts_with_stripes: u64,
}

/// Runs a seed.
///
/// # Errors
/// A description of the fault, with its step.
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

/// Number of seeds that a thread runs between reports of its progress.
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
        self.proved += other.proved;
        self.resumed += other.resumed;
        self.cleared += other.cleared;
        self.cuts_with_stripes += other.cuts_with_stripes;
    }
}
