//! Rows of a distributed store: the interface that a cluster needs from Cassandra.
//!
//! A row belongs to a partition of a table. The rows of a partition are sorted by key, byte by byte. The distributed
//! store places partitions on nodes and replicates them; this crate knows neither.

use seiner_store::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a value, in bytes. Larger values fail on Cassandra's commit log.
pub const MAX_VALUE: usize = 8 << 20;

/// Number of replicas that must answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One replica. Available on both sides of a partition of the network.
    One,
    /// More than half of the replicas. A read sees every earlier write of this level, and every row that an earlier
    /// read of this level has seen, even if its write failed: the store repairs replicas before it answers.
    Quorum,
    /// All replicas. A read of any level sees every earlier write of this level.
    All,
}

/// Table to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// Name: lower-case letters, digits and underscores, at most 48, beginning with a letter. `SPACE.NAME` names a table
    /// in a space of its own, whose tables have another number of copies.
    pub name: String,
    /// Copies of the rows of a table in a space of its own. The first table of a space determines the number.
    pub copies: Option<u32>,
    /// Life of a row. `None`: rows live until they are removed.
    pub life: Option<Duration>,
    /// Length of a window of time whose rows share files, so that files die whole (*planing*). `None` for tables
    /// whose rows are replaced or removed one by one.
    pub window: Option<Duration>,
    /// True if the store should compress the rows. False for rows that are compressed already.
    pub is_compressed: bool,
}

impl TableSpec {
    /// Returns a table whose rows live until they are removed.
    pub fn lasting(name: impl Into<String>) -> TableSpec {
        TableSpec {
            name: name.into(),
            copies: None,
            life: None,
            window: None,
            is_compressed: false,
        }
    }

    /// Returns this table with rows that the store compresses.
    pub fn compressed(self) -> TableSpec {
        TableSpec {
            is_compressed: true,
            ..self
        }
    }
}

/// Row to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the table.
    pub table: Arc<str>,
    /// Key of the partition, 1 to 65,535 bytes.
    pub partition: Vec<u8>,
    /// Key of the row within its partition, at most 65,535 bytes.
    pub key: Vec<u8>,
    /// Value, at most [`MAX_VALUE`] bytes. Values of 64 KiB to 1 MiB cost least per byte.
    pub value: Vec<u8>,
    /// Life of the row, in whole seconds, instead of that of its table.
    pub life: Option<Duration>,
}

/// Selection of rows of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// Name of the table.
    pub table: &'a str,
    /// Key of the partition.
    pub partition: &'a [u8],
    /// First key, inclusive. Empty: from the first row.
    pub from: &'a [u8],
    /// Last key, exclusive. `None`: to the last row.
    pub to: Option<&'a [u8]>,
    /// Maximum number of rows, the first ones by key.
    pub limit: usize,
}

impl<'a> Range<'a> {
    /// Returns the selection of all rows of a partition.
    pub fn whole(table: &'a str, partition: &'a [u8]) -> Range<'a> {
        Range {
            table,
            partition,
            from: &[],
            to: None,
            limit: usize::MAX,
        }
    }
}

/// Read request among several ([`Rows::read_all`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Name of the table.
    pub table: Arc<str>,
    /// Key of the partition.
    pub partition: Vec<u8>,
    /// Selection of its rows.
    pub rows: Selection,
    /// Number of replicas that must answer.
    pub level: Level,
}

impl Reading {
    /// Returns the request for all rows of a partition, from more than half of the replicas.
    pub fn whole(table: &str, partition: &[u8]) -> Reading {
        Reading {
            table: table.into(),
            partition: partition.to_vec(),
            rows: Selection::All,
            level: Level::Quorum,
        }
    }
}

/// Rows of a [`Reading`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Row with this key, if it exists.
    One(Vec<u8>),
    /// All rows.
    All,
    /// Rows from a key on, and before another key.
    Between(Vec<u8>, Vec<u8>),
    /// Keys of all rows. The values are empty in the answer.
    Keys,
}

/// Key and value of a row.
pub type Found = (Vec<u8>, Vec<u8>);

/// Outcome of a conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The row had the expected value and has the new value now.
    Done,
    /// The row had this value instead (`None`: no row) and is unchanged.
    Found(Option<Vec<u8>>),
}

/// Error of a distributed store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// Too few replicas answered in time. A write may or may not have happened; repeating it is safe, except for a
    /// conditional write.
    #[error("too few replicas answered: {0}")]
    Unavailable(String),
    /// The store rejected the request; repeating it does not help.
    #[error("the distributed store rejected a request: {0}")]
    Rejected(String),
}

impl From<RowsError> for Error {
    /// Converts a failure of the distributed store behind a store of samples.
    fn from(error: RowsError) -> Error {
        let kind = match error {
            RowsError::Unavailable(_) => io::ErrorKind::TimedOut,
            RowsError::Rejected(_) => io::ErrorKind::Other,
        };
        Error::Io {
            context: "the distributed store".to_string(),
            error: io::Error::new(kind, error.to_string()),
        }
    }
}

/// Distributed store of rows. All methods block and may be called from any thread at the same time.
///
/// Rows that are written by [`Rows::swap`] must be written by no other method.
pub trait Rows: Send + Sync {
    /// Creates the tables that do not exist yet, and waits until all nodes know them.
    ///
    /// # Errors
    /// If a table exists with other columns, or too few nodes answer.
    fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError>;

    /// Returns the names of the tables, sorted, without those in spaces of their own.
    ///
    /// # Errors
    /// If no node answers.
    fn tables(&self) -> Result<Vec<String>, RowsError>;

    /// Writes rows, in any order and at the same time. A row with the keys of an existing row replaces it. On
    /// success, all rows are on enough replicas.
    ///
    /// # Errors
    /// If one row or more could not be written. Others may have been written.
    fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError>;

    /// Returns the value of a row, if the row exists.
    ///
    /// # Errors
    /// If too few replicas answer.
    fn read(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        level: Level,
    ) -> Result<Option<Vec<u8>>, RowsError>;

    /// Returns keys and values of rows, by key.
    ///
    /// # Errors
    /// If too few replicas answer.
    fn range(&self, range: &Range<'_>, level: Level) -> Result<Vec<Found>, RowsError>;

    /// Returns the keys of rows, in order. Cheaper than [`Rows::range`] if the values are large.
    ///
    /// # Errors
    /// If too few replicas answer.
    fn keys(&self, range: &Range<'_>, level: Level) -> Result<Vec<Vec<u8>>, RowsError> {
        let found = self.range(range, level)?.into_iter();
        Ok(found.map(|(key, _)| key).collect())
    }

    /// Answers several requests, in their order. A store may work on them at the same time.
    ///
    /// # Errors
    /// If too few replicas answer one of them.
    fn read_all(&self, readings: Vec<Reading>) -> Result<Vec<Vec<Found>>, RowsError> {
        let answers = readings.into_iter().map(|reading| {
            let (table, partition) = (&*reading.table, &*reading.partition);
            let (whole, level) = (Range::whole(table, partition), reading.level);
            match reading.rows {
                Selection::One(key) => {
                    let value = self.read(table, partition, &key, level)?;
                    Ok(value
                        .into_iter()
                        .map(|value| (key.clone(), value))
                        .collect())
                }
                Selection::All => self.range(&whole, level),
                Selection::Between(from, to) => {
                    let (from, to) = (&*from, Some(&*to));
                    self.range(&Range { from, to, ..whole }, level)
                }
                Selection::Keys => {
                    let keys = self.keys(&whole, level)?.into_iter();
                    Ok(keys.map(|key| (key, Vec::new())).collect())
                }
            }
        });
        answers.collect()
    }

    /// Removes a row, or with `None` all rows of a partition.
    ///
    /// # Errors
    /// If too few replicas answer. The rows may or may not be removed.
    fn remove(
        &self,
        table: &str,
        partition: &[u8],
        key: Option<&[u8]>,
        level: Level,
    ) -> Result<(), RowsError>;

    /// Replaces the value of a row if it is `expected` (`None`: if there is no row). All such writes of a partition
    /// have one order that every node agrees on.
    ///
    /// # Errors
    /// If too few replicas answer. The write may or may not have happened.
    fn swap(
        &self,
        table: &str,
        partition: &[u8],
        key: &[u8],
        expected: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Swap, RowsError>;

    /// Returns the keys of all partitions of a table, in no order. Reads the whole table; for checks and exports.
    ///
    /// # Errors
    /// If too few replicas answer.
    fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError>;
}
