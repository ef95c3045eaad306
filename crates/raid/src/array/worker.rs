//! The thread of a shard: the loop around the state machine.

use super::Shared;
use super::answer::Answer;
use super::keeper::slot::Slot;
use super::keeper::word::Word;
use super::marks::Marks;
use super::message::{Chore, Incarnation, Message};
use super::status::Filling;
use crate::block::Page;
use crate::driver::{Driver, Ended};
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
const UPKEEP: Nanos = 1_000_000_000;
/// Fraction of the member timeout (its reciprocal). If the loop is later than this, the thread itself did not
/// run.
const STANDSTILL: Nanos = 8;

/// An operation in flight.
struct Flight {
    id: usize,
    member: usize,
    since: Nanos,
}

/// A member from the view of the shard.
struct Place {
    device: Option<Arc<dyn Member>>,
    incarnation: Incarnation,
    /// Number of operations in flight on this device and its predecessors.
    busy: usize,
}

/// Obligation for a token.
enum Owed {
    /// An answer.
    Answer(Answer),
    /// A note that a stripe was resynced, and optionally an answer.
    Resync(u64, Option<Answer>),
}

/// Initial state of a shard.
pub struct Beginning {
    /// Members of the array.
    pub slots: Vec<Slot>,
    /// Parts that are recorded as being written; `None` for an array without records.
    pub marked: Option<BTreeSet<Mark>>,
    /// Doubtful stripes of the array.
    pub doubts: BTreeSet<u64>,
}

/// A device that waits until the last operation on its predecessor has ended.
struct Successor {
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
    messages: Receiver<Message>,
    next: Option<Message>,
    places: Vec<Place>,
    successors: Vec<Successor>,
    /// Lost members whose devices may still have operations in flight.
    leaving: Vec<usize>,
    /// Operations in flight in order of their start. Each name is used once.
    flights: BTreeMap<u64, Flight>,
    next_flight: u64,
    /// Members that were lost because of a timeout.
    silent: BTreeSet<usize>,
    /// Obligations by token.
    waiting: Slab<Owed>,
    /// Answers that wait for the record of losses, and the number of losses not recorded yet.
    withheld: Vec<Reply<Page>>,
    unrecorded: usize,
    /// Parts being written; `None` for an array without records.
    marks: Option<Marks<Page>>,
    /// Change count of the doubtful stripes that were last reported to the coordinator.
    doubts_told: u64,
    /// True if there were unsettled regions at the last maintenance.
    was_unsettled: bool,
    next_upkeep: Nanos,
    /// Latest time of the next look at the clock.
    looks_by: Nanos,
    finish: bool,
    halted: bool,
}

impl Worker {
    /// Creates the worker. Must be called on the thread that runs it.
    pub fn new(
        shared: Arc<Shared>,
        number: usize,
        messages: Receiver<Message>,
        beginning: Beginning,
    ) -> io::Result<Worker> {
        // Writes are held for microseconds, and the default timer slack of 50 µs would dominate. A failure is
        // harmless.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let driver = Driver::new(shared.running.method, shared.shards[number].bell.clone())?;
        let mut shard = Shard::of(
            shared.geometry,
            shared.running.settings,
            shared.sharding,
            number,
        );
        let mut places = Vec::new();
        for (member, slot) in beginning.slots.iter().enumerate() {
            match slot.filling() {
                Filling::Full => {}
                Filling::Below(below) => shard.resume_member(member, below),
                Filling::Gone => shard.lose_member(member),
            }
            places.push(Place {
                device: slot.device(),
                incarnation: slot.incarnation(),
                busy: 0,
            });
        }
        shard.output().lost_members.clear();
        let sharding = shared.sharding;
        let own = |stripe: &u64| sharding.shard(*stripe) == number;
        shard.doubt(beginning.doubts.iter().copied().filter(own));
        let doubts_told = shard.doubt_changes();
        let (region_stripes, stripes) = (
            shared.running.settings.region_stripes,
            shared.geometry.stripes(),
        );
        let redundant = shared.geometry.syndromes() > 0;
        let marks = beginning.marked.filter(|_| redundant).map(|marked| {
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
            places,
            successors: Vec::new(),
            leaving: Vec::new(),
            flights: BTreeMap::new(),
            next_flight: 0,
            silent: BTreeSet::new(),
            waiting: Slab::new(),
            withheld: Vec::new(),
            unrecorded: 0,
            marks,
            doubts_told,
            was_unsettled: false,
            next_upkeep: 0,
            looks_by: Nanos::MAX,
            finish: false,
            halted: false,
        })
    }

    /// Runs until a message ends the thread.
    pub fn run(mut self) {
        let mut ended = Vec::new();
        while !self.halted {
            let idle = !self.take_messages() & !self.take_ended(&mut ended);
            self.look_at_time();
            self.put_out();
            if self.finish && self.shard.outstanding() == 0 && self.waiting.len() == 0 {
                // A coordinator that has ended does not need the message.
                let _ = self.shared.keeper.send(Word::Finished(self.left()));
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

    fn receive(&mut self, message: Message) {
        let now = self.now();
        match message {
            // A trim is advisory. It is skipped if it would be slower than a write of zeroes.
            Message::Request(Request::Trim { .. }, answer) if !self.discards() => {
                answer.give(Ok(Vec::new()));
            }
            Message::Request(request, answer) => {
                self.resync_first(now, &request);
                let token = self.waiting.insert(Owed::Answer(answer)) as u64;
                self.shard.request(now, token, request);
            }
            Message::Chore(chore, stripe, answer) => self.chore(now, chore, stripe, answer),
            Message::Lose(member, incarnation)
                if self.places[member].incarnation == incarnation =>
            {
                self.shard.lose_member(member);
            }
            Message::Lose(..) => {}
            Message::Replace(member, incarnation, device, below) => {
                self.successors.push(Successor {
                    member,
                    incarnation,
                    device,
                    below,
                });
                self.install();
            }
            Message::Recorded => self.unrecorded -= 1,
            Message::Unrecorded => {
                self.unrecorded -= 1;
                for reply in &mut self.withheld {
                    // Blocks that were read are valid in any case.
                    if reply.result.as_ref().is_ok_and(Vec::is_empty) {
                        reply.result = Err(Failure::Broken);
                    }
                }
            }
            Message::Marked(marked) => {
                for mark in marked {
                    let marks = self.marks.as_mut().expect("it was asked for");
                    for operation in marks.mark(mark) {
                        self.start(operation);
                    }
                }
            }
            Message::Inspect(look) => look(&self.shard),
            Message::Finish => self.finish = true,
            Message::Halt => self.halted = true,
        }
    }

    fn chore(&mut self, now: Nanos, chore: Chore, stripe: u64, answer: Answer) {
        let due = self.marks.as_mut().is_some_and(|marks| {
            let due = marks.take_unsynced(stripe..stripe + 1);
            !due.is_empty()
        });
        match (chore, due) {
            (Chore::Resync, true) => return self.resync(now, stripe, Some(answer)),
            // The stripe was resynced earlier, because a request needed it.
            (Chore::Resync, false) => return answer.give(Ok(Vec::new())),
            (_, true) => self.resync(now, stripe, None),
            (_, false) => {}
        }
        let token = self.waiting.insert(Owed::Answer(answer)) as u64;
        match chore {
            Chore::Rebuild(member) => self.shard.rebuild(now, token, member, stripe),
            _ => self.shard.scrub(now, token, stripe),
        }
    }

    /// Returns whether stripes with lost data are left as they are until a start with all members.
    fn left_as_it_is(&self) -> bool {
        let mut members = 0..self.places.len();
        self.shared.running.settings.checked_above
            && members.any(|member| *self.shard.member(member) != MemberState::Up)
    }

    fn resync(&mut self, now: Nanos, stripe: u64, answer: Option<Answer>) {
        let token = self.waiting.insert(Owed::Resync(stripe, answer)) as u64;
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

    /// Puts devices in their places whose predecessors have no operations in flight.
    fn install(&mut self) {
        // Operations requested so far belong to the predecessors.
        self.put_out();
        for successor in std::mem::take(&mut self.successors) {
            let place = &mut self.places[successor.member];
            if place.busy > 0 {
                self.successors.push(successor);
                continue;
            }
            self.leaving.retain(|&member| member != successor.member);
            place.device = Some(successor.device);
            place.incarnation = successor.incarnation;
            self.shard.resume_member(successor.member, successor.below);
            // A coordinator that has ended starts no rebuild.
            let _ = self
                .shared
                .keeper
                .send(Word::Installed(successor.member, successor.incarnation));
        }
    }

    fn take_ended(&mut self, ended: &mut Vec<Ended>) -> bool {
        self.driver.take(ended);
        let any = !ended.is_empty();
        for (name, outcome) in ended.drain(..) {
            // An operation that timed out may still end later.
            let Some(flight) = self.flights.remove(&name) else {
                continue;
            };
            self.places[flight.member].busy -= 1;
            let now = self.shared.clock.monotonic();
            self.shard.completed(now, flight.id, outcome);
        }
        if !self.successors.is_empty() {
            self.install();
        }
        any
    }

    /// Returns the time at which the oldest operation in flight times out.
    fn patience_ends(&self) -> Option<Nanos> {
        let patience = self.shared.running.patience.as_nanos() as Nanos;
        let (_, first) = self.flights.first_key_value().filter(|_| patience > 0)?;
        Some(first.since.saturating_add(patience))
    }

    /// Takes members out of use that exceed the time limit. They are never used again.
    fn give_up(&mut self, now: Nanos) {
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
                let flight = self.flights.remove(&name).expect("listed a moment ago");
                self.places[member].busy -= 1;
                self.shard.completed(now, flight.id, Outcome::Gone);
            }
        }
    }

    fn discards(&self) -> bool {
        let devices = self.places.iter().filter_map(|place| place.device.as_ref());
        devices.into_iter().all(|device| device.discards())
    }

    /// Excludes time in which this thread did not run (stopped process, suspended machine, long system call)
    /// from the timeouts of members.
    fn forgive(&mut self, now: Nanos) {
        let late = now.saturating_sub(self.looks_by);
        self.looks_by = now;
        let patience = self.shared.running.patience.as_nanos() as Nanos;
        if late > patience / STANDSTILL {
            let flights = self.flights.values_mut();
            flights.for_each(|flight| flight.since = now.min(flight.since + late));
        }
    }

    fn look_at_time(&mut self) {
        let now = self.now();
        self.forgive(now);
        self.give_up(now);
        if self.shard.deadline().is_some_and(|at| at <= now) {
            self.shard.tick(now);
        }
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.settle(now);
        }
    }

    /// Flushes writes that nobody has flushed, and clears the marks of parts that have been settled for a while.
    fn settle(&mut self, now: Nanos) {
        let Some(marks) = &mut self.marks else {
            return;
        };
        let unsettled = self.shard.unsettled();
        let flush = !unsettled.is_empty() && self.was_unsettled;
        self.was_unsettled = !unsettled.is_empty() && !flush;
        let change = marks.settle(&unsettled);
        if !change.is_empty() {
            // A coordinator that has ended leaves all marks in the record.
            let _ = self.shared.keeper.send(Word::Settle(change));
        }
        if flush {
            let answer = Answer::new(Box::new(drop));
            let token = self.waiting.insert(Owed::Answer(answer)) as u64;
            self.shard.request(now, token, Request::Flush);
        }
    }

    /// Returns the marks that must remain after the end.
    fn left(&self) -> BTreeSet<Mark> {
        let unsettled = self.shard.unsettled();
        self.marks
            .as_ref()
            .map_or_else(BTreeSet::new, |marks| marks.left(&unsettled))
    }

    /// Reports doubtful stripes to the coordinator. Withholds answers until they are recorded.
    fn tell_doubts(&mut self) {
        if self.shard.doubt_changes() == self.doubts_told {
            return;
        }
        self.doubts_told = self.shard.doubt_changes();
        self.unrecorded += 1;
        let word = Word::Doubts {
            shard: self.number,
            doubts: self.shard.doubtful_stripes().collect(),
        };
        // A coordinator that has ended records nothing, so the dependent answers are never given.
        let _ = self.shared.keeper.send(word);
    }

    /// Starts the operations that the shard requested and sends its answers.
    fn put_out(&mut self) {
        let output = std::mem::take(self.shard.output());
        for member in output.lost_members {
            self.unrecorded += 1;
            self.leaving.push(member);
            let word = Word::Lost {
                shard: self.number,
                member,
                incarnation: self.places[member].incarnation,
                silent: self.silent.remove(&member),
            };
            // A coordinator that has ended records nothing, so the dependent answers are never given.
            let _ = self.shared.keeper.send(word);
        }
        for operation in output.operations {
            self.begin(operation);
        }
        if let Some(marks) = &mut self.marks {
            let change = marks.take_wanted(|| self.shard.unsettled());
            if !change.is_empty() {
                // A coordinator that has ended marks nothing, so the writes never start.
                let shard = self.number;
                let _ = self.shared.keeper.send(Word::Mark { shard, change });
            }
        }
        self.let_go();
        self.tell_doubts();
        self.withheld.extend(output.replies);
        if self.unrecorded == 0 {
            for reply in std::mem::take(&mut self.withheld) {
                self.answer(reply);
            }
        }
    }

    /// Closes devices of lost members after their last operation, so that other processes can open them.
    fn let_go(&mut self) {
        let places = &mut self.places;
        self.leaving.retain(|&member| {
            let place = &mut places[member];
            if place.busy == 0 {
                place.device = None;
            }
            place.busy > 0
        });
    }

    fn answer(&mut self, reply: Reply<Page>) {
        let owed = self.waiting.remove(reply.token as usize);
        match owed.expect("a request is answered once") {
            Owed::Answer(answer) => answer.give(reply.result),
            Owed::Resync(stripe, answer) => {
                // A doubtful stripe counts as resynced: it cannot be improved, and it is recorded as doubtful.
                let done = matches!(reply.result, Ok(_) | Err(Failure::Doubtful { .. }))
                    && !self.left_as_it_is();
                let marks = self.marks.as_mut().expect("only they ask for it");
                marks.resynced(stripe, done);
                if let Some(answer) = answer {
                    answer.give(reply.result);
                }
            }
        }
    }

    /// Starts an operation, or queues it until its mark is recorded.
    fn begin(&mut self, operation: Operation<Page>) {
        self.places[operation.member].busy += 1;
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
        let flight = Flight {
            id: operation.id,
            member: operation.member,
            since: self.now(),
        };
        self.flights.insert(name, flight);
        let place = &self.places[operation.member];
        let device = place
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
            .min(self.next_upkeep);
        self.looks_by = until.max(now);
        let time = Duration::from_nanos(until.saturating_sub(now));
        let (messages, next) = (&self.messages, &mut self.next);
        let is_idle = || {
            *next = messages.try_recv().ok();
            next.is_none()
        };
        self.driver
            .wait(Some(time), is_idle)
            .expect("the kernel waits as it promised");
    }
}
