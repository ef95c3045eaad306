//! Rows of the benchmark: names as agents write them, and the times of rows.

use anyhow::Result;
use seiner_model::{KeyError, Notation, SourceKey};
use std::fmt::Write;

/// Number of rows per append.
pub const BATCH: u32 = 1000;
/// Time of the first row, ns.
pub const START: i64 = 1_700_000_000_000_000_000;
pub const SECOND: i64 = 1_000_000_000;

/// Writes a name as agents do.
pub fn put_name(source: u32, names: &mut String) -> Result<()> {
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
