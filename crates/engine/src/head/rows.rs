//! Rows of each source, in four bytes for nearly all sources.

use crate::maps::HashMap;
use crate::retention::counts::Counts;

/// Number of rows of each source.
#[derive(Default)]
pub struct RowCounts {
    /// Lower 32 bits.
    low: Counts<u32>,
    /// Higher bits of sources with more rows.
    high: HashMap<u32, u32>,
}

impl RowCounts {
    /// Returns the number of rows of a source.
    pub fn get(&self, source: u32) -> u64 {
        let high = match self.high.is_empty() {
            true => 0,
            false => self.high.get(&source).copied().unwrap_or(0),
        };
        u64::from(high) << 32 | u64::from(self.low.get(source))
    }

    /// Sets the number of rows of a source. Returns the number before.
    pub fn set(&mut self, source: u32, rows: u64) -> u64 {
        let before = self.get(source);
        *self.low.of(source) = rows as u32;
        match (rows >> 32) as u32 {
            0 if self.high.is_empty() => {}
            0 => _ = self.high.remove(&source),
            high => _ = self.high.insert(source, high),
        }
        before
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.low.memory() + self.high.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_rows_is_counted() {
        let mut rows = RowCounts::default();
        assert_eq!(rows.get(5), 0);
        assert_eq!(rows.set(5, 7), 0);
        assert_eq!(rows.set(3, (1 << 40) + 9), 0);
        assert_eq!(
            (rows.get(3), rows.get(4), rows.get(5)),
            ((1 << 40) + 9, 0, 7)
        );
        assert_eq!(rows.set(3, 2), (1 << 40) + 9);
        assert_eq!(rows.set(3, 0), 2);
        assert_eq!(rows.set(5, u64::from(u32::MAX) + 1), 7);
        assert_eq!((rows.get(3), rows.get(5)), (0, 1 << 32));
    }
}
