//! Size and speed of every codec, on recorded data and on random walks.
//!
//! `cargo run --release -p seiner-codec --example measure -- DIRECTORY` reads each `*.csv.gz` in the
//! directory: a header, then rows of an optional `series`, an integer `ts` and value columns. An empty
//! cell is a missing value. Without a directory only the walks are measured. The reference (`varint`)
//! is the common method: mantissas, differences, variable-length bytes, zstd level 1.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use seiner_codec::{Effort, decode_column, decode_times, encode_column, encode_times, varint};
use seiner_model::{Column, FieldType};

const BLOCKS: [usize; 4] = [10, 100, 512, 2048];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:<22}{:>6}{:>9}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}",
        "values", "block", "varint", "fast", "best", "enc M/s", "dec M/s", "best e", "best d"
    );
    for (name, step, scale) in [
        ("walk 1 dec, sd 3", 3.0, 1),
        ("walk 2 dec, sd 8", 8.0, 2),
        ("walk 2 dec, sd 25", 25.0, 2),
        ("walk 2 dec, sd 300", 300.0, 2),
        ("walk 3 dec, sd 5000", 5000.0, 3),
        ("noise 1 dec, sd 20", -20.0, 1),
    ] {
        let walk = walk(step, scale, 65_536);
        BLOCKS
            .iter()
            .for_each(|&block| measure(name, std::slice::from_ref(&walk), block));
    }
    let Some(directory) = std::env::args().nth(1) else {
        return Ok(());
    };
    let mut paths: Vec<_> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(".csv.gz"));
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace(".csv.gz", "");
        let (times, columns) = load(&path)?;
        for block in BLOCKS {
            measure(&name, &columns, block);
        }
        for block in BLOCKS {
            measure_times(&name, &times, block);
        }
    }
    Ok(())
}

/// Times of each series, and values of each series and column.
type Recording = (Vec<Vec<i64>>, Vec<Vec<f64>>);

fn load(path: &Path) -> Result<Recording, Box<dyn std::error::Error>> {
    let mut reader = csv::Reader::from_reader(GzDecoder::new(File::open(path)?));
    let headers = reader.headers()?.clone();
    let unit = unit_of(path);
    let (mut times, mut columns) = (
        BTreeMap::<_, Vec<i64>>::new(),
        BTreeMap::<_, Vec<f64>>::new(),
    );
    for row in reader.records() {
        let row = row?;
        let series = if &headers[0] == "series" {
            row[0].to_string()
        } else {
            String::new()
        };
        for (name, cell) in headers
            .iter()
            .zip(&row)
            .filter(|(name, cell)| *name != "series" && !cell.is_empty())
        {
            if name == "ts" {
                times
                    .entry(series.clone())
                    .or_default()
                    .push(cell.parse::<i64>()? * unit);
            } else {
                columns
                    .entry((series.clone(), name.to_string()))
                    .or_default()
                    .push(cell.parse()?);
            }
        }
    }
    Ok((
        times.into_values().collect(),
        columns.into_values().collect(),
    ))
}

/// Returns the nanoseconds per tick of a recording's clock.
fn unit_of(path: &Path) -> i64 {
    match path.to_string_lossy() {
        name if name.contains("collectd") => 1_000_000,
        name if name.contains("oxford") || name.contains("gps") => 1,
        _ => 1_000_000_000,
    }
}

/// Returns a random walk with `scale` decimals and normal steps; with a negative deviation, noise.
fn walk(deviation: f64, scale: i32, length: usize) -> Vec<f64> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut mantissa = 21_000i64;
    (0..length)
        .map(|_| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let change = (normal * deviation).round() as i64;
            mantissa = if deviation < 0.0 {
                21_000 + change
            } else {
                mantissa + change
            };
            mantissa as f64 / 10f64.powi(scale)
        })
        .collect()
}

fn measure(name: &str, columns: &[Vec<f64>], block: usize) {
    let blocks: Vec<Column> = columns
        .iter()
        .flat_map(|column| column.chunks(block))
        .map(|values| Column::F64(values.to_vec()))
        .collect();
    let count: usize = blocks.iter().map(Column::len).sum();
    let reference: usize = blocks.iter().map(varint_bytes).sum();
    let run = |effort: Effort, rounds: usize| {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let encoding = best(rounds, || {
            bytes.clear();
            ends.clear();
            for values in &blocks {
                encode_column(values, effort, &mut bytes);
                ends.push(bytes.len());
            }
        });
        let decoding = best(rounds, || {
            let mut rest = bytes.as_slice();
            for values in &blocks {
                let decoded = decode_column(&mut rest, FieldType::F64, values.len())
                    .expect("this program encoded the bytes");
                std::hint::black_box(&decoded);
            }
        });
        let mut rest = bytes.as_slice();
        for values in &blocks {
            assert!(decode_column(&mut rest, FieldType::F64, values.len()).as_ref() == Ok(values));
        }
        (bytes.len(), encoding, decoding)
    };
    let (fast, encoding, decoding) = run(Effort::Fast, 5);
    let (slow, best_encoding, best_decoding) = run(Effort::Best, 1);
    let rate = |duration: Duration| count as f64 / duration.as_secs_f64() / 1e6;
    println!(
        "{name:<22}{block:>6}{:>9.3}{:>9.3}{:>9.3}{:>10.1}{:>10.1}{:>10.1}{:>10.1}",
        reference as f64 / count as f64,
        fast as f64 / count as f64,
        slow as f64 / count as f64,
        rate(encoding),
        rate(decoding),
        rate(best_encoding),
        rate(best_decoding),
    );
}

fn measure_times(name: &str, columns: &[Vec<i64>], block: usize) {
    let blocks: Vec<&[i64]> = columns
        .iter()
        .flat_map(|column| column.chunks(block))
        .collect();
    let count: usize = blocks.iter().map(|times| times.len()).sum();
    let mut bytes = Vec::new();
    let encoding = best(5, || {
        bytes.clear();
        blocks
            .iter()
            .for_each(|times| encode_times(times, &mut bytes));
    });
    let mut decoded = Vec::new();
    let decoding = best(5, || {
        let mut rest = bytes.as_slice();
        for times in &blocks {
            decoded.clear();
            decode_times(&mut rest, times.len(), &mut decoded)
                .expect("this program encoded the bytes");
        }
    });
    let rate = |duration: Duration| count as f64 / duration.as_secs_f64() / 1e6;
    println!(
        "{:<22}{block:>6}{:>9}{:>9.3}{:>9}{:>10.1}{:>10.1}",
        format!("{name} times"),
        "",
        bytes.len() as f64 / count as f64,
        "",
        rate(encoding),
        rate(decoding),
    );
}

/// Returns the shortest of `rounds` runs. Other programs on the machine can only make a run longer.
fn best(rounds: usize, mut round: impl FnMut()) -> Duration {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// Returns the bytes that the reference needs. The reference supports decimals only; columns with full
/// mantissas count as their raw bytes through zstd.
fn varint_bytes(values: &Column) -> usize {
    let Column::F64(values) = values else {
        return 0;
    };
    let mantissas = (0..=9).find_map(|scale| {
        let power = 10f64.powi(scale);
        let mantissas: Vec<i64> = values
            .iter()
            .map(|value| (value * power).round() as i64)
            .collect();
        values
            .iter()
            .zip(&mantissas)
            .all(|(value, &mantissa)| mantissa as f64 / power == *value)
            .then_some(mantissas)
    });
    let mut bytes = Vec::new();
    match mantissas {
        Some(mantissas) => {
            let mut last = 0;
            for mantissa in mantissas {
                varint::put_i64(mantissa - last, &mut bytes);
                last = mantissa;
            }
        }
        None => values
            .iter()
            .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes())),
    }
    let compressed =
        zstd::bulk::compress(&bytes, 1).map_or(usize::MAX, |compressed| compressed.len());
    compressed.min(bytes.len()) + 2
}
