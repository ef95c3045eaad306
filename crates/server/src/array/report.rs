//! How an array is, as it goes over its control socket and to its page.

use seiner_raid::{
    AreaStatus, Array, CLASSES, Condition, Filling, Latency, Level, Loss, Status, TaskKind,
    TaskStatus,
};
use serde::{Deserialize, Serialize};

/// How a running array is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub array: String,
    /// `whole`, `degraded` or `broken`.
    pub condition: String,
    /// The level's number.
    pub level: u32,
    /// Bytes of the volume.
    pub bytes: u64,
    /// Bytes of a strip.
    pub strip_bytes: u64,
    /// Bytes of data in a stripe.
    pub stripe_bytes: u64,
    /// Stripes.
    pub stripes: u64,
    /// Members in order.
    pub members: Vec<MemberReport>,
    /// Spares.
    pub spares: Vec<String>,
    /// Tasks.
    pub tasks: Vec<TaskReport>,
    /// The strategy of merging.
    pub merging: String,
    /// What each shard does about it, in a few words.
    pub merging_why: Vec<String>,
    /// Stripes of an area.
    pub area_stripes: u64,
    /// Areas that were written in the last seconds.
    pub areas: Vec<AreaReport>,
    /// Areas besides these.
    pub more_areas: usize,
    /// How long requests took.
    pub latencies: LatenciesReport,
    /// What was done since the start.
    pub counters: CountersReport,
    /// Requests and member operations under way.
    pub outstanding: usize,
    /// Regions in which a power cut now would leave something to resync.
    pub unsettled_regions: u64,
    /// Stripes of which lost data cannot be computed for certain.
    pub doubtful_stripes: u64,
    /// Where it is exported.
    pub exports: Vec<String>,
}

/// A member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// The device; none if it is not there.
    pub device: Option<String>,
    /// `up`, `filling` or `gone`.
    pub state: String,
    /// Stripes that it has.
    pub stripes: u64,
    /// Why it is gone: `failed`, `silent` or `ordered`; none if it is there, or was gone before the start.
    pub loss: Option<String>,
    /// Blocks that were not what was written, by their checksums.
    pub corrupt_blocks: u64,
    /// Blocks that could not be read or did not fit the others, and were written again as they should be.
    #[serde(default)]
    pub repaired_blocks: u64,
}

/// An area: consecutive stripes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AreaReport {
    /// Its first stripe.
    pub first_stripe: u64,
    /// The shard that has it.
    pub shard: usize,
    /// Whether writes to it are held while their stripe is not full.
    pub holds: bool,
    /// Why, or why not.
    pub why: String,
    /// Seconds since it was written.
    pub idle_seconds: f64,
}

/// How long requests took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatenciesReport {
    /// The longest time of each class but the last, in seconds.
    pub bounds: Vec<f64>,
    /// Of writes, what they waited in the array before they were begun.
    pub waited: LatencyReport,
    /// Of writes, until they were answered.
    pub writes: LatencyReport,
    /// Of reads, until they were answered.
    pub reads: LatencyReport,
}

/// How long something took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyReport {
    /// How many there were.
    pub count: u64,
    /// Seconds, all together.
    pub sum: f64,
    /// Half took no longer, in seconds: the bound of a class.
    pub p50: f64,
    /// Of 100, 99 took no longer.
    pub p99: f64,
    /// How many there were of each class.
    pub classes: Vec<u64>,
}

/// A task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskReport {
    /// `resync`, `rebuild` or `scrub`.
    pub task: String,
    /// The member that is filled.
    pub member: Option<usize>,
    /// Stripes in all.
    pub stripes: u64,
    /// Stripes done.
    pub done: u64,
    /// Stripes for which it failed.
    pub failed: u64,
    /// Some of them, and why.
    pub failures: Vec<String>,
    /// For how long, in seconds.
    pub seconds: f64,
    /// It is over.
    pub over: bool,
}

/// What was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountersReport {
    /// Operations that read members.
    pub reads: u64,
    /// Operations that wrote members.
    pub writes: u64,
    /// Bytes read from members.
    pub read_bytes: u64,
    /// Bytes written to members.
    pub written_bytes: u64,
    /// Whole stripes written.
    pub whole_stripes: u64,
    /// Times that a part of a stripe was written.
    pub partial_stripes: u64,
    /// Times that writes were held until the longest time was over.
    pub holds_expired: u64,
    /// Blocks that were written again as they should be.
    pub repaired_blocks: u64,
    /// Blocks that were not what was written, by their checksums.
    pub corrupt_blocks: u64,
    /// Reads that clients asked for.
    pub user_reads: u64,
    /// Writes that clients asked for.
    pub user_writes: u64,
    /// Bytes that clients asked to read.
    pub user_read_bytes: u64,
    /// Bytes that clients asked to write.
    pub user_written_bytes: u64,
    /// Bytes of the volume that were given up.
    pub trimmed_bytes: u64,
}

impl CountersReport {
    /// Member operations for each operation of a client; none if there were none.
    pub fn operations(&self) -> Option<f64> {
        let asked = self.user_reads + self.user_writes;
        (asked > 0).then(|| (self.reads + self.writes) as f64 / asked as f64)
    }
}

impl LatencyReport {
    fn new(latency: &Latency) -> LatencyReport {
        LatencyReport {
            count: latency.count(),
            sum: latency.sum as f64 / 1e9,
            p50: latency.quantile(0.5) as f64 / 1e9,
            p99: latency.quantile(0.99) as f64 / 1e9,
            classes: latency.classes.to_vec(),
        }
    }
}

impl AreaReport {
    fn new(area: AreaStatus) -> AreaReport {
        AreaReport {
            first_stripe: area.first_stripe,
            shard: area.shard,
            holds: area.holds,
            why: area.why,
            idle_seconds: area.idle_ns as f64 / 1e9,
        }
    }
}

fn loss(loss: Loss) -> &'static str {
    match loss {
        Loss::Failed => "failed",
        Loss::Silent => "silent",
        Loss::Ordered => "ordered",
    }
}

/// A level's number.
pub fn level(level: Level) -> u32 {
    match level {
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
    }
}

/// What a member is and how many stripes it has.
pub fn filling(filling: Filling, stripes: u64) -> (&'static str, u64) {
    match filling {
        Filling::Full => ("up", stripes),
        Filling::Below(below) => ("filling", below),
        Filling::Gone => ("gone", 0),
    }
}

impl Report {
    /// Of a running array.
    pub fn new(array: &Array, status: Status, exports: &[String]) -> Report {
        let geometry = array.geometry();
        let members = status.members.into_iter().map(|member| {
            let (state, stripes) = filling(member.filling, geometry.stripes());
            MemberReport {
                device: member.name,
                state: state.to_string(),
                stripes,
                loss: member.loss.map(|why| loss(why).to_string()),
                corrupt_blocks: member.corrupt,
                repaired_blocks: member.repaired,
            }
        });
        let condition = match status.condition {
            Condition::Whole => "whole",
            Condition::Degraded(_) => "degraded",
            Condition::Broken => "broken",
        };
        let block = u64::from(array.block_bytes());
        let counters = status.counters;
        Report {
            array: array
                .uuid()
                .map_or_else(String::new, |uuid| uuid.to_string()),
            condition: condition.to_string(),
            level: level(geometry.level()),
            bytes: array.bytes(),
            strip_bytes: u64::from(geometry.rows()) * block,
            stripe_bytes: array.stripe_bytes(),
            stripes: geometry.stripes(),
            members: members.collect(),
            spares: status.spares,
            tasks: status.tasks.into_iter().map(TaskReport::new).collect(),
            merging: array.merging().name().to_string(),
            merging_why: status.merging.shards,
            area_stripes: status.merging.area_stripes,
            areas: status
                .merging
                .areas
                .into_iter()
                .map(AreaReport::new)
                .collect(),
            more_areas: status.merging.more_areas,
            latencies: LatenciesReport {
                bounds: (0..CLASSES - 1)
                    .map(|class| Latency::bound(class) as f64 / 1e9)
                    .collect(),
                waited: LatencyReport::new(&status.latencies.waited),
                writes: LatencyReport::new(&status.latencies.writes),
                reads: LatencyReport::new(&status.latencies.reads),
            },
            counters: CountersReport {
                reads: counters.reads,
                writes: counters.writes,
                read_bytes: counters.blocks_read * block,
                written_bytes: counters.blocks_written * block,
                whole_stripes: counters.full,
                partial_stripes: counters.partial,
                holds_expired: counters.expired,
                repaired_blocks: counters.repaired,
                corrupt_blocks: counters.corrupt,
                user_reads: counters.user_reads,
                user_writes: counters.user_writes,
                user_read_bytes: counters.user_blocks_read * block,
                user_written_bytes: counters.user_blocks_written * block,
                trimmed_bytes: counters.trimmed * block,
            },
            outstanding: status.outstanding,
            unsettled_regions: status.unsettled_regions,
            doubtful_stripes: status.doubtful_stripes,
            exports: exports.to_vec(),
        }
    }
}

impl TaskReport {
    fn new(status: TaskStatus) -> TaskReport {
        let (task, member) = match status.kind {
            TaskKind::Resync => ("resync", None),
            TaskKind::Rebuild(member) => ("rebuild", Some(member)),
            TaskKind::Scrub => ("scrub", None),
        };
        TaskReport {
            task: task.to_string(),
            member,
            stripes: status.stripes,
            done: status.done,
            failed: status.failed,
            failures: status.failures,
            seconds: status.age_ns as f64 / 1e9,
            over: status.over,
        }
    }
}
