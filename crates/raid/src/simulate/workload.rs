//! Workloads of a simulation.

use crate::request::Nanos;
use seiner_platform::sim::Rng;

/// Pattern of request addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Address {
    /// Random addresses in the volume, multiples of the request's size.
    Random,
    /// Sequential addresses from a start of the thread's own.
    Sequential,
    /// Sequential addresses with gaps: this percentage is skipped.
    Holes(u64),
    /// Sequential addresses in this number of places within one area, in random turns.
    Streams(u64),
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Frequency relative to the other kinds of the job.
    pub weight: u64,
    /// True if the request is a write.
    pub write: bool,
    /// Number of blocks.
    pub blocks: u64,
    /// Pattern of addresses.
    pub address: Address,
}

/// Work of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientJob {
    /// Kinds of requests.
    pub mix: Vec<Mix>,
    /// Number of threads with this work.
    pub threads: usize,
    /// Number of outstanding requests per thread.
    pub depth: usize,
}

/// Alternation of times in which clients submit requests and pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst, ns.
    pub on: Nanos,
    /// Pause after a burst, ns.
    pub off: Nanos,
}

impl Bursts {
    /// Returns the first time at or after `at` that lies in a burst.
    pub fn next(&self, at: Nanos) -> Nanos {
        let into = at % (self.on + self.off);
        if into < self.on {
            at
        } else {
            at - into + self.on + self.off
        }
    }
}

/// Load on an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Jobs that run concurrently.
    pub jobs: Vec<ClientJob>,
    /// Processor time of a thread per request, ns.
    pub submit: Nanos,
    /// Maximum random delay of a submission, ns.
    pub jitter: Nanos,
    /// Bursts. Nothing is submitted between bursts. `None` is a continuous load.
    pub bursts: Option<Bursts>,
    /// Number of blocks between the beginning of a stripe and the first block of a sequential place.
    pub offset: u64,
}

/// A thread of a client.
pub struct Thread {
    mix: Vec<Mix>,
    total: u64,
    rng: Rng,
    /// Next block of each sequential place. Kinds of the same direction share it, as the threads of a benchmark
    /// do.
    next: Vec<u64>,
    size: u64,
    /// Time at which the thread can submit again.
    pub free: Nanos,
}

impl Thread {
    /// Creates thread `number` of `threads` on a volume of `size` blocks. Its places begin `offset` blocks
    /// after its share of the volume.
    pub fn new(
        job: &ClientJob,
        number: usize,
        threads: usize,
        size: u64,
        offset: u64,
        rng: Rng,
    ) -> Thread {
        let mut thread = Thread {
            mix: job.mix.clone(),
            total: job.mix.iter().map(|mix| mix.weight).sum(),
            rng,
            next: Vec::new(),
            size,
            free: 0,
        };
        let home = size / threads as u64 * number as u64;
        // Reads begin half a share after the writes. Streams of one area are 16 MiB apart.
        for place in 0..PLACES {
            let base = if place == 0 {
                home
            } else {
                home + size / threads as u64 / 2 + (place - 1) * 4096
            };
            thread.next.push((base + offset) % size);
        }
        thread
    }

    /// Returns the next request: whether it writes, first block, number of blocks.
    pub fn next(&mut self) -> (bool, u64, u64) {
        let mut drawn = self.rng.below(self.total);
        let mix = *self
            .mix
            .iter()
            .find(|mix| {
                let hit = drawn < mix.weight;
                drawn = drawn.wrapping_sub(mix.weight);
                hit
            })
            .expect("the drawn number is less than the sum of the weights");
        let start = match mix.address {
            Address::Random => self.rng.below(self.size / mix.blocks) * mix.blocks,
            Address::Sequential => self.advance(if mix.write { 0 } else { 1 }, mix.blocks),
            Address::Holes(percent) => {
                while self.rng.chance(percent, 100) {
                    self.advance(0, mix.blocks);
                }
                self.advance(0, mix.blocks)
            }
            Address::Streams(count) => {
                let place = 1 + self.rng.below(count);
                self.advance(place as usize, mix.blocks)
            }
        };
        (mix.write, start, mix.blocks)
    }

    fn advance(&mut self, place: usize, blocks: u64) -> u64 {
        let next = &mut self.next[place];
        if *next + blocks > self.size {
            *next = 0;
        }
        let start = *next;
        *next += blocks;
        start
    }
}

/// Number of sequential places of a thread.
const PLACES: u64 = 10;
