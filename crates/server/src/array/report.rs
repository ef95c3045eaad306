//! Status of an array, as its control socket and its page send it.

use serde::{Deserialize, Serialize};

/// Source of the status of a running array.
pub trait ArrayMonitor: Send + Sync {
    /// Returns the present status; `None` after a stop. A call may wait a moment.
    fn report(&self) -> Option<Report>;
}

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
    #[serde(default)]
    pub dirty_regions: u64,
    /// Deprecated name of `dirty_regions`.
    #[serde(default)]
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
    /// Reason of the loss: `failed`, `silent` or `ordered`. `None` for a present member, and for one that was lost
    /// before the start.
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
        let requested = self.user_reads + self.user_writes;
        (requested > 0).then(|| (self.reads + self.writes) as f64 / requested as f64)
    }
}
