//! Block operations: number, size and type (RWBS letters), and the bytes written per byte of the
//! application.
//!
//! There are three origins of counts, the best first: a private instance of the kernel's tracer,
//! blktrace files from the user, and the counters of the device, which do not separate types.
//! Discards and operations without data are not part of byte sums.

pub mod blktrace;
pub mod counters;
mod recorder;
pub mod tables;
pub mod tracer;

pub use recorder::Recorder;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Origin of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A private instance of the kernel's tracer.
    Tracer,
    /// Files of blktrace.
    Blktrace,
    /// Counters of the device, which do not separate types.
    Counters,
}

/// Operations of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Number of operations.
    pub operations: u64,
    /// Bytes of the operations; 0 for types that move no data.
    pub bytes: u64,
}

/// Block operations in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Origin of the counts.
    pub origin: Origin,
    /// Operations by type; only `R` and `W` if the origin does not separate types.
    pub types: BTreeMap<String, Sum>,
    /// Bytes read, from the counters of the device if there are any.
    pub read_bytes: u64,
    /// Bytes written, from the counters of the device if there are any.
    pub written_bytes: u64,
    /// Number of events that the tracer lost. Shares refer to the other events.
    pub lost: u64,
    /// Bytes by type, for each second.
    pub seconds: Vec<BTreeMap<String, u64>>,
}

/// A block operation that was issued to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Type, as RWBS letters.
    pub kind: String,
    /// Start, in sectors of 512 bytes.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Returns true for types that move data, which excludes discards and operations without data.
pub fn moves_data(kind: &str) -> bool {
    !kind.contains(['D', 'N']) && kind.contains(['R', 'W'])
}

/// Returns true for types that write data.
pub fn writes(kind: &str) -> bool {
    moves_data(kind) && kind.contains('W')
}

impl Statistics {
    /// Returns empty statistics.
    pub fn new(origin: Origin) -> Statistics {
        Statistics {
            origin,
            types: BTreeMap::new(),
            read_bytes: 0,
            written_bytes: 0,
            lost: 0,
            seconds: Vec::new(),
        }
    }

    /// Adds an operation that was issued in the given second.
    pub fn add(&mut self, operation: &Operation, second: usize) {
        let sum = self.types.entry(operation.kind.clone()).or_default();
        sum.operations += 1;
        if !moves_data(&operation.kind) {
            return;
        }
        sum.bytes += operation.bytes;
        if writes(&operation.kind) {
            self.written_bytes += operation.bytes;
        } else {
            self.read_bytes += operation.bytes;
        }
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, BTreeMap::new());
        }
        *self.seconds[second]
            .entry(operation.kind.clone())
            .or_default() += operation.bytes;
    }

    /// Share of a type in all bytes moved, in percent: s of the papers' tables.
    pub fn share(&self, kind: &str) -> Option<f64> {
        let total: u64 = self.types.values().map(|sum| sum.bytes).sum();
        let sum = self.types.get(kind)?;
        (total > 0).then(|| 100.0 * sum.bytes as f64 / total as f64)
    }

    /// Mean size of the operations of a type, in KiB: a of the papers' tables.
    pub fn mean_kib(&self, kind: &str) -> Option<f64> {
        let sum = self.types.get(kind)?;
        (sum.operations > 0).then(|| sum.bytes as f64 / sum.operations as f64 / 1024.0)
    }

    /// Number of operations that moved data.
    pub fn operations(&self) -> u64 {
        let moving = self.types.iter().filter(|(kind, _)| moves_data(kind));
        moving.map(|(_, sum)| sum.operations).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: &str, bytes: u64) -> Operation {
        Operation {
            kind: kind.into(),
            sector: 0,
            bytes,
        }
    }

    #[test]
    fn shares_and_means_omit_operations_without_bytes() {
        let mut statistics = Statistics::new(Origin::Tracer);
        for (kind, bytes) in [
            ("W", 4096),
            ("W", 12288),
            ("WSM", 4096),
            ("R", 4096),
            ("DS", 1 << 30),
            ("FF", 0),
            ("NS", 512),
        ] {
            statistics.add(&operation(kind, bytes), 2);
        }
        assert_eq!(statistics.written_bytes, 20_480);
        assert_eq!(statistics.read_bytes, 4096);
        assert_eq!(statistics.mean_kib("W"), Some(8.0));
        assert!((statistics.share("WSM").unwrap() - 100.0 / 6.0).abs() < 1e-9);
        assert_eq!(statistics.operations(), 4);
        assert_eq!(statistics.seconds.len(), 3);
        assert_eq!(statistics.share("RM"), None);
    }

    #[test]
    fn a_flush_that_carries_data_writes() {
        assert!(writes("FWFS") && writes("WFS") && !writes("FF") && !writes("DS") && !writes("RA"));
    }
}
