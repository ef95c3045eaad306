//! Requests from outside: divides them among shards and combines the answers.

use super::answer::{Answer, Completion};
use super::{Array, Shared, message::ShardMessage, zeroes};
use crate::block::Page;
use crate::geometry::BLOCK_BYTES;
use crate::request::{Failure, Request};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// A command to the volume. Addresses and lengths are in blocks.
#[derive(Clone, Debug)]
pub enum Command {
    /// Reads blocks.
    Read {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
    },
    /// Writes blocks.
    Write {
        /// First block.
        start: u64,
        /// Contents of the blocks.
        data: Vec<Page>,
        /// True to acknowledge only after the blocks survive a power cut.
        durable: bool,
    },
    /// Writes zeroes.
    WriteZeroes {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
        /// True to acknowledge only after the zeroes survive a power cut.
        durable: bool,
    },
    /// Discards the contents of blocks. If all members support it, whole stripes within the range hold zeroes
    /// afterwards and members free their space. Otherwise nothing is done, and never for parts of stripes.
    Trim {
        /// First block.
        start: u64,
        /// Number of blocks.
        blocks: u64,
    },
    /// Acknowledges after all writes acknowledged before survive a power cut.
    Flush,
}

/// Maximum number of zero bytes written at once.
const ZEROED_AT_ONCE: u64 = 8 << 20;

/// Maximum number of bytes of the volume trimmed at once.
const TRIMMED_AT_ONCE: u64 = 1 << 30;

/// A request that some shards have not answered yet.
struct Joint {
    left: usize,
    data: Vec<Option<Page>>,
    failure: Option<Failure>,
    completion: Option<Completion>,
}

impl Shared {
    fn closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Sends a request to a shard.
    pub(super) fn ask(&self, shard: usize, request: Request<Page>, completion: Completion) {
        // If the shard has ended, the dropped answer reports the failure.
        let _ = self.shards[shard].send(ShardMessage::Request(request, Answer::new(completion)));
    }

    fn divide(&self, command: Command, completion: Completion) {
        let (start, blocks) = match &command {
            Command::Read { start, blocks } => (*start, *blocks),
            Command::Write { start, data, .. } => (*start, data.len() as u64),
            Command::Trim { start, blocks } => (*start, *blocks),
            _ => return self.flush(completion),
        };
        let runs = self.sharding.runs(&self.geometry, start, blocks);
        if let [(shard, _)] = runs[..] {
            return self.ask(shard, part(command, start, blocks, 0), completion);
        }
        let data = match &command {
            Command::Read { blocks, .. } => vec![None; *blocks as usize],
            _ => Vec::new(),
        };
        let joint = Joint::new(runs.len(), data, completion);
        let mut offset = 0;
        for (shard, blocks) in runs {
            let request = part(command.clone(), start + offset as u64, blocks, offset);
            self.ask(shard, request, Joint::member(&joint, offset));
            offset += blocks as usize;
        }
    }

    /// Flushes every shard.
    pub(super) fn flush(&self, completion: Completion) {
        let joint = Joint::new(self.shards.len(), Vec::new(), completion);
        for shard in 0..self.shards.len() {
            self.ask(shard, Request::Flush, Joint::member(&joint, 0));
        }
    }

    /// Writes zeroes in pieces, to bound the memory of a long run.
    fn zero(self: &Arc<Shared>, start: u64, blocks: u64, durable: bool, completion: Completion) {
        let now = blocks.min(ZEROED_AT_ONCE / BLOCK_BYTES as u64);
        let command = Command::Write {
            start,
            data: zeroes(now),
            durable,
        };
        let shared = self.clone();
        let then: Completion = Box::new(move |result| match result {
            Ok(_) if now < blocks => shared.zero(start + now, blocks - now, durable, completion),
            result => completion(result),
        });
        self.divide(command, then);
    }
}

impl Shared {
    /// Trims whole stripes, in pieces.
    fn trim(self: &Arc<Shared>, start: u64, blocks: u64, completion: Completion) {
        let stripe = u64::from(self.geometry.stripe_blocks());
        let (first, end) = (start.next_multiple_of(stripe), start + blocks);
        let end = end - end % stripe;
        if first >= end {
            return completion(Ok(Vec::new()));
        }
        let at_once = (TRIMMED_AT_ONCE / BLOCK_BYTES as u64).next_multiple_of(stripe);
        let now = (end - first).min(at_once);
        let shared = self.clone();
        let then: Completion = Box::new(move |result| match result {
            Ok(_) if first + now < end => shared.trim(first + now, end - first - now, completion),
            result => completion(result),
        });
        let (start, blocks) = (first, now);
        self.divide(Command::Trim { start, blocks }, then);
    }
}

/// Returns a shard's part of a command.
fn part(command: Command, start: u64, blocks: u64, offset: usize) -> Request<Page> {
    match command {
        Command::Write {
            mut data, durable, ..
        } => {
            let data = match data.len() as u64 == blocks {
                true => data,
                false => data.drain(offset..offset + blocks as usize).collect(),
            };
            Request::Write {
                start,
                data,
                durable,
            }
        }
        Command::Trim { .. } => Request::Trim { start, blocks },
        _ => Request::Read { start, blocks },
    }
}

impl Joint {
    fn new(left: usize, data: Vec<Option<Page>>, completion: Completion) -> Arc<Mutex<Joint>> {
        Arc::new(Mutex::new(Joint {
            left,
            data,
            failure: None,
            completion: Some(completion),
        }))
    }

    /// Returns the completion of one part. Its blocks go to `offset` of the answer.
    fn member(joint: &Arc<Mutex<Joint>>, offset: usize) -> Completion {
        let joint = joint.clone();
        Box::new(move |result| {
            let mut joint = joint.lock().unwrap_or_else(PoisonError::into_inner);
            match result {
                Ok(data) => (offset..)
                    .zip(data)
                    .for_each(|(at, page)| joint.data[at] = Some(page)),
                Err(failure) => {
                    joint.failure.get_or_insert(failure);
                }
            }
            joint.left -= 1;
            if joint.left > 0 {
                return;
            }
            let data = std::mem::take(&mut joint.data);
            let result = match joint.failure {
                Some(failure) => Err(failure),
                None => Ok(data.into_iter().flatten().collect()),
            };
            let completion = joint.completion.take().expect("the last part comes once");
            drop(joint);
            completion(result);
        })
    }
}

impl Array {
    /// Starts a command, from any thread. The completion is called exactly once, possibly before this method
    /// returns, on any thread.
    pub fn submit(&self, command: Command, completion: Completion) {
        let shared = &self.shared;
        if shared.closed() {
            return completion(Err(Failure::Stopped));
        }
        let range = match &command {
            Command::Read { start, blocks }
            | Command::WriteZeroes { start, blocks, .. }
            | Command::Trim { start, blocks } => Some((*start, *blocks)),
            Command::Write { start, data, .. } => Some((*start, data.len() as u64)),
            Command::Flush => None,
        };
        if let Some(failure) =
            range.and_then(|(start, blocks)| shared.geometry.check_extent(start, blocks))
        {
            return completion(Err(failure));
        }
        match command {
            Command::Trim { start, blocks } => shared.trim(start, blocks, completion),
            Command::WriteZeroes {
                start,
                blocks,
                durable,
            } => shared.zero(start, blocks, durable, completion),
            command => shared.divide(command, completion),
        }
    }

    /// Submits a command and waits for its answer. Must not be called from a completion.
    ///
    /// # Errors
    /// If the command fails.
    pub fn ask(&self, command: Command) -> Result<Vec<Page>, Failure> {
        let (answer, answered) = channel();
        // The caller waits for the answer below.
        let completion = Box::new(move |result| drop(answer.send(result)));
        self.submit(command, completion);
        answered.recv().unwrap_or(Err(Failure::Stopped))
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// If the read fails.
    pub fn read(&self, start: u64, blocks: u64) -> Result<Vec<Page>, Failure> {
        self.ask(Command::Read { start, blocks })
    }

    /// Writes blocks, durably if `durable` is set.
    ///
    /// # Errors
    /// If the write fails.
    pub fn write(&self, start: u64, data: Vec<Page>, durable: bool) -> Result<(), Failure> {
        self.ask(Command::Write {
            start,
            data,
            durable,
        })
        .map(drop)
    }

    /// Writes zeroes, durably if `durable` is set.
    ///
    /// # Errors
    /// If the write fails.
    pub fn write_zeroes(&self, start: u64, blocks: u64, durable: bool) -> Result<(), Failure> {
        self.ask(Command::WriteZeroes {
            start,
            blocks,
            durable,
        })
        .map(drop)
    }

    /// Discards blocks, see [`Command::Trim`].
    ///
    /// # Errors
    /// If the trim fails.
    pub fn trim(&self, start: u64, blocks: u64) -> Result<(), Failure> {
        self.ask(Command::Trim { start, blocks }).map(drop)
    }

    /// Makes all writes acknowledged before durable.
    ///
    /// # Errors
    /// If the flush fails.
    pub fn flush(&self) -> Result<(), Failure> {
        self.ask(Command::Flush).map(drop)
    }
}
