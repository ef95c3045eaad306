//! A disk with sectors of 4 KiB that takes writes of 512 bytes, as a model: it counts what it must
//! read first to write a part of a sector, and computes how long a turning disk takes for it.

use crate::blocks::{Operation, moves_data, writes};
use crate::place::SECTOR;

/// A sector of the medium.
const PHYSICAL: u64 = 4096;
/// Moving the head and half a turn, s: a disk of 7200 turns a minute.
const SEEK_S: f64 = 0.008 + TURN_S / 2.0;
/// A turn: what passes between reading a sector and writing it back.
const TURN_S: f64 = 60.0 / 7200.0;
/// What passes below the head, bytes/s.
const RATE: f64 = 150e6;

/// What the model counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests.
    pub operations: u64,
    /// Requests that begin or end within a sector of the medium.
    pub unaligned: u64,
    /// Sectors that had to be read before they were written.
    pub read_modify_writes: u64,
    /// What it takes, s.
    pub seconds: f64,
}

/// Where the head is.
struct Head {
    end: Option<u64>,
    was_write: bool,
}

/// Sends operations of a device that begins at `offset` bytes through the model.
///
/// A part of a sector that the next request completes costs nothing: the disk has it in its buffer.
pub fn replay(operations: &[Operation], offset: u64) -> Tally {
    let mut tally = Tally::default();
    let mut head = Head {
        end: None,
        was_write: false,
    };
    for operation in operations
        .iter()
        .filter(|operation| moves_data(&operation.kind) && operation.bytes > 0)
    {
        let start = operation.sector * SECTOR + offset;
        let end = start + operation.bytes;
        let is_write = writes(&operation.kind);
        let follows = head.end == Some(start) && head.was_write == is_write;
        if !follows {
            close(&mut tally, &head);
            tally.seconds += SEEK_S;
            if is_write && !start.is_multiple_of(PHYSICAL) {
                read_first(&mut tally);
            }
        }
        tally.operations += 1;
        tally.unaligned +=
            u64::from(!start.is_multiple_of(PHYSICAL) || !end.is_multiple_of(PHYSICAL));
        tally.seconds += operation.bytes as f64 / RATE;
        head = Head {
            end: Some(end),
            was_write: is_write,
        };
    }
    close(&mut tally, &head);
    tally
}

/// A run of writes that ends within a sector.
fn close(tally: &mut Tally, head: &Head) {
    if head.was_write && head.end.is_some_and(|end| !end.is_multiple_of(PHYSICAL)) {
        read_first(tally);
    }
}

fn read_first(tally: &mut Tally) {
    tally.read_modify_writes += 1;
    tally.seconds += TURN_S;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, bytes: u64) -> Operation {
        Operation {
            kind: "W".into(),
            sector,
            bytes,
        }
    }

    #[test]
    fn aligned_writes_read_nothing() {
        let operations: Vec<Operation> = (0..200).map(|number| write(number * 800, 4096)).collect();
        let tally = replay(&operations, 40 * SECTOR);
        assert_eq!((tally.read_modify_writes, tally.unaligned), (0, 0));
    }

    #[test]
    fn unaligned_writes_read_both_sectors_that_they_touch() {
        let operations: Vec<Operation> = (0..200).map(|number| write(number * 800, 4096)).collect();
        let tally = replay(&operations, 34 * SECTOR);
        assert_eq!((tally.read_modify_writes, tally.unaligned), (400, 200));
        assert!(tally.seconds > replay(&operations, 40 * SECTOR).seconds * 1.5);
    }

    #[test]
    fn a_stream_pays_at_its_ends_only() {
        let operations: Vec<Operation> = (0..200).map(|number| write(number * 8, 4096)).collect();
        assert_eq!(replay(&operations, 34 * SECTOR).read_modify_writes, 2);
    }

    #[test]
    fn reads_and_discards_modify_nothing() {
        let read = Operation {
            kind: "RA".into(),
            sector: 1,
            bytes: 4096,
        };
        let discard = Operation {
            kind: "D".into(),
            sector: 1,
            bytes: 4096,
        };
        let tally = replay(&[read, discard], 0);
        assert_eq!((tally.operations, tally.read_modify_writes), (1, 0));
    }
}
