//! What arrives: a synthetic stream of blocks, from a state in which the store is already full.

use super::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds a second.
const SECOND: f64 = 1e9;

/// How long a block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Until its source has written so many blocks more.
    Ring(u32),
    /// For so many nanoseconds.
    Age(i64),
    /// For ever.
    Forever,
}

/// When the blocks of a source arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// One a period, as a sensor's clock does it.
    #[default]
    Steady,
    /// Independently of each other (a Poisson process): as irregular as it gets.
    Random,
}

/// Sources that are kept alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// How long.
    pub keep: ClassKeep,
    /// How many of the sources, in proportion to the other classes.
    pub sources: f64,
    /// How many of the bytes that arrive, in proportion to the other classes.
    pub flow: f64,
}

/// How long the blocks of a class are kept. Ages are in proportion to each other: the simulation
/// scales them to the size of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClassKeep {
    /// A ring of so many blocks a source.
    Ring(u32),
    /// An age, in proportion to those of the other classes.
    Age(f64),
}

/// A synthetic stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// How many sources.
    pub sources: u32,
    /// Deviation of the logarithm of their rates: 0 all alike, 1 one in a hundred ten times as
    /// fast as the one in the middle.
    pub sigma: f64,
    /// Blocks that are live on average.
    pub live_blocks: u64,
    /// The classes; one at least.
    pub classes: Vec<Class>,
    /// When blocks arrive.
    pub arrivals: Arrivals,
    /// Whether it begins with an empty store. Slow sources then take many times the capacity to
    /// fill their rings, and V stays below what it is given as for as long. Otherwise it begins
    /// with all live that will be, which is harder.
    pub from_empty: bool,
    /// Bytes a block, the papers' B.
    pub block_bytes: u32,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Workload {
    /// `sources` with rings of `ring` blocks.
    pub fn rings(sources: u32, ring: u32, sigma: f64, seed: u64) -> Workload {
        Workload {
            sources,
            sigma,
            live_blocks: u64::from(sources) * u64::from(ring),
            classes: vec![Class {
                keep: ClassKeep::Ring(ring),
                sources: 1.0,
                flow: 1.0,
            }],
            arrivals: Arrivals::Steady,
            from_empty: false,
            block_bytes: 64 << 10,
            seed,
        }
    }

    /// `live_blocks` kept by ages in proportion to `ages`, each class with the same flow and as
    /// many sources as any other.
    pub fn ages(sources: u32, ages: &[f64], live_blocks: u64, sigma: f64, seed: u64) -> Workload {
        let class = |&age: &f64| Class {
            keep: ClassKeep::Age(age),
            sources: 1.0,
            flow: 1.0,
        };
        Workload {
            live_blocks,
            classes: ages.iter().map(class).collect(),
            ..Workload::rings(sources, 1, sigma, seed)
        }
    }
}

/// A block that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds.
    pub at: i64,
    /// Of which source.
    pub source: u32,
    /// Its bytes.
    pub bytes: u32,
    /// How long it is kept.
    pub keep: Keep,
}

/// A source of the stream.
#[derive(Clone, Debug)]
struct Source {
    keep: Keep,
    /// Nanoseconds between its blocks, on average.
    gap: f64,
}

/// The blocks of a workload in the order in which they arrive, without end. Those before time 0
/// make the store full: everything that would be live at 0, as if it had run for ever.
pub struct Stream {
    sources: Vec<Source>,
    next: BinaryHeap<Reverse<(i64, u32)>>,
    arrivals: Arrivals,
    block_bytes: u32,
    random: Random,
}

impl Stream {
    /// Starts with the oldest block that is live at time 0, or at 0 with nothing live.
    pub fn new(workload: &Workload) -> Stream {
        let mut random = Random::new(workload.seed);
        let sources = sources(workload, &mut random);
        let mut next = BinaryHeap::new();
        for (number, source) in sources.iter().enumerate() {
            let live = match source.keep {
                _ if workload.from_empty => 0.0,
                Keep::Ring(blocks) => f64::from(blocks),
                Keep::Age(age) => (age as f64 / source.gap).floor(),
                Keep::Forever => 0.0,
            };
            let first = (random.even() - live) * source.gap;
            next.push(Reverse((first as i64, number as u32)));
        }
        Stream {
            sources,
            next,
            arrivals: workload.arrivals,
            block_bytes: workload.block_bytes,
            random,
        }
    }
}

impl Iterator for Stream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let Reverse((at, number)) = self.next.pop()?;
        let source = &self.sources[number as usize];
        let gap = match self.arrivals {
            Arrivals::Steady => source.gap,
            Arrivals::Random => source.gap * self.random.exponential(),
        };
        self.next
            .push(Reverse((at.saturating_add(gap.max(1.0) as i64), number)));
        Some(Arrival {
            at,
            source: number,
            bytes: self.block_bytes,
            keep: source.keep,
        })
    }
}

/// Draws the sources' rates: a block a second in all.
fn sources(workload: &Workload, random: &mut Random) -> Vec<Source> {
    let all: f64 = workload.classes.iter().map(|class| class.sources).sum();
    let flows: f64 = workload.classes.iter().map(|class| class.flow).sum();
    let mut sources = Vec::with_capacity(workload.sources as usize);
    for class in &workload.classes {
        let count = (f64::from(workload.sources) * class.sources / all)
            .round()
            .max(1.0) as usize;
        let rates: Vec<f64> = (0..count)
            .map(|_| (workload.sigma * random.normal()).exp())
            .collect();
        let scale = class.flow / flows / rates.iter().sum::<f64>();
        let keep = match class.keep {
            ClassKeep::Ring(blocks) => Keep::Ring(blocks),
            ClassKeep::Age(age) => Keep::Age((age * age_scale(workload, flows) * SECOND) as i64),
        };
        sources.extend(rates.iter().map(|rate| Source {
            keep,
            gap: SECOND / (rate * scale),
        }));
    }
    sources
}

/// By what ages are multiplied, in seconds, so that `live_blocks` are live at a block a second.
fn age_scale(workload: &Workload, flows: f64) -> f64 {
    let live: f64 = workload
        .classes
        .iter()
        .filter_map(|class| match class.keep {
            ClassKeep::Age(age) => Some(class.flow / flows * age),
            ClassKeep::Ring(_) => None,
        })
        .sum();
    workload.live_blocks as f64 / live.max(f64::MIN_POSITIVE)
}
