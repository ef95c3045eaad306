//! The coordinator thread of an array: membership, rebuild, scrub, resync, records, and the end of the array.

mod ending;
mod orders;
mod refusal;
pub mod slot;
mod task;
pub mod word;

pub use refusal::Refusal;
pub use slot::Slot;
pub use word::{Order, Word};

use super::Shared;
use super::assemble::with_checksums;
use super::books::{Books, Placed};
use super::marks::Change;
use super::message::{Chore, Message};
use super::status::{Condition, Filling, Kept, Loss, MemberStatus};
use super::sweep::Undone;
use crate::member::Member;
use crate::record::{Intent, Superblock};
use crate::request::Nanos;
use ending::Ending;
use seiner_platform::Clock;
use std::collections::BTreeSet;
use std::io;
use std::iter::once;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use task::Task;

/// State of the coordinator.
pub struct Keeper {
    shared: Arc<Shared>,
    words: Receiver<Word>,
    slots: Vec<Slot>,
    spares: Vec<Arc<dyn Member>>,
    /// Pending tasks. The first one is running.
    tasks: Vec<Task>,
    /// Completed tasks, the last one of each kind.
    past: Vec<Task>,
    next_task: u64,
    ending: Option<Ending>,
    /// Records on the members; `None` for an array without records.
    books: Option<Books>,
    /// Changes that are not recorded yet, and the messages to send after they are.
    members_changed: bool,
    intent_changed: bool,
    to_tell: Vec<(usize, Message)>,
    /// Time of the next record of rebuild positions.
    next_positions: Nanos,
}

impl Keeper {
    /// Creates the coordinator of an array with these members. Starts a resync of the stripes that are recorded
    /// as being written.
    ///
    /// # Errors
    /// If the system cannot provide what the records need.
    pub fn new(
        shared: Arc<Shared>,
        words: Receiver<Word>,
        slots: Vec<Slot>,
        spares: Vec<Arc<dyn Member>>,
        books: Option<(Superblock, Intent)>,
    ) -> io::Result<Keeper> {
        let books =
            books.map(|(superblock, intent)| Books::new(superblock, intent, &shared.running));
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
            // The combined record is written to every member, because other members may be lost later.
            intent_changed: true,
            to_tell: Vec::new(),
            next_positions: 0,
        };
        keeper.resync();
        keeper.use_spares();
        keeper.resume_filling();
        keeper.show();
        Ok(keeper)
    }

    /// Starts a resync of all stripes whose syndromes may not match.
    fn resync(&mut self) {
        let geometry = &self.shared.geometry;
        let (stripes, redundant) = (geometry.stripes(), geometry.syndromes() > 0);
        let Some(books) = self.books.as_mut().filter(|_| redundant) else {
            return;
        };
        let size = self.shared.running.settings.region_stripes;
        let marks = books.intent().marks().iter();
        let ranges: Vec<_> = marks.map(|mark| mark.stripes(size, stripes)).collect();
        if !ranges.is_empty() {
            self.begin_task(Chore::Resync, ranges);
        }
    }

    /// Runs until the array ends.
    pub fn run(mut self) {
        loop {
            self.put_on_record();
            let until = self.work();
            self.show();
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
            // Words that arrived meanwhile are recorded together.
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

    /// Records all changes, then sends the messages that wait for the record.
    fn put_on_record(&mut self) {
        // The status is published first: slow members must not delay a request for the status.
        self.show();
        while let Some(books) = &mut self.books
            && (self.members_changed || self.intent_changed)
        {
            let devices = self.slots.iter().enumerate();
            let placed: Vec<Placed> = devices
                .filter_map(|(member, slot)| Some((member, slot.device()?)))
                .collect();
            // A replacement device may contain an old intent record. It gets the current intent record before
            // its superblock.
            let failed = if std::mem::take(&mut self.intent_changed) {
                books.write_intent(&placed)
            } else {
                self.members_changed = false;
                books.superblock().fillings = self.slots.iter().map(|slot| slot.recorded).collect();
                books.write_superblocks(&placed)
            };
            if !failed.is_empty() {
                self.lose_all(failed, Loss::Failed);
                self.show();
            }
        }
        for (shard, message) in std::mem::take(&mut self.to_tell) {
            // A shard that has ended does not need the message.
            let _ = self.shared.shards[shard].send(message);
        }
    }

    /// Publishes the current status.
    fn show(&self) {
        let kept = self.kept();
        *self.shared.kept() = Some(kept);
    }

    fn now(&self) -> Nanos {
        self.shared.clock.monotonic()
    }

    fn tell(&self, message: impl Fn() -> Message) {
        for shard in &self.shared.shards {
            // A shard that has ended does not need the message.
            let _ = shard.send(message());
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Lost {
                shard,
                member,
                incarnation,
                silent,
            } => {
                let known = self.slots[member].incarnation != incarnation;
                if !known {
                    let loss = if silent { Loss::Silent } else { Loss::Failed };
                    self.lose(member, loss);
                }
                let recorded = known || self.slots[member].recorded == Filling::Gone;
                let message = match recorded || self.books.is_none() {
                    true => Message::Recorded,
                    false => Message::Unrecorded,
                };
                self.to_tell.push((shard, message));
            }
            Word::Mark { shard, change } => {
                self.change_marks(&change);
                self.to_tell.push((shard, Message::Marked(change.marked)));
            }
            Word::Settle(change) => self.change_marks(&change),
            Word::Doubts { shard, doubts } => {
                let sharding = self.shared.sharding;
                if let Some(books) = &mut self.books {
                    books
                        .intent()
                        .set_doubts(|stripe| sharding.shard(stripe) == shard, doubts);
                    self.intent_changed = true;
                }
                self.fill_undone(false);
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
                // The client may have gone.
                let _ = answer.send(done);
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
            Word::Finished(marks) => {
                if let Some(Ending::Shards(_, _, left, all)) = &mut self.ending {
                    *left -= 1;
                    all.extend(marks);
                }
            }
            Word::Halt => {}
        }
    }

    /// Changes the marks of the next record.
    fn change_marks(&mut self, change: &Change) {
        if let Some(books) = &mut self.books {
            let intent = books.intent();
            change.marked.iter().for_each(|&mark| intent.mark(mark));
            change.cleared.iter().for_each(|&mark| intent.clear(mark));
            self.intent_changed = true;
        }
    }

    /// Takes a member out of use.
    fn lose(&mut self, member: usize, loss: Loss) {
        self.lose_all(vec![member], loss);
    }

    /// Takes several members out of use at once.
    fn lose_all(&mut self, mut members: Vec<usize>, loss: Loss) {
        members.retain(|&member| self.slots[member].filling != Filling::Gone);
        if members.is_empty() {
            return;
        }
        for &member in &members {
            let slot = &mut self.slots[member];
            slot.filling = Filling::Gone;
            slot.loss = Some(loss);
            slot.device = None;
            slot.undone = Undone::default();
        }
        // If more members are lost than the level covers, no write is acknowledged any more. Those members have
        // missed nothing, so their loss is not recorded. If they return, the array is complete again.
        let bears = self.gone() <= self.shared.geometry.syndromes();
        for member in members {
            if bears {
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
        }
        self.use_spares();
    }

    /// Puts spares in the places of lost members.
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

    /// Puts a device in the place of a lost member.
    fn install(&mut self, member: usize, device: Arc<dyn Member>) {
        let device = match &mut self.books {
            Some(books) => with_checksums(device, books.superblock()),
            None => device,
        };
        let slot = &mut self.slots[member];
        slot.loss = None;
        slot.incarnation += 1;
        slot.filling = Filling::Below(0);
        slot.recorded = slot.filling;
        slot.device = Some(device.clone());
        slot.to_install = self.shared.shards.len();
        let incarnation = slot.incarnation;
        self.members_changed = true;
        self.intent_changed = true;
        self.tell(|| Message::Replace(member, incarnation, device.clone(), 0));
        self.resume_filling();
    }

    /// Starts the rebuild of members that are incomplete.
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

    /// Returns the number of members that are not complete.
    fn missing(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.filling != Filling::Full)
            .count()
    }

    /// Returns the number of members that are not used.
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
                loss: slot.loss,
                corrupt: 0,
                repaired: 0,
                keeps_room: slot
                    .device
                    .as_ref()
                    .is_none_or(|device| device.keeps_room()),
            });
        let tasks = self.tasks.iter().chain(&self.past);
        Kept {
            condition: self.condition(),
            members: members.collect(),
            spares: self.spares.iter().map(|spare| spare.name()).collect(),
            tasks: tasks.map(|task| task.status(now)).collect(),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.shared.kept() = None;
    }
}
