//! View of a strategy for people: areas in which writes are held, and the reasons.

use crate::request::Nanos;

/// Maximum number of listed areas. The areas that were written last are listed.
pub const MOST_AREAS: usize = 64;
/// Time for which an area is listed after its last write, ns.
pub const LISTED_FOR: Nanos = 10_000_000_000;

/// Request for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewRequest {
    /// Present time, ns.
    pub now: Nanos,
    /// Number of stripes of an area.
    pub area_stripes: u64,
}

/// Area: consecutive stripes that were written lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// First stripe of the area.
    pub first_stripe: u64,
    /// True if writes to the area are held now while their stripe is not full.
    pub holds: bool,
    /// Reason for holding or not holding.
    pub why: String,
    /// Time since the last write to the area, ns.
    pub idle: Nanos,
}

/// Present behaviour of a strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Description of its behaviour in all areas.
    pub why: String,
    /// Areas that were written lately, the last one first.
    pub areas: Vec<Area>,
    /// Number of further areas.
    pub more: usize,
}

impl View {
    /// Returns the view of a strategy that has no areas.
    pub fn everywhere(why: impl Into<String>) -> View {
        View {
            why: why.into(),
            ..View::default()
        }
    }

    /// Returns a view with areas, which may be in any order and contain duplicates.
    pub fn with(why: String, mut areas: Vec<Area>) -> View {
        // Of several entries for one area, the entry that is held counts, then the latest.
        areas.sort_by_key(|area| (area.first_stripe, !area.holds, area.idle));
        areas.dedup_by_key(|area| area.first_stripe);
        areas.sort_by_key(|area| area.idle);
        let more = areas.len().saturating_sub(MOST_AREAS);
        areas.truncate(MOST_AREAS);
        View { why, areas, more }
    }
}

/// Formats a time in ns for people: `12.3 µs`.
pub fn micros(time: f64) -> String {
    format!("{:.1} µs", time / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(first_stripe: u64, holds: bool, idle: Nanos) -> Area {
        Area {
            first_stripe,
            holds,
            why: String::new(),
            idle,
        }
    }

    #[test]
    fn areas_are_listed_once_and_the_latest_come_first() {
        let areas = vec![area(8, false, 5), area(0, false, 1), area(0, true, 9)];
        let view = View::with(String::new(), areas);
        assert_eq!(view.areas, [area(8, false, 5), area(0, true, 9)]);
        let many = (0..100).map(|at| area(at, false, 100 - at)).collect();
        let view = View::with(String::new(), many);
        assert_eq!((view.areas.len(), view.more), (MOST_AREAS, 36));
        assert_eq!(view.areas[0].first_stripe, 99);
    }
}
