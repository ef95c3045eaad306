//! SQLite as an outside reference: a table of samples with (sensor, time) as its key, written as its
//! documentation advises where much is inserted: a write-ahead log, many rows a transaction.

use super::{Portion, Store};
use crate::error::Result;
use crate::write::{SAMPLE_BYTES, Write};
use anyhow::Context;
use rusqlite::{Connection, params};
use std::path::PathBuf;
use std::sync::Mutex;

/// Rows of a transaction.
const ROWS: u64 = 1024;
/// The first time of all sensors, s; and the step between samples of one.
const FIRST_TIME: i64 = 1_700_000_000;
const STEP: i64 = 10;

/// A table of samples.
pub struct Sqlite {
    connection: Mutex<Connection>,
    sensors: u64,
    kept: u64,
}

impl Sqlite {
    /// Makes the table.
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
        // A row takes about twice its sample; what does not fit is overwritten, as in a ring.
        let kept = settings.room_bytes / (3 * SAMPLE_BYTES * sensors);
        Ok(Sqlite {
            connection: Mutex::new(open().context("SQLite")?),
            sensors,
            kept: kept.max(1),
        })
    }
}

impl Store for Sqlite {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let mut connection = self.connection.lock().expect("no writer panics with it");
        // Few sensors hand over several samples each, so that transactions are not what is measured.
        let turns = (ROWS / self.sensors).max(1);
        let words = portion.contents.chunks_exact(8).cycle();
        let mut values = words.skip(portion.content / 8).map(value);
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction
                    .prepare_cached("INSERT OR REPLACE INTO sample VALUES (?1, ?2, ?3)")?;
                for turn in portion.turn * turns..(portion.turn + 1) * turns {
                    let time = FIRST_TIME + (turn % self.kept) as i64 * STEP;
                    for sensor in portion.first..portion.first + portion.count {
                        let value = values.next().unwrap_or(0.0);
                        insert.execute(params![sensor as i64, time, value])?;
                    }
                }
            }
            transaction.commit()
        };
        write().context("SQLite")?;
        Ok(portion.count * turns * SAMPLE_BYTES)
    }

    fn stride(&self) -> u64 {
        ROWS
    }

    fn lap_bytes(&self) -> u64 {
        self.sensors * SAMPLE_BYTES
    }
}

/// A reading with one decimal, anywhere between 0 and 1000.
fn value(word: &[u8]) -> f64 {
    let bits = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    (bits % 10_000) as f64 / 10.0
}
