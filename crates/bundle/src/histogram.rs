//! Counts of tokens, and the bytes that they will take.

use crate::token::{FINE, TOKENS};

/// Approximate bits that a table takes in the directory, and per token in use.
const TABLE_BITS: f32 = 40.0;
const ENTRY_BITS: f32 = 3.8;

/// Number of times that each fine token occurs.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Box<[u32; TOKENS]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: Box::new([0; TOKENS]),
        }
    }
}

impl Histogram {
    /// Counts a number.
    #[inline(always)]
    pub(crate) fn add(&mut self, number: u64) {
        self.counts[FINE.token(number).0] += 1;
    }

    /// Counts a number that occurs `count` times.
    pub(crate) fn add_repeated(&mut self, number: u64, count: u32) {
        self.counts[FINE.token(number).0] += count;
    }

    /// Adds the counts of another histogram.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (count, other) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += other;
        }
    }

    /// Returns the number of times that each token occurs.
    pub(crate) fn counts(&self) -> &[u32; TOKENS] {
        &self.counts
    }

    /// Returns the sum of the counts.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the approximate bits of the numbers, without the table.
    pub(crate) fn bits(&self) -> f32 {
        let total = self.total() as f32;
        let log_total = total.max(1.0).log2();
        let mut bits = 0.0;
        for (token, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let count = count as f32;
            bits += count * (log_total - count.log2() + FINE.start(token).1 as f32);
        }
        bits
    }

    /// Returns the approximate bits of the table in the directory.
    pub(crate) fn table_bits(&self) -> f32 {
        let used = self.counts.iter().filter(|count| **count > 0).count();
        match used {
            0 => 0.0,
            1 => 16.0,
            used => TABLE_BITS + ENTRY_BITS * used as f32,
        }
    }
}

/// Returns the bits that tell apart things that occur so often.
pub(crate) fn entropy(counts: impl Iterator<Item = u32> + Clone) -> f32 {
    let total: u64 = counts.clone().map(u64::from).sum();
    let log_total = (total.max(1) as f32).log2();
    counts
        .filter(|&count| count > 0)
        .map(|count| count as f32 * (log_total - (count as f32).log2()))
        .sum()
}
