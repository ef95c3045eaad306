//! One of two tables that are compared.

use anyhow::{Result, ensure};
use seiner_cassandra::local::LocalCluster;
use seiner_cassandra::{CassandraRows, Compaction, Replication};
use seiner_cluster::{Level, Row, Rows, TableSpec};
use seiner_random::SplitMixRng;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the tables.
pub const TABLE: &str = "blocks";
/// Partitions of a table, as shelves of bundles.
const SHELVES: u64 = 16;
/// Reads of a measurement.
const READS: usize = 500;

/// Table with one compaction, in a keyspace of its own.
pub struct Side {
    pub name: &'static str,
    pub keyspace: &'static str,
    /// Bytes of keys and values that were written.
    pub user_bytes: u64,
    rows: CassandraRows,
    /// Number of the next row.
    next: u64,
    /// Folder of the files of the keyspace.
    folder: PathBuf,
}

/// Times of reads.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reads {
    /// Rows that were not found.
    pub missing: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Returns the table.
pub fn spec(life: Duration, window: Duration) -> TableSpec {
    TableSpec {
        name: TABLE.to_string(),
        copies: None,
        life: Some(life),
        window: Some(window),
        is_compressed: false,
    }
}

impl Side {
    /// Creates the table.
    pub fn create(
        name: &'static str,
        compaction: Compaction,
        nodes: &LocalCluster,
        folder: &Path,
        spec: &TableSpec,
    ) -> Result<Side> {
        let keyspace = match compaction {
            Compaction::Windows => "windows",
            Compaction::Fisherman => "fisherman",
        };
        let mut contact = nodes.contact(keyspace);
        contact.compaction = compaction;
        let rows = CassandraRows::connect(contact, Replication { factor: 1 })?;
        rows.create(std::slice::from_ref(spec))?;
        Ok(Side {
            name,
            keyspace,
            user_bytes: 0,
            rows,
            next: 0,
            folder: folder.join("nodes/node1/data").join(keyspace),
        })
    }

    /// Writes the next rows.
    pub fn write(&mut self, count: usize, value: &[u8]) -> Result<()> {
        let table: Arc<str> = TABLE.into();
        let numbers = self.next..self.next + count as u64;
        self.next = numbers.end;
        let rows: Vec<Row> = numbers
            .map(|number| Row {
                table: table.clone(),
                partition: partition(number),
                key: number.to_be_bytes().to_vec(),
                value: value.to_vec(),
                life: None,
            })
            .collect();
        let bytes = rows
            .iter()
            .map(|row| row.partition.len() + row.key.len() + row.value.len());
        self.user_bytes += bytes.sum::<usize>() as u64;
        Ok(self.rows.write(rows, Level::One)?)
    }

    /// Returns bytes and number of the files of the table.
    pub fn disk(&self) -> (u64, usize) {
        let (mut bytes, mut files) = (0, 0);
        for table in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            for file in fs::read_dir(table.path()).into_iter().flatten().flatten() {
                // A file may disappear between the list and the look.
                if let Ok(metadata) = file.metadata()
                    && metadata.is_file()
                {
                    bytes += metadata.len();
                    let name = file.file_name();
                    files += usize::from(name.to_string_lossy().ends_with("-Data.db"));
                }
            }
        }
        (bytes, files)
    }

    /// Reads some of the latest rows, whose values have this size.
    pub fn reads(&self, latest: u64, size: usize) -> Result<Reads> {
        let mut random = SplitMixRng::new(11);
        let oldest = self.next.saturating_sub(latest);
        ensure!(self.next > oldest, "no row was written");
        let mut missing = 0;
        let mut times = Vec::with_capacity(READS);
        for _ in 0..READS {
            let number = random.between(oldest, self.next - 1);
            let (partition, key) = (partition(number), number.to_be_bytes());
            let start = Instant::now();
            let value = self.rows.read(TABLE, &partition, &key, Level::One)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            missing += usize::from(value.is_none_or(|value| value.len() != size));
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Ok(Reads {
            missing,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
        })
    }
}

fn partition(number: u64) -> Vec<u8> {
    (number % SHELVES).to_be_bytes().to_vec()
}
