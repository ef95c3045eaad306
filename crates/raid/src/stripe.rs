//! A stripe that somebody uses: what waits for it, and what is being done to it.

use crate::block::Block;
use crate::geometry::Geometry;
use crate::grid::Grid;
use crate::merging::Mark;
use crate::request::Nanos;
use std::collections::VecDeque;

/// The part of a write that falls into the stripe.
#[derive(Clone, Debug)]
pub struct Part<B> {
    /// The request.
    pub request: usize,
    /// First block within the data of the stripe.
    pub first: u32,
    /// The blocks.
    pub data: Vec<B>,
    /// When the request came.
    pub arrived: Nanos,
    /// The strategy's.
    pub mark: Mark,
    /// To stable storage.
    pub durable: bool,
}

/// What needs the stripe for itself besides writes.
#[derive(Clone, Debug)]
pub enum Job {
    /// Blocks that could not be had from their members.
    Read {
        /// The request.
        request: usize,
        /// Where the first of them goes in the answer.
        offset: usize,
        /// First block within the data of the stripe.
        first: u32,
        /// How many.
        blocks: u32,
    },
    /// The strip of a member is computed from the others and written.
    Rebuild {
        /// Who asked for it.
        request: usize,
        /// The member.
        member: usize,
    },
    /// All blocks are read, and compared with their syndromes.
    Scrub {
        /// Who asked for it.
        request: usize,
    },
    /// It is given up together with others.
    Trim {
        /// Who asked for it.
        request: usize,
        /// Those.
        trim: usize,
    },
    /// Syndromes are computed anew from the data, whatever they are.
    Resync {
        /// Who asked for it.
        request: usize,
    },
}

/// What is being done.
#[derive(Clone, Debug)]
pub enum Purpose<B> {
    /// These are written.
    Write(Vec<Part<B>>),
    /// This is done.
    Job(Job),
}

/// Something that has the stripe for itself.
#[derive(Clone, Debug)]
pub struct Execution<B> {
    /// What.
    pub purpose: Purpose<B>,
    /// The rows concerned.
    pub grid: Grid<B>,
    /// Operations of members that have not ended.
    pub outstanding: u32,
    /// Members are being written, no longer read.
    pub writing: bool,
    /// All data of the stripe are written.
    pub full: bool,
    /// Rows of it are lost, and the rest is done without them.
    pub partly_lost: bool,
    /// The member that is rebuilt was there when its strip was written, and has been since.
    pub rebuilds: bool,
    /// Blocks are read one by one, to learn which of them cannot be.
    pub careful: bool,
    /// Since when it could have begun, had there been room.
    pub started: Nanos,
}

/// A stripe in use.
#[derive(Clone, Debug)]
pub struct Stripe<B> {
    /// Writes that wait, in the order in which they came.
    pub waiting: VecDeque<Part<B>>,
    /// What needs the stripe before they get it.
    pub jobs: VecDeque<Job>,
    /// What has it.
    pub running: Option<Execution<B>>,
    /// Blocks that waiting writes cover.
    covered: Vec<u64>,
    /// How many.
    pub filled: u32,
    /// What waits goes as soon as it can.
    pub urgent: bool,
    /// Since when it is in the queue for room.
    pub queued: Option<Nanos>,
    /// Something waited here although nobody had the stripe.
    pub held: bool,
    /// When the strategy is to be asked again.
    pub wake: Option<Nanos>,
}

impl<B: Block> Stripe<B> {
    /// A stripe of so many blocks that nobody uses yet.
    pub fn new(blocks: u32) -> Stripe<B> {
        Stripe {
            waiting: VecDeque::new(),
            jobs: VecDeque::new(),
            running: None,
            covered: vec![0; blocks.div_ceil(64) as usize],
            filled: 0,
            urgent: false,
            queued: None,
            held: false,
            wake: None,
        }
    }

    /// A write begins to wait.
    pub fn push(&mut self, part: Part<B>) {
        self.cover(part.first, part.data.len() as u32);
        self.waiting.push_back(part);
    }

    fn cover(&mut self, first: u32, blocks: u32) {
        for block in first..first + blocks {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            self.filled += u32::from(self.covered[word] & bit == 0);
            self.covered[word] |= bit;
        }
    }

    /// Takes the first write that waits, or all.
    pub fn take(&mut self, all: bool) -> Vec<Part<B>> {
        let count = if all { self.waiting.len() } else { 1 };
        let parts: Vec<Part<B>> = self.waiting.drain(..count).collect();
        self.covered.fill(0);
        self.filled = 0;
        let rest: Vec<(u32, u32)> = self
            .waiting
            .iter()
            .map(|part| (part.first, part.data.len() as u32))
            .collect();
        rest.into_iter()
            .for_each(|(first, blocks)| self.cover(first, blocks));
        self.urgent &= !self.waiting.is_empty();
        parts
    }

    /// What a block of data is about to hold, by the latest write that is not yet done.
    pub fn pending(&self, geometry: &Geometry, index: u32) -> Option<&B> {
        let waiting = self
            .waiting
            .iter()
            .rev()
            .find_map(|part| part.data.get(index.checked_sub(part.first)? as usize));
        waiting.or_else(|| {
            let (column, row) = geometry.cell(index);
            self.running.as_ref()?.grid.known(column, row)
        })
    }
}
