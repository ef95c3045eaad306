//! The array as a pure state machine: requests, outcomes of member operations and times in; member operations and
//! replies out. It starts no thread, looks at no clock and does no I/O, so that simulated and real members run the same.
//!
//! Invariants:
//! - A stripe is written, rebuilt or decoded by one at a time; so syndromes fit the data whenever nobody has the stripe.
//! - A read gives what the latest write gave that was accepted before, done or not.
//! - A write is answered when all that it needs has been written; nothing is held longer than [`Settings::longest_hold`].

mod execute;
mod latency;
mod reads;
mod trims;
mod writes;

use crate::block::Block;
use crate::geometry::Geometry;
use crate::grid::Range;
use crate::merging::{Merging, Question, Strategy, View};
use crate::request::{
    Action, Failure, Nanos, OpId, Operation, Outcome, Output, Reply, Request, Token,
};
use crate::router::Sharding;
use crate::slab::Slab;
use crate::stripe::{Job, Purpose, Stripe};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use trims::Trim;

pub use latency::{CLASSES, Latencies, Latency};

/// How an array behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When writes are held.
    pub merging: Merging,
    /// How long at the most.
    pub longest_hold: Nanos,
    /// Operations for writes that each member has at the same time, in the mean. Stripes beyond that queue in the array,
    /// where what comes meanwhile joins them.
    pub member_depth: usize,
    /// Stripes of a region, the unit in which it is kept what has to be looked at after a power cut.
    pub region_stripes: u64,
    /// Members have checksums.
    pub checksums: bool,
    /// Whoever uses the volume knows by checksums whether what is read is what was written, and writes no stripe that holds
    /// anything while members are missing. Then data that are lost are computed even where a power cut came while their
    /// stripe was written, instead of being refused as doubtful.
    pub checked_above: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            merging: Merging::Adaptive,
            longest_hold: 1_000_000,
            member_depth: 64,
            region_stripes: 1024,
            checksums: false,
            checked_above: false,
        }
    }
}

/// Whether a member can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has all it should have.
    Up,
    /// It is written; stripes before `below`, and those of `done`, have been rebuilt.
    Rebuilding {
        /// All stripes before this one can be read.
        below: u64,
        /// And these.
        done: BTreeSet<u64>,
    },
    /// It is not used.
    Gone,
}

/// What has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations that read members.
    pub reads: u64,
    /// Operations that wrote members.
    pub writes: u64,
    /// Blocks read from members.
    pub blocks_read: u64,
    /// Blocks written to members.
    pub blocks_written: u64,
    /// Times that a whole stripe was written.
    pub full: u64,
    /// Times that a part of a stripe was written.
    pub partial: u64,
    /// Times that writes were held until the longest time was over.
    pub expired: u64,
    /// Blocks that could not be read, and were written again as they should be.
    pub repaired: u64,
    /// Reads that clients asked for. One that lies on stripes of several shards counts for each.
    pub user_reads: u64,
    /// Writes that clients asked for, likewise.
    pub user_writes: u64,
    /// Blocks that they asked to read.
    pub user_blocks_read: u64,
    /// Blocks that they asked to write.
    pub user_blocks_written: u64,
    /// Blocks of the volume that were given up.
    pub trimmed: u64,
    /// Blocks of members that were not what was written, by their checksums.
    pub corrupt: u64,
}

impl Counters {
    /// Both together.
    pub fn plus(&self, other: &Counters) -> Counters {
        Counters {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            blocks_read: self.blocks_read + other.blocks_read,
            blocks_written: self.blocks_written + other.blocks_written,
            full: self.full + other.full,
            partial: self.partial + other.partial,
            expired: self.expired + other.expired,
            repaired: self.repaired + other.repaired,
            user_reads: self.user_reads + other.user_reads,
            user_writes: self.user_writes + other.user_writes,
            user_blocks_read: self.user_blocks_read + other.user_blocks_read,
            user_blocks_written: self.user_blocks_written + other.user_blocks_written,
            trimmed: self.trimmed + other.trimmed,
            corrupt: self.corrupt + other.corrupt,
        }
    }

    /// What was done since an earlier count.
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            blocks_read: self.blocks_read - before.blocks_read,
            blocks_written: self.blocks_written - before.blocks_written,
            full: self.full - before.full,
            partial: self.partial - before.partial,
            expired: self.expired - before.expired,
            repaired: self.repaired - before.repaired,
            user_reads: self.user_reads - before.user_reads,
            user_writes: self.user_writes - before.user_writes,
            user_blocks_read: self.user_blocks_read - before.user_blocks_read,
            user_blocks_written: self.user_blocks_written - before.user_blocks_written,
            trimmed: self.trimmed - before.trimmed,
            corrupt: self.corrupt - before.corrupt,
        }
    }
}

/// A request that is not answered yet.
struct Pending<B> {
    token: Token,
    since: Nanos,
    left: u32,
    data: Vec<Option<B>>,
    failure: Option<Failure>,
    is_read: bool,
    /// Of a write: which flushes wait for it.
    epoch: Option<u64>,
    /// Of a flush: how many of the members' there were before.
    member_flushes: Option<u64>,
}

/// What an operation is for.
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
        range: Range,
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

/// A state machine for the stripes of an array.
pub struct Shard<B> {
    geometry: Geometry,
    sharding: Sharding,
    number: usize,
    settings: Settings,
    strategy: Box<dyn Strategy + Send>,
    members: Vec<MemberState>,
    stripes: BTreeMap<u64, Stripe<B>>,
    requests: Slab<Pending<B>>,
    tickets: Slab<Ticket>,
    trims: Slab<Trim>,
    wakes: BTreeSet<(Nanos, u64)>,
    /// Stripes that may go when members have room, in the order in which they asked.
    queue: VecDeque<u64>,
    /// Operations on cells that have not ended.
    cells_outstanding: usize,
    /// Writes not ended, by the number of flushes that came before them.
    unfinished: BTreeMap<u64, u64>,
    epoch: u64,
    /// Flushes that wait for writes of earlier epochs.
    flushes: Vec<(u64, usize)>,
    /// Reads not answered.
    reads: u32,
    /// Regions that were written, and the number of flushes of the members begun before that.
    written: BTreeMap<u64, u64>,
    member_flushes: u64,
    /// Stripes whose syndromes may not fit, while data of theirs are lost.
    doubtful: BTreeSet<u64>,
    /// How often a stripe has become doubtful, or is no longer so.
    doubt_changes: u64,
    /// Counts reads of mirrors, to spread them.
    turn: usize,
    counters: Counters,
    latencies: Latencies,
    corrupt: Vec<u64>,
    repaired: Vec<u64>,
    output: Output<B>,
}

impl<B: Block> Shard<B> {
    /// An array of which all members are there.
    pub fn new(geometry: Geometry, settings: Settings) -> Shard<B> {
        Shard::of(geometry, settings, Sharding::ONE, 0)
    }

    /// One of several shards of an array of which all members are there. It takes requests for its own stripes only
    /// ([`Router::divide`](crate::Router::divide)).
    pub fn of(
        geometry: Geometry,
        settings: Settings,
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
            written: BTreeMap::new(),
            member_flushes: 0,
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

    /// The shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Blocks of each member that were not what was written, by their checksums.
    pub fn corrupt(&self) -> &[u64] {
        &self.corrupt
    }

    /// Blocks of each member that were written again as they should be ([`Counters::repaired`]).
    pub fn repaired(&self) -> &[u64] {
        &self.repaired
    }

    /// How long requests took so far.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Where writes are held, and why.
    pub fn view(&self, now: Nanos) -> View {
        self.strategy.view(&Question {
            now,
            area_stripes: self.settings.region_stripes,
        })
    }

    /// Whether a member can be used.
    pub fn member(&self, member: usize) -> &MemberState {
        &self.members[member]
    }

    /// What is wanted since this was last emptied.
    pub fn output(&mut self) -> &mut Output<B> {
        &mut self.output
    }

    /// When [`Shard::tick`] must be called at the latest; none if nothing waits for time to pass.
    pub fn deadline(&self) -> Option<Nanos> {
        self.wakes.first().map(|&(at, _)| at)
    }

    /// Requests and operations that have not ended.
    pub fn outstanding(&self) -> usize {
        self.requests.len() + self.tickets.len()
    }

    /// A request.
    pub fn request(&mut self, now: Nanos, token: Token, request: Request<B>) {
        match request {
            Request::Flush => self.flush(now, token),
            Request::Read { start, blocks } => match self.geometry.refusal(start, blocks) {
                Some(failure) => self.output.replies.push(Reply {
                    token,
                    result: Err(failure),
                }),
                None => self.read(now, token, start, blocks),
            },
            Request::Trim { start, blocks } => match self.geometry.refusal(start, blocks) {
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
            } => match self.geometry.refusal(start, data.len() as u64) {
                Some(failure) => self.output.replies.push(Reply {
                    token,
                    result: Err(failure),
                }),
                None => self.write(now, token, start, data, durable),
            },
        }
        self.settle(now);
    }

    /// An operation has ended.
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
                    // What is not what was written may be about to be: the stripe is asked by itself.
                    if !matches!(outcome, Outcome::Unreadable | Outcome::Corrupt) {
                        self.lose_member(member);
                    }
                    self.add_job(
                        now,
                        stripe,
                        Job::Read {
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
        self.settle(now);
    }

    /// Time has passed.
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
        self.settle(now);
    }

    /// A member is no longer used.
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
                if let Purpose::Job(Job::Rebuild { member: one, .. }) = running.purpose {
                    running.rebuilds &= one != member;
                }
            }
        }
    }

    /// An empty device takes the place of a lost member; it is to be filled by [`Shard::rebuild`], stripe by stripe.
    pub fn replace_member(&mut self, member: usize) {
        self.resume_member(member, 0);
    }

    /// A device takes the place of a lost member which has what it should have of all stripes before `below`; the others
    /// are to be filled by [`Shard::rebuild`].
    pub fn resume_member(&mut self, member: usize, below: u64) {
        self.members[member] = MemberState::Rebuilding {
            below,
            done: BTreeSet::new(),
        };
    }

    /// Computes and writes what a replaced member should have of a stripe. The token is answered.
    pub fn rebuild(&mut self, now: Nanos, token: Token, member: usize, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, Job::Rebuild { request, member });
        self.settle(now);
    }

    /// Reads a stripe whole and compares data and syndromes. What cannot be read, or (on RAID 6) is wrong by itself, is
    /// written as it should be. The token is answered.
    pub fn scrub(&mut self, now: Nanos, token: Token, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, Job::Scrub { request });
        self.settle(now);
    }

    /// Makes the syndromes of a stripe fit its data. The token is answered.
    pub fn resync(&mut self, now: Nanos, token: Token, stripe: u64) {
        let request = self.internal(token);
        self.add_job(now, stripe, Job::Resync { request });
        self.settle(now);
    }

    /// Regions in which a power cut now could leave syndromes that do not fit the data: they were written since the
    /// members were last flushed. After one, every stripe of theirs must be given to [`Shard::resync`].
    pub fn unsettled_regions(&self) -> impl Iterator<Item = u64> + '_ {
        self.written.keys().copied()
    }

    /// Whether a region is one of [`Shard::unsettled_regions`].
    pub fn is_unsettled(&self, region: u64) -> bool {
        self.written.contains_key(&region)
    }

    /// Stripes that were found with lost data and syndromes that may not fit: of these only what is there can be read,
    /// and only the whole be written.
    pub fn doubtful_stripes(&self) -> impl Iterator<Item = u64> + '_ {
        self.doubtful.iter().copied()
    }

    /// How often a stripe has become doubtful, or is no longer so.
    pub fn doubt_changes(&self) -> u64 {
        self.doubt_changes
    }

    /// Stripes that were doubtful before a restart are so still.
    pub fn doubt(&mut self, stripes: impl IntoIterator<Item = u64>) {
        self.doubtful.extend(stripes);
    }

    /// A request that is the array's own.
    fn internal(&mut self, token: Token) -> usize {
        self.requests.insert(Pending {
            token,
            since: 0,
            left: 1,
            data: Vec::new(),
            failure: None,
            is_read: false,
            epoch: None,
            member_flushes: None,
        })
    }

    /// Whether a column of a stripe has what it should have.
    fn readable(&self, stripe: u64, column: usize) -> bool {
        match &self.members[self.geometry.member(stripe, column)] {
            MemberState::Up => true,
            MemberState::Rebuilding { below, done } => stripe < *below || done.contains(&stripe),
            MemberState::Gone => false,
        }
    }

    /// The columns of a stripe that can be written.
    fn writable(&self, stripe: u64) -> Vec<bool> {
        let columns = 0..self.geometry.members();
        columns
            .map(|column| self.members[self.geometry.member(stripe, column)] != MemberState::Gone)
            .collect()
    }

    /// More members are gone than the level bears.
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

    fn pending(&mut self, request: usize) -> &mut Pending<B> {
        self.requests
            .get_mut(request)
            .expect("a request stays until its last part is done")
    }

    fn fail(&mut self, request: usize, failure: Failure) {
        self.pending(request).failure.get_or_insert(failure);
    }

    /// A part of a request is done; the last one answers it.
    fn answer_part(&mut self, now: Nanos, request: usize) {
        let pending = self.pending(request);
        pending.left -= 1;
        if pending.left > 0 {
            return;
        }
        let pending = self.requests.remove(request).expect("seen a moment ago");
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

    /// Whether members have room for the operations of another stripe.
    fn has_room(&self) -> bool {
        self.cells_outstanding < self.settings.member_depth * self.geometry.members()
    }

    /// Starts what queues for room, and asks the strategy again about stripes whose verdict may have changed.
    fn settle(&mut self, now: Nanos) {
        loop {
            let next = match self.has_room() {
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
