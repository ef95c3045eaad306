//! Coordinator thread of an array: membership, rebuild, scrub, resync, records, and the end of the array.

pub mod message;
mod order_error;
mod orders;
mod shutdown;
pub mod slot;
mod task;

pub use message::{CoordinatorMessage, Order};
pub use order_error::OrderError;
pub use slot::MemberSlot;

use super::Shared;
use super::assemble::with_checksums;
use super::marks::Change;
use super::message::{Incarnation, Job, ShardMessage};
use super::metadata_log::{IndexedMember, MetadataLog};
use super::status::{Completeness, Condition, CoordinatorStatus, Loss, MemberStatus};
use super::stripe_pass::FailedStripes;
use crate::member::Member;
use crate::record::{Intent, Superblock};
use crate::request::Nanos;
use seiner_platform::Clock;
use shutdown::Shutdown;
use std::collections::BTreeSet;
use std::io;
use std::iter::once;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use task::Task;

/// State of the coordinator.
pub struct Coordinator {
    shared: Arc<Shared>,
    messages: Receiver<CoordinatorMessage>,
    slots: Vec<MemberSlot>,
    spares: Vec<Arc<dyn Member>>,
    /// Running task, then pending tasks.
    tasks: Vec<Task>,
    /// Completed tasks, the last one of each kind.
    past: Vec<Task>,
    next_task: u64,
    shutdown: Option<Shutdown>,
    /// Metadata log of the members; `None` for an array without records.
    metadata_log: Option<MetadataLog>,
    /// Changes that are not recorded yet, and the messages to send after they are.
    members_changed: bool,
    intent_changed: bool,
    after_record: Vec<(usize, ShardMessage)>,
    /// Time of the next record of rebuild positions.
    next_positions: Nanos,
}

impl Coordinator {
    /// Creates the coordinator of an array with these members. Starts a resync of the stripes that are recorded
    /// as being written.
    ///
    /// # Errors
    /// If the system cannot provide what the records need.
    pub fn new(
        shared: Arc<Shared>,
        messages: Receiver<CoordinatorMessage>,
        slots: Vec<MemberSlot>,
        spares: Vec<Arc<dyn Member>>,
        metadata_log: Option<(Superblock, Intent)>,
    ) -> io::Result<Coordinator> {
        let metadata_log = metadata_log
            .map(|(superblock, intent)| MetadataLog::new(superblock, intent, &shared.settings));
        let mut coordinator = Coordinator {
            shared,
            messages,
            slots,
            spares,
            tasks: Vec::new(),
            past: Vec::new(),
            next_task: 0,
            shutdown: None,
            metadata_log: metadata_log.transpose()?,
            members_changed: false,
            // The combined record is written to every member, because other members may be lost later.
            intent_changed: true,
            after_record: Vec::new(),
            next_positions: 0,
        };
        coordinator.resync();
        coordinator.use_spares();
        coordinator.resume_rebuilds();
        coordinator.publish_status();
        Ok(coordinator)
    }

    /// Starts a resync of all stripes whose syndromes may not match.
    fn resync(&mut self) {
        let geometry = &self.shared.geometry;
        let (stripes, redundant) = (geometry.stripes(), geometry.syndromes() > 0);
        let Some(metadata_log) = self.metadata_log.as_mut().filter(|_| redundant) else {
            return;
        };
        let size = self.shared.settings.shard.region_stripes;
        let marks = metadata_log.intent().marks().iter();
        let ranges: Vec<_> = marks.map(|mark| mark.stripes(size, stripes)).collect();
        if !ranges.is_empty() {
            self.begin_task(Job::Resync, ranges);
        }
    }

    /// Runs until the array ends.
    pub fn run(mut self) {
        loop {
            self.record_changes();
            let until = self.work();
            self.publish_status();
            if self.advance_shutdown() {
                return;
            }
            let message = match until {
                None => self
                    .messages
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => {
                    let time = until.saturating_sub(self.now());
                    self.messages.recv_timeout(Duration::from_nanos(time))
                }
            };
            let first = match message {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Words that arrived meanwhile are recorded together.
            let mut next = first;
            while let Some(message) = next {
                if matches!(message, CoordinatorMessage::Halt) {
                    return;
                }
                self.receive(message);
                next = self.messages.try_recv().ok();
            }
        }
    }

    /// Records all changes, then sends the messages that wait for the record.
    fn record_changes(&mut self) {
        // The status is published first: slow members must not delay a request for the status.
        self.publish_status();
        while let Some(metadata_log) = &mut self.metadata_log
            && (self.members_changed || self.intent_changed)
        {
            let devices = self.slots.iter().enumerate();
            let members: Vec<IndexedMember> = devices
                .filter_map(|(member, slot)| Some((member, slot.device()?)))
                .collect();
            // A replacement device may contain an old intent record. It gets the current intent record before
            // its superblock.
            let failed = if std::mem::take(&mut self.intent_changed) {
                metadata_log.write_intent(&members)
            } else {
                self.members_changed = false;
                metadata_log.superblock().completeness =
                    self.slots.iter().map(|slot| slot.recorded).collect();
                metadata_log.write_superblocks(&members)
            };
            if !failed.is_empty() {
                self.lose_all(failed, Loss::Failed);
                self.publish_status();
            }
        }
        for (shard, message) in std::mem::take(&mut self.after_record) {
            // A shard that has ended does not need the message.
            let _ = self.shared.shards[shard].send(message);
        }
    }

    /// Publishes the current status.
    fn publish_status(&self) {
        let status = self.status();
        *self.shared.published() = Some(status);
    }

    fn now(&self) -> Nanos {
        self.shared.clock.monotonic()
    }

    fn broadcast(&self, message: impl Fn() -> ShardMessage) {
        for shard in &self.shared.shards {
            // A shard that has ended does not need the message.
            let _ = shard.send(message());
        }
    }

    /// Handles a message.
    fn receive(&mut self, message: CoordinatorMessage) {
        match message {
            CoordinatorMessage::Lost {
                shard,
                member,
                incarnation,
                silent,
            } => self.note_loss(shard, member, incarnation, silent),
            CoordinatorMessage::RequestMarks { shard, change } => {
                self.change_marks(&change);
                self.after_record
                    .push((shard, ShardMessage::Marked(change.marked)));
            }
            CoordinatorMessage::UpdateMarks(change) => self.change_marks(&change),
            CoordinatorMessage::Doubts { shard, doubts } => self.note_doubts(shard, doubts),
            CoordinatorMessage::Installed(member, incarnation) => {
                let slot = &mut self.slots[member];
                if slot.incarnation == incarnation {
                    slot.to_install -= 1;
                }
            }
            CoordinatorMessage::StripeDone {
                task,
                stripe,
                result,
            } => {
                let found = self.tasks.iter_mut().find(|found| found.number == task);
                found
                    .expect("a task stays until its jobs are done")
                    .pass
                    .end(stripe, result);
            }
            CoordinatorMessage::Order(order, answer) => {
                let done = match self.shutdown {
                    Some(_) => Err(OrderError::Stopping),
                    None => self.carry_out(order),
                };
                self.record_changes();
                // The client may have gone.
                let _ = answer.send(done);
            }
            CoordinatorMessage::Stop(answer) => {
                self.tasks.iter_mut().for_each(|task| task.pass.cancel());
                self.shutdown = Some(Shutdown::Tasks(answer));
            }
            CoordinatorMessage::Flushed(result) => {
                if let Some(Shutdown::Flush(answer)) = self.shutdown.take() {
                    self.broadcast(|| ShardMessage::Finish);
                    let shards = self.shared.shards.len();
                    self.shutdown = Some(Shutdown::Shards(answer, result, shards, BTreeSet::new()));
                }
            }
            CoordinatorMessage::Finished(marks) => {
                if let Some(Shutdown::Shards(_, _, left, all)) = &mut self.shutdown {
                    *left -= 1;
                    all.extend(marks);
                }
            }
            CoordinatorMessage::Halt => {}
        }
    }

    /// Handles a loss that a shard reports. The shard is notified after the loss is recorded.
    fn note_loss(&mut self, shard: usize, member: usize, incarnation: Incarnation, silent: bool) {
        let known = self.slots[member].incarnation != incarnation;
        if !known {
            let loss = if silent { Loss::Silent } else { Loss::Failed };
            self.lose(member, loss);
        }
        let recorded = known || self.slots[member].recorded == Completeness::Gone;
        let message = match recorded || self.metadata_log.is_none() {
            true => ShardMessage::Recorded,
            false => ShardMessage::Unrecorded,
        };
        self.after_record.push((shard, message));
    }

    /// Replaces the doubtful stripes of a shard. The shard is notified after they are recorded.
    fn note_doubts(&mut self, shard: usize, doubts: BTreeSet<u64>) {
        let sharding = self.shared.sharding;
        if let Some(metadata_log) = &mut self.metadata_log {
            metadata_log
                .intent()
                .set_doubts(|stripe| sharding.shard(stripe) == shard, doubts);
            self.intent_changed = true;
        }
        self.retry_failed_stripes(false);
        self.after_record.push((shard, ShardMessage::Recorded));
    }

    /// Changes the marks of the next record.
    fn change_marks(&mut self, change: &Change) {
        if let Some(metadata_log) = &mut self.metadata_log {
            let intent = metadata_log.intent();
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
        members.retain(|&member| self.slots[member].completeness != Completeness::Gone);
        if members.is_empty() {
            return;
        }
        for &member in &members {
            let slot = &mut self.slots[member];
            slot.completeness = Completeness::Gone;
            slot.loss = Some(loss);
            slot.device = None;
            slot.failed_stripes = FailedStripes::default();
        }
        // If more members are lost than the level covers, no write is acknowledged any more. Those members have
        // missed nothing, so their loss is not recorded. If they return, the array is complete again.
        let is_covered = self.gone() <= self.shared.geometry.syndromes();
        for member in members {
            if is_covered {
                self.slots[member].recorded = Completeness::Gone;
                self.members_changed = true;
            }
            let incarnation = self.slots[member].incarnation;
            self.broadcast(|| ShardMessage::Lose(member, incarnation));
            let rebuild = Job::Rebuild(member);
            let hopeless = self
                .tasks
                .iter_mut()
                .filter(|task| task.pass.job == rebuild);
            hopeless.for_each(|task| task.pass.cancel());
        }
        self.use_spares();
    }

    /// Replaces lost members by spares.
    fn use_spares(&mut self) {
        let gone = |slot: &MemberSlot| slot.completeness == Completeness::Gone;
        while let Some(member) = self.slots.iter().position(gone)
            && self.shutdown.is_none()
            && !self.spares.is_empty()
            && self.gone() <= self.shared.geometry.syndromes()
        {
            let spare = self.spares.remove(0);
            self.install(member, spare);
        }
    }

    /// Puts a device in the place of a lost member.
    fn install(&mut self, member: usize, device: Arc<dyn Member>) {
        let device = match &mut self.metadata_log {
            Some(metadata_log) => with_checksums(device, metadata_log.superblock()),
            None => device,
        };
        let slot = &mut self.slots[member];
        slot.loss = None;
        slot.incarnation += 1;
        slot.completeness = Completeness::Below(0);
        slot.recorded = slot.completeness;
        slot.device = Some(device.clone());
        slot.to_install = self.shared.shards.len();
        let incarnation = slot.incarnation;
        self.members_changed = true;
        self.intent_changed = true;
        self.broadcast(|| ShardMessage::Replace(member, incarnation, device.clone(), 0));
        self.resume_rebuilds();
    }

    /// Starts the rebuild of members that are incomplete.
    fn resume_rebuilds(&mut self) {
        for member in 0..self.slots.len() {
            let Completeness::Below(below) = self.slots[member].completeness else {
                continue;
            };
            let job = Job::Rebuild(member);
            let same = |task: &Task| task.pass.job == job && !task.pass.is_cancelled();
            if !self.tasks.iter().any(same) {
                let stripes = below..self.shared.geometry.stripes();
                self.begin_task(job, once(stripes));
            }
        }
    }

    /// Returns the number of members that are not complete.
    fn missing(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.completeness != Completeness::Full)
            .count()
    }

    /// Returns the number of members that are not used.
    fn gone(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.completeness == Completeness::Gone)
            .count()
    }

    fn condition(&self) -> Condition {
        match self.missing() {
            0 => Condition::Whole,
            missing if missing > self.shared.geometry.syndromes() => Condition::Broken,
            missing => Condition::Degraded(missing),
        }
    }

    fn status(&self) -> CoordinatorStatus {
        let now = self.now();
        let position = |member: usize| {
            let own = |task: &&Task| task.pass.job == Job::Rebuild(member);
            self.tasks
                .iter()
                .rfind(own)
                .map(|task| task.pass.position())
        };
        let members = self
            .slots
            .iter()
            .enumerate()
            .map(|(member, slot)| MemberStatus {
                name: slot.device.as_ref().map(|device| device.name()),
                completeness: match (slot.completeness, position(member)) {
                    (Completeness::Below(below), Some(now)) if now != u64::MAX => {
                        Completeness::Below(below.max(now))
                    }
                    (completeness, _) => completeness,
                },
                loss: slot.loss,
                corrupt: 0,
                repaired: 0,
                keeps_space: slot
                    .device
                    .as_ref()
                    .is_none_or(|device| device.keeps_space()),
            });
        let tasks = self.tasks.iter().chain(&self.past);
        CoordinatorStatus {
            condition: self.condition(),
            members: members.collect(),
            spares: self.spares.iter().map(|spare| spare.name()).collect(),
            tasks: tasks.map(|task| task.status(now)).collect(),
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        *self.shared.published() = None;
    }
}
