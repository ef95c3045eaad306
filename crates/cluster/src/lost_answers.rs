//! Rows in memory whose answers are lost on request, for tests.

use crate::memory::MemoryRows;
use crate::rows::{Found, Level, Range, Row, Rows, RowsError, Swap, TableSpec};
use std::sync::Mutex;

/// Rows in memory. Writes of a chosen partition take effect, and fail.
#[derive(Default)]
pub(crate) struct LostAnswers {
    rows: MemoryRows,
    /// Partition, and number of writes that will fail.
    lost: Mutex<(Vec<u8>, u32)>,
}

impl LostAnswers {
    /// Makes the next writes of a partition fail after their effect.
    pub fn lose(&self, partition: &[u8], count: u32) {
        *self.lost.lock().unwrap() = (partition.to_vec(), count);
    }

    fn answer<T>(&self, partition: &[u8], answer: T) -> Result<T, RowsError> {
        let mut lost = self.lost.lock().unwrap();
        if lost.1 > 0 && lost.0 == partition {
            lost.1 -= 1;
            return Err(RowsError::Unavailable("the answer was lost".to_string()));
        }
        Ok(answer)
    }
}

impl Rows for LostAnswers {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        self.rows.create(tables)
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.rows.tables()
    }

    fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        let partition = rows.first().map(|row| row.partition.clone());
        self.rows.write(rows, level)?;
        self.answer(&partition.unwrap_or_default(), ())
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        self.rows.read(table, partition, key, level)
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<Found>, RowsError> {
        self.rows.range(range, level)
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        self.rows.remove(table, partition, key, level)
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        let swap = self.rows.swap(table, partition, key, expected, value)?;
        self.answer(partition, swap)
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.rows.partitions(table)
    }
}
