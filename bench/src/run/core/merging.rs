//! The case `merging` of `core`: a million sources overwrite a small budget continuously, so that
//! segments are merged and dropped while rows arrive.

use super::rows::{BATCH, Canonical, SECOND, START, put_name};
use anyhow::Result;
use seiner_engine::{Class, Classes, Engine, Options};
use seiner_model::{Batch, Cell, Row, Value};

/// Rows that each source keeps.
const RING: u64 = 16;
/// Budget: bytes per source. A ring of rows takes about 70 % of it.
const DISK_A_SOURCE: u64 = 480;
/// Rates of the sources: a source of rate `1 / n` has a row in every n-th round.
const RATES: u32 = 6;

/// Returns the options of a store whose sources keep their latest rows.
pub fn options(memory: u64, sources: u32) -> Result<Options> {
    let mut class = Class::forever();
    class.keep.rows = Some(RING);
    let mut options = Options {
        memory,
        disk: Some(u64::from(sources) * DISK_A_SOURCE),
        classes: Classes::new(vec![class])?,
        ..Options::default()
    };
    options.segment_bytes =
        (options.disk.unwrap_or(0) / 256).clamp(64 << 10, 16 << 20) / 4096 * 4096;
    options.journal_bytes = options.journal_bytes.min(options.disk.unwrap_or(0) / 16);
    Ok(options)
}

/// Appends rows of many rounds. Returns the number of rejected rows.
pub fn append(engine: &Engine, sources: u32, rounds: std::ops::Range<u32>) -> Result<usize> {
    let mut rejected = 0;
    let (mut names, mut ends, mut due) = (String::new(), Vec::new(), Vec::new());
    for round in rounds {
        let mut source = 0;
        while source < sources {
            due.clear();
            names.clear();
            ends.clear();
            while due.len() < BATCH as usize && source < sources {
                if round % (1 + source % RATES) == 0 {
                    due.push(source);
                    put_name(source, &mut names)?;
                    ends.push(names.len());
                }
                source += 1;
            }
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let rows = starts.zip(&ends).zip(0..).map(|((start, &end), cell)| Row {
                name: &names.as_bytes()[start..end],
                time: START + i64::from(round) * 10 * SECOND,
                first_cell: cell,
                cells: 1,
            });
            // Values that do not compress: the worst case for the bytes of a row.
            let value = |source: u32| {
                let mixed = (u64::from(source) << 32 | u64::from(round))
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                f64::from_bits(mixed >> 12 | 0x3ff0_0000_0000_0000)
            };
            let cells = due.iter().map(|&source| Cell {
                field: b"value",
                value: Value::F64(value(source)),
            });
            let batch = Batch {
                rows: rows.collect(),
                cells: cells.collect(),
            };
            rejected += engine.append(&Canonical, &batch)?.rejected_total;
        }
    }
    Ok(rejected)
}
