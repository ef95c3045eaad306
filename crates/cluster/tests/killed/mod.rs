//! Rows whose client is killed after some writes, or which do not answer for some requests.

use seiner_cluster::{Found, Level, Range, Row, Rows, RowsError, Swap, TableSpec};
use std::ops::Range as Numbers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Distributed store that accepts some rows, and then nothing.
pub struct Killed {
    rows: Arc<dyn Rows>,
    limit: AtomicU64,
    writes: AtomicU64,
    requests: AtomicU64,
    /// Numbers of the requests that get no answer.
    outage: Mutex<Numbers<u64>>,
}

#[allow(dead_code, reason = "each test uses a part")]
impl Killed {
    /// Returns a store that accepts a number of rows.
    pub fn after(rows: Arc<dyn Rows>, limit: u64) -> Arc<Killed> {
        Arc::new(Killed {
            rows,
            limit: AtomicU64::new(limit),
            writes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            outage: Mutex::new(0..0),
        })
    }

    /// Makes `count` requests fail after `first` more requests.
    pub fn interrupt(&self, first: u64, count: u64) {
        let from = self.requests() + first;
        *self.outage.lock().unwrap() = from..from + count;
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Changes the number of rows that the store accepts.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::SeqCst);
    }

    /// Returns the number of rows written or removed.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    fn request(&self) -> Result<(), RowsError> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        match self.outage.lock().unwrap().contains(&number) {
            true => Err(RowsError::Unavailable("no replica answers".to_string())),
            false => Ok(()),
        }
    }

    fn write_one(&self) -> Result<(), RowsError> {
        self.request()?;
        match self.writes() < self.limit.load(Ordering::SeqCst) {
            true => {
                self.writes.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            false => Err(RowsError::Unavailable("the client was killed".to_string())),
        }
    }
}

impl Rows for Killed {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        self.request()?;
        self.rows.create(tables)
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        self.rows.tables()
    }

    fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
        for row in rows {
            self.write_one()?;
            self.rows.write(vec![row], level)?;
        }
        Ok(())
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        self.request()?;
        self.rows.read(table, partition, key, level)
    }

    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<Found>, RowsError> {
        self.request()?;
        self.rows.range(range, level)
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError> {
        self.write_one()?;
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
        self.write_one()?;
        self.rows.swap(table, partition, key, expected, value)
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.rows.partitions(table)
    }
}
