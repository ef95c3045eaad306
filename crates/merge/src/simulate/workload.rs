//! Synthetic stream of blocks. It starts in a state in which the store is already full.

use seiner_random::SplitMixRng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds per second.
const SECOND: f64 = 1e9;

/// Retention of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Until its source has written this many further blocks.
    Ring(u32),
    /// For this many nanoseconds.
    Age(i64),
    /// For ever.
    Forever,
}

/// Distribution of the arrival times of a source's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// One block per period, like a sensor with a clock.
    #[default]
    Steady,
    /// Independent arrivals (a Poisson process).
    Random,
}

/// Sources with the same retention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Retention of the class.
    pub keep: ClassKeep,
    /// Number of sources, relative to the other classes.
    pub sources: f64,
    /// Bytes that arrive, relative to the other classes.
    pub flow: f64,
}

/// Retention of a class. Ages are relative to each other: the simulation scales them to the size of
/// the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClassKeep {
    /// Ring of this many blocks per source.
    Ring(u32),
    /// Age, relative to the ages of the other classes.
    Age(f64),
}

/// Parameters of a synthetic stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Number of sources.
    pub sources: u32,
    /// Standard deviation of the logarithm of the sources' rates. With 0 all rates are equal. With
    /// 1, one source in a hundred is ten times as fast as the median.
    pub sigma: f64,
    /// Average number of live blocks.
    pub live_blocks: u64,
    /// Classes, at least one.
    pub classes: Vec<Class>,
    /// Distribution of the arrival times.
    pub arrivals: Arrivals,
    /// Blocks of a source after which its rate is drawn anew, on average; `None` if rates do not change.
    pub rate_blocks: Option<u32>,
    /// True if the stream begins with an empty store. If so, slow sources need many times the
    /// capacity to fill their rings, and V stays below its target until then. If not, all data that
    /// will be live is there from the start, which is harder for the policy.
    pub from_empty: bool,
    /// Bytes per block, the papers' B.
    pub block_bytes: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Workload {
    /// Returns a workload of `sources` with rings of `ring` blocks.
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
            rate_blocks: None,
            from_empty: false,
            block_bytes: 64 << 10,
            seed,
        }
    }

    /// Returns a workload with `live_blocks` kept by ages in proportion to `ages`. All classes have
    /// the same flow and the same number of sources.
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
    /// Time of arrival in nanoseconds.
    pub at: i64,
    /// Number of the source.
    pub source: u32,
    /// Bytes of the block.
    pub bytes: u32,
    /// Retention of the block.
    pub keep: Keep,
}

/// A source of the stream.
#[derive(Clone, Debug)]
struct Source {
    keep: Keep,
    /// Mean nanoseconds between the source's blocks.
    gap: f64,
    /// Mean nanoseconds between the blocks of a source with the median rate.
    median_gap: f64,
}

/// Endless iterator over the blocks of a workload, in the order of arrival. Blocks before time 0
/// fill the store with everything that would be live at 0 if the stream had always run.
pub struct Stream {
    sources: Vec<Source>,
    next: BinaryHeap<Reverse<(i64, u32)>>,
    arrivals: Arrivals,
    sigma: f64,
    /// Probability that the rate of a source is drawn anew at a block.
    change: f64,
    block_bytes: u32,
    rng: SplitMixRng,
}

impl Stream {
    /// Starts with the oldest block that is live at time 0; with `from_empty`, starts at 0.
    pub fn new(workload: &Workload) -> Stream {
        let mut rng = SplitMixRng::new(workload.seed);
        let sources = sources(workload, &mut rng);
        let mut next = BinaryHeap::new();
        for (number, source) in sources.iter().enumerate() {
            let live = match source.keep {
                _ if workload.from_empty => 0.0,
                Keep::Ring(blocks) => f64::from(blocks),
                Keep::Age(age) => (age as f64 / source.gap).floor(),
                Keep::Forever => 0.0,
            };
            let first = (rng.positive_unit() - live) * source.gap;
            next.push(Reverse((first as i64, number as u32)));
        }
        Stream {
            sources,
            next,
            arrivals: workload.arrivals,
            sigma: workload.sigma,
            change: workload
                .rate_blocks
                .map_or(0.0, |blocks| 1.0 / f64::from(blocks)),
            block_bytes: workload.block_bytes,
            rng,
        }
    }
}

impl Iterator for Stream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let Reverse((at, number)) = self.next.pop()?;
        let source = &mut self.sources[number as usize];
        if self.change > 0.0 && self.rng.positive_unit() <= self.change {
            source.gap = source.median_gap / self.rng.lognormal(self.sigma);
        }
        let gap = match self.arrivals {
            Arrivals::Steady => source.gap,
            Arrivals::Random => source.gap * self.rng.exponential(),
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

/// Draws the sources' rates, scaled to one block per second in all.
fn sources(workload: &Workload, rng: &mut SplitMixRng) -> Vec<Source> {
    let all: f64 = workload.classes.iter().map(|class| class.sources).sum();
    let flows: f64 = workload.classes.iter().map(|class| class.flow).sum();
    let mut sources = Vec::with_capacity(workload.sources as usize);
    for class in &workload.classes {
        let count = (f64::from(workload.sources) * class.sources / all)
            .round()
            .max(1.0) as usize;
        let rates: Vec<f64> = (0..count).map(|_| rng.lognormal(workload.sigma)).collect();
        let scale = class.flow / flows / rates.iter().sum::<f64>();
        let keep = match class.keep {
            ClassKeep::Ring(blocks) => Keep::Ring(blocks),
            ClassKeep::Age(age) => Keep::Age((age * age_scale(workload, flows) * SECOND) as i64),
        };
        sources.extend(rates.iter().map(|rate| Source {
            keep,
            gap: SECOND / (rate * scale),
            median_gap: SECOND / scale,
        }));
    }
    sources
}

/// Returns the factor for ages, in seconds, at which `live_blocks` are live at one block per
/// second.
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
