//! Allocation of the units of the volume.

use crate::format::Extent;

/// Bitmap of the units; a bit is 1 if the unit is taken.
pub struct Space {
    taken: Vec<u64>,
    units: u64,
    free: u64,
    /// Position at which the next search starts, so that freed units are reused as late as possible.
    cursor: u64,
}

impl Space {
    /// Creates `units` free units.
    pub fn new(units: u64) -> Space {
        let mut taken = vec![0; units.div_ceil(64) as usize];
        if let (Some(last), rest @ 1..) = (taken.last_mut(), units % 64) {
            *last = u64::MAX << rest;
        }
        Space {
            taken,
            units,
            free: units,
            cursor: 0,
        }
    }

    /// Returns the number of free units.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Takes the units that a table lists. Returns false if they are out of range or taken already.
    pub fn claim(&mut self, extent: Extent) -> bool {
        let end = extent.start.checked_add(extent.units);
        let inside = end.is_some_and(|end| end <= self.units);
        if !inside || (extent.start..extent.start + extent.units).any(|unit| self.is_taken(unit)) {
            return false;
        }
        self.set(extent, true);
        true
    }

    /// Frees units.
    pub fn free_units(&mut self, extent: Extent) {
        self.set(extent, false);
    }

    /// Takes units, all or none. Prefers units from `near` on, then a single run, then several runs.
    pub fn take(&mut self, near: Option<u64>, units: u64) -> Option<Vec<Extent>> {
        if units > self.free {
            return None;
        }
        let mut found = Vec::new();
        let mut left = units;
        if let Some(start) = near.filter(|&start| start < self.units) {
            self.take_run(start, &mut left, &mut found);
        }
        if left > 0
            && let Some(start) = self.run_of(left)
        {
            self.take_run(start, &mut left, &mut found);
        }
        while left > 0 {
            let start = self.next_free(self.cursor).or_else(|| self.next_free(0));
            let start = start.expect("the caller checked that enough units are free");
            self.take_run(start, &mut left, &mut found);
        }
        Some(found)
    }

    /// Takes the free units from `start` on, at most `left`.
    fn take_run(&mut self, start: u64, left: &mut u64, found: &mut Vec<Extent>) {
        let units = self.run_at(start, *left);
        if units == 0 {
            return;
        }
        let extent = Extent { start, units };
        self.set(extent, true);
        self.cursor = start + units;
        *left -= units;
        found.push(extent);
    }

    /// Returns the first run of at least `units` free units, searching from the cursor and around.
    fn run_of(&self, units: u64) -> Option<u64> {
        let search = |from: u64, to: u64| {
            let mut at = from;
            while let Some(start) = self.next_free(at).filter(|&start| start < to) {
                let run = self.run_at(start, units);
                if run >= units {
                    return Some(start);
                }
                at = start + run;
            }
            None
        };
        search(self.cursor, self.units).or_else(|| search(0, self.cursor))
    }

    /// Returns the number of free units from `start` on, at most `most`.
    fn run_at(&self, start: u64, most: u64) -> u64 {
        let end = self.units.min(start.saturating_add(most));
        let taken = (start..end).find(|&unit| self.is_taken(unit));
        taken.unwrap_or(end) - start
    }

    fn next_free(&self, from: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        let below = (1u64 << (from % 64)) - 1;
        let words = self.taken.get(first..)?.iter().enumerate();
        words
            .map(|(at, &word)| (at, if at == 0 { word | below } else { word }))
            .find(|(_, word)| *word != u64::MAX)
            .map(|(at, word)| (first + at) as u64 * 64 + u64::from(word.trailing_ones()))
    }

    fn is_taken(&self, unit: u64) -> bool {
        self.taken[(unit / 64) as usize] >> (unit % 64) & 1 == 1
    }

    fn set(&mut self, extent: Extent, taken: bool) {
        for unit in extent.start..extent.start + extent.units {
            assert_ne!(
                self.is_taken(unit),
                taken,
                "a unit is taken once and given back once"
            );
            self.taken[(unit / 64) as usize] ^= 1 << (unit % 64);
        }
        match taken {
            true => self.free -= extent.units,
            false => self.free += extent.units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, units: u64) -> Extent {
        Extent { start, units }
    }

    #[test]
    fn space_is_taken_in_one_run_if_possible() {
        let mut space = Space::new(100);
        assert_eq!(space.take(None, 10), Some(vec![extent(0, 10)]));
        assert_eq!(space.take(Some(10), 5), Some(vec![extent(10, 5)]));
        assert!(space.claim(extent(20, 70)));
        assert_eq!(
            space.take(Some(15), 6),
            Some(vec![extent(15, 5), extent(90, 1)])
        );
        assert_eq!(space.free(), 9);
        space.free_units(extent(2, 4));
        assert_eq!(
            space.take(None, 12),
            Some(vec![extent(91, 9), extent(2, 3)])
        );
        assert_eq!(space.take(None, 2), None);
        assert_eq!(space.take(None, 1), Some(vec![extent(5, 1)]));
        assert_eq!(space.free(), 0);
    }

    #[test]
    fn listed_units_are_claimed_once_and_within_bounds() {
        for units in [1, 63, 64, 65, 130] {
            let mut space = Space::new(units);
            assert!(!space.claim(extent(0, units + 1)) && !space.claim(extent(u64::MAX, 2)));
            assert!(space.claim(extent(units - 1, 1)));
            assert!(!space.claim(extent(0, units)));
            assert_eq!(space.free(), units - 1);
        }
    }
}
