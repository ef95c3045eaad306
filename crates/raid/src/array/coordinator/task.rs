//! Background tasks, stripe by stripe: resync, rebuild, scrub.

use super::{Coordinator, CoordinatorMessage};
use crate::array::answer::Answer;
use crate::array::message::{Incarnation, Job, ShardMessage};
use crate::array::status::{Completeness, TaskKind, TaskStatus};
use crate::array::stripe_pass::{FailedStripes, NextStripe, StripePass};
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
    pub(super) pass: StripePass,
    /// Incarnation of the device that is rebuilt.
    pub(super) incarnation: Incarnation,
    pub(super) since: Nanos,
    pub(super) until: Option<Nanos>,
}

impl Coordinator {
    pub(super) fn begin_task(&mut self, job: Job, ranges: impl IntoIterator<Item = Range<u64>>) {
        let geometry = &self.shared.geometry;
        let strip = u64::from(geometry.rows()) * BLOCK_BYTES as u64;
        let stripe = strip * geometry.members() as u64;
        let pace = match self.shared.settings.background_rate {
            0 => 0,
            rate => strip * 1_000_000_000 / rate,
        };
        let at_once = (TASK_BYTES / stripe).clamp(2, 64) as usize;
        let incarnation = match job {
            Job::Rebuild(member) => self.slots[member].incarnation,
            Job::Scrub | Job::Resync => 0,
        };
        self.next_task += 1;
        self.tasks.push(Task {
            number: self.next_task,
            incarnation,
            pass: StripePass::new(job, ranges, at_once, pace),
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
            let Job::Rebuild(member) = task.pass.job else {
                continue;
            };
            let slot = &mut self.slots[member];
            let filled = task.filled(&slot.failed_stripes);
            if slot.incarnation == task.incarnation
                && slot.recorded != filled
                && !task.pass.is_over()
            {
                slot.recorded = filled;
                self.members_changed = true;
            }
        }
        self.record_changes();
    }

    /// Starts as many stripes as possible. Returns the time at which more can be started.
    pub(super) fn work(&mut self) -> Option<Nanos> {
        self.note_positions();
        while let Some(task) = self.tasks.first_mut() {
            if let Job::Rebuild(member) = task.pass.job
                && self.slots[member].to_install > 0
            {
                return None;
            }
            let now = self.shared.clock.monotonic();
            match task.pass.next(now) {
                NextStripe::Wait => return None,
                NextStripe::NotBefore(at) => return Some(at),
                NextStripe::Done => self.end_task(),
                NextStripe::Ready(stripe) => {
                    let (task, job, coordinator) =
                        (task.number, task.pass.job, self.shared.coordinator.clone());
                    let answer = Answer::new(Box::new(move |result| {
                        // A coordinator that has ended runs no tasks.
                        let _ = coordinator.send(CoordinatorMessage::StripeDone {
                            task,
                            stripe,
                            result: result.map(drop),
                        });
                    }));
                    let shard = self.shared.sharding.shard(stripe);
                    // If the shard has ended, the dropped answer reports the failure.
                    let _ = self.shared.shards[shard].send(ShardMessage::Job(job, stripe, answer));
                }
            }
        }
        None
    }

    /// Ends the first task. Its progress is recorded before the member is announced as complete. Otherwise a
    /// crash would repeat the rebuild.
    fn end_task(&mut self) {
        let first = &mut self.tasks[0];
        let filled = match first.pass.job {
            Job::Rebuild(member) => {
                let failed_stripes = std::mem::take(&mut first.pass.failed_stripes);
                let slot = &mut self.slots[member];
                if slot.holds(first.incarnation) {
                    slot.failed_stripes.extend(failed_stripes);
                }
                Some((
                    member,
                    first.incarnation,
                    first.filled(&slot.failed_stripes),
                ))
            }
            Job::Scrub | Job::Resync => None,
        };
        if let Some((member, incarnation, filled)) = filled
            && self.slots[member].holds(incarnation)
        {
            self.slots[member].recorded = filled;
            self.members_changed = true;
            self.record_changes();
            // The device may have failed while the record was written.
            if self.slots[member].holds(incarnation) {
                self.slots[member].completeness = filled;
            }
        }
        let mut task = self.tasks.remove(0);
        task.until = Some(self.now());
        self.past.retain(|past| past.pass.job != task.pass.job);
        self.past.push(task);
        self.retry_failed_stripes(false);
    }

    /// Starts the rebuild of stripes that failed before and are no longer doubtful. With `all`, also rebuilds the
    /// stripes that had lost too much.
    pub(super) fn retry_failed_stripes(&mut self, all: bool) {
        if self.shutdown.is_some() {
            return;
        }
        for member in 0..self.slots.len() {
            let job = Job::Rebuild(member);
            let same = |task: &Task| task.pass.job == job && !task.pass.is_cancelled();
            if self.slots[member].completeness == Completeness::Gone || self.tasks.iter().any(same)
            {
                continue;
            }
            let doubts = self
                .metadata_log
                .as_mut()
                .map(|metadata_log| metadata_log.intent().doubts().clone());
            let doubts = doubts.unwrap_or_default();
            let failed_stripes = &mut self.slots[member].failed_stripes;
            let mut ready: BTreeSet<u64> = failed_stripes
                .doubtful
                .difference(&doubts)
                .copied()
                .collect();
            failed_stripes
                .doubtful
                .retain(|stripe| doubts.contains(stripe));
            if all {
                ready.append(&mut failed_stripes.lost);
            }
            if !ready.is_empty() {
                self.begin_task(job, ready.into_iter().map(|stripe| stripe..stripe + 1));
            }
        }
    }
}

impl Task {
    /// Returns the completeness of the member that the task rebuilds, given the stripes that failed before.
    fn filled(&self, failed_stripes: &FailedStripes) -> Completeness {
        match failed_stripes
            .first()
            .unwrap_or(u64::MAX)
            .min(self.pass.position())
        {
            u64::MAX => Completeness::Full,
            position => Completeness::Below(position),
        }
    }

    pub(super) fn status(&self, now: Nanos) -> TaskStatus {
        let failures = self
            .pass
            .failures
            .iter()
            .map(|(_, failure)| failure.to_string());
        TaskStatus {
            kind: match self.pass.job {
                Job::Rebuild(member) => TaskKind::Rebuild(member),
                Job::Scrub => TaskKind::Scrub,
                Job::Resync => TaskKind::Resync,
            },
            stripes: self.pass.stripes,
            done: self.pass.done,
            failed: self.pass.failed,
            failures: failures.collect(),
            age_ns: self.until.unwrap_or(now) - self.since,
            over: self.until.is_some(),
        }
    }
}
