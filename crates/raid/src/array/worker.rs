//! Thread of a shard: the loop around the state machine.

use super::Shared;
use super::answer::Answer;
use super::coordinator::message::CoordinatorMessage;
use super::coordinator::slot::MemberSlot;
use super::marks::Marks;
use super::message::{Incarnation, Job, ShardMessage};
use super::status::Completeness;
use crate::block::Page;
use crate::driver::{Driver, EndedOperation};
use crate::mark::Mark;
use crate::member::Member;
use crate::request::{Action, Failure, Nanos, Operation, Outcome, Reply, Request};
use crate::shard::{MemberState, Shard};
use crate::slab::Slab;
use seiner_platform::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Maximum number of messages processed before member completions are collected.
const AT_ONCE: usize = 256;
/// Interval of the maintenance of regions, ns.
const MAINTENANCE_INTERVAL: Nanos = 1_000_000_000;
/// Fraction of the member timeout (its reciprocal). If the loop is later than this, the thread itself did not
/// run.
const STANDSTILL: Nanos = 8;

/// An operation in flight.
struct InFlight {
    id: usize,
    member: usize,
    since: Nanos,
}

/// Member as the shard uses it.
struct ShardSlot {
    device: Option<Arc<dyn Member>>,
    incarnation: Incarnation,
    /// Number of operations in flight on this device and its predecessors.
    busy: usize,
}

/// Receiver of the reply to a token.
enum Waiter {
    /// An answer.
    Answer(Answer),
    /// The resync of a stripe, and optionally an answer.
    Resync(u64, Option<Answer>),
}

/// Initial state of a shard.
pub struct ShardStart {
    /// Members of the array.
    pub slots: Vec<MemberSlot>,
    /// Parts that are recorded as being written; `None` for an array without records.
    pub marked: Option<BTreeSet<Mark>>,
    /// Doubtful stripes of the array.
    pub doubts: BTreeSet<u64>,
}

/// A device that waits until the last operation on its predecessor has ended.
struct Replacement {
    member: usize,
    incarnation: Incarnation,
    device: Arc<dyn Member>,
    below: u64,
}

/// A shard with its I/O and its queues.
pub struct Worker {
    shared: Arc<Shared>,
    number: usize,
    shard: Shard<Page>,
    driver: Driver,
    messages: Receiver<ShardMessage>,
    next: Option<ShardMessage>,
    slots: Vec<ShardSlot>,
    replacements: Vec<Replacement>,
    /// Lost members whose devices may still have operations in flight.
    leaving: Vec<usize>,
    /// Operations in flight in order of their start. Each name is used once.
    flights: BTreeMap<u64, InFlight>,
    next_flight: u64,
    /// Members that were lost because of a timeout.
    silent: BTreeSet<usize>,
    /// Receivers of replies, by token.
    waiting: Slab<Waiter>,
    /// Answers that wait for the record of losses, and the number of losses not recorded yet.
    withheld: Vec<Reply<Page>>,
    unrecorded: usize,
    /// Parts being written; `None` for an array without records.
    marks: Option<Marks<Page>>,
    /// Change count of the doubtful stripes that were last reported to the coordinator.
    reported_doubts: u64,
    /// True if there were dirty regions at the last maintenance.
    was_dirty: bool,
    next_maintenance: Nanos,
    /// Latest time of the next look at the clock.
    next_check: Nanos,
    finish: bool,
    halted: bool,
}

impl Worker {
    /// Creates the worker. Must be called on the thread that runs it.
    pub fn new(
        shared: Arc<Shared>,
        number: usize,
        messages: Receiver<ShardMessage>,
        start: ShardStart,
    ) -> io::Result<Worker> {
        // Writes are held for microseconds, and the default timer slack of 50 µs would dominate. A failure is
        // harmless.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let driver = Driver::new(shared.settings.method, shared.shards[number].bell.clone())?;
        let mut shard = Shard::of(
            shared.geometry,
            shared.settings.shard,
            shared.sharding,
            number,
        );
        let mut slots = Vec::new();
        for (member, slot) in start.slots.iter().enumerate() {
            match slot.completeness() {
                Completeness::Full => {}
                Completeness::Below(below) => shard.resume_member(member, below),
                Completeness::Gone => shard.lose_member(member),
            }
            slots.push(ShardSlot {
                device: slot.device(),
                incarnation: slot.incarnation(),
                busy: 0,
            });
        }
        shard.output().lost_members.clear();
        let sharding = shared.sharding;
        let own = |stripe: &u64| sharding.shard(*stripe) == number;
        shard.doubt(start.doubts.iter().copied().filter(own));
        let reported_doubts = shard.doubt_changes();
        let (region_stripes, stripes) = (
            shared.settings.shard.region_stripes,
            shared.geometry.stripes(),
        );
        let redundant = shared.geometry.syndromes() > 0;
        let marks = start.marked.filter(|_| redundant).map(|marked| {
            let own = |mark: &Mark| own(&mark.stripes(region_stripes, u64::MAX).start);
            let marked = marked.into_iter().filter(own).collect();
            Marks::new(region_stripes, stripes, marked)
        });
        Ok(Worker {
            shared,
            number,
            shard,
            driver,
            messages,
            next: None,
            slots,
            replacements: Vec::new(),
            leaving: Vec::new(),
            flights: BTreeMap::new(),
            next_flight: 0,
            silent: BTreeSet::new(),
            waiting: Slab::new(),
            withheld: Vec::new(),
            unrecorded: 0,
            marks,
            reported_doubts,
            was_dirty: false,
            next_maintenance: 0,
            next_check: Nanos::MAX,
            finish: false,
            halted: false,
        })
    }

    /// Runs until a message ends the thread.
    pub fn run(mut self) {
        let mut ended = Vec::new();
        while !self.halted {
            let idle = !self.take_messages() & !self.take_ended(&mut ended);
            self.check_time();
            self.emit_output();
            if self.finish && self.shard.outstanding() == 0 && self.waiting.len() == 0 {
                // A coordinator that has ended does not need the message.
                let _ = self
                    .shared
                    .coordinator
                    .send(CoordinatorMessage::Finished(self.left()));
                return;
            }
            if idle {
                self.sleep();
            }
        }
    }

    fn now(&self) -> Nanos {
        self.shared.clock.monotonic()
    }

    fn take_messages(&mut self) -> bool {
        let mut any = false;
        for _ in 0..AT_ONCE {
            match self
                .next
                .take()
                .map_or_else(|| self.messages.try_recv(), Ok)
            {
                Ok(message) => self.receive(message),
                Err(_) => break,
            }
            any = true;
        }
        any
    }

    fn receive(&mut self, message: ShardMessage) {
        let now = self.now();
        match message {
            // A trim is advisory. It is skipped if it would be slower than a write of zeroes.
            ShardMessage::Request(Request::Trim { .. }, answer) if !self.discards() => {
                answer.give(Ok(Vec::new()));
            }
            ShardMessage::Request(request, answer) => {
                self.resync_first(now, &request);
                let token = self.waiting.insert(Waiter::Answer(answer)) as u64;
                self.shard.request(now, token, request);
            }
            ShardMessage::Job(job, stripe, answer) => self.job(now, job, stripe, answer),
            ShardMessage::Lose(member, incarnation)
                if self.slots[member].incarnation == incarnation =>
            {
                self.shard.lose_member(member);
            }
            ShardMessage::Lose(..) => {}
            ShardMessage::Replace(member, incarnation, device, below) => {
                self.replacements.push(Replacement {
                    member,
                    incarnation,
                    device,
                    below,
                });
                self.install();
            }
            ShardMessage::Recorded => self.unrecorded -= 1,
            ShardMessage::Unrecorded => {
                self.unrecorded -= 1;
                for reply in &mut self.withheld {
                    // Blocks that were read are valid in any case.
                    if reply.result.as_ref().is_ok_and(Vec::is_empty) {
                        reply.result = Err(Failure::Broken);
                    }
                }
            }
            ShardMessage::Marked(marked) => {
                for mark in marked {
                    let marks = self.marks.as_mut().expect("a worker with marks asked");
                    for operation in marks.mark(mark) {
                        self.start(operation);
                    }
                }
            }
            ShardMessage::Inspect(look) => look(&self.shard),
            ShardMessage::Finish => self.finish = true,
            ShardMessage::Halt => self.halted = true,
        }
    }

    fn job(&mut self, now: Nanos, job: Job, stripe: u64, answer: Answer) {
        let due = self.marks.as_mut().is_some_and(|marks| {
            let due = marks.take_unsynced(stripe..stripe + 1);
            !due.is_empty()
        });
        match (job, due) {
            (Job::Resync, true) => return self.resync(now, stripe, Some(answer)),
            // The stripe was resynced earlier, because a request needed it.
            (Job::Resync, false) => return answer.give(Ok(Vec::new())),
            (_, true) => self.resync(now, stripe, None),
            (_, false) => {}
        }
        let token = self.waiting.insert(Waiter::Answer(answer)) as u64;
        match job {
            Job::Rebuild(member) => self.shard.rebuild(now, token, member, stripe),
            _ => self.shard.scrub(now, token, stripe),
        }
    }

    /// Returns whether stripes with lost data stay unchanged until a start with all members.
    fn leaves_lost_stripes(&self) -> bool {
        let mut members = 0..self.slots.len();
        self.shared.settings.shard.checked_above
            && members.any(|member| *self.shard.member(member) != MemberState::Up)
    }

    fn resync(&mut self, now: Nanos, stripe: u64, answer: Option<Answer>) {
        let token = self.waiting.insert(Waiter::Resync(stripe, answer)) as u64;
        self.shard.resync(now, token, stripe);
    }

    /// Resyncs the stripes of a request first if their syndromes may not match. Such a stripe must not be
    /// decoded or written in part.
    fn resync_first(&mut self, now: Nanos, request: &Request<Page>) {
        let (start, blocks) = match request {
            Request::Read { start, blocks } | Request::Trim { start, blocks } => (*start, *blocks),
            Request::Write { start, data, .. } => (*start, data.len() as u64),
            Request::Flush => return,
        };
        let Some(marks) = &mut self.marks else {
            return;
        };
        let size = u64::from(self.shared.geometry.stripe_blocks());
        let stripes = start / size..(start + blocks).div_ceil(size);
        for stripe in marks.take_unsynced(stripes) {
            self.resync(now, stripe, None);
        }
    }

    /// Installs replacement devices whose predecessors have no operations in flight.
    fn install(&mut self) {
        // Operations requested so far belong to the predecessors.
        self.emit_output();
        for replacement in std::mem::take(&mut self.replacements) {
            let slot = &mut self.slots[replacement.member];
            if slot.busy > 0 {
                self.replacements.push(replacement);
                continue;
            }
            self.leaving.retain(|&member| member != replacement.member);
            slot.device = Some(replacement.device);
            slot.incarnation = replacement.incarnation;
            self.shard
                .resume_member(replacement.member, replacement.below);
            // A coordinator that has ended starts no rebuild.
            let _ = self.shared.coordinator.send(CoordinatorMessage::Installed(
                replacement.member,
                replacement.incarnation,
            ));
        }
    }

    fn take_ended(&mut self, ended: &mut Vec<EndedOperation>) -> bool {
        self.driver.take(ended);
        let any = !ended.is_empty();
        for (name, outcome) in ended.drain(..) {
            // An operation that timed out may still end later.
            let Some(flight) = self.flights.remove(&name) else {
                continue;
            };
            self.slots[flight.member].busy -= 1;
            let now = self.shared.clock.monotonic();
            self.shard.completed(now, flight.id, outcome);
        }
        if !self.replacements.is_empty() {
            self.install();
        }
        any
    }

    /// Returns the time at which the oldest operation in flight times out.
    fn patience_ends(&self) -> Option<Nanos> {
        let patience = self.shared.settings.patience.as_nanos() as Nanos;
        let (_, first) = self.flights.first_key_value().filter(|_| patience > 0)?;
        Some(first.since.saturating_add(patience))
    }

    /// Takes members out of use that exceed the time limit. They are never used again.
    fn time_out_members(&mut self, now: Nanos) {
        while self.patience_ends().is_some_and(|at| at <= now)
            && let Some((_, first)) = self.flights.first_key_value()
        {
            let member = first.member;
            self.silent.insert(member);
            self.driver.abandon();
            let names = self.flights.iter();
            let own: Vec<u64> = names
                .filter(|(_, flight)| flight.member == member)
                .map(|(&name, _)| name)
                .collect();
            self.shard.lose_member(member);
            for name in own {
                let flight = self
                    .flights
                    .remove(&name)
                    .expect("the flight was just listed");
                self.slots[member].busy -= 1;
                self.shard.completed(now, flight.id, Outcome::Gone);
            }
        }
    }

    fn discards(&self) -> bool {
        let devices = self.slots.iter().filter_map(|slot| slot.device.as_ref());
        devices.into_iter().all(|device| device.discards())
    }

    /// Excludes time in which this thread did not run (stopped process, suspended machine, long system call)
    /// from the timeouts of members.
    fn exclude_standstill(&mut self, now: Nanos) {
        let late = now.saturating_sub(self.next_check);
        self.next_check = now;
        let patience = self.shared.settings.patience.as_nanos() as Nanos;
        if late > patience / STANDSTILL {
            let flights = self.flights.values_mut();
            flights.for_each(|flight| flight.since = now.min(flight.since + late));
        }
    }

    fn check_time(&mut self) {
        let now = self.now();
        self.exclude_standstill(now);
        self.time_out_members(now);
        if self.shard.deadline().is_some_and(|at| at <= now) {
            self.shard.tick(now);
        }
        if now >= self.next_maintenance {
            self.next_maintenance = now + MAINTENANCE_INTERVAL;
            self.maintain_marks(now);
        }
    }

    /// Maintains the marks: flushes writes that no client has flushed, and clears the marks of parts that have been
    /// clean for a while.
    fn maintain_marks(&mut self, now: Nanos) {
        let Some(marks) = &mut self.marks else {
            return;
        };
        let dirty = self.shard.dirty_marks();
        let flush = !dirty.is_empty() && self.was_dirty;
        self.was_dirty = !dirty.is_empty() && !flush;
        let change = marks.clear_clean(&dirty);
        if !change.is_empty() {
            // A coordinator that has ended leaves all marks in the record.
            let _ = self
                .shared
                .coordinator
                .send(CoordinatorMessage::UpdateMarks(change));
        }
        if flush {
            let answer = Answer::new(Box::new(drop));
            let token = self.waiting.insert(Waiter::Answer(answer)) as u64;
            self.shard.request(now, token, Request::Flush);
        }
    }

    /// Returns the marks that must remain after the end.
    fn left(&self) -> BTreeSet<Mark> {
        let dirty = self.shard.dirty_marks();
        self.marks
            .as_ref()
            .map_or_else(BTreeSet::new, |marks| marks.left(&dirty))
    }

    /// Reports doubtful stripes to the coordinator. Withholds answers until they are recorded.
    fn report_doubts(&mut self) {
        if self.shard.doubt_changes() == self.reported_doubts {
            return;
        }
        self.reported_doubts = self.shard.doubt_changes();
        self.unrecorded += 1;
        let message = CoordinatorMessage::Doubts {
            shard: self.number,
            doubts: self.shard.doubtful_stripes().collect(),
        };
        // A coordinator that has ended records nothing, so the dependent answers are never given.
        let _ = self.shared.coordinator.send(message);
    }

    /// Starts the operations that the shard requested and sends its answers.
    fn emit_output(&mut self) {
        let output = std::mem::take(self.shard.output());
        for member in output.lost_members {
            self.unrecorded += 1;
            self.leaving.push(member);
            let message = CoordinatorMessage::Lost {
                shard: self.number,
                member,
                incarnation: self.slots[member].incarnation,
                silent: self.silent.remove(&member),
            };
            // A coordinator that has ended records nothing, so the dependent answers are never given.
            let _ = self.shared.coordinator.send(message);
        }
        for operation in output.operations {
            self.begin(operation);
        }
        if let Some(marks) = &mut self.marks {
            let change = marks.take_wanted(|| self.shard.dirty_marks());
            if !change.is_empty() {
                // A coordinator that has ended marks nothing, so the writes never start.
                let shard = self.number;
                let _ = self
                    .shared
                    .coordinator
                    .send(CoordinatorMessage::RequestMarks { shard, change });
            }
        }
        self.close_lost_devices();
        self.report_doubts();
        self.withheld.extend(output.replies);
        if self.unrecorded == 0 {
            for reply in std::mem::take(&mut self.withheld) {
                self.answer(reply);
            }
        }
    }

    /// Closes devices of lost members after their last operation, so that other processes can open them.
    fn close_lost_devices(&mut self) {
        let slots = &mut self.slots;
        self.leaving.retain(|&member| {
            let slot = &mut slots[member];
            if slot.busy == 0 {
                slot.device = None;
            }
            slot.busy > 0
        });
    }

    fn answer(&mut self, reply: Reply<Page>) {
        let owed = self.waiting.remove(reply.token as usize);
        match owed.expect("a request is answered once") {
            Waiter::Answer(answer) => answer.give(reply.result),
            Waiter::Resync(stripe, answer) => {
                // A doubtful stripe counts as resynced: it cannot be improved, and it is recorded as doubtful.
                let done = matches!(reply.result, Ok(_) | Err(Failure::Doubtful { .. }))
                    && !self.leaves_lost_stripes();
                let marks = self.marks.as_mut().expect("only marks resync stripes");
                marks.resynced(stripe, done);
                if let Some(answer) = answer {
                    answer.give(reply.result);
                }
            }
        }
    }

    /// Starts an operation, or queues it until its mark is recorded.
    fn begin(&mut self, operation: Operation<Page>) {
        self.slots[operation.member].busy += 1;
        let operation = match (&mut self.marks, &operation.action) {
            (Some(marks), Action::Write { start, .. } | Action::Discard { start, .. }) => {
                let stripe = start / u64::from(self.shared.geometry.rows());
                match self.shard.mark(stripe) {
                    Some(mark) => marks.admit(mark, operation),
                    // The write rebuilds a member and does not affect syndromes.
                    None => Some(operation),
                }
            }
            _ => Some(operation),
        };
        if let Some(operation) = operation {
            self.start(operation);
        }
    }

    fn start(&mut self, operation: Operation<Page>) {
        let name = self.next_flight;
        self.next_flight += 1;
        let flight = InFlight {
            id: operation.id,
            member: operation.member,
            since: self.now(),
        };
        self.flights.insert(name, flight);
        let slot = &self.slots[operation.member];
        let device = slot
            .device
            .as_ref()
            .expect("a member that is used has a device");
        self.driver
            .submit(name, device, self.shared.offset, operation.action);
    }

    fn sleep(&mut self) {
        let now = self.now();
        let until = self
            .shard
            .deadline()
            .unwrap_or(Nanos::MAX)
            .min(self.patience_ends().unwrap_or(Nanos::MAX))
            .min(self.next_maintenance);
        self.next_check = until.max(now);
        let time = Duration::from_nanos(until.saturating_sub(now));
        let (messages, next) = (&self.messages, &mut self.next);
        let is_idle = || {
            *next = messages.try_recv().ok();
            next.is_none()
        };
        self.driver
            .wait(Some(time), is_idle)
            .expect("the kernel supports this wait");
    }
}
