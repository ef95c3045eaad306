//! The case `merging` of `core`: a million sources overwrite a small budget continuously, so that
//! segments are merged and dropped while rows arrive.

use super::rows::{BATCH, Canonical, Names};
use anyhow::Result;
use seiner_engine::{Class, Classes, Engine, Options};

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
    let (mut rejected, mut names) = (0, Names::default());
    for round in rounds {
        // Values that do not compress: the worst case for the bytes of a row.
        let value = |source: u32| {
            let mixed =
                (u64::from(source) << 32 | u64::from(round)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            f64::from_bits(mixed >> 12 | 0x3ff0_0000_0000_0000)
        };
        let mut due = (0..sources)
            .filter(|source| round % (1 + source % RATES) == 0)
            .peekable();
        while due.peek().is_some() {
            names.fill(due.by_ref().take(BATCH as usize))?;
            let batch = names.batch(round.into(), value);
            rejected += engine.append(&Canonical, &batch)?.rejected_total;
        }
    }
    Ok(rejected)
}
