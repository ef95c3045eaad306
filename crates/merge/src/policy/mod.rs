//! Merge policies: which segments to drop and which to merge, as pure functions of a [`View`].
//!
//! All policies keep three rules. Wholly dead segments are dropped unread. No segment is named
//! twice. The live bytes of the victims fit into the free space, so a merge can always be finished.

mod cost_benefit;
mod fifo;
mod fisherman;
mod greedy;
mod patient;

pub use cost_benefit::CostBenefit;
pub use fifo::Fifo;
pub use fisherman::Fisherman;
pub use greedy::Greedy;
pub use patient::Patient;

use crate::{Fill, SegmentStat};
use std::fmt;
use std::str::FromStr;

/// Input of a policy: the time, the fill of the store and the sealed segments.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Present time, on the clock of the segments' `born`.
    pub now: i64,
    /// Fill of the store.
    pub fill: Fill,
    /// Maximum live bytes that one decision may rewrite. The free space is a second limit. One or
    /// two segments are a good value, because the next decision then soon uses newer figures.
    pub output_limit: u64,
    /// Least dead share of a victim, 0 to 1: see [`least_dead_share`].
    pub least_dead_share: f64,
    /// Sealed segments that may be taken, in the order of their numbers; without those that are
    /// being merged already.
    pub segments: &'a [SegmentStat],
}

/// A segment to merge, with the figures that led to the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Victim {
    /// Number of the segment.
    pub number: u64,
    /// Dead share of the segment, D.
    pub dead_share: f64,
    /// Live bytes to rewrite.
    pub live: u64,
    /// Bytes freed.
    pub gain: u64,
    /// Score by which the policy ranked the segment. Higher scores are taken sooner. The unit depends
    /// on the policy.
    pub score: f64,
}

/// Inputs of a decision, for display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Why {
    /// Policy that decided.
    pub policy: MergePolicy,
    /// Used share of the budget, U.
    pub u: f64,
    /// Fill from which on segments are merged, Um.
    pub um: f64,
    /// Live share of the budget, V.
    pub v: f64,
    /// Hunger after the drops, H. At 0 or below nothing needs to be merged.
    pub hunger: f64,
    /// Least dead share that was merged, Dm; `None` if the policy has no such bound.
    pub least_dead_share: Option<f64>,
    /// Average dead share that Dm follows from; `None` if the policy has no memory.
    pub average_dead_share: Option<f64>,
    /// Number of segments that could be chosen from.
    pub candidates: usize,
}

/// Segments to drop and to merge, with the inputs of the choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Numbers of the wholly dead segments, to be dropped without being read.
    pub drop: Vec<u64>,
    /// Segments to merge, best first: their live blocks are rewritten, then the segments are
    /// dropped.
    pub merge: Vec<Victim>,
    /// Inputs of the decision.
    pub why: Why,
}

impl Decision {
    /// Returns whether there is nothing to drop and nothing to merge.
    pub fn is_empty(&self) -> bool {
        self.drop.is_empty() && self.merge.is_empty()
    }
}

/// Complete state of a policy between decisions, to be saved and displayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Exponentially weighted average of D over the segments taken (merged or dropped); 0 before
    /// the first.
    pub average_dead_share: f64,
    /// Number of segments taken so far.
    pub taken: u64,
}

/// A rule that chooses the segments to drop and to merge.
pub trait Policy: Send {
    /// Returns the kind of the policy.
    fn kind(&self) -> MergePolicy;

    /// Returns the segments to drop and to merge now. The policy assumes that the caller carries
    /// the decision out: its memory, such as the fisherman's average, already includes the victims.
    fn choose(&mut self, view: &View) -> Decision;

    /// Returns the memory of the policy.
    fn memory(&self) -> Memory {
        Memory::default()
    }

    /// Restores a memory that [`Policy::memory`] returned earlier.
    fn recall(&mut self, _memory: Memory) {}
}

/// Name of a merge policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MergePolicy {
    /// Oldest first, as Bitcask merges rotated files.
    Fifo,
    /// Largest D first.
    Greedy,
    /// Free space times age, divided by the cost of reading and writing.
    CostBenefit,
    /// Fisherman: by hunger, and no worse than the average of the segments taken so far.
    Fisherman,
    /// Patient: most space for the longest time per byte written; waits for segments about to die.
    #[default]
    Patient,
}

impl MergePolicy {
    /// All policies, the papers' first.
    pub const ALL: [MergePolicy; 5] = [
        MergePolicy::Fifo,
        MergePolicy::Greedy,
        MergePolicy::CostBenefit,
        MergePolicy::Fisherman,
        MergePolicy::Patient,
    ];

    /// Returns the name used in settings and figures.
    pub fn name(self) -> &'static str {
        match self {
            MergePolicy::Fifo => "fifo",
            MergePolicy::Greedy => "greedy",
            MergePolicy::CostBenefit => "cost-benefit",
            MergePolicy::Fisherman => "fisherman",
            MergePolicy::Patient => "patient",
        }
    }

    /// Creates the policy with an empty memory.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            MergePolicy::Fifo => Box::new(Fifo),
            MergePolicy::Greedy => Box::new(Greedy),
            MergePolicy::CostBenefit => Box::new(CostBenefit),
            MergePolicy::Fisherman => Box::new(Fisherman::default()),
            MergePolicy::Patient => Box::new(Patient),
        }
    }
}

impl fmt::Display for MergePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MergePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<MergePolicy, String> {
        let named = MergePolicy::ALL
            .into_iter()
            .find(|kind| kind.name() == text);
        named.ok_or_else(|| {
            let names: Vec<&str> = MergePolicy::ALL.iter().map(|kind| kind.name()).collect();
            format!(
                "there is no merge policy '{text}': use one of {}",
                names.join(", ")
            )
        })
    }
}

/// Returns the least dead share of a segment that is worth a merge.
///
/// A merge writes `(1 − D)/D` bytes to free one byte. At most 63 bytes are worth it if the store
/// would otherwise reject writes. At most 7 are worth it if a class `may_shed`, because shedding the
/// oldest blocks of that class is then better than merges that wear disks and slow writers.
pub fn least_dead_share(may_shed: bool) -> f64 {
    match may_shed {
        true => 1.0 / 8.0,
        false => 1.0 / 64.0,
    }
}

/// A decision in progress. The drops are already in it; used bytes and output limit follow each
/// step.
struct Deciding<'a> {
    view: &'a View<'a>,
    /// Used bytes after all steps decided so far.
    used: u64,
    /// Live bytes that may still be rewritten.
    output: u64,
    decision: Decision,
}

impl<'a> Deciding<'a> {
    /// Starts a decision with the dead segments dropped.
    fn new(view: &'a View<'a>, policy: MergePolicy) -> Deciding<'a> {
        let fill = view.fill;
        let dead = view.segments.iter().filter(|segment| segment.is_dead());
        let freed: u64 = dead.clone().map(|segment| segment.bytes).sum();
        let used = fill.used.saturating_sub(freed);
        Deciding {
            view,
            used,
            output: view.output_limit.min(fill.budget.saturating_sub(used)),
            decision: Decision {
                drop: dead.map(|segment| segment.number).collect(),
                merge: Vec::new(),
                why: Why {
                    policy,
                    u: fill.u(),
                    um: fill.um,
                    v: fill.v(),
                    hunger: fill.hunger_at(used),
                    least_dead_share: None,
                    average_dead_share: None,
                    candidates: view.segments.len(),
                },
            },
        }
    }

    /// Returns the hunger after the steps decided so far.
    fn hunger(&self) -> f64 {
        self.view.fill.hunger_at(self.used)
    }

    /// Returns the segments with live blocks and at least the least dead share, with their scores,
    /// best first. Of segments with equal scores, the older one is first.
    fn ranked(&self, score: impl Fn(&SegmentStat) -> f64) -> Vec<(f64, &'a SegmentStat)> {
        let living = |segment: &&SegmentStat| {
            !segment.is_dead() && segment.dead_share() >= self.view.least_dead_share
        };
        let segments = self.view.segments.iter().filter(living);
        let mut ranked: Vec<_> = segments.map(|one| (score(one), one)).collect();
        ranked.sort_by(|(a, first), (b, second)| {
            b.total_cmp(a).then(first.number.cmp(&second.number))
        });
        ranked
    }

    /// Adds a segment to the merge. Returns false if its live bytes exceed the rest of the output
    /// limit.
    fn take(&mut self, score: f64, segment: &SegmentStat) -> bool {
        if segment.live > self.output {
            return false;
        }
        self.output -= segment.live;
        self.used = self.used.saturating_sub(segment.gain());
        self.decision.merge.push(Victim {
            number: segment.number,
            dead_share: segment.dead_share(),
            live: segment.live,
            gain: segment.gain(),
            score,
        });
        true
    }

    /// Takes the best segments until the fill is down to Um.
    fn take_until_sated(mut self, score: impl Fn(&SegmentStat) -> f64) -> Decision {
        if self.hunger() <= 0.0 {
            return self.decision;
        }
        for (score, segment) in self.ranked(score) {
            if self.hunger() <= 0.0 {
                break;
            }
            self.take(score, segment);
        }
        self.decision
    }
}

#[cfg(test)]
mod tests;
