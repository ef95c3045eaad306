//! The thread of a shard: the loop around the state machine.

use super::Shared;
use super::answer::Answer;
use super::keeper::{Slot, Word};
use super::status::Filling;
use crate::block::Page;
use crate::driver::{Driver, Ended};
use crate::member::Member;
use crate::request::{Nanos, Operation, Reply, Request};
use crate::shard::Shard;
use crate::slab::Slab;
use seiner_platform::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Messages that are taken before members are looked after again.
const AT_ONCE: usize = 256;
/// How often the shard sees to what can be settled.
const UPKEEP: Nanos = 1_000_000_000;

/// What is done to a stripe for the array's own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// What this member lacks is computed and written.
    Rebuild(usize),
    /// Data and syndromes are compared.
    Scrub,
    /// Syndromes are made to fit.
    Resync,
}

/// A member has been given its place so many times: tells a device from the one that was there before it.
pub type Incarnation = u64;

/// What the thread is told.
pub enum Message {
    /// A request for stripes of this shard.
    Request(Request<Page>, Answer),
    /// A chore on a stripe of this shard.
    Chore(Chore, u64, Answer),
    /// This member is no longer used, if it is still this one.
    Lose(usize, Incarnation),
    /// A device takes the place of a lost member; it has all stripes before this one.
    Replace(usize, Incarnation, Arc<dyn Member>, u64),
    /// What was lost is on record.
    Recorded,
    /// It is on record that these regions are being written.
    Marked(Vec<u64>),
    /// Somebody wants to see the state machine.
    Inspect(Box<dyn FnOnce(&Shard<Page>) + Send>),
    /// No more comes; end when all is done.
    Finish,
    /// End now.
    Halt,
}

/// A member, as the shard uses it.
struct Place {
    device: Option<Arc<dyn Member>>,
    incarnation: Incarnation,
    /// Operations under way on this device and those before it.
    busy: usize,
}

/// A device that waits until the last operation on the one before it has ended.
struct Successor {
    member: usize,
    incarnation: Incarnation,
    device: Arc<dyn Member>,
    below: u64,
}

/// A shard and what it needs to run.
pub struct Worker {
    shared: Arc<Shared>,
    number: usize,
    shard: Shard<Page>,
    driver: Driver,
    messages: Receiver<Message>,
    next: Option<Message>,
    places: Vec<Place>,
    successors: Vec<Successor>,
    /// Whom to answer, by token.
    waiting: Slab<Answer>,
    /// Answers that wait until losses are on record, and how many losses are not.
    withheld: Vec<Reply<Page>>,
    unrecorded: usize,
    /// Regions that are on record as being written, and operations that wait for it.
    marked: BTreeSet<u64>,
    held: BTreeMap<u64, Vec<Operation<Page>>>,
    /// Regions that were settled at the last upkeep.
    settled: BTreeSet<u64>,
    next_upkeep: Nanos,
    finish: bool,
    halted: bool,
}

impl Worker {
    /// To be called on the thread that will run it.
    pub fn new(
        shared: Arc<Shared>,
        number: usize,
        messages: Receiver<Message>,
        slots: &[Slot],
    ) -> io::Result<Worker> {
        // Writes are held for microseconds; the system's usual slack of 50 would be most of it. A hint.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let driver = Driver::new(shared.running.method, shared.shards[number].bell.clone())?;
        let mut shard = Shard::of(
            shared.geometry,
            shared.running.settings,
            shared.sharding,
            number,
        );
        let mut places = Vec::new();
        for (member, slot) in slots.iter().enumerate() {
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
        Ok(Worker {
            shared,
            number,
            shard,
            driver,
            messages,
            next: None,
            places,
            successors: Vec::new(),
            waiting: Slab::new(),
            withheld: Vec::new(),
            unrecorded: 0,
            marked: BTreeSet::new(),
            held: BTreeMap::new(),
            settled: BTreeSet::new(),
            next_upkeep: 0,
            finish: false,
            halted: false,
        })
    }

    /// Runs until it is told to end.
    pub fn run(mut self) {
        let mut ended = Vec::new();
        while !self.halted {
            let idle = !self.take_messages() & !self.take_ended(&mut ended);
            self.look_at_time();
            self.put_out();
            if self.finish && self.shard.outstanding() == 0 && self.waiting.len() == 0 {
                // A keeper that has ended waits for nobody.
                let _ = self.shared.keeper.send(Word::Finished);
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
            Message::Request(request, answer) => {
                let token = self.waiting.insert(answer) as u64;
                self.shard.request(now, token, request);
            }
            Message::Chore(chore, stripe, answer) => {
                let token = self.waiting.insert(answer) as u64;
                match chore {
                    Chore::Rebuild(member) => self.shard.rebuild(now, token, member, stripe),
                    Chore::Scrub => self.shard.scrub(now, token, stripe),
                    Chore::Resync => self.shard.resync(now, token, stripe),
                }
            }
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
            Message::Marked(regions) => {
                for region in regions {
                    self.marked.insert(region);
                    let held = self.held.remove(&region).unwrap_or_default();
                    held.into_iter().for_each(|operation| self.begin(operation));
                }
            }
            Message::Inspect(look) => look(&self.shard),
            Message::Finish => self.finish = true,
            Message::Halt => self.halted = true,
        }
    }

    /// Puts devices in their places whose predecessors have nothing under way.
    fn install(&mut self) {
        // What is wanted up to now is wanted of the predecessors.
        self.put_out();
        for successor in std::mem::take(&mut self.successors) {
            let place = &mut self.places[successor.member];
            if place.busy > 0 {
                self.successors.push(successor);
                continue;
            }
            place.device = Some(successor.device);
            place.incarnation = successor.incarnation;
            self.shard.resume_member(successor.member, successor.below);
            // A keeper that has ended fills nothing.
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
            let (id, member) = (name as u32 as usize, (name >> 32) as usize);
            self.places[member].busy -= 1;
            let now = self.shared.clock.monotonic();
            self.shard.completed(now, id, outcome);
        }
        if !self.successors.is_empty() {
            self.install();
        }
        any
    }

    fn look_at_time(&mut self) {
        let now = self.now();
        if self.shard.deadline().is_some_and(|at| at <= now) {
            self.shard.tick(now);
        }
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.settle(now);
        }
    }

    /// Makes durable what was written and never flushed, and lets go of regions that have been settled for a while.
    fn settle(&mut self, now: Nanos) {
        let unsettled: BTreeSet<u64> = self.shard.unsettled_regions().collect();
        if !unsettled.is_empty() && unsettled.is_subset(&self.settled) {
            let token = self.waiting.insert(Answer::new(Box::new(drop))) as u64;
            self.shard.request(now, token, Request::Flush);
        }
        let _ = unsettled;
    }

    /// Starts what the shard wants, and gives its answers.
    fn put_out(&mut self) {
        let output = std::mem::take(self.shard.output());
        for member in output.lost_members {
            self.unrecorded += 1;
            let word = Word::Lost {
                shard: self.number,
                member,
                incarnation: self.places[member].incarnation,
            };
            // A keeper that has ended records nothing, and nothing is answered that depends on it.
            let _ = self.shared.keeper.send(word);
        }
        for operation in output.operations {
            self.begin(operation);
        }
        self.withheld.extend(output.replies);
        if self.unrecorded == 0 {
            for reply in std::mem::take(&mut self.withheld) {
                let answer = self.waiting.remove(reply.token as usize);
                answer
                    .expect("a request is answered once")
                    .give(reply.result);
            }
        }
    }

    fn begin(&mut self, operation: Operation<Page>) {
        let place = &mut self.places[operation.member];
        place.busy += 1;
        let name = (operation.member as u64) << 32 | operation.id as u64;
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
            .min(self.next_upkeep);
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
