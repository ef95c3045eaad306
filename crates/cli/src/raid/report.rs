//! Text of an array's status.

use crate::figures::size;
use seiner_server::array::{MemberReport, Report, TaskReport};
use std::fmt::Write;

/// Maximum number of areas listed.
const AREAS: usize = 12;

/// Formats a duration in seconds or minutes.
fn seconds(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.1} s"),
        long => format!("{:.0} min", long / 60.0),
    }
}

/// Formats the status of an array.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line =
        |words: String| writeln!(text, "{words}").expect("a write to a String does not fail");
    line(format!("array    {}", report.array));
    line(format!(
        "shape    RAID {} of {}, {} for data; strips of {}, stripes of {}",
        report.level,
        report.members.len(),
        size(report.bytes),
        size(report.strip_bytes),
        size(report.stripe_bytes)
    ));
    line(format!("state    {}", report.condition));
    for (number, member) in report.members.iter().enumerate() {
        line(member_text(member, number, report.stripes));
    }
    for spare in &report.spares {
        line(format!("spare    {spare}"));
    }
    for task in &report.tasks {
        line(task_text(task));
        for failure in &task.failures {
            line(format!("         {failure}"));
        }
    }
    if report.doubtful_stripes > 0 {
        line(format!(
            "doubt    {} stripes lost data that cannot be computed reliably: write them whole, or restore them from a copy",
            report.doubtful_stripes
        ));
    }
    if report.counters.corrupt_blocks > 0 {
        line(format!(
            "rot      {} blocks did not match their checksums",
            report.counters.corrupt_blocks
        ));
    }
    line(format!(
        "merging  {}: {} stripes written whole, {} in part, {} holds without effect",
        report.merging,
        report.counters.whole_stripes,
        report.counters.partial_stripes,
        report.counters.holds_expired
    ));
    line(format!(
        "members  {} reads of {}, {} writes of {}; {} blocks repaired",
        report.counters.reads,
        size(report.counters.read_bytes),
        report.counters.writes,
        size(report.counters.written_bytes),
        report.counters.repaired_blocks
    ));
    if let Some(operations) = report.counters.operations() {
        let times = &report.latencies;
        line(format!(
            "clients  {} reads, {} writes, {operations:.2} member operations each; of 100 writes 99 waited up to {:.0} us, and were answered within {:.0} us",
            report.counters.user_reads,
            report.counters.user_writes,
            times.waited.p99 * 1e6,
            times.writes.p99 * 1e6
        ));
    }
    for (shard, why) in report.merging_why.iter().enumerate() {
        line(format!("shard    {shard}  {why}"));
    }
    for area in report.areas.iter().take(AREAS) {
        let at = size(area.first_stripe * report.stripe_bytes);
        let held = if area.holds { "held" } else { "not held" };
        line(format!("area     from {at}  {held}: {}", area.why));
    }
    match report.areas.len().saturating_sub(AREAS) + report.more_areas {
        0 => {}
        more => line(format!("area     and {more} more")),
    }
    for export in &report.exports {
        line(format!("export   {export}"));
    }
    text
}

/// Formats the status of a member.
pub fn member_text(member: &MemberReport, number: usize, stripes: u64) -> String {
    let device = member.device.as_deref().unwrap_or("no device");
    let filled = match member.state.as_str() {
        "filling" => format!(" ({:.1} %)", 100.0 * member.stripes as f64 / stripes as f64),
        _ => String::new(),
    };
    let why = match member.loss.as_deref() {
        Some("silent") => " (it did not answer in time)",
        Some("failed") => " (it failed)",
        Some("ordered") => " (by order)",
        _ => "",
    };
    let rot = match member.corrupt_blocks {
        0 => String::new(),
        blocks => format!("  ({blocks} blocks did not match their checksums)"),
    };
    let repaired = match member.repaired_blocks {
        0 => String::new(),
        blocks => format!("  ({blocks} blocks repaired)"),
    };
    format!(
        "member   {number}  {}{why}{filled}  {device}{rot}{repaired}",
        member.state
    )
}

/// Formats the status of a task.
fn task_text(task: &TaskReport) -> String {
    let of = task
        .member
        .map_or_else(String::new, |member| format!(" of member {member}"));
    let failed = match task.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let share = 100.0 * task.done as f64 / task.stripes.max(1) as f64;
    let left = match (task.over, task.done) {
        (true, _) => format!(", over after {}", seconds(task.seconds)),
        (false, 0) => String::new(),
        (false, done) => {
            let left = task.seconds * (task.stripes - done) as f64 / done as f64;
            format!(", {} left", seconds(left))
        }
    };
    format!(
        "task     {}{of}: {share:.1} % of {} stripes{failed}{left}",
        task.task, task.stripes
    )
}
