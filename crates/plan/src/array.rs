//! Effect of an array on the store's two streams, segments and journal. The array's own code runs on
//! modelled members in simulated time, with the write sizes of the store.

use crate::demand::Raid;
use seiner_raid::simulate::{Address, ClientJob, Load, MemberModel, Mix, Phase, Run, run};
use seiner_raid::{BLOCK_BYTES, Geometry, Level, Merging};

/// Bytes of a modelled member; sequential writes wrap around.
const MEMBER_BYTES: u64 = 4 << 30;
/// Maximum simulated time in nanoseconds.
const TIME_NS: u64 = 2_000_000_000;
/// Maximum number of requests.
const REQUESTS: u64 = 2000;
/// Maximum time for which writes are held, in nanoseconds.
const LONGEST_HOLD_NS: u64 = 1_000_000;
/// Processor time of a request in nanoseconds.
const SUBMIT_NS: u64 = 1500;

/// Bytes that the members write and read for each byte written to the array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Bytes written to members per byte.
    pub written: f64,
    /// Bytes read from members per byte, to compute syndromes.
    pub read: f64,
}

/// Simulates sequential writes of `piece_bytes` to the array, one after the other.
///
/// # Errors
/// A text with the reason why such an array is impossible.
pub fn pieces(raid: Raid, piece_bytes: f64) -> Result<Written, String> {
    let level = match raid.level {
        0 => Level::Raid0,
        1 => Level::Raid1,
        5 => Level::Raid5,
        _ => Level::Raid6,
    };
    let geometry = Geometry::new(level, raid.members as usize, raid.strip, MEMBER_BYTES)
        .map_err(|error| error.to_string())?;
    let block = BLOCK_BYTES as f64;
    let write = Mix {
        weight: 1,
        write: true,
        blocks: (piece_bytes / block).ceil().clamp(1.0, 1024.0) as u64,
        address: Address::Sequential,
    };
    let job = ClientJob {
        mix: vec![write],
        threads: 1,
        depth: 1,
    };
    let measured = run(&Run {
        geometry,
        model: MemberModel::NVME,
        merging: Merging::Adaptive,
        longest_hold: LONGEST_HOLD_NS,
        phases: vec![Phase {
            load: Load {
                jobs: vec![job],
                submit: SUBMIT_NS,
                ..Load::default()
            },
            time: TIME_NS,
        }],
        warm_up: 0,
        most_requests: REQUESTS,
        least_time: 0,
        sample: 0,
        seed: 1,
    });
    let blocks = measured.blocks_written.max(1) as f64;
    Ok(Written {
        written: measured.counters.blocks_written as f64 / blocks,
        read: measured.counters.blocks_read as f64 / blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_stripes_cost_their_syndromes_and_small_pieces_more() {
        let raid = Raid {
            level: 6,
            members: 6,
            strip: 16 << 10,
        };
        let large = pieces(raid, 1024.0 * 1024.0).unwrap();
        assert!((large.written - 1.5).abs() < 0.02, "{large:?}");
        assert!(large.read < 0.05, "{large:?}");
        let small = pieces(raid, 4096.0).unwrap();
        assert!(small.written > 2.5, "{small:?}");
        assert!(small.read > 0.5, "{small:?}");
        let mirror = Raid {
            level: 1,
            members: 2,
            strip: 16 << 10,
        };
        assert!((pieces(mirror, 65536.0).unwrap().written - 2.0).abs() < 0.01);
    }
}
