//! A stripe in use: its waiting writes and jobs, and the running work.

use crate::block::Block;
use crate::geometry::Geometry;
use crate::grid::Grid;
use crate::merging::WriteTag;
use crate::request::Nanos;
use std::collections::VecDeque;

/// Part of a write that belongs to one stripe.
#[derive(Clone, Debug)]
pub struct WritePart<B> {
    /// Number of the request.
    pub request: usize,
    /// First block within the data of the stripe.
    pub first: u32,
    /// Contents of the blocks.
    pub data: Vec<B>,
    /// Arrival time of the request.
    pub arrived: Nanos,
    /// Tag that the strategy gave to the write.
    pub tag: WriteTag,
    /// True to write to stable storage.
    pub durable: bool,
}

/// A job that needs exclusive use of the stripe, besides writes.
#[derive(Clone, Debug)]
pub enum StripeJob {
    /// Reads blocks that could not be read directly from their members.
    Read {
        /// Number of the request.
        request: usize,
        /// Index of the first block in the answer.
        offset: usize,
        /// First block within the data of the stripe.
        first: u32,
        /// Number of blocks.
        blocks: u32,
    },
    /// Computes the strip of a member from the others and writes it.
    Rebuild {
        /// Number of the request.
        request: usize,
        /// Number of the member.
        member: usize,
    },
    /// Reads all blocks and compares them with the syndromes.
    Scrub {
        /// Number of the request.
        request: usize,
    },
    /// Trims the stripe together with others.
    Trim {
        /// Number of the request.
        request: usize,
        /// Number of the trim.
        trim: usize,
    },
    /// Computes the syndromes from the data.
    Resync {
        /// Number of the request.
        request: usize,
    },
}

/// Purpose of the work on a stripe.
#[derive(Clone, Debug)]
pub enum Purpose<B> {
    /// Writes these parts.
    Write(Vec<WritePart<B>>),
    /// Executes this job.
    Job(StripeJob),
}

/// Running work with exclusive use of the stripe.
#[derive(Clone, Debug)]
pub struct Execution<B> {
    /// Purpose of the work.
    pub purpose: Purpose<B>,
    /// Rows that the work concerns.
    pub grid: Grid<B>,
    /// Number of member operations in flight.
    pub outstanding: u32,
    /// True if the work has passed from reading to writing.
    pub writing: bool,
    /// True if the writes are durable when they end.
    pub durable: bool,
    /// True if the stripe is marked as one whose syndromes may not match.
    pub noted: bool,
    /// True if all data of the stripe are written.
    pub full: bool,
    /// True if some rows are lost and the work continues without them.
    pub partly_lost: bool,
    /// True if the member being rebuilt was present when its strip was written, and has been since.
    pub rebuilds: bool,
    /// True if blocks are read one by one, to find the unreadable ones.
    pub careful: bool,
    /// Time at which the work could have started with free capacity.
    pub started: Nanos,
}

/// A stripe in use.
#[derive(Clone, Debug)]
pub struct Stripe<B> {
    /// Waiting writes in the order of arrival.
    pub waiting: VecDeque<WritePart<B>>,
    /// Jobs that take precedence over the writes.
    pub jobs: VecDeque<StripeJob>,
    /// Running work.
    pub running: Option<Execution<B>>,
    /// Bit set of the blocks that waiting writes cover.
    covered: Vec<u64>,
    /// Number of these blocks.
    pub filled: u32,
    /// True if waiting writes start as soon as possible.
    pub urgent: bool,
    /// Time since which the stripe waits for free capacity.
    pub queued: Option<Nanos>,
    /// True if a write waited although the stripe was idle.
    pub held: bool,
    /// Time of the next verdict of the strategy.
    pub wake: Option<Nanos>,
}

impl<B: Block> Stripe<B> {
    /// Creates an unused stripe with `blocks` data blocks.
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

    /// Adds a waiting write.
    pub fn push(&mut self, part: WritePart<B>) {
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

    /// Removes and returns the first waiting write, or all of them.
    pub fn take(&mut self, all: bool) -> Vec<WritePart<B>> {
        let count = if all { self.waiting.len() } else { 1 };
        let parts: Vec<WritePart<B>> = self.waiting.drain(..count).collect();
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

    /// Returns the future contents of a data block: those of the latest unfinished write to it.
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
