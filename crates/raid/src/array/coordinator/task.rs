//! Background tasks, stripe by stripe: resync, rebuild, scrub.

use super::{Keeper, Word};
use crate::array::answer::Answer;
use crate::array::message::{Chore, Incarnation, Message};
use crate::array::status::{Filling, TaskKind, TaskStatus};
use crate::array::sweep::{Step, Sweep, Undone};
use crate::geometry::BLOCK_BYTES;
use crate::request::Nanos;
use seiner_platform::Clock;
use std::collections::BTreeSet;
use std::ops::Range;

/// Approximate number of bytes of stripes that a task has in flight.
const TASK_BYTES: u64 = 16 << 20;
/// Interval of recording rebuild positions, ns. A crash repeats at most the work of one interval.
const POSITIONS: Nanos = 5_000_000_000;

/// A task and its times.
pub struct Task {
    pub(super) number: u64,
    pub(super) sweep: Sweep,
    /// Incarnation of the device that is rebuilt.
    pub(super) incarnation: Incarnation,
    pub(super) since: Nanos,
    pub(super) until: Option<Nanos>,
}

impl Keeper {
    pub(super) fn begin_task(
        &mut self,
        chore: Chore,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) {
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

    /// Records the progress of rebuilds, at most once per interval.
    pub(super) fn note_positions(&mut self) {
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
            let filled = task.filled(&slot.undone);
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

    /// Starts as many stripes as possible. Returns the time at which more can be started.
    pub(super) fn work(&mut self) -> Option<Nanos> {
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
                Step::Over => self.end_task(),
                Step::Stripe(stripe) => {
                    let (task, chore, keeper) =
                        (task.number, task.sweep.chore, self.shared.keeper.clone());
                    let answer = Answer::new(Box::new(move |result| {
                        // A coordinator that has ended runs no tasks.
                        let _ = keeper.send(Word::Chored {
                            task,
                            stripe,
                            result: result.map(drop),
                        });
                    }));
                    let shard = self.shared.sharding.shard(stripe);
                    // If the shard has ended, the dropped answer reports the failure.
                    let _ = self.shared.shards[shard].send(Message::Chore(chore, stripe, answer));
                }
            }
        }
        None
    }

    /// Ends the first task. Its progress is recorded before the member is announced as complete. Otherwise a
    /// crash would repeat the rebuild.
    fn end_task(&mut self) {
        let first = &mut self.tasks[0];
        let filled = match first.sweep.chore {
            Chore::Rebuild(member) => {
                let undone = std::mem::take(&mut first.sweep.undone);
                let slot = &mut self.slots[member];
                if slot.holds(first.incarnation) {
                    slot.undone.extend(undone);
                }
                Some((member, first.incarnation, first.filled(&slot.undone)))
            }
            Chore::Scrub | Chore::Resync => None,
        };
        if let Some((member, incarnation, filled)) = filled
            && self.slots[member].holds(incarnation)
        {
            self.slots[member].recorded = filled;
            self.members_changed = true;
            self.put_on_record();
            // The device may have failed while the record was written.
            if self.slots[member].holds(incarnation) {
                self.slots[member].filling = filled;
            }
        }
        let mut task = self.tasks.remove(0);
        task.until = Some(self.now());
        self.past
            .retain(|past| past.sweep.chore != task.sweep.chore);
        self.past.push(task);
        self.fill_undone(false);
    }

    /// Starts the rebuild of stripes that failed before: those that are no longer doubtful and, with `all`,
    /// also those that had lost too much.
    pub(super) fn fill_undone(&mut self, all: bool) {
        if self.ending.is_some() {
            return;
        }
        for member in 0..self.slots.len() {
            let chore = Chore::Rebuild(member);
            let same = |task: &Task| task.sweep.chore == chore && !task.sweep.is_cancelled();
            if self.slots[member].filling == Filling::Gone || self.tasks.iter().any(same) {
                continue;
            }
            let doubts = self
                .books
                .as_mut()
                .map(|books| books.intent().doubts().clone());
            let doubts = doubts.unwrap_or_default();
            let undone = &mut self.slots[member].undone;
            let mut ready: BTreeSet<u64> = undone.doubtful.difference(&doubts).copied().collect();
            undone.doubtful.retain(|stripe| doubts.contains(stripe));
            if all {
                ready.append(&mut undone.lost);
            }
            if !ready.is_empty() {
                self.begin_task(chore, ready.into_iter().map(|stripe| stripe..stripe + 1));
            }
        }
    }
}

impl Task {
    /// Returns the completeness of the member that the task rebuilds, given the stripes that failed before.
    fn filled(&self, undone: &Undone) -> Filling {
        match undone
            .first()
            .unwrap_or(u64::MAX)
            .min(self.sweep.position())
        {
            u64::MAX => Filling::Full,
            position => Filling::Below(position),
        }
    }

    pub(super) fn status(&self, now: Nanos) -> TaskStatus {
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
