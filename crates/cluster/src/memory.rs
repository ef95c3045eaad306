//! Rows in memory, for tests.

use crate::rows::{Level, MAX_VALUE, Range, Row, Rows, RowsError, Swap, TableSpec};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard};

/// Rows by partition and key.
type Partitions = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Distributed store with one node, in memory. Rows never expire.
#[derive(Default)]
pub struct MemoryRows {
    tables: Mutex<BTreeMap<String, Partitions>>,
}

impl MemoryRows {
    /// Returns a store without tables.
    pub fn new() -> MemoryRows {
        MemoryRows::default()
    }

    fn tables_locked(&self) -> MutexGuard<'_, BTreeMap<String, Partitions>> {
        self.tables
            .lock()
            .expect("no thread panics while it holds the tables")
    }

    /// Calls a function with the partitions of a table.
    fn with<T>(&self, table: &str, act: impl FnOnce(&mut Partitions) -> T) -> Result<T, RowsError> {
        match self.tables_locked().get_mut(table) {
            Some(partitions) => Ok(act(partitions)),
            None => Err(RowsError::Rejected(format!("there is no table {table}"))),
        }
    }
}

impl Rows for MemoryRows {
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
        let mut existing = self.tables_locked();
        for table in tables {
            existing.entry(table.name.clone()).or_default();
        }
        Ok(())
    }

    fn tables(&self) -> Result<Vec<String>, RowsError> {
        Ok(self.tables_locked().keys().cloned().collect())
    }

    fn write(&self, rows: Vec<Row>, _level: Level) -> Result<(), RowsError> {
        for row in rows {
            if row.value.len() > MAX_VALUE {
                let text = format!(
                    "a value has {} bytes of at most {MAX_VALUE}",
                    row.value.len()
                );
                return Err(RowsError::Rejected(text));
            }
            self.with(&row.table, |partitions| {
                let rows = partitions.entry(row.partition).or_default();
                rows.insert(row.key, row.value);
            })?;
        }
        Ok(())
    }

    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        _level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError> {
        self.with(table, |partitions| {
            partitions.get(partition)?.get(key).cloned()
        })
    }

    fn range(
        &self,
        range: &Range<'_>,
        _level: Level,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, RowsError> {
        self.with(range.table, |partitions| {
            let Some(rows) = partitions.get(range.partition) else {
                return Vec::new();
            };
            let from = rows.range(range.from.to_vec()..);
            from.take_while(|(key, _)| range.to.is_none_or(|to| key.as_slice() < to))
                .take(range.limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }

    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        _level: Level,
    ) -> Result<(), RowsError> {
        self.with(table, |partitions| match key {
            None => drop(partitions.remove(partition)),
            Some(key) => {
                if let Entry::Occupied(mut rows) = partitions.entry(partition.to_vec()) {
                    rows.get_mut().remove(key);
                    if rows.get().is_empty() {
                        rows.remove();
                    }
                }
            }
        })
    }

    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError> {
        self.with(table, |partitions| {
            let found = partitions.get(partition).and_then(|rows| rows.get(key));
            if found.map(Vec::as_slice) != expected {
                return Swap::Found(found.cloned());
            }
            let rows = partitions.entry(partition.to_vec()).or_default();
            rows.insert(key.to_vec(), value.to_vec());
            Swap::Done
        })
    }

    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
        self.with(table, |partitions| partitions.keys().cloned().collect())
    }
}
