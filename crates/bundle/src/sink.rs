//! Receivers of a chunk's numbers: histograms that count them, and the writer that encodes them.

use crate::ans::NumberWriter;
use crate::histogram::Histogram;

/// Receiver of numbers, each in the context of a table.
pub(crate) trait NumberSink {
    /// Takes a number.
    fn put(&mut self, table: usize, number: u64);

    /// Takes some numbers with their tables, `count` times in this order.
    fn put_repeated(&mut self, numbers: &[(usize, u64)], count: usize);
}

/// Histograms by table.
impl NumberSink for [Histogram] {
    #[inline(always)]
    fn put(&mut self, table: usize, number: u64) {
        self[table].add(number);
    }

    fn put_repeated(&mut self, numbers: &[(usize, u64)], count: usize) {
        for &(table, number) in numbers {
            self[table].add_repeated(number, count as u32);
        }
    }
}

impl NumberSink for NumberWriter<'_> {
    #[inline(always)]
    fn put(&mut self, table: usize, number: u64) {
        NumberWriter::put(self, table, number);
    }

    fn put_repeated(&mut self, numbers: &[(usize, u64)], count: usize) {
        if numbers.iter().all(|&(table, _)| self.is_free(table)) {
            return;
        }
        for _ in 0..count {
            for &(table, number) in numbers {
                NumberWriter::put(self, table, number);
            }
        }
    }
}
