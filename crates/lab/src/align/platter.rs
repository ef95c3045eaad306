//! Model of a disk with 4 KiB physical sectors that accepts writes of 512 bytes. It counts
//! read-modify-writes and computes the time that a rotating disk needs.

use crate::blocks::{Operation, moves_data, writes};
use crate::location::SECTOR;

/// Bytes of a physical sector.
const PHYSICAL: u64 = 4096;
/// Seconds of a seek and half a turn, at 7200 turns a minute.
const SEEK_S: f64 = 0.008 + TURN_S / 2.0;
/// Seconds of a turn: the delay between reading a sector and writing it back.
const TURN_S: f64 = 60.0 / 7200.0;
/// Transfer rate, bytes/s.
const RATE: f64 = 150e6;

/// Counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadCosts {
    /// Number of requests.
    pub operations: u64,
    /// Number of requests that begin or end inside a physical sector.
    pub unaligned: u64,
    /// Number of physical sectors that had to be read before they could be written.
    pub read_modify_writes: u64,
    /// Total time, s.
    pub seconds: f64,
}

/// Position of the head: the end of the last request, in bytes.
struct Head {
    end: Option<u64>,
    was_write: bool,
}

/// Replays the requests of a device that starts at `offset` bytes of the disk.
///
/// If a write continues exactly at the end of the last write, the sector that both writes share
/// needs no read, because the disk still buffers this sector.
pub fn replay(operations: &[Operation], offset: u64) -> HeadCosts {
    let mut costs = HeadCosts::default();
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
            close(&mut costs, &head);
            costs.seconds += SEEK_S;
            if is_write && !start.is_multiple_of(PHYSICAL) {
                read_first(&mut costs);
            }
        }
        costs.operations += 1;
        costs.unaligned +=
            u64::from(!start.is_multiple_of(PHYSICAL) || !end.is_multiple_of(PHYSICAL));
        costs.seconds += operation.bytes as f64 / RATE;
        head = Head {
            end: Some(end),
            was_write: is_write,
        };
    }
    close(&mut costs, &head);
    costs
}

/// Ends a run of writes. If it ends inside a physical sector, that sector must be read first.
fn close(costs: &mut HeadCosts, head: &Head) {
    if head.was_write && head.end.is_some_and(|end| !end.is_multiple_of(PHYSICAL)) {
        read_first(costs);
    }
}

fn read_first(costs: &mut HeadCosts) {
    costs.read_modify_writes += 1;
    costs.seconds += TURN_S;
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
        let costs = replay(&operations, 40 * SECTOR);
        assert_eq!((costs.read_modify_writes, costs.unaligned), (0, 0));
    }

    #[test]
    fn unaligned_writes_read_both_sectors_that_they_touch() {
        let operations: Vec<Operation> = (0..200).map(|number| write(number * 800, 4096)).collect();
        let costs = replay(&operations, 34 * SECTOR);
        assert_eq!((costs.read_modify_writes, costs.unaligned), (400, 200));
        assert!(costs.seconds > replay(&operations, 40 * SECTOR).seconds * 1.5);
    }

    #[test]
    fn a_stream_causes_read_modify_writes_only_at_its_ends() {
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
        let costs = replay(&[read, discard], 0);
        assert_eq!((costs.operations, costs.read_modify_writes), (1, 0));
    }
}
