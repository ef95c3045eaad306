//! RocksDB as an external reference: one key per sample, sensor and time in big-endian order.
//! Settings are RocksDB's defaults, except for one compaction thread per processor and LZ4.

use super::rows::{AT_ONCE, Table};
use super::{Portion, Store};
use crate::error::Result;
use crate::write::Write;
use anyhow::Context;
use rocksdb::{DB, DBCompressionType, Options, WriteBatch, WriteOptions};
use std::path::PathBuf;

/// A RocksDB store of samples.
pub struct Rocks {
    db: DB,
    table: Table,
    is_synced: bool,
}

impl Rocks {
    /// Makes the store.
    ///
    /// # Errors
    /// RocksDB cannot open the store.
    pub fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Rocks> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.increase_parallelism(processors as i32);
        options.set_compression_type(DBCompressionType::Lz4);
        Ok(Rocks {
            db: DB::open(&options, directories[0].join("samples.rocksdb")).context("RocksDB")?,
            table: Table::new(settings, sensors),
            is_synced: settings.is_synced,
        })
    }
}

impl Store for Rocks {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let mut batch = WriteBatch::default();
        for row in self.table.rows(portion) {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&row.sensor.to_be_bytes());
            key[8..].copy_from_slice(&row.time.to_be_bytes());
            batch.put(key, row.value.to_le_bytes());
        }
        let mut options = WriteOptions::default();
        options.set_sync(self.is_synced);
        self.db.write_opt(batch, &options).context("RocksDB")?;
        Ok(self.table.bytes(portion))
    }

    fn stride(&self) -> u64 {
        AT_ONCE
    }

    fn lap_bytes(&self) -> u64 {
        self.table.lap_bytes()
    }
}
