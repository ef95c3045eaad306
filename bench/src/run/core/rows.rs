//! Rows of the benchmark: names as agents write them, and the times of rows.

use anyhow::Result;
use seiner_model::{Batch, Cell, KeyError, Notation, Row, SourceKey, Value};
use std::fmt::Write;

/// Number of rows per append.
pub const BATCH: u32 = 1000;
/// Time of the first row, ns.
pub const START: i64 = 1_700_000_000_000_000_000;
pub const SECOND: i64 = 1_000_000_000;
/// Allowed resident memory in addition to the setting, bytes.
pub const BESIDE: u64 = 64 << 20;

/// Names of sources, one row of each.
#[derive(Default)]
pub struct Names {
    text: String,
    ends: Vec<usize>,
    sources: Vec<u32>,
}

impl Names {
    /// Replaces the sources.
    pub fn fill(&mut self, sources: impl Iterator<Item = u32>) -> Result<()> {
        self.text.clear();
        self.ends.clear();
        self.sources.clear();
        for source in sources {
            put_name(source, &mut self.text)?;
            self.ends.push(self.text.len());
            self.sources.push(source);
        }
        Ok(())
    }

    /// Returns a row of each source for a round, with one value.
    pub fn batch(&self, round: i64, value: impl Fn(u32) -> f64) -> Batch<'_> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let rows = starts
            .zip(&self.ends)
            .zip(0..)
            .map(|((start, &end), cell)| Row {
                name: &self.text.as_bytes()[start..end],
                time: START + round * 10 * SECOND,
                first_cell: cell,
                cells: 1,
            });
        let cells = self.sources.iter().map(|&source| Cell {
            field: b"value",
            value: Value::F64(value(source)),
        });
        Batch {
            rows: rows.collect(),
            cells: cells.collect(),
        }
    }
}

/// Writes a name as agents do.
fn put_name(source: u32, names: &mut String) -> Result<()> {
    let host = source / 10;
    let serial = source.wrapping_mul(2_654_435_761);
    Ok(write!(
        names,
        "temperature,dc=dc-{},host=host-{host:06},region=eu-west-{},sensor={serial:08x}",
        host % 16,
        host % 3
    )?)
}

/// Canonical names, like most names of line protocol: the engine parses them itself.
pub struct Canonical;

impl Notation for Canonical {
    fn id(&self) -> u32 {
        SourceKey::NOTATION
    }

    fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
        Err(KeyError::Notation(
            String::from_utf8_lossy(name).into_owned(),
        ))
    }
}
