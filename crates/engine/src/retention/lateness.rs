//! Lateness: limits below which incoming rows are too old.

use roaring::RoaringBitmap;
use std::sync::Arc;

/// Time limits of rows from outside.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Time before which rows may be too old, ns. Later rows are not too old.
    pub(super) before: i64,
    /// Time before which rows are hidden, ns, by class.
    pub(super) floors: Vec<i64>,
    /// Sources with a time before which earlier rules left levels and no samples.
    pub(super) rolled_up: Arc<Vec<(RoaringBitmap, i64)>>,
}

/// Reason why a row is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooOld {
    /// The row exceeds the age of its class.
    Age,
    /// A roll-up level has replaced the samples around the row.
    RolledUp,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            before: i64::MIN,
            floors: Vec::new(),
            rolled_up: Arc::default(),
        }
    }
}

impl Lateness {
    /// Returns the time from which no row is too old, ns.
    #[inline]
    pub fn before(&self) -> i64 {
        self.before
    }

    /// Returns the reason why a row of a source in a class would be hidden on arrival, if it would.
    pub fn too_old(&self, source: u32, class: u8, time: i64) -> Option<TooOld> {
        let floor = self.floors.get(class as usize).copied();
        if time < floor.unwrap_or(i64::MIN) {
            return Some(TooOld::Age);
        }
        // A sample that arrives now would be shown in place of the step that contains it.
        let is_rolled_up =
            |(sources, before): &(RoaringBitmap, i64)| time < *before && sources.contains(source);
        let rolled_up = self.rolled_up.iter().any(is_rolled_up);
        rolled_up.then_some(TooOld::RolledUp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_too_old_by_age_or_if_their_step_is_rolled_up() {
        let lateness = Lateness {
            before: 50,
            floors: vec![i64::MIN, 50],
            rolled_up: Arc::new(vec![([7].into_iter().collect(), 20)]),
        };
        assert_eq!(lateness.too_old(1, 1, 49), Some(TooOld::Age));
        assert_eq!(lateness.too_old(1, 1, 50), None);
        assert_eq!(lateness.too_old(1, 0, 0), None);
        assert_eq!(lateness.too_old(7, 0, 19), Some(TooOld::RolledUp));
        assert_eq!(lateness.too_old(7, 0, 20), None);
    }
}
