//! Status of a running array, in the form of the server's reports.

use seiner_raid::{
    AreaStatus, Array, CLASSES, Completeness, Condition, Counters, Latencies, Latency, Level, Loss,
    MemberStatus, Status, TaskKind, TaskStatus,
};
use seiner_server::array::{
    AreaReport, ArrayMonitor, CountersReport, LatenciesReport, LatencyReport, MemberReport, Report,
    TaskReport,
};
use std::sync::Arc;

/// Running array with the addresses under which it is exported.
pub struct RunningArray {
    /// The array.
    pub array: Arc<Array>,
    /// Addresses of its exports.
    pub exports: Vec<String>,
}

impl ArrayMonitor for RunningArray {
    fn report(&self) -> Option<Report> {
        Some(report(&self.array, self.array.status()?, &self.exports))
    }
}

/// Returns the report of a running array.
pub fn report(array: &Array, status: Status, exports: &[String]) -> Report {
    let geometry = array.geometry();
    let stripes = geometry.stripes();
    let block = u64::from(array.block_bytes());
    let condition = match status.condition {
        Condition::Whole => "whole",
        Condition::Degraded(_) => "degraded",
        Condition::Broken => "broken",
    };
    let members = status.members.into_iter();
    let areas = status.merging.areas.into_iter();
    Report {
        array: array
            .uuid()
            .map_or_else(String::new, |uuid| uuid.to_string()),
        condition: condition.to_string(),
        level: level(geometry.level()),
        bytes: array.bytes(),
        strip_bytes: u64::from(geometry.rows()) * block,
        stripe_bytes: array.stripe_bytes(),
        stripes,
        members: members.map(|found| member(found, stripes)).collect(),
        spares: status.spares,
        tasks: status.tasks.into_iter().map(task).collect(),
        merging: array.merging().name().to_string(),
        merging_why: status.merging.shards,
        area_stripes: status.merging.area_stripes,
        areas: areas.map(area).collect(),
        more_areas: status.merging.more_areas,
        latencies: latencies(&status.latencies),
        counters: counters(&status.counters, block),
        outstanding: status.outstanding,
        dirty_regions: status.dirty_regions,
        unsettled_regions: status.dirty_regions,
        doubtful_stripes: status.doubtful_stripes,
        exports: exports.to_vec(),
    }
}

fn member(member: MemberStatus, all: u64) -> MemberReport {
    let (state, stripes) = filling(member.completeness, all);
    MemberReport {
        device: member.name,
        state: state.to_string(),
        stripes,
        loss: member.loss.map(|reason| loss(reason).to_string()),
        corrupt_blocks: member.corrupt,
        repaired_blocks: member.repaired,
    }
}

fn latencies(latencies: &Latencies) -> LatenciesReport {
    let bounds = (0..CLASSES - 1).map(|class| Latency::bound(class) as f64 / 1e9);
    LatenciesReport {
        bounds: bounds.collect(),
        waited: latency(&latencies.waited),
        writes: latency(&latencies.writes),
        reads: latency(&latencies.reads),
    }
}

fn counters(counters: &Counters, block: u64) -> CountersReport {
    CountersReport {
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
    }
}

fn task(status: TaskStatus) -> TaskReport {
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

fn latency(latency: &Latency) -> LatencyReport {
    LatencyReport {
        count: latency.count(),
        sum: latency.sum as f64 / 1e9,
        p50: latency.quantile(0.5) as f64 / 1e9,
        p99: latency.quantile(0.99) as f64 / 1e9,
        classes: latency.classes.to_vec(),
    }
}

fn area(area: AreaStatus) -> AreaReport {
    AreaReport {
        first_stripe: area.first_stripe,
        shard: area.shard,
        holds: area.holds,
        why: area.why,
        idle_seconds: area.idle_ns as f64 / 1e9,
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
pub fn filling(filling: Completeness, stripes: u64) -> (&'static str, u64) {
    match filling {
        Completeness::Full => ("up", stripes),
        Completeness::Below(below) => ("filling", below),
        Completeness::Gone => ("gone", 0),
    }
}
