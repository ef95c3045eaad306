//! Counters that the kernel keeps for each block device. Every user may read the counters. They do
//! not separate types.

use crate::location::{Device, SECTOR};
use std::fs;

/// Counters of a device at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Counters {
    /// Reads the counters of a device; `None` if the device is gone.
    pub fn read(device: &Device) -> Option<Counters> {
        parse(&fs::read_to_string(device.directory().join("stat")).ok()?)
    }

    /// Returns the differences since `earlier`; a counter that went backwards gives 0.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

fn parse(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    Some(Counters {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * SECTOR,
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * SECTOR,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_counters() {
        let line = "   9 0 800 4  3 0 48 1  0 5 6 0 0 0 0 0 0\n";
        let counters = Counters {
            reads: 9,
            read_bytes: 409_600,
            writes: 3,
            written_bytes: 24_576,
        };
        assert_eq!(parse(line), Some(counters));
        assert_eq!(parse("1 2 x"), None);
        assert_eq!(
            counters
                .since(&Counters {
                    reads: 10,
                    ..Counters::default()
                })
                .reads,
            0
        );
    }
}
