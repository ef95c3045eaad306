//! How an array is, as it goes over the control socket and to people.

use crate::log::size;
use seiner_raid::{Array, Condition, Filling, Level, Status, TaskKind, TaskStatus};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// How a running array is.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// The device; none if it is not there.
    pub device: Option<String>,
    /// `up`, `filling` or `gone`.
    pub state: String,
    /// Stripes that it has.
    pub stripes: u64,
}

/// A task.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
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
}

/// A time for people.
fn seconds(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.1} s"),
        long => format!("{:.0} min", long / 60.0),
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
            counters: CountersReport {
                reads: counters.reads,
                writes: counters.writes,
                read_bytes: counters.blocks_read * block,
                written_bytes: counters.blocks_written * block,
                whole_stripes: counters.full,
                partial_stripes: counters.partial,
                holds_expired: counters.expired,
                repaired_blocks: counters.repaired,
            },
            outstanding: status.outstanding,
            unsettled_regions: status.unsettled_regions,
            doubtful_stripes: status.doubtful_stripes,
            exports: exports.to_vec(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: String| writeln!(text, "{words}").expect("memory takes everything");
        line(format!("array    {}", self.array));
        line(format!(
            "shape    RAID {} of {}, {} for data; strips of {}, stripes of {}",
            self.level,
            self.members.len(),
            size(self.bytes),
            size(self.strip_bytes),
            size(self.stripe_bytes)
        ));
        line(format!("state    {}", self.condition));
        for (number, member) in self.members.iter().enumerate() {
            line(member.text(number, self.stripes));
        }
        for spare in &self.spares {
            line(format!("spare    {spare}"));
        }
        for task in &self.tasks {
            line(task.text());
            for failure in &task.failures {
                line(format!("         {failure}"));
            }
        }
        if self.doubtful_stripes > 0 {
            line(format!(
                "doubt    {} stripes lost data that their syndromes may not give back: write them whole, or restore them from a copy",
                self.doubtful_stripes
            ));
        }
        line(format!(
            "merging  {}: {} stripes written whole, {} in part, {} held in vain",
            self.merging,
            self.counters.whole_stripes,
            self.counters.partial_stripes,
            self.counters.holds_expired
        ));
        line(format!(
            "members  {} reads of {}, {} writes of {}; {} blocks repaired",
            self.counters.reads,
            size(self.counters.read_bytes),
            self.counters.writes,
            size(self.counters.written_bytes),
            self.counters.repaired_blocks
        ));
        for export in &self.exports {
            line(format!("export   {export}"));
        }
        text
    }
}

impl MemberReport {
    /// For people.
    pub fn text(&self, number: usize, stripes: u64) -> String {
        let device = self.device.as_deref().unwrap_or("no device");
        let filled = match self.state.as_str() {
            "filling" => format!(" ({:.1} %)", 100.0 * self.stripes as f64 / stripes as f64),
            _ => String::new(),
        };
        format!("member   {number}  {}{filled}  {device}", self.state)
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

    /// For people.
    fn text(&self) -> String {
        let of = self
            .member
            .map_or_else(String::new, |member| format!(" of member {member}"));
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let share = 100.0 * self.done as f64 / self.stripes.max(1) as f64;
        let left = match (self.over, self.done) {
            (true, _) => format!(", over after {}", seconds(self.seconds)),
            (false, 0) => String::new(),
            (false, done) => {
                let left = self.seconds * (self.stripes - done) as f64 / done as f64;
                format!(", {} left", seconds(left))
            }
        };
        format!(
            "task     {}{of}: {share:.1} % of {} stripes{failed}{left}",
            self.task, self.stripes
        )
    }
}
