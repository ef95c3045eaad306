//! Status of an array, as its control socket and its page send it.

use seiner_raid::{
    AreaStatus, Array, CLASSES, Completeness, Condition, Latency, Level, Loss, Status, TaskKind,
    TaskStatus,
};
use serde::{Deserialize, Serialize};

/// Status of a running array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the array.
    pub array: String,
    /// Condition: `whole`, `degraded` or `broken`.
    pub condition: String,
    /// Number of the level.
    pub level: u32,
    /// Size of the volume, bytes.
    pub bytes: u64,
    /// Size of a strip, bytes.
    pub strip_bytes: u64,
    /// Data of a stripe, bytes.
    pub stripe_bytes: u64,
    /// Number of stripes.
    pub stripes: u64,
    /// Members in order.
    pub members: Vec<MemberReport>,
    /// Spares.
    pub spares: Vec<String>,
    /// Background tasks.
    pub tasks: Vec<TaskReport>,
    /// Strategy of merging.
    pub merging: String,
    /// State of the strategy in each shard, in a few words.
    pub merging_why: Vec<String>,
    /// Number of stripes of an area.
    pub area_stripes: u64,
    /// Areas that were written in the last seconds.
    pub areas: Vec<AreaReport>,
    /// Number of areas besides these.
    pub more_areas: usize,
    /// Latencies of requests.
    pub latencies: LatenciesReport,
    /// Counters since the start.
    pub counters: CountersReport,
    /// Number of requests and member operations in flight.
    pub outstanding: usize,
    /// Number of regions that a power cut now would leave in need of a resync.
    pub unsettled_regions: u64,
    /// Number of stripes whose lost data cannot be computed reliably.
    pub doubtful_stripes: u64,
    /// Address under which the volume is exported.
    pub exports: Vec<String>,
}

/// Status of a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Name of the device; `None` without a device.
    pub device: Option<String>,
    /// State: `up`, `filling` or `gone`.
    pub state: String,
    /// Number of stripes that the member has.
    pub stripes: u64,
    /// Reason of the loss: `failed`, `silent` or `ordered`. `None` for a present member, and for one that was lost before the
    /// start.
    pub loss: Option<String>,
    /// Number of blocks that did not match their checksums.
    pub corrupt_blocks: u64,
    /// Number of unreadable or wrong blocks that were rewritten.
    #[serde(default)]
    pub repaired_blocks: u64,
}

/// Area: consecutive stripes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AreaReport {
    /// First stripe.
    pub first_stripe: u64,
    /// Number of the shard.
    pub shard: usize,
    /// True if writes are held while their stripe is not full.
    pub holds: bool,
    /// Reason of the decision.
    pub why: String,
    /// Time since the last write, seconds.
    pub idle_seconds: f64,
}

/// Latencies of requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatenciesReport {
    /// Upper bound of each class but the last, seconds.
    pub bounds: Vec<f64>,
    /// Time that writes waited in the array before they were started.
    pub waited: LatencyReport,
    /// Time until writes were answered.
    pub writes: LatencyReport,
    /// Time until reads were answered.
    pub reads: LatencyReport,
}

/// Distribution of a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Number of values.
    pub count: u64,
    /// Sum, seconds.
    pub sum: f64,
    /// Median, seconds: the bound of a class.
    pub p50: f64,
    /// 99th percentile, seconds: the bound of a class.
    pub p99: f64,
    /// Number of values in each class.
    pub classes: Vec<u64>,
}

/// Status of a background task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskReport {
    /// Kind: `resync`, `rebuild` or `scrub`.
    pub task: String,
    /// Number of the member that is filled.
    pub member: Option<usize>,
    /// Number of stripes.
    pub stripes: u64,
    /// Number of stripes that are done.
    pub done: u64,
    /// Number of stripes that failed.
    pub failed: u64,
    /// Some of the failures, with reasons.
    pub failures: Vec<String>,
    /// Duration so far, seconds.
    pub seconds: f64,
    /// True if the task has ended.
    pub over: bool,
}

/// Counters of an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CountersReport {
    /// Read operations on members.
    pub reads: u64,
    /// Write operations on members.
    pub writes: u64,
    /// Bytes read from members.
    pub read_bytes: u64,
    /// Bytes written to members.
    pub written_bytes: u64,
    /// Stripes that were written whole.
    pub whole_stripes: u64,
    /// Partial writes of stripes.
    pub partial_stripes: u64,
    /// Holds that lasted until the longest hold time.
    pub holds_expired: u64,
    /// Unreadable or wrong blocks that were rewritten.
    pub repaired_blocks: u64,
    /// Blocks that did not match their checksums.
    pub corrupt_blocks: u64,
    /// Read requests of clients.
    pub user_reads: u64,
    /// Write requests of clients.
    pub user_writes: u64,
    /// Bytes that clients read.
    pub user_read_bytes: u64,
    /// Bytes that clients wrote.
    pub user_written_bytes: u64,
    /// Bytes of the volume that were trimmed.
    pub trimmed_bytes: u64,
}

impl CountersReport {
    /// Returns the member operations per client operation; `None` without client operations.
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

/// Returns the number of a level.
pub fn level(level: Level) -> u32 {
    match level {
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
    }
}

/// Returns the state of a member and the number of its stripes.
pub fn filling(completeness: Completeness, stripes: u64) -> (&'static str, u64) {
    match completeness {
        Completeness::Full => ("up", stripes),
        Completeness::Below(below) => ("filling", below),
        Completeness::Gone => ("gone", 0),
    }
}

impl Report {
    /// Creates the report of a running array.
    pub fn new(array: &Array, status: Status, exports: &[String]) -> Report {
        let geometry = array.geometry();
        let members = status.members.into_iter().map(|member| {
            let (state, stripes) = filling(member.completeness, geometry.stripes());
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
            unsettled_regions: status.dirty_regions,
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
