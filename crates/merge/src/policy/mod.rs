//! Policies: which segments to drop and which to merge, as pure functions of a [`View`].
//!
//! What all of them keep to: wholly dead segments are dropped, unread; no segment is named twice;
//! what the victims keep fits into the room that is left, so that a merge can always be finished.

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

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time, on the clock of the segments' `born`.
    pub now: i64,
    /// How full the store is.
    pub fill: Fill,
    /// Live bytes that one decision may rewrite at most, besides what fits into the room. A
    /// segment or two: small enough that the next decision knows better.
    pub output_limit: u64,
    /// Segments of which less is dead are left alone, 0 to 1, see [`least_dead_share`].
    pub least_dead_share: f64,
    /// The sealed segments that may be taken, in the order of their numbers; none that is being
    /// merged already.
    pub segments: &'a [SegmentStat],
}

/// A segment to merge, with what was known of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Victim {
    /// Its number.
    pub number: u64,
    /// Its dead share, D.
    pub dead_share: f64,
    /// Live bytes to be rewritten.
    pub live: u64,
    /// Bytes that come back.
    pub gain: u64,
    /// What the policy ranked it by; higher is taken sooner. Its unit is the policy's.
    pub score: f64,
}

/// The inputs that decided, for whoever asks why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Why {
    /// The policy.
    pub policy: Kind,
    /// Used share of the budget.
    pub u: f64,
    /// The fill at which merging begins.
    pub um: f64,
    /// Live share of the budget.
    pub v: f64,
    /// Hunger after the drops; not above 0: nothing needs to be merged.
    pub hunger: f64,
    /// The least dead share that was taken; none if the policy has no such bound.
    pub least_dead_share: Option<f64>,
    /// The average that the bound came from; none if the policy has no memory.
    pub average_dead_share: Option<f64>,
    /// Segments it could choose from.
    pub candidates: usize,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Wholly dead segments, by number: to be dropped without being read.
    pub drop: Vec<u64>,
    /// Segments whose live blocks are to be rewritten, best first, before they are dropped.
    pub merge: Vec<Victim>,
    /// What decided.
    pub why: Why,
}

impl Decision {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.drop.is_empty() && self.merge.is_empty()
    }
}

/// What a policy remembers from one decision to the next: all of it, to be saved and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Exponentially weighted average of D over the segments eaten; 0 before the first.
    pub average_dead_share: f64,
    /// Segments eaten so far.
    pub eaten: u64,
}

/// Chooses victims.
pub trait Policy: Send {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// What to do now. The decision is taken to be carried out: what the policy remembers, such
    /// as the fisherman's average, already counts its victims.
    fn choose(&mut self, view: &View) -> Decision;

    /// What it remembers.
    fn memory(&self) -> Memory {
        Memory::default()
    }

    /// Goes on with what it remembered before.
    fn recall(&mut self, _memory: Memory) {}
}

/// The policies there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Oldest first, as Bitcask merges rotated files.
    Fifo,
    /// Largest D first.
    Greedy,
    /// Free space times age over the cost of reading and writing.
    CostBenefit,
    /// By hunger, no worse than what was eaten so far.
    Fisherman,
    /// What buys most room for longest per byte written; waits for what dies anyway.
    #[default]
    Patient,
}

impl Kind {
    /// All, the papers' first.
    pub const ALL: [Kind; 5] = [
        Kind::Fifo,
        Kind::Greedy,
        Kind::CostBenefit,
        Kind::Fisherman,
        Kind::Patient,
    ];

    /// The name in settings and figures.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Fifo => "fifo",
            Kind::Greedy => "greedy",
            Kind::CostBenefit => "cost-benefit",
            Kind::Fisherman => "fisherman",
            Kind::Patient => "patient",
        }
    }

    /// A policy that remembers nothing yet.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            Kind::Fifo => Box::new(Fifo),
            Kind::Greedy => Box::new(Greedy),
            Kind::CostBenefit => Box::new(CostBenefit),
            Kind::Fisherman => Box::new(Fisherman::default()),
            Kind::Patient => Box::new(Patient),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let named = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            format!(
                "there is no merge policy '{text}': use one of {}",
                names.join(", ")
            )
        })
    }
}

/// The dead share from which a segment is worth a merge. A byte of room costs `(1 − D)/D` bytes
/// written: up to 63 where the store would have to refuse writers otherwise, up to 7 where something
/// `may_shed`, which is let go sooner than disks are worn and writers slowed for it.
pub fn least_dead_share(may_shed: bool) -> f64 {
    match may_shed {
        true => 1.0 / 8.0,
        false => 1.0 / 64.0,
    }
}

/// A decision in the making: the drops are in it, and how full the store will be after each step.
struct Deciding<'a> {
    view: &'a View<'a>,
    /// Used bytes once everything decided so far is done.
    used: u64,
    /// Live bytes that may still be rewritten.
    output: u64,
    decision: Decision,
}

impl<'a> Deciding<'a> {
    /// Drops what is dead.
    fn new(view: &'a View<'a>, policy: Kind) -> Deciding<'a> {
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

    /// Hunger after what was decided so far.
    fn hunger(&self) -> f64 {
        self.view.fill.hunger_at(self.used)
    }

    /// Segments with something live in them and something to gain, with their score, best first;
    /// the older of equals first.
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

    /// Takes a segment, unless what it keeps does not fit any more.
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

    /// Takes the best until the store is no fuller than Um.
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
