//! Free numbers: numbers of runs that no longer exist, by the items that their places take.

use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// Maximum items by which the places may exceed a new run, beside its own length.
const SPARE: usize = 8;

/// Free numbers.
#[derive(Default)]
pub struct Free(BTreeMap<u32, RoaringBitmap>);

impl Free {
    /// Adds a number whose run has places for `capacity` items.
    pub fn put(&mut self, number: u32, capacity: usize) {
        self.0.entry(capacity as u32).or_default().insert(number);
    }

    /// Removes a number whose run has places for `capacity` items. Returns whether it was free.
    pub fn remove(&mut self, number: u32, capacity: usize) -> bool {
        let capacity = capacity as u32;
        let Some(numbers) = self.0.get_mut(&capacity) else {
            return false;
        };
        let found = numbers.remove(number);
        if numbers.is_empty() {
            self.0.remove(&capacity);
        }
        found
    }

    /// Removes and returns the lowest number with the fewest places that fit a run.
    pub fn take(&mut self, len: usize) -> Option<u32> {
        let (least, most) = (len as u32, (2 * len + SPARE) as u32);
        let (&capacity, numbers) = self.0.range_mut(least..=most).next()?;
        let number = numbers.min().expect("empty sets are removed");
        numbers.remove(number);
        if numbers.is_empty() {
            self.0.remove(&capacity);
        }
        Some(number)
    }

    /// Returns whether no number is free.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the approximate memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.0.values().map(RoaringBitmap::serialized_size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_number_with_places_that_fit_is_taken() {
        let mut free = Free::default();
        for (number, capacity) in [(5, 10), (3, 10), (9, 12), (1, 100)] {
            free.put(number, capacity);
        }
        let taken: Vec<_> = [10, 11, 9, 11, 40, 90].map(|len| free.take(len)).into();
        assert_eq!(taken, [Some(3), Some(9), Some(5), None, None, Some(1)]);
        assert!(free.is_empty() && free.take(0).is_none());
        free.put(7, 2);
        assert!(!free.remove(7, 3) && !free.remove(6, 2));
        assert!(free.remove(7, 2) && free.is_empty());
    }
}
