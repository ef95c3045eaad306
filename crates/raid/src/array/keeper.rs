//! The thread that keeps the array together: who is a member, what is filled, checked and made to fit, and when it ends.

use super::Shared;
use super::answer::Answer;
use super::books::{Books, Placed};
use super::status::{Condition, Filling, Kept, MemberStatus, TaskKind, TaskStatus};
use super::sweep::{Step, Sweep};
use super::worker::{Chore, Incarnation, Message};
use crate::geometry::BLOCK_BYTES;
use crate::member::Member;
use crate::record::{Intent, Superblock, write_superblock};
use crate::request::{Failure, Nanos};
use seiner_platform::Clock;
use std::collections::BTreeSet;
use std::io;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use thiserror::Error;

/// Bytes of stripes that a task has under way, about.
const TASK_BYTES: u64 = 16 << 20;
/// How often it is put on record how far members have been filled: what a crash makes to be filled again.
const POSITIONS: Nanos = 5_000_000_000;

/// Why something that was asked of a running array was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such member.
    #[error("there is no member {0}: the array has members 0 to {1}")]
    NoMember(usize, usize),
    /// The member is gone already.
    #[error("member {0} is gone already: replace it")]
    Gone(usize),
    /// Without it data would be lost.
    #[error(
        "without member {0} data would be lost: replace what is missing first, and wait until it is filled"
    )]
    Needed(usize),
    /// The member is there.
    #[error("member {0} is there: let it fail first, if it is to be replaced")]
    There(usize),
    /// The device has less room than the members.
    #[error("{name} has {bytes} bytes, and a member needs {least}: choose a larger device")]
    Small {
        /// The device.
        name: String,
        /// Its size.
        bytes: u64,
        /// What a member needs.
        least: u64,
    },
    /// The device failed.
    #[error("{name}: {error}; choose another device")]
    System {
        /// The device.
        name: String,
        /// How.
        error: String,
    },
    /// It is being done.
    #[error("that is being done already: see the status")]
    Busy,
    /// The array is being stopped.
    #[error("the array is being stopped")]
    Stopping,
}

/// What is asked of the array as a whole.
pub enum Order {
    /// A member is no longer to be used.
    Fail(usize),
    /// This device takes the place of a lost member.
    Replace(usize, Arc<dyn Member>),
    /// This device waits for a member to be lost.
    Spare(Arc<dyn Member>),
    /// Everything is to be read and compared.
    Scrub,
    /// No more of it.
    StopScrub,
}

/// What the keeper is told.
pub enum Word {
    /// A shard no longer uses a member.
    Lost {
        /// The shard, to be told when that is on record.
        shard: usize,
        /// The member.
        member: usize,
        /// Which device of the member's place.
        incarnation: Incarnation,
    },
    /// A shard is about to write in a region for which there is no record.
    Mark {
        /// The shard, to be told when there is.
        shard: usize,
        /// The region.
        region: u64,
    },
    /// All that was written in these regions is durable.
    Clear(Vec<u64>),
    /// The doubtful stripes of a shard are these now.
    Doubts {
        /// The shard, to be told when that is on record.
        shard: usize,
        /// The stripes.
        doubts: BTreeSet<u64>,
    },
    /// A shard uses the new device of a member.
    Installed(usize, Incarnation),
    /// A chore of a task is done.
    Chored {
        /// The task.
        task: u64,
        /// The stripe.
        stripe: u64,
        /// With success?
        result: Result<(), Failure>,
    },
    /// Something is asked of the array.
    Order(Order, Sender<Result<(), Refusal>>),
    /// Somebody wants to know how things are.
    Look(Sender<Kept>),
    /// Everything is to end; tell when it has.
    Stop(Sender<Result<(), Failure>>),
    /// All is durable, or not.
    Flushed(Result<(), Failure>),
    /// A shard has ended; these regions must stay on record.
    Finished(BTreeSet<u64>),
    /// End now.
    Halt,
}

/// A place in the array and what is there.
#[derive(Clone)]
pub struct Slot {
    device: Option<Arc<dyn Member>>,
    filling: Filling,
    /// What is on record.
    recorded: Filling,
    incarnation: Incarnation,
    /// Shards that do not use the device yet.
    to_install: usize,
}

impl Slot {
    /// With a device that has all it should have.
    pub fn up(device: Arc<dyn Member>) -> Slot {
        Slot {
            device: Some(device),
            filling: Filling::Full,
            recorded: Filling::Full,
            incarnation: 0,
            to_install: 0,
        }
    }

    /// The device, if it is to be used.
    pub fn device(&self) -> Option<Arc<dyn Member>> {
        self.device.clone()
    }

    /// A place with what is known of it.
    pub fn new(device: Option<Arc<dyn Member>>, filling: Filling) -> Slot {
        match device {
            Some(device) => Slot {
                filling,
                recorded: filling,
                ..Slot::up(device)
            },
            None => Slot::empty(),
        }
    }

    /// Without a device.
    fn empty() -> Slot {
        Slot {
            device: None,
            filling: Filling::Gone,
            recorded: Filling::Gone,
            incarnation: 0,
            to_install: 0,
        }
    }

    /// What the device has.
    pub fn filling(&self) -> Filling {
        self.filling
    }

    /// Which device of the place it is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}

/// A task and since when there is one.
struct Task {
    number: u64,
    sweep: Sweep,
    /// Which device of its place is filled.
    incarnation: Incarnation,
    since: Nanos,
    until: Option<Nanos>,
}

/// How far stopping has come.
enum Ending {
    /// Tasks end.
    Tasks(Sender<Result<(), Failure>>),
    /// All is flushed.
    Flush(Sender<Result<(), Failure>>),
    /// So many shards have not ended.
    Shards(
        Sender<Result<(), Failure>>,
        Result<(), Failure>,
        usize,
        BTreeSet<u64>,
    ),
}

/// The keeper.
pub struct Keeper {
    shared: Arc<Shared>,
    words: Receiver<Word>,
    slots: Vec<Slot>,
    spares: Vec<Arc<dyn Member>>,
    /// The first one runs.
    tasks: Vec<Task>,
    /// Tasks that are over, the last of each kind.
    past: Vec<Task>,
    next_task: u64,
    ending: Option<Ending>,
    /// What is on record; none if nothing is to be.
    books: Option<Books>,
    /// What is to be put on record, and whom to tell then.
    members_changed: bool,
    intent_changed: bool,
    to_tell: Vec<(usize, Message)>,
    /// When the positions of members that are filled are put on record next.
    next_positions: Nanos,
}

impl Keeper {
    /// Of an array with these members. Regions that are on record as being written are made to fit.
    ///
    /// # Errors
    /// The system's.
    pub fn new(
        shared: Arc<Shared>,
        words: Receiver<Word>,
        slots: Vec<Slot>,
        spares: Vec<Arc<dyn Member>>,
        books: Option<(Superblock, Intent)>,
    ) -> io::Result<Keeper> {
        let method = shared.running.method;
        let books = books.map(|(superblock, intent)| Books::new(superblock, intent, method));
        let mut keeper = Keeper {
            shared,
            words,
            slots,
            spares,
            tasks: Vec::new(),
            past: Vec::new(),
            next_task: 0,
            ending: None,
            books: books.transpose()?,
            members_changed: false,
            intent_changed: false,
            to_tell: Vec::new(),
            next_positions: 0,
        };
        keeper.resync();
        keeper.use_spares();
        keeper.resume_filling();
        Ok(keeper)
    }

    /// Makes everything fit that may not.
    fn resync(&mut self) {
        let geometry = &self.shared.geometry;
        let (stripes, redundant) = (geometry.stripes(), geometry.syndromes() > 0);
        let Some(books) = self.books.as_mut().filter(|_| redundant) else {
            return;
        };
        let size = self.shared.running.settings.region_stripes;
        let regions = books.intent().marked().iter();
        let ranges =
            regions.map(|region| (region * size).min(stripes)..((region + 1) * size).min(stripes));
        let ranges: Vec<_> = ranges.collect();
        if !ranges.is_empty() {
            self.begin_task(Chore::Resync, ranges);
        }
    }

    /// Runs until the array ends.
    pub fn run(mut self) {
        loop {
            self.put_on_record();
            let until = self.work();
            if self.has_ended() {
                return;
            }
            let word = match until {
                None => self
                    .words
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => {
                    let time = until.saturating_sub(self.now());
                    self.words.recv_timeout(Duration::from_nanos(time))
                }
            };
            let first = match word {
                Ok(word) => Some(word),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // What has come meanwhile goes on record together.
            let mut next = first;
            while let Some(word) = next {
                if matches!(word, Word::Halt) {
                    return;
                }
                self.hear(word);
                next = self.words.try_recv().ok();
            }
        }
    }

    /// Puts on record what has changed, then tells those who wait for it.
    fn put_on_record(&mut self) {
        while let Some(books) = &mut self.books
            && (self.members_changed || self.intent_changed)
        {
            let devices = self.slots.iter().enumerate();
            let placed: Vec<Placed> = devices
                .filter_map(|(member, slot)| Some((member, slot.device()?)))
                .collect();
            let failed = if std::mem::take(&mut self.members_changed) {
                books.superblock().fillings = self.slots.iter().map(|slot| slot.recorded).collect();
                books.write_superblocks(&placed)
            } else {
                self.intent_changed = false;
                books.write_intent(&placed)
            };
            failed.into_iter().for_each(|member| self.lose(member));
        }
        for (shard, message) in std::mem::take(&mut self.to_tell) {
            // A shard that has ended need not know.
            let _ = self.shared.shards[shard].send(message);
        }
    }

    fn now(&self) -> Nanos {
        self.shared.clock.monotonic()
    }

    fn tell(&self, message: impl Fn() -> Message) {
        for shard in &self.shared.shards {
            // A shard that has ended needs no telling.
            let _ = shard.send(message());
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Lost {
                shard,
                member,
                incarnation,
            } => {
                let known = self.slots[member].incarnation != incarnation;
                if !known {
                    self.lose(member);
                }
                let recorded = known || self.slots[member].recorded == Filling::Gone;
                let message = match recorded || self.books.is_none() {
                    true => Message::Recorded,
                    false => Message::Unrecorded,
                };
                self.to_tell.push((shard, message));
            }
            Word::Mark { shard, region } => {
                if let Some(books) = &mut self.books {
                    books.intent().mark(region);
                    self.intent_changed = true;
                }
                self.to_tell.push((shard, Message::Marked(region)));
            }
            Word::Clear(regions) => {
                if let Some(books) = &mut self.books {
                    regions
                        .into_iter()
                        .for_each(|region| books.intent().clear(region));
                    self.intent_changed = true;
                }
            }
            Word::Doubts { shard, doubts } => {
                let sharding = self.shared.sharding;
                if let Some(books) = &mut self.books {
                    books
                        .intent()
                        .set_doubts(|stripe| sharding.shard(stripe) == shard, doubts);
                    self.intent_changed = true;
                }
                self.to_tell.push((shard, Message::Recorded));
            }
            Word::Installed(member, incarnation) => {
                let slot = &mut self.slots[member];
                if slot.incarnation == incarnation {
                    slot.to_install -= 1;
                }
            }
            Word::Chored {
                task,
                stripe,
                result,
            } => {
                let found = self.tasks.iter_mut().find(|found| found.number == task);
                found
                    .expect("a task stays until its chores are done")
                    .sweep
                    .end(stripe, result);
            }
            Word::Order(order, answer) => {
                let done = match self.ending {
                    Some(_) => Err(Refusal::Stopping),
                    None => self.obey(order),
                };
                self.put_on_record();
                // Whoever asked may have gone.
                let _ = answer.send(done);
            }
            Word::Look(answer) => {
                let _ = answer.send(self.kept());
            }
            Word::Stop(answer) => {
                self.tasks.iter_mut().for_each(|task| task.sweep.cancel());
                self.ending = Some(Ending::Tasks(answer));
            }
            Word::Flushed(result) => {
                if let Some(Ending::Flush(answer)) = self.ending.take() {
                    self.tell(|| Message::Finish);
                    let shards = self.shared.shards.len();
                    self.ending = Some(Ending::Shards(answer, result, shards, BTreeSet::new()));
                }
            }
            Word::Finished(regions) => {
                if let Some(Ending::Shards(_, _, left, marked)) = &mut self.ending {
                    *left -= 1;
                    marked.extend(regions);
                }
            }
            Word::Halt => {}
        }
    }

    /// A member is no longer used.
    fn lose(&mut self, member: usize) {
        let slot = &mut self.slots[member];
        if slot.filling == Filling::Gone {
            return;
        }
        slot.filling = Filling::Gone;
        slot.device = None;
        // Beyond what the level bears no write is acknowledged any more, so that the member has missed nothing: if it comes
        // back, the array is as it was.
        if self.gone() <= self.shared.geometry.syndromes() {
            self.slots[member].recorded = Filling::Gone;
            self.members_changed = true;
        }
        let incarnation = self.slots[member].incarnation;
        self.tell(|| Message::Lose(member, incarnation));
        let rebuild = Chore::Rebuild(member);
        let hopeless = self
            .tasks
            .iter_mut()
            .filter(|task| task.sweep.chore == rebuild);
        hopeless.for_each(|task| task.sweep.cancel());
        self.use_spares();
    }

    /// Spares take the places of lost members.
    fn use_spares(&mut self) {
        let gone = |slot: &Slot| slot.filling == Filling::Gone;
        while let Some(member) = self.slots.iter().position(gone)
            && self.ending.is_none()
            && !self.spares.is_empty()
            && self.gone() <= self.shared.geometry.syndromes()
        {
            let spare = self.spares.remove(0);
            self.install(member, spare);
        }
    }

    /// A device takes the place of a lost member.
    fn install(&mut self, member: usize, device: Arc<dyn Member>) {
        let slot = &mut self.slots[member];
        slot.incarnation += 1;
        slot.filling = Filling::Below(0);
        slot.recorded = slot.filling;
        slot.device = Some(device.clone());
        slot.to_install = self.shared.shards.len();
        let incarnation = slot.incarnation;
        self.members_changed = true;
        self.tell(|| Message::Replace(member, incarnation, device.clone(), 0));
        self.resume_filling();
    }

    /// Members that lack something are filled.
    fn resume_filling(&mut self) {
        for member in 0..self.slots.len() {
            let Filling::Below(below) = self.slots[member].filling else {
                continue;
            };
            let chore = Chore::Rebuild(member);
            let same = |task: &Task| task.sweep.chore == chore && !task.sweep.is_cancelled();
            if !self.tasks.iter().any(same) {
                let stripes = below..self.shared.geometry.stripes();
                self.begin_task(chore, once(stripes));
            }
        }
    }

    fn begin_task(&mut self, chore: Chore, ranges: impl IntoIterator<Item = Range<u64>>) {
        let geometry = &self.shared.geometry;
        let strip = u64::from(geometry.rows()) * BLOCK_BYTES as u64;
        let stripe = strip * geometry.members() as u64;
        let pace = match self.shared.running.background_rate {
            0 => 0,
            rate => strip * 1_000_000_000 / rate,
        };
        let at_once = (TASK_BYTES / stripe).clamp(2, 64) as usize;
        let incarnation = match chore {
            Chore::Rebuild(member) => self.slots[member].incarnation,
            Chore::Scrub | Chore::Resync => 0,
        };
        self.next_task += 1;
        self.tasks.push(Task {
            number: self.next_task,
            incarnation,
            sweep: Sweep::new(chore, ranges, at_once, pace),
            since: self.now(),
            until: None,
        });
    }

    /// Puts on record, now and then, how far members have been filled.
    fn note_positions(&mut self) {
        let now = self.now();
        if now < self.next_positions {
            return;
        }
        self.next_positions = now + POSITIONS;
        for task in &self.tasks {
            let Chore::Rebuild(member) = task.sweep.chore else {
                continue;
            };
            let slot = &mut self.slots[member];
            let filled = Filling::Below(task.sweep.position());
            if slot.incarnation == task.incarnation
                && slot.recorded != filled
                && !task.sweep.is_over()
            {
                slot.recorded = filled;
                self.members_changed = true;
            }
        }
        self.put_on_record();
    }

    /// Begins what can be begun; gives the time at which there is more.
    fn work(&mut self) -> Option<Nanos> {
        self.note_positions();
        while let Some(task) = self.tasks.first_mut() {
            if let Chore::Rebuild(member) = task.sweep.chore
                && self.slots[member].to_install > 0
            {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match task.sweep.next(now) {
                Step::Wait => return None,
                Step::Later(at) => return Some(at),
                Step::Over => {
                    let mut task = self.tasks.remove(0);
                    task.until = Some(now);
                    self.end_task(task);
                }
                Step::Stripe(stripe) => {
                    let (task, chore, keeper) =
                        (task.number, task.sweep.chore, self.shared.keeper.clone());
                    let answer = Answer::new(Box::new(move |result| {
                        // A keeper that has ended does no chores.
                        let _ = keeper.send(Word::Chored {
                            task,
                            stripe,
                            result: result.map(drop),
                        });
                    }));
                    let shard = self.shared.sharding.shard(stripe);
                    // If the shard has ended, the answer that comes back says so when it is dropped.
                    let _ = self.shared.shards[shard].send(Message::Chore(chore, stripe, answer));
                }
            }
        }
        None
    }

    fn end_task(&mut self, task: Task) {
        if let Chore::Rebuild(member) = task.sweep.chore {
            let slot = &mut self.slots[member];
            if slot.incarnation == task.incarnation && slot.filling != Filling::Gone {
                slot.filling = match task.sweep.position() {
                    u64::MAX => Filling::Full,
                    position => Filling::Below(position),
                };
                slot.recorded = slot.filling;
                self.members_changed = true;
            }
        }
        self.past
            .retain(|past| past.sweep.chore != task.sweep.chore);
        self.past.push(task);
    }

    fn obey(&mut self, order: Order) -> Result<(), Refusal> {
        match order {
            Order::Fail(member) => {
                self.place(member)?;
                match self.slots[member].filling {
                    Filling::Gone => return Err(Refusal::Gone(member)),
                    Filling::Full if self.missing() >= self.shared.geometry.syndromes() => {
                        return Err(Refusal::Needed(member));
                    }
                    _ => self.lose(member),
                }
            }
            Order::Replace(member, device) => {
                self.place(member)?;
                if self.slots[member].filling != Filling::Gone {
                    return Err(Refusal::There(member));
                }
                self.fits(&*device)?;
                self.install(member, device);
            }
            Order::Spare(device) => {
                self.fits(&*device)?;
                if let Some(books) = &mut self.books {
                    let superblock = Superblock {
                        index: None,
                        ..books.superblock().clone()
                    };
                    write_superblock(&*device, &superblock).map_err(|error| Refusal::System {
                        name: device.name(),
                        error: error.to_string(),
                    })?;
                }
                self.spares.push(device);
                self.use_spares();
            }
            Order::Scrub => {
                if self
                    .tasks
                    .iter()
                    .any(|task| task.sweep.chore == Chore::Scrub)
                {
                    return Err(Refusal::Busy);
                }
                let stripes = 0..self.shared.geometry.stripes();
                self.begin_task(Chore::Scrub, once(stripes));
            }
            Order::StopScrub => {
                let scrubs = self
                    .tasks
                    .iter_mut()
                    .filter(|task| task.sweep.chore == Chore::Scrub);
                scrubs.for_each(|task| task.sweep.cancel());
            }
        }
        Ok(())
    }

    fn place(&self, member: usize) -> Result<(), Refusal> {
        match member < self.slots.len() {
            true => Ok(()),
            false => Err(Refusal::NoMember(member, self.slots.len() - 1)),
        }
    }

    fn fits(&self, device: &dyn Member) -> Result<(), Refusal> {
        // Behind the data a superblock follows.
        let behind = if self.books.is_some() {
            BLOCK_BYTES as u64
        } else {
            0
        };
        let least = self.shared.offset + self.shared.geometry.member_bytes() + behind;
        match device.bytes() >= least {
            true => Ok(()),
            false => Err(Refusal::Small {
                name: device.name(),
                bytes: device.bytes(),
                least,
            }),
        }
    }

    /// Members that do not have all they should have.
    fn missing(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.filling != Filling::Full)
            .count()
    }

    /// Members that are not used.
    fn gone(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.filling == Filling::Gone)
            .count()
    }

    fn condition(&self) -> Condition {
        match self.missing() {
            0 => Condition::Whole,
            missing if missing > self.shared.geometry.syndromes() => Condition::Broken,
            missing => Condition::Degraded(missing),
        }
    }

    fn kept(&self) -> Kept {
        let now = self.now();
        let position = |member: usize| {
            let own = |task: &&Task| task.sweep.chore == Chore::Rebuild(member);
            self.tasks
                .iter()
                .rfind(own)
                .map(|task| task.sweep.position())
        };
        let members = self
            .slots
            .iter()
            .enumerate()
            .map(|(member, slot)| MemberStatus {
                name: slot.device.as_ref().map(|device| device.name()),
                filling: match (slot.filling, position(member)) {
                    (Filling::Below(below), Some(now)) if now != u64::MAX => {
                        Filling::Below(below.max(now))
                    }
                    (filling, _) => filling,
                },
            });
        let tasks = self.tasks.iter().chain(&self.past);
        Kept {
            condition: self.condition(),
            members: members.collect(),
            spares: self.spares.iter().map(|spare| spare.name()).collect(),
            tasks: tasks.map(|task| task.status(now)).collect(),
        }
    }

    /// Puts on record that the array was stopped, and what is left to do.
    fn close_books(&mut self, marked: BTreeSet<u64>, is_durable: bool) {
        if let Some(books) = self.books.as_mut().filter(|_| is_durable) {
            let cleared: Vec<u64> = books
                .intent()
                .marked()
                .difference(&marked)
                .copied()
                .collect();
            cleared
                .into_iter()
                .for_each(|region| books.intent().clear(region));
            books.superblock().clean = true;
            self.intent_changed = true;
            self.put_on_record();
            self.members_changed = true;
        }
        self.put_on_record();
    }

    /// Goes on with ending; says whether that is over.
    fn has_ended(&mut self) -> bool {
        match self.ending.take() {
            Some(Ending::Tasks(answer)) if self.tasks.is_empty() => {
                let keeper = self.shared.keeper.clone();
                self.shared.flush(Box::new(move |result| {
                    let _ = keeper.send(Word::Flushed(result.map(drop)));
                }));
                self.ending = Some(Ending::Flush(answer));
            }
            Some(Ending::Shards(answer, result, 0, marked)) => {
                self.close_books(marked, result.is_ok());
                let _ = answer.send(result);
                return true;
            }
            ending => self.ending = ending,
        }
        false
    }
}

impl Task {
    fn status(&self, now: Nanos) -> TaskStatus {
        let failures = self
            .sweep
            .failures
            .iter()
            .map(|(_, failure)| failure.to_string());
        TaskStatus {
            kind: match self.sweep.chore {
                Chore::Rebuild(member) => TaskKind::Rebuild(member),
                Chore::Scrub => TaskKind::Scrub,
                Chore::Resync => TaskKind::Resync,
            },
            stripes: self.sweep.stripes,
            done: self.sweep.done,
            failed: self.sweep.failed,
            failures: failures.collect(),
            age_ns: self.until.unwrap_or(now) - self.since,
            over: self.until.is_some(),
        }
    }
}
