//! Retention classes: which sources are kept how long, and who goes first when room is short.

use seiner_model::{duration_text, parse_duration};
use std::time::Duration;

/// The name of the class of sources that no rule means.
pub const DEFAULT: &str = "default";

/// How long the blocks of a class are kept: as long as all rules that are set allow. None set:
/// for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Samples older than this are not shown any more.
    pub age: Option<Duration>,
    /// The latest rows of a source, at least; up to a block more may be shown.
    pub rows: Option<u64>,
    /// The latest bytes of blocks, all sources of the class together, about.
    pub bytes: Option<u64>,
}

/// What happens when the disk budget is used up by data that no rule lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// New samples are refused until there is room.
    #[default]
    Refuse,
    /// The oldest blocks of the class are let go.
    Shed,
}

/// What becomes of samples that are too old for their class: a row of figures a step (count, sum,
/// least, largest, first and last value of each field).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The length of a step.
    pub step: Duration,
    /// How long it is kept, measured from the beginning of the step; `None`: for ever.
    pub keep: Option<Duration>,
}

/// A retention class.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name in settings, reports and metrics.
    pub name: String,
    /// The sources in it, as far as no class before it has them: a selector,
    /// `measurement{tag="value"}`; empty for all.
    pub sources: String,
    /// How long they are kept.
    pub keep: Keep,
    /// Classes with lower priority are shed first.
    pub priority: u8,
    /// What happens when the budget is used up.
    pub when_full: WhenFull,
    /// What samples become that are older than [`Keep::age`], finest first; none: they go.
    pub coarser: Vec<Level>,
}

/// Reads levels as people write them: `1m for 365d then 1h for ever`.
///
/// # Errors
/// A sentence with the remedy.
pub fn parse_levels(text: &str) -> Result<Vec<Level>, String> {
    let duration = |text: &str| {
        let ns = parse_duration(text.trim()).map_err(|error| error.to_string())?;
        u64::try_from(ns).map(Duration::from_nanos).map_err(|_| {
            format!("{text:?} is less than nothing; give a duration such as 1m or 365d")
        })
    };
    let level = |text: &str| {
        let (step, keep) = text.split_once(" for ").ok_or_else(|| {
            format!("{text:?} does not say how long; write 1m for 365d, or 1h for ever")
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

/// Levels as [`parse_levels`] reads them.
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
    /// The class of everything that no rule means: kept for ever, and new samples are refused when
    /// there is no room.
    pub fn forever() -> Class {
        Class {
            name: DEFAULT.to_string(),
            sources: String::new(),
            keep: Keep::default(),
            priority: u8::MAX,
            when_full: WhenFull::default(),
            coarser: Vec::new(),
        }
    }
}
