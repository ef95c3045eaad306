//! What an array makes of the store's two streams: its own code, on modelled members and simulated
//! time, is given segments and journal as the store writes them.

use crate::demand::Raid;
use seiner_raid::simulate::{Address, Job, Load, Mix, Model, Phase, Run, run};
use seiner_raid::{BLOCK_BYTES, Geometry, Level, Merging};

/// Bytes of a modelled member: what is written goes round.
const MEMBER_BYTES: u64 = 4 << 30;
/// Simulated time at the most, and requests.
const TIME_NS: u64 = 2_000_000_000;
const REQUESTS: u64 = 2000;
/// How long writes may be held.
const LONGEST_HOLD_NS: u64 = 1_000_000;
/// Processor time of a request.
const SUBMIT_NS: u64 = 1500;

/// What became of bytes that were written to the array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Bytes written to members for each byte.
    pub written: f64,
    /// Bytes read from members for each byte, to compute syndromes.
    pub read: f64,
}

/// What the array does with sequential pieces of so many bytes, one after the other.
///
/// # Errors
/// Why there can be no such array.
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
    let job = Job {
        mix: vec![write],
        threads: 1,
        depth: 1,
    };
    let measured = run(&Run {
        geometry,
        model: Model::NVME,
        merging: Merging::Adaptive,
        longest_hold: LONGEST_HOLD_NS,
        phases: vec![Phase {
            load: Load {
                jobs: vec![job],
                submit: SUBMIT_NS,
                jitter: 0,
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
