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
    pub(super) coarsened: Arc<Vec<(RoaringBitmap, i64)>>,
}

/// Reason why a row is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooOld {
    /// The row exceeds the age of its class.
    Age,
    /// A coarser level has replaced the samples around the row.
    Coarsened,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            before: i64::MIN,
            floors: Vec::new(),
            coarsened: Arc::default(),
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
        let is_coarsened =
            |(sources, before): &(RoaringBitmap, i64)| time < *before && sources.contains(source);
        let coarsened = self.coarsened.iter().any(is_coarsened);
        coarsened.then_some(TooOld::Coarsened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_too_old_for_its_class_or_because_a_level_stands_for_it() {
        let lateness = Lateness {
            before: 50,
            floors: vec![i64::MIN, 50],
            coarsened: Arc::new(vec![([7].into_iter().collect(), 20)]),
        };
        assert_eq!(lateness.too_old(1, 1, 49), Some(TooOld::Age));
        assert_eq!(lateness.too_old(1, 1, 50), None);
        assert_eq!(lateness.too_old(1, 0, 0), None);
        assert_eq!(lateness.too_old(7, 0, 19), Some(TooOld::Coarsened));
        assert_eq!(lateness.too_old(7, 0, 20), None);
    }
}
