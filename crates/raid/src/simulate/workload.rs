//! Who asks for what.

use crate::request::Nanos;
use seiner_platform::sim::SimRng;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Address {
    /// Anywhere in the volume, at multiples of the request's size.
    Random,
    /// One after the other, from a place of the thread's own on.
    Sequential,
    /// One after the other, but some places are left out: so many in a hundred.
    Holes(u64),
    /// One after the other in so many places of one area, in turns at random.
    Streams(u64),
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// How often, relative to the other kinds of the job.
    pub weight: u64,
    /// Whether it writes.
    pub write: bool,
    /// Blocks.
    pub blocks: u64,
    /// Where.
    pub address: Address,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its kinds of requests.
    pub mix: Vec<Mix>,
    /// Threads that do this.
    pub threads: usize,
    /// Requests that each keeps outstanding.
    pub depth: usize,
}

/// Times in which clients submit, and times in which they do not, in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst.
    pub on: Nanos,
    /// Pause after a burst.
    pub off: Nanos,
}

impl Bursts {
    /// First time at or after `at` that lies in a burst.
    pub fn next(&self, at: Nanos) -> Nanos {
        let into = at % (self.on + self.off);
        if into < self.on {
            at
        } else {
            at - into + self.on + self.off
        }
    }
}

/// What an array is given to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Who.
    pub jobs: Vec<Job>,
    /// Processor time that a thread needs for a request.
    pub submit: Nanos,
    /// How much later a request is submitted than it could be, at the most; how much is random.
    pub jitter: Nanos,
    /// Bursts outside of which nothing is submitted; `None`: clients never pause.
    pub bursts: Option<Bursts>,
    /// Blocks between the begin of a stripe and the first block of a sequential place.
    pub offset: u64,
}

/// A thread.
pub struct Thread {
    mix: Vec<Mix>,
    total: u64,
    rng: SimRng,
    /// Next block of each sequential place: kinds of the same direction share it, as the threads of a test program do.
    next: Vec<u64>,
    size: u64,
    /// When the thread can submit again.
    pub free: Nanos,
}

impl Thread {
    /// Thread `number` of `threads` on a volume of so many blocks, whose places begin `offset` blocks later than their share of it.
    pub fn new(
        job: &Job,
        number: usize,
        threads: usize,
        size: u64,
        offset: u64,
        rng: SimRng,
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
        // Reads begin half a share after the writes; streams of one area lie 16 MiB apart.
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

    /// The next request: whether it writes, first block, blocks.
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
            .expect("what was drawn is less than the sum of all");
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

/// Sequential places of a thread.
const PLACES: u64 = 10;
