//! SQLite as an external reference: a table of samples with the key (sensor, time). As SQLite's
//! documentation recommends for many inserts, the store uses a write-ahead log and many rows per
//! transaction.

use super::rows::{AT_ONCE, Table};
use super::{Portion, Store};
use crate::error::Result;
use crate::write::Write;
use anyhow::Context;
use rusqlite::{Connection, params};
use std::path::PathBuf;
use std::sync::Mutex;

/// A table of samples.
pub struct Sqlite {
    connection: Mutex<Connection>,
    table: Table,
}

impl Sqlite {
    /// Creates the table.
    ///
    /// # Errors
    /// SQLite cannot create the table.
    pub fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Sqlite> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(directories[0].join("samples.sqlite"))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            let synchronous = if settings.is_synced { "FULL" } else { "NORMAL" };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.execute_batch(
                "CREATE TABLE sample (sensor INTEGER, time INTEGER, value REAL, \
                 PRIMARY KEY (sensor, time)) WITHOUT ROWID",
            )?;
            Ok(connection)
        };
        Ok(Sqlite {
            connection: Mutex::new(open().context("SQLite")?),
            table: Table::new(settings, sensors),
        })
    }
}

impl Store for Sqlite {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let mut connection = self
            .connection
            .lock()
            .expect("no thread panics while it holds the connection");
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction
                    .prepare_cached("INSERT OR REPLACE INTO sample VALUES (?1, ?2, ?3)")?;
                for row in self.table.rows(portion) {
                    insert.execute(params![row.sensor as i64, row.time, row.value])?;
                }
            }
            transaction.commit()
        };
        write().context("SQLite")?;
        Ok(self.table.bytes(portion))
    }

    fn stride(&self) -> u64 {
        AT_ONCE
    }

    fn lap_bytes(&self) -> u64 {
        self.table.lap_bytes()
    }
}
