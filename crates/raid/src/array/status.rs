//! Status of an array.

use super::message::ShardMessage;
use super::{Array, Shared};
use crate::block::Page;
use crate::merging::{Area, View};
use crate::shard::{Counters, Latencies, Shard};
use seiner_platform::Clock;
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::sync::{MutexGuard, PoisonError};

/// Redundancy of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All members are present and complete.
    Whole,
    /// All data are available, but this number of members are lost or incomplete.
    Degraded(usize),
    /// More members are lost or incomplete than the redundancy covers. Operations that need them fail.
    Broken,
}

/// Completeness of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// The member is complete.
    Full,
    /// The member is complete in all stripes before this one.
    Below(u64),
    /// The member is not used.
    Gone,
}

/// Status of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Name of the device; `None` if no device was found.
    pub name: Option<String>,
    /// Completeness of the member.
    pub completeness: Completeness,
    /// Reason of the loss, if the member was lost since the start.
    pub loss: Option<Loss>,
    /// Number of blocks whose contents did not match their checksums. They were repaired if the redundancy was
    /// sufficient.
    pub corrupt: u64,
    /// Number of blocks that were unreadable or did not match the rest of their row, and were rewritten.
    pub repaired: u64,
    /// True if trimmed blocks keep their space on the device. Files free it.
    pub keeps_space: bool,
}

/// Reasons for the loss of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A write or a flush failed, or the device reported that it is gone.
    Failed,
    /// The member exceeded the time limit ([`ArraySettings::patience`](super::ArraySettings::patience)).
    Silent,
    /// A user ordered it.
    Ordered,
}

/// Kinds of background tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Makes syndromes match the data after a crash.
    Resync,
    /// Rebuilds a member.
    Rebuild(usize),
    /// Reads and compares all stripes.
    Scrub,
}

/// Progress of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Kind of the task.
    pub kind: TaskKind,
    /// Total number of stripes.
    pub stripes: u64,
    /// Number of stripes done.
    pub done: u64,
    /// Number of stripes that failed.
    pub failed: u64,
    /// Some of the failures, with reasons.
    pub failures: Vec<String>,
    /// Age of the task, ns.
    pub age_ns: u64,
    /// True if the task is complete.
    pub over: bool,
}

/// Status of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Redundancy of the array.
    pub condition: Condition,
    /// Members in order.
    pub members: Vec<MemberStatus>,
    /// Names of the spare devices.
    pub spares: Vec<String>,
    /// Tasks: running and pending ones, and the last one of each kind.
    pub tasks: Vec<TaskStatus>,
    /// Counters, summed over all shards.
    pub counters: Counters,
    /// Latencies of requests, over all shards.
    pub latencies: Latencies,
    /// Decisions about held writes.
    pub merging: MergingStatus,
    /// Number of requests and member operations in flight.
    pub outstanding: usize,
    /// Number of regions that a power cut now would leave in need of a resync.
    pub dirty_regions: u64,
    /// Number of stripes whose lost data cannot be computed reliably.
    pub doubtful_stripes: u64,
}

/// Decisions about held writes, with reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergingStatus {
    /// Number of stripes in an area.
    pub area_stripes: u64,
    /// Behaviour of each shard in a few words.
    pub shards: Vec<String>,
    /// Areas written in the last seconds, most recent first, at most 64 per shard.
    pub areas: Vec<AreaStatus>,
    /// Number of further areas.
    pub more_areas: usize,
}

/// An area: consecutive stripes with one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaStatus {
    /// First stripe of the area.
    pub first_stripe: u64,
    /// Shard that serves the area.
    pub shard: usize,
    /// True if writes to the area are held until their stripe is full.
    pub holds: bool,
    /// Reason for the decision.
    pub why: String,
    /// Time since the last write to the area, ns.
    pub idle_ns: u64,
}

/// The coordinator's part of the status.
#[derive(Clone)]
pub struct CoordinatorStatus {
    /// Redundancy of the array.
    pub condition: Condition,
    /// Members in order.
    pub members: Vec<MemberStatus>,
    /// Names of the spare devices.
    pub spares: Vec<String>,
    /// Running, pending and past tasks.
    pub tasks: Vec<TaskStatus>,
}

/// A shard's part of the status.
struct ShardStatus {
    shard: usize,
    corrupt: Vec<u64>,
    repaired: Vec<u64>,
    latencies: Latencies,
    view: View,
    counters: Counters,
    outstanding: usize,
    dirty_regions: u64,
    doubtful_stripes: u64,
}

/// Returns the number of regions with stripes that a power cut now would leave in need of a resync.
fn dirty_regions(shard: &Shard<Page>) -> u64 {
    let size = shard.region_stripes();
    let marks = shard.dirty_marks().into_iter();
    let regions: BTreeSet<u64> = marks.map(|mark| mark.region(size)).collect();
    regions.len() as u64
}

impl Array {
    /// Returns the status of the array; `None` after a stop. Does not wait for members.
    pub fn status(&self) -> Option<Status> {
        self.shared.status()
    }
}

impl Shared {
    /// Returns the coordinator's part of the status.
    pub(super) fn published(&self) -> MutexGuard<'_, Option<CoordinatorStatus>> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it inconsistent.
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Option<Status> {
        let (sender, parts) = channel();
        let now = self.clock.monotonic();
        for (number, shard) in self.shards.iter().enumerate() {
            let sender = sender.clone();
            let inspect = ShardMessage::Inspect(Box::new(move |shard| {
                // The caller may have gone.
                let _ = sender.send(ShardStatus {
                    shard: number,
                    corrupt: shard.corrupt().to_vec(),
                    repaired: shard.repaired().to_vec(),
                    latencies: *shard.latencies(),
                    view: shard.view(now),
                    counters: shard.counters(),
                    outstanding: shard.outstanding(),
                    dirty_regions: dirty_regions(shard),
                    doubtful_stripes: shard.doubtful_stripes().count() as u64,
                });
            }));
            shard.send(inspect).ok()?;
        }
        drop(sender);
        let kept = self.published().clone()?;
        let mut status = Status {
            condition: kept.condition,
            members: kept.members,
            spares: kept.spares,
            tasks: kept.tasks,
            counters: Counters::default(),
            latencies: Latencies::default(),
            merging: MergingStatus::new(self.sharding.area_stripes, self.shards.len()),
            outstanding: 0,
            dirty_regions: 0,
            doubtful_stripes: 0,
        };
        for part in parts {
            status.counters = status.counters.plus(&part.counters);
            for (member, more) in status.members.iter_mut().zip(&part.corrupt) {
                member.corrupt += more;
            }
            for (member, more) in status.members.iter_mut().zip(&part.repaired) {
                member.repaired += more;
            }
            status.latencies = status.latencies.plus(&part.latencies);
            status.merging.add(part.shard, part.view);
            status.outstanding += part.outstanding;
            status.dirty_regions += part.dirty_regions;
            status.doubtful_stripes += part.doubtful_stripes;
        }
        status.merging.areas.sort_by_key(|area| area.idle_ns);
        Some(status)
    }
}

impl MergingStatus {
    fn new(area_stripes: u64, shards: usize) -> MergingStatus {
        MergingStatus {
            area_stripes,
            shards: vec![String::new(); shards],
            ..MergingStatus::default()
        }
    }

    fn add(&mut self, shard: usize, view: View) {
        self.shards[shard] = view.why;
        self.more_areas += view.more;
        let parts = |area: Area| AreaStatus {
            first_stripe: area.first_stripe,
            shard,
            holds: area.holds,
            why: area.why,
            idle_ns: area.idle,
        };
        self.areas.extend(view.areas.into_iter().map(parts));
    }
}
