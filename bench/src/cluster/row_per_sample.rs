//! Rival: a schema with one row per sample, as KairosDB has it.
//!
//! A row of Cassandra is a sample: the partition is the series and its day, the key is the time within it, and the value
//! is the number. The client groups the samples of a series into batches and keeps many requests in flight, through the
//! same driver as our ports. It has no journal, so it does less than our ports do.

use crate::workload::{Gauge, SENSORS_PER_HOST, Workload, tags, time};
use anyhow::Result;
use seiner_cassandra::CassandraRows;
use seiner_cluster::{Level, Range, Row, Rows, TableSpec};
use std::sync::Arc;
use std::time::Duration;

/// Name of the table.
const TABLE: &str = "data_points";
/// Life of a sample.
const LIFE: Duration = Duration::from_secs(365 * 86_400);
/// Length of a window of the table.
const WINDOW: Duration = Duration::from_secs(15 * 86_400);
/// Samples of a series that the client keeps until it writes them as a batch.
const BATCH: u32 = 10;
/// Rows of one call of the driver, which keeps 32 requests in flight.
const ROWS: usize = 20_000;

/// Table with one row per sample.
pub struct RowPerSample {
    rows: CassandraRows,
}

impl RowPerSample {
    /// Creates the table in the keyspace of a connection.
    pub fn create(rows: CassandraRows) -> Result<RowPerSample> {
        rows.create(&[TableSpec {
            name: TABLE.to_string(),
            copies: None,
            life: Some(LIFE),
            window: Some(WINDOW),
            is_compressed: true,
        }])?;
        Ok(RowPerSample { rows })
    }

    /// Writes all samples of a workload with one field.
    pub fn load(&self, workload: &Workload) -> Result<()> {
        let mut rows = Vec::with_capacity(ROWS);
        let mut gauges: Vec<Gauge> = (0..workload.sources).map(Gauge::new).collect();
        let table: Arc<str> = TABLE.into();
        for first in (0..workload.ticks).step_by(BATCH as usize) {
            for (source, gauge) in gauges.iter_mut().enumerate() {
                let (host, sensor) = place(source as u32);
                let partition = partition(host, sensor);
                for tick in first..workload.ticks.min(first + BATCH) {
                    rows.push(Row {
                        table: table.clone(),
                        partition: partition.clone(),
                        key: key(time(host, workload.first_tick + tick)),
                        value: gauge.value().to_be_bytes().to_vec(),
                        life: None,
                    });
                }
                if rows.len() >= ROWS {
                    self.rows.write(std::mem::take(&mut rows), Level::Quorum)?;
                }
            }
        }
        Ok(self.rows.write(rows, Level::Quorum)?)
    }

    /// Returns the number of samples of a series between two times.
    pub fn read(&self, host: u32, sensor: u32, (from, to): (i64, i64)) -> Result<usize> {
        let partition = partition(host, sensor);
        let (from, to) = (key(from), key(to));
        let range = Range {
            table: TABLE,
            partition: &partition,
            from: &from,
            to: Some(&to),
            limit: usize::MAX,
        };
        Ok(self.rows.range(&range, Level::Quorum)?.len())
    }
}

/// Returns host and sensor of a source.
fn place(source: u32) -> (u32, u32) {
    (source / SENSORS_PER_HOST, source % SENSORS_PER_HOST)
}

/// Returns the key of a partition: the series. All workloads are shorter than KairosDB's rows of three weeks.
fn partition(host: u32, sensor: u32) -> Vec<u8> {
    let mut text = "gauge.value".to_string();
    for (name, value) in tags(host, sensor) {
        text.push_str(&format!(":{name}={value}"));
    }
    text.into_bytes()
}

/// Returns the key of a row, in the order of times: milliseconds within a row of three weeks, as KairosDB has it.
fn key(time: i64) -> Vec<u8> {
    const ROW_MS: i64 = 3 * 7 * 86_400_000;
    let ms = (time / 1_000_000).rem_euclid(ROW_MS);
    // At most 31 bits.
    (ms as u32).to_be_bytes().to_vec()
}
