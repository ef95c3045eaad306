//! Results of the benchmark as JSON, CSV and a table.

use super::cell::{Cell, Outcome};
use anyhow::Result;
use seiner_raid::BLOCK_BYTES;
use serde::Serialize;
use std::io::Write;

/// One combination and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Pattern: `random` or `sequential`.
    pub pattern: &'static str,
    /// Bytes per write.
    pub block_bytes: u64,
    /// Number of outstanding writes.
    pub depth: usize,
    /// Name of the strategy.
    pub merging: &'static str,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Number of writes answered.
    pub writes: u64,
    /// Rate of client writes, MB/s.
    pub mb_per_s: f64,
    /// Number of member operations per write.
    pub member_operations_per_write: f64,
    /// Number of bytes that members read and wrote per byte written.
    pub member_bytes_per_byte: f64,
    /// Number of whole stripes written.
    pub whole_stripes: u64,
    /// Number of writes of a part of a stripe.
    pub partial_stripes: u64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile of latency, µs.
    pub p99_us: f64,
}

impl Line {
    /// Creates the line of a measurement.
    pub fn new(cell: Cell, outcome: Outcome) -> Line {
        Line {
            pattern: cell.pattern.name(),
            block_bytes: cell.blocks * BLOCK_BYTES as u64,
            depth: cell.depth,
            merging: cell.merging.name(),
            seconds: outcome.seconds,
            writes: outcome.writes,
            mb_per_s: outcome.rate(),
            member_operations_per_write: outcome.operations(),
            member_bytes_per_byte: outcome.bytes(),
            whole_stripes: outcome.counters.full,
            partial_stripes: outcome.counters.partial,
            p50_us: outcome.p50 as f64 / 1e3,
            p99_us: outcome.p99 as f64 / 1e3,
        }
    }
}

/// Writes the results as JSON.
pub fn json(target: &str, lines: &[Line], out: &mut impl Write) -> Result<()> {
    let all = serde_json::json!({"members": target, "results": lines});
    Ok(writeln!(out, "{all:#}")?)
}

/// Writes the results as CSV.
pub fn csv(lines: &[Line], out: &mut impl Write) -> Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for line in lines {
        writer.serialize(line)?;
    }
    Ok(writer.flush()?)
}

/// Writes the results as a table.
pub fn table(target: &str, lines: &[Line], out: &mut impl Write) -> Result<()> {
    writeln!(out, "{target}")?;
    writeln!(
        out,
        "{:<12}{:>6}{:>9}{:>10}{:>12}{:>12}{:>10}{:>10}",
        "writes", "depth", "merging", "MB/s", "ops/write", "bytes/byte", "p50 us", "p99 us"
    )?;
    for line in lines {
        writeln!(
            out,
            "{:<12}{:>6}{:>9}{:>10.1}{:>12.2}{:>12.2}{:>10.0}{:>10.0}",
            line.pattern,
            line.depth,
            line.merging,
            line.mb_per_s,
            line.member_operations_per_write,
            line.member_bytes_per_byte,
            line.p50_us,
            line.p99_us
        )?;
    }
    Ok(())
}
