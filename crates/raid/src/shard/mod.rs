//! The array as a pure state machine. Inputs are requests, outcomes of member operations, and times. Outputs
//! are member operations and replies. It starts no threads, reads no clock and does no I/O, so that simulated
//! and real members run the same code.
//!
//! Invariants:
//! - A stripe is written, rebuilt or decoded by one user at a time. Its syndromes therefore match its data
//!   whenever it is idle.
//! - A read returns the data of the latest accepted write, complete or not.
//! - A write is answered after all its data and syndromes have been written. No write is held longer than
//!   [`ShardSettings::longest_hold`].

mod counters;
mod dirty;
mod execute;
mod latency;
mod reads;
mod settings;
mod trims;
mod writes;

use crate::block::Block;
use crate::geometry::{Geometry, Level};
use crate::grid::CellRange;
use crate::mark::Mark;
use crate::merging::{Strategy, View, ViewRequest};
use crate::request::{
    Action, Failure, Nanos, OpId, Operation, Outcome, Output, Reply, Request, Token,
};
use crate::router::Sharding;
use crate::slab::Slab;
use crate::stripe::{Purpose, Stripe, StripeJob};
use dirty::DirtyStripes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trims::Trim;

pub use counters::Counters;
pub use latency::{CLASSES, Latencies, Latency};
pub use settings::ShardSettings;

/// State of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The member is complete.
    Up,
    /// The member is being rebuilt. Stripes before `below`, and those in `done`, are complete.
    Rebuilding {
        /// All stripes before this one can be read.
        below: u64,
        /// Further stripes that can be read.
        done: BTreeSet<u64>,
    },
    /// The member is not used.
    Gone,
}

/// A request without an answer yet.
struct PendingRequest<B> {
    token: Token,
    since: Nanos,
    left: u32,
    data: Vec<Option<B>>,
    failure: Option<Failure>,
    is_read: bool,
    /// Epoch of a write, by which flushes wait for it.
    epoch: Option<u64>,
    /// Number of the member flush, for a flush.
    member_flush: Option<u64>,
}

/// Purpose of a member operation.
enum Ticket {
    Direct {
        request: usize,
        offset: usize,
        stripe: u64,
        first: u32,
        blocks: u32,
        member: usize,
    },
    Cells {
        stripe: u64,
        range: CellRange,
        member: usize,
    },
    Flush {
        request: usize,
        member: usize,
    },
    Trim {
        trim: usize,
        member: usize,
    },
}

/// State machine for the stripes of an array.
pub struct Shard<B> {
    geometry: Geometry,
    sharding: Sharding,
    number: usize,
    settings: ShardSettings,
    strategy: Box<dyn Strategy + Send>,
    members: Vec<MemberState>,
    stripes: BTreeMap<u64, Stripe<B>>,
    requests: Slab<PendingRequest<B>>,
    tickets: Slab<Ticket>,
    trims: Slab<Trim>,
    wakes: BTreeSet<(Nanos, u64)>,
    /// Stripes that wait for free capacity of the members, in the order of their requests.
    queue: VecDeque<u64>,
    /// Number of operations on cells in flight.
    cells_outstanding: usize,
    /// Number of unfinished writes per epoch: the number of flushes before the write.
    unfinished: BTreeMap<u64, u64>,
    epoch: u64,
    /// Flushes that wait for writes of earlier epochs.
    flushes: Vec<(u64, usize)>,
    /// Number of reads without an answer.
    reads: u32,
    /// Writes since the last flush of the members.
    dirty: DirtyStripes,
    /// Stripes with lost data whose syndromes may not match.
    doubtful: BTreeSet<u64>,
    /// Number of changes of the set of doubtful stripes.
    doubt_changes: u64,
    /// Counter of reads from mirrors, to distribute them.
    turn: usize,
    counters: Counters,
    latencies: Latencies,
    corrupt: Vec<u64>,
    repaired: Vec<u64>,
    output: Output<B>,
}

impl<B: Block> Shard<B> {
    /// Creates the only shard of an array whose members are all present.
    pub fn new(geometry: Geometry, settings: ShardSettings) -> Shard<B> {
        Shard::of(geometry, settings, Sharding::ONE, 0)
    }

    /// Creates one of several shards of an array whose members are all present. It accepts only requests for
    /// its own stripes ([`Router::divide`](crate::Router::divide)).
    pub fn of(
        geometry: Geometry,
        settings: ShardSettings,
        sharding: Sharding,
        number: usize,
    ) -> Shard<B> {
        Shard {
            geometry,
            sharding,
            number,
            settings,
            strategy: settings
                .merging
                .strategy(geometry.stripe_blocks(), settings.longest_hold),
            members: vec![MemberState::Up; geometry.members()],
            stripes: BTreeMap::new(),
            requests: Slab::new(),
            tickets: Slab::new(),
            trims: Slab::new(),
            wakes: BTreeSet::new(),
            queue: VecDeque::new(),
            cells_outstanding: 0,
            unfinished: BTreeMap::new(),
            epoch: 0,
            flushes: Vec::new(),
            reads: 0,
            dirty: DirtyStripes::new(settings.region_stripes, sharding.shards),
            doubtful: BTreeSet::new(),
            doubt_changes: 0,
            turn: 0,
            counters: Counters::default(),
            latencies: Latencies::default(),
            corrupt: vec![0; geometry.members()],
            repaired: vec![0; geometry.members()],
            output: Output::default(),
        }
    }

    /// Returns the shape of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of blocks per member whose contents did not match their checksums.
    pub fn corrupt(&self) -> &[u64] {
        &self.corrupt
    }

    /// Returns the number of blocks per member that were rewritten ([`Counters::repaired`]).
    pub fn repaired(&self) -> &[u64] {
        &self.repaired
    }

    /// Returns the latencies so far.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Returns the strategy's decisions about held writes, with reasons.
    pub fn view(&self, now: Nanos) -> View {
        self.strategy.view(&ViewRequest {
            now,
            area_stripes: self.settings.region_stripes,
        })
    }

    /// Returns the state of a member.
    pub fn member(&self, member: usize) -> &MemberState {
        &self.members[member]
    }

    /// Returns the output since the caller last emptied it.
    pub fn output(&mut self) -> &mut Output<B> {
        &mut self.output
    }

    /// Returns the latest time of the next call of [`Shard::tick`]; `None` if nothing waits for a time.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wakes.first().map(|&(at, _)| at)
    }

    /// Returns the number of requests and operations in flight.
    pub fn outstanding(&self) -> usize {
        self.requests.len() + self.tickets.len()
    }

    /// Accepts a request.
    pub fn request(&mut self, now: Nanos, token: Token, request: Request<B>) {
        match request {
            Request::Flush => self.flush(now, token),
            Request::Read { start, blocks } => match self.geometry.check_extent(start, blocks) {
                Some(failure) => self.output.replies.push(Reply {
                    token,
                    result: Err(failure),
                }),
                None => self.read(now, token, start, blocks),
            },
            Request::Trim { start, blocks } => match self.geometry.check_extent(start, blocks) {
                Some(failure) => self.output.replies.push(Reply {
                    token,
                    result: Err(failure),
                }),
                None => self.trim(now, token, start, blocks),
            },
            Request::Write {
                start,
                data,
                durable,
            } => match self.geometry.check_extent(start, data.len() as u64) {
                Some(failure) => self.output.replies.push(Reply {
                    token,
                    result: Err(failure),
                }),
                None => self.write(now, token, start, data, durable),
            },
        }
        self.start_queued(now);
    }

    /// Accepts the outcome of an operation.
    ///
    /// # Panics
    /// If no such operation is outstanding.
    pub fn completed(&mut self, now: Nanos, id: OpId, outcome: Outcome<B>) {
        match self.tickets.remove(id).expect("an operation ends once") {
            Ticket::Direct {
                request,
                offset,
                stripe,
                first,
                blocks,
                member,
            } => match outcome {
                Outcome::Read(data) => self.fill(now, request, offset, data),
                outcome => {
                    // A corrupt block may be about to be overwritten, so the stripe is read exclusively.
                    if !matches!(outcome, Outcome::Unreadable | Outcome::Corrupt) {
                        self.lose_member(member);
                    }
                    self.add_job(
                        now,
                        stripe,
                        StripeJob::Read {
                            request,
                            offset,
                            first,
                            blocks,
                        },
                    );
                }
            },
            Ticket::Cells {
                stripe,
                range,
                member,
            } => {
                self.cells_outstanding -= 1;
                self.cells(now, stripe, range, member, outcome);
            }
            Ticket::Flush { request, member } => self.member_flushed(now, request, member, outcome),
            Ticket::Trim { trim, member } => self.discarded(now, trim, member, &outcome),
        }
        self.start_queued(now);
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Nanos) {
        while let Some(&(at, stripe)) = self.wakes.first() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            if let Some(found) = self.stripes.get_mut(&stripe) {
                found.wake = None;
                self.consider(now, stripe);
            }
        }
        self.start_queued(now);
    }

    /// Takes a member out of use.
    pub fn lose_member(&mut self, member: usize) {
        if self.members[member] == MemberState::Gone {
            return;
        }
        self.members[member] = MemberState::Gone;
        self.output.lost_members.push(member);
        for (&number, stripe) in &mut self.stripes {
            if let Some(running) = &mut stripe.running {
                running
                    .grid
                    .lose_column(self.geometry.column(number, member));
                if let Purpose::Job(StripeJob::Rebuild { member: one, .. }) = running.purpose {
                    running.rebuilds &= one != member;
                }
            }
        }
    }

    /// Replaces a lost member by an empty device. The caller must rebuild all stripes with [`Shard::rebuild`].
    pub fn replace_member(&mut self, member: usize) {
        self.resume_member(member, 0);
    }

    /// Replaces a lost member by a device that is complete in all stripes before `below`. The caller must rebuild
    /// the others with [`Shard::rebuild`].
    pub fn resume_member(&mut self, member: usize, below: u64) {
        self.members[member] = MemberState::Rebuilding {
            below,
            done: BTreeSet::new(),
        };
    }

    /// Computes and writes a replaced member's blocks of a stripe. The token is answered at the end.
    pub fn rebuild(&mut self, now: Nanos, token: Token, member: usize, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, StripeJob::Rebuild { request, member });
        self.start_queued(now);
    }

    /// Reads a whole stripe and compares data with syndromes. Rewrites unreadable blocks and (on RAID 6) a
    /// single wrong block per row. The token is answered at the end.
    pub fn scrub(&mut self, now: Nanos, token: Token, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, StripeJob::Scrub { request });
        self.start_queued(now);
    }

    /// Makes the syndromes of a stripe match its data. The token is answered at the end.
    pub fn resync(&mut self, now: Nanos, token: Token, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, StripeJob::Resync { request });
        self.start_queued(now);
    }

    /// Returns the number of stripes of a region.
    pub fn region_stripes(&self) -> u64 {
        self.settings.region_stripes
    }

    /// Returns the marks of all stripes whose syndromes a power cut now could leave inconsistent: they were written
    /// since the last flush of the members. After a power cut, every stripe of these marks must be given to
    /// [`Shard::resync`].
    pub fn dirty_marks(&self) -> BTreeSet<Mark> {
        self.dirty.marks()
    }

    /// Returns the mark that must be recorded before members are written in a stripe; `None` if the writes there
    /// rebuild a member, which does not affect syndromes.
    pub fn mark(&self, stripe: u64) -> Option<Mark> {
        self.dirty.mark(stripe)
    }

    /// Returns whether writes mark individual stripes instead of regions. They do while a member is missing,
    /// because a crash makes the lost data of every marked stripe doubtful. A mirror has no such doubts, and
    /// neither has an array below a store with checksums.
    fn marks_alone(&self) -> bool {
        let parity = matches!(self.geometry.level(), Level::Raid5 | Level::Raid6);
        let doubts = parity && !self.settings.checked_above;
        doubts && self.members.iter().any(|state| *state != MemberState::Up)
    }

    /// Iterates over the doubtful stripes: data are lost and the syndromes may not match. Only their remaining
    /// blocks can be read, and they can only be written as a whole.
    pub fn doubtful_stripes(&self) -> impl Iterator<Item = u64> + '_ {
        self.doubtful.iter().copied()
    }

    /// Returns the number of changes of the set of doubtful stripes.
    pub fn doubt_changes(&self) -> u64 {
        self.doubt_changes
    }

    /// Restores stripes that were doubtful before a restart.
    pub fn doubt(&mut self, stripes: impl IntoIterator<Item = u64>) {
        self.doubtful.extend(stripes);
    }

    /// Registers an internal request of the array.
    fn internal(&mut self, token: Token) -> usize {
        self.requests.insert(PendingRequest {
            token,
            since: 0,
            left: 1,
            data: Vec::new(),
            failure: None,
            is_read: false,
            epoch: None,
            member_flush: None,
        })
    }

    /// Returns whether a column of a stripe can be read.
    fn readable(&self, stripe: u64, column: usize) -> bool {
        match &self.members[self.geometry.member(stripe, column)] {
            MemberState::Up => true,
            MemberState::Rebuilding { below, done } => stripe < *below || done.contains(&stripe),
            MemberState::Gone => false,
        }
    }

    /// Returns for each column of a stripe whether it can be written.
    fn writable(&self, stripe: u64) -> Vec<bool> {
        let columns = 0..self.geometry.members();
        columns
            .map(|column| self.members[self.geometry.member(stripe, column)] != MemberState::Gone)
            .collect()
    }

    /// Returns whether more members are lost than the redundancy covers.
    fn is_broken(&self) -> bool {
        self.members
            .iter()
            .filter(|&state| *state == MemberState::Gone)
            .count()
            > self.geometry.syndromes()
    }

    fn issue(&mut self, ticket: Ticket, member: usize, action: Action<B>) {
        match &action {
            Action::Read { blocks, .. } | Action::Adopt { blocks, .. } => {
                self.counters.reads += 1;
                self.counters.blocks_read += u64::from(*blocks);
            }
            Action::Write { data, .. } => {
                self.counters.writes += 1;
                self.counters.blocks_written += data.len() as u64;
            }
            Action::Flush | Action::Discard { .. } => {}
        }
        self.cells_outstanding += usize::from(matches!(ticket, Ticket::Cells { .. }));
        let id = self.tickets.insert(ticket);
        self.output
            .operations
            .push(Operation { id, member, action });
    }

    fn pending(&mut self, request: usize) -> &mut PendingRequest<B> {
        self.requests
            .get_mut(request)
            .expect("a request stays until its last part is done")
    }

    fn fail(&mut self, request: usize, failure: Failure) {
        self.pending(request).failure.get_or_insert(failure);
    }

    /// Completes a part of a request. The last part sends the answer.
    fn answer_part(&mut self, now: Nanos, request: usize) {
        let pending = self.pending(request);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        let pending = self
            .requests
            .remove(request)
            .expect("the request was just found");
        let took = now.saturating_sub(pending.since);
        if pending.epoch.is_some() {
            self.latencies.writes.note(took);
        }
        if pending.is_read {
            self.latencies.reads.note(took);
            self.reads -= 1;
            self.strategy.read_ended(now, pending.data.len() as u32);
        }
        let result = match pending.failure {
            Some(failure) => Err(failure),
            None => Ok(pending
                .data
                .into_iter()
                .map(|block| block.expect("every part has filled its blocks"))
                .collect()),
        };
        self.output.replies.push(Reply {
            token: pending.token,
            result,
        });
        if let Some(epoch) = pending.epoch {
            self.leave_epoch(now, epoch);
        }
    }

    /// Returns whether the members have capacity for the operations of another stripe.
    fn has_capacity(&self) -> bool {
        self.cells_outstanding < self.settings.member_depth * self.geometry.members()
    }

    /// Starts queued stripes while there is capacity. Reconsiders stripes for which the strategy's verdict may
    /// have changed.
    fn start_queued(&mut self, now: Nanos) {
        loop {
            let next = match self.has_capacity() {
                true => self.queue.pop_front(),
                false => None,
            };
            if let Some(stripe) = next {
                self.leave_queue(now, stripe);
            } else if let Some(stripe) = self.strategy.stirred() {
                self.consider(now, stripe);
            } else {
                return;
            }
        }
    }
}
