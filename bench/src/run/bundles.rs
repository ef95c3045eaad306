//! `bundles`: size and speed of the block format for few rows each of many sources.

mod measure;
mod shapes;

use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::Result;
use clap::Args;
use measure::{Measured, measure};
use serde_json::json;
use shapes::{Shape, Sources};

/// Settings of `bundles`.
#[derive(Args)]
pub struct BundlesSettings {
    /// Samples of each case
    #[arg(long, default_value_t = 1 << 20)]
    samples: usize,
    /// Runs of each case; the shortest times count
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Size at which a bundle is encoded, in bytes.
const BUNDLE: usize = 256 << 10;
/// Size of the bundle out of which one source is read, in bytes.
const LARGE_BUNDLE: usize = 1 << 20;
/// Rows per source of the cases with the benchmarks' gauges.
const ROWS: [usize; 7] = [1, 2, 3, 5, 10, 30, 100];
/// Rows per source of all other cases.
const OTHER_ROWS: [usize; 4] = [1, 2, 10, 100];
/// Demanded bytes per sample, by rows per source.
const BYTES: [(usize, f64); 4] = [(1, 1.75), (2, 1.3), (10, 0.90), (100, 0.78)];
/// Demanded ns of encoding per sample, by rows per source.
const ENCODE_NS: [(usize, f64); 2] = [(1, 80.0), (10, 40.0)];
/// Demanded µs of reading one source with the directory of a bundle of 1 MiB.
const ONE_SOURCE_US: f64 = 50.0;
/// Demanded bytes that are read for one source.
const ONE_SOURCE_BYTES: f64 = 8.0 * 1024.0;

const PURPOSE: &str = "Few rows each of many sources, in bundles of 256 KiB with chunks of 2,500 samples. Bytes include \
    directories. Times are processor time of one thread. Encoding includes the copy of each source's rows from flat columns. \
    One source is read out of a bundle of 1 MiB: its chunk is decoded, with the directory parsed before and after.";

/// Runs the benchmark.
pub fn run(settings: &BundlesSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("bundles", PURPOSE);
    report.notes.push(format!(
        "{} samples of each case, best of {} runs",
        settings.samples, settings.runs
    ));
    let mut gauges = Vec::new();
    for rows in ROWS {
        eprintln!("gauges, {rows} rows");
        let sources = Sources::new(Shape::Gauges, rows, settings.samples);
        let encoded = measure(&sources, BUNDLE, settings.runs)?;
        let read = measure(&sources, LARGE_BUNDLE, settings.runs)?;
        gauges.push(Measured {
            one_bytes: read.one_bytes,
            one_us: read.one_us,
            one_cold_us: read.one_cold_us,
            ..encoded
        });
    }
    let mut others = Vec::new();
    for shape in Shape::OTHERS {
        for rows in OTHER_ROWS {
            eprintln!("{}, {rows} rows", shape.name());
            let sources = Sources::new(shape, rows, settings.samples / 4);
            others.push(measure(&sources, BUNDLE, settings.runs.min(2))?);
        }
    }
    report.tables.push(speeds(&gauges));
    report.tables.push(sizes(&others));
    report.checks = checks(&gauges);
    report.measured = json!({ "gauges": gauges, "others": others });
    report.finish(places)
}

fn speeds(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Gauges with one or two decimals, exact clock",
        &[
            "rows a source",
            "bytes a sample",
            "of it directory",
            "encode ns",
            "decode ns",
            "one source: bytes",
            "µs",
            "µs with directory",
        ],
    );
    for one in measured {
        table.rows.push(vec![
            one.rows.to_string(),
            format!("{:.3}", one.bytes),
            format!("{:.4}", one.directory_bytes),
            short(one.encode_ns),
            short(one.decode_ns),
            one.one_bytes.to_string(),
            short(one.one_us),
            short(one.one_cold_us),
        ]);
    }
    table
}

/// Returns the sizes of the other cases, one row per case.
fn sizes(measured: &[Measured]) -> Table {
    let rows = OTHER_ROWS.map(|rows| format!("{rows} rows: bytes"));
    let times = OTHER_ROWS.map(|rows| format!("{rows} rows: encode ns"));
    let columns: Vec<&str> = std::iter::once("case")
        .chain(rows.iter().map(String::as_str))
        .chain(times.iter().map(String::as_str))
        .collect();
    let mut table = Table::new(
        "Other clocks (bytes a row), fields and types (bytes a sample)",
        &columns,
    );
    for case in measured.chunks(OTHER_ROWS.len()) {
        let mut row = vec![case[0].case.clone()];
        row.extend(case.iter().map(|one| format!("{:.3}", one.bytes)));
        row.extend(case.iter().map(|one| short(one.encode_ns)));
        table.rows.push(row);
    }
    table
}

fn checks(gauges: &[Measured]) -> Vec<Check> {
    let of = |rows: usize| gauges.iter().find(|one| one.rows == rows);
    let mut checks = Vec::new();
    let mut at_most = |name: String, value: Option<f64>, bound: f64, unit: &str| {
        checks.push(Check::new(name, value, Relation::AtMost, Some(bound), unit));
    };
    for (rows, bound) in BYTES {
        let value = of(rows).map(|one| one.bytes);
        at_most(
            format!("{rows} rows a source"),
            value,
            bound,
            "bytes a sample",
        );
    }
    for (rows, bound) in ENCODE_NS {
        let value = of(rows).map(|one| one.encode_ns);
        at_most(
            format!("encode, {rows} rows a source"),
            value,
            bound,
            "ns a sample",
        );
    }
    for rows in ROWS {
        let value = of(rows).map(|one| one.one_cold_us);
        let name = format!("one source of {rows} rows, with the directory of 1 MiB");
        at_most(name, value, ONE_SOURCE_US, "µs");
    }
    let most = gauges.iter().map(|one| one.one_bytes as f64);
    let most = most.fold(None, |most: Option<f64>, bytes| {
        Some(most.unwrap_or(0.0).max(bytes))
    });
    let name = "one source: directory and chunk".to_string();
    at_most(name, most, ONE_SOURCE_BYTES, "bytes");
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_return_their_rows_and_meet_the_sizes() {
        for (rows, bound) in BYTES {
            let sources = Sources::new(Shape::Gauges, rows, 60_000);
            let measured = measure(&sources, BUNDLE, 1).unwrap();
            assert!(measured.bytes <= bound, "{rows} rows: {}", measured.bytes);
        }
        for shape in Shape::OTHERS {
            let sources = Sources::new(shape, 7, 3_000);
            let measured = measure(&sources, BUNDLE, 1).unwrap();
            assert!(
                measured.bytes < 10.0,
                "{}: {}",
                shape.name(),
                measured.bytes
            );
        }
        let checks = checks(&[]);
        assert!(checks.iter().all(|check| !check.holds));
    }
}
