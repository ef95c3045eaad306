//! Retention classes: the lifetime of samples, and the order in which classes lose data when the disk is full.

use seiner_model::{duration_text, parse_duration};
use std::time::Duration;

/// Name of the class of sources that no other class selects.
pub const DEFAULT: &str = "default";

/// Lifetime of the blocks of a class. A block expires by the first rule that is set and no longer keeps the block.
/// Without rules, blocks are kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maximum age. Older samples are hidden.
    pub age: Option<Duration>,
    /// Number of the latest rows of each source that are kept. Up to a block more may be shown.
    pub rows: Option<u64>,
    /// Approximate bytes of the latest blocks that are kept, for all sources of the class together.
    pub bytes: Option<u64>,
}

/// Behaviour when the disk budget is used up and no rule permits to drop data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Rejects new samples until there is space.
    #[default]
    Refuse,
    /// Drops the oldest blocks of the class.
    Shed,
}

/// Level that replaces samples that are too old for their class. Each step has one row with the count, the sum, and the
/// least, largest, first and last value of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Length of a step.
    pub step: Duration,
    /// Lifetime of a step, measured from its beginning. `None` means for ever.
    pub keep: Option<Duration>,
}

/// Replicas of a cluster that must answer a write or a read of a class before it counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// One replica answers writes and reads. Available while one replica is; samples are lost with it, and reads may miss
    /// samples until the replicas are equal.
    One,
    /// More than half of the replicas answer writes and reads. A read finds every write.
    #[default]
    Quorum,
    /// All replicas answer writes, and one answers reads. A read finds every write, and is cheapest; a single replica
    /// that is down holds up writes.
    All,
}

/// Copies of the samples of a class in a cluster. A single server has one copy, and rejects other settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Number of replicas. `None`: that of the keyspace.
    pub replication: Option<u32>,
    /// Replicas that must answer.
    pub consistency: Consistency,
}

/// Retention class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Name of the class in settings, reports and metrics.
    pub name: String,
    /// Selector of the sources of the class, `measurement{tag="value"}`; empty for all. Earlier
    /// classes take precedence.
    pub sources: String,
    /// Lifetime of the samples.
    pub keep: Keep,
    /// Priority. Classes with a lower priority lose data first.
    pub priority: u8,
    /// Behaviour when the disk budget is used up.
    pub when_full: WhenFull,
    /// Levels that replace samples older than [`Keep::age`], finest first. If there are none, the samples are dropped.
    pub rollup: Vec<Level>,
    /// Copies of the samples. Only clusters keep more than one.
    pub copies: Copies,
}

/// Parses levels as users write them: `1m for 365d then 1h for ever`.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_levels(text: &str) -> Result<Vec<Level>, String> {
    let duration = |text: &str| {
        let ns = parse_duration(text.trim()).map_err(|error| error.to_string())?;
        u64::try_from(ns)
            .map(Duration::from_nanos)
            .map_err(|_| format!("{text:?} is negative; give a duration such as 1m or 365d"))
    };
    let level = |text: &str| {
        let (step, keep) = text.split_once(" for ").ok_or_else(|| {
            format!("{text:?} has no lifetime; write 1m for 365d, or 1h for ever")
        })?;
        Ok(Level {
            step: duration(step)?,
            keep: match keep.trim() {
                "ever" => None,
                keep => Some(duration(keep)?),
            },
        })
    };
    text.split(" then ").map(str::trim).map(level).collect()
}

/// Returns levels in the form that [`parse_levels`] parses.
pub fn levels_text(levels: &[Level]) -> String {
    let text = |duration: Duration| duration_text(duration.as_nanos() as u64);
    let texts: Vec<String> = levels
        .iter()
        .map(|level| {
            let keep = level.keep.map_or("ever".to_string(), text);
            format!("{} for {keep}", text(level.step))
        })
        .collect();
    texts.join(" then ")
}

impl Class {
    /// Returns the class of all sources without another class. Samples are kept for ever, and new
    /// samples are rejected if there is no space.
    pub fn forever() -> Class {
        Class {
            name: DEFAULT.to_string(),
            sources: String::new(),
            keep: Keep::default(),
            priority: u8::MAX,
            when_full: WhenFull::default(),
            rollup: Vec::new(),
            copies: Copies::default(),
        }
    }
}
