//! What an array can tell of itself.

use super::worker::Message;
use super::{Array, Shared};
use crate::merging::{Area, View};
use crate::shard::{Counters, Latencies};
use seiner_platform::Clock;
use std::sync::mpsc::channel;
use std::sync::{MutexGuard, PoisonError};

/// How an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All members are there.
    Whole,
    /// So many members are gone or not yet filled, and all data are there.
    Degraded(usize),
    /// More members are gone than the level bears: what needs them fails.
    Broken,
}

/// What a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// All that it should have.
    Full,
    /// All of the stripes before this one.
    Below(u64),
    /// It is not used.
    Gone,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The device; none if it was not found.
    pub name: Option<String>,
    /// What it has.
    pub filling: Filling,
    /// Why it is not used, if that was so since the start.
    pub loss: Option<Loss>,
    /// Blocks of it that were not what was written, by their checksums. All that were found have been repaired if enough
    /// else was there.
    pub corrupt: u64,
    /// Blocks of the member that could not be read or did not fit the rest of their row, and were written again as they should be.
    pub repaired: u64,
    /// What is trimmed of it has its room still: not so of a file.
    pub keeps_room: bool,
}

/// Why a member is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It failed a write or a flush, or said that it is gone.
    Failed,
    /// It did not answer in time ([`Running::patience`](super::Running::patience)).
    Silent,
    /// Somebody wanted it so.
    Ordered,
}

/// What is done for the array's own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Syndromes are made to fit after a crash.
    Resync,
    /// A member is filled.
    Rebuild(usize),
    /// Everything is read and compared.
    Scrub,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Which.
    pub kind: TaskKind,
    /// Stripes in all.
    pub stripes: u64,
    /// Stripes done.
    pub done: u64,
    /// Stripes for which it failed.
    pub failed: u64,
    /// Some of them, and why.
    pub failures: Vec<String>,
    /// Since when, in nanoseconds.
    pub age_ns: u64,
    /// It is over.
    pub over: bool,
}

/// How an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// In a word.
    pub condition: Condition,
    /// Members in order.
    pub members: Vec<MemberStatus>,
    /// Devices that wait to take the place of a member.
    pub spares: Vec<String>,
    /// Tasks: those under way and to come, and the last one of each kind.
    pub tasks: Vec<TaskStatus>,
    /// What shards did, summed up.
    pub counters: Counters,
    /// How long requests took, of all shards.
    pub latencies: Latencies,
    /// Where writes are held, and why.
    pub merging: MergingStatus,
    /// Requests and member operations under way.
    pub outstanding: usize,
    /// Regions in which a power cut now would leave something to resync.
    pub unsettled_regions: u64,
    /// Stripes of which lost data cannot be computed for certain.
    pub doubtful_stripes: u64,
}

/// Where writes are held, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergingStatus {
    /// Stripes of an area.
    pub area_stripes: u64,
    /// What each shard does, in a few words.
    pub shards: Vec<String>,
    /// Areas that were written in the last seconds, the last one first: at the most 64 of each shard.
    pub areas: Vec<AreaStatus>,
    /// Areas besides these.
    pub more_areas: usize,
}

/// An area: consecutive stripes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaStatus {
    /// Its first stripe.
    pub first_stripe: u64,
    /// The shard that has it.
    pub shard: usize,
    /// Whether writes to it are held while their stripe is not full.
    pub holds: bool,
    /// Why, or why not.
    pub why: String,
    /// Nanoseconds since it was written.
    pub idle_ns: u64,
}

/// The keeper's part.
#[derive(Clone)]
pub struct Kept {
    /// In a word.
    pub condition: Condition,
    /// Members in order.
    pub members: Vec<MemberStatus>,
    /// Spares.
    pub spares: Vec<String>,
    /// Tasks.
    pub tasks: Vec<TaskStatus>,
}

/// A shard's part.
struct Share {
    shard: usize,
    corrupt: Vec<u64>,
    repaired: Vec<u64>,
    latencies: Latencies,
    view: View,
    counters: Counters,
    outstanding: usize,
    unsettled_regions: u64,
    doubtful_stripes: u64,
}

impl Array {
    /// How it is; none if it has been stopped. Waits for no member.
    pub fn status(&self) -> Option<Status> {
        self.shared.status()
    }
}

impl Shared {
    /// What the keeper says.
    pub(super) fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        // It is put there whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Option<Status> {
        let (tell, told) = channel();
        let now = self.clock.monotonic();
        for (number, shard) in self.shards.iter().enumerate() {
            let tell = tell.clone();
            let look = Message::Inspect(Box::new(move |shard| {
                // Whoever asked may have gone.
                let _ = tell.send(Share {
                    shard: number,
                    corrupt: shard.corrupt().to_vec(),
                    repaired: shard.repaired().to_vec(),
                    latencies: *shard.latencies(),
                    view: shard.view(now),
                    counters: shard.counters(),
                    outstanding: shard.outstanding(),
                    unsettled_regions: shard.unsettled_regions().count() as u64,
                    doubtful_stripes: shard.doubtful_stripes().count() as u64,
                });
            }));
            shard.send(look).ok()?;
        }
        drop(tell);
        let kept = self.kept().clone()?;
        let mut status = Status {
            condition: kept.condition,
            members: kept.members,
            spares: kept.spares,
            tasks: kept.tasks,
            counters: Counters::default(),
            latencies: Latencies::default(),
            merging: MergingStatus::new(self.sharding.area_stripes, self.shards.len()),
            outstanding: 0,
            unsettled_regions: 0,
            doubtful_stripes: 0,
        };
        for share in told {
            status.counters = status.counters.plus(&share.counters);
            for (member, more) in status.members.iter_mut().zip(&share.corrupt) {
                member.corrupt += more;
            }
            for (member, more) in status.members.iter_mut().zip(&share.repaired) {
                member.repaired += more;
            }
            status.latencies = status.latencies.plus(&share.latencies);
            status.merging.add(share.shard, share.view);
            status.outstanding += share.outstanding;
            status.unsettled_regions += share.unsettled_regions;
            status.doubtful_stripes += share.doubtful_stripes;
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
        let told = |area: Area| AreaStatus {
            first_stripe: area.first_stripe,
            shard,
            holds: area.holds,
            why: area.why,
            idle_ns: area.idle,
        };
        self.areas.extend(view.areas.into_iter().map(told));
    }
}
