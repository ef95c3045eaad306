//! Modelled members, on simulated time.

use super::cell::{Cell, Outcome, Pattern};
use seiner_raid::simulate::{Address, ClientJob, Load, MemberModel, Mix, Phase, Run, run};
use seiner_raid::{Geometry, Nanos};

/// Processor time of a client per request, ns.
const SUBMIT: Nanos = 1500;
/// Number of requests per outstanding request after which the results hardly change, and the minimum total.
const ROUNDS: u64 = 50;
const LEAST_REQUESTS: u64 = 8000;
/// Minimum duration, ns.
const LEAST_TIME: Nanos = 50_000_000;

/// Measures one combination.
pub fn measure(geometry: Geometry, cell: &Cell) -> Outcome {
    let time = cell.time.as_nanos() as Nanos;
    let warm_up = cell.warm_up().as_nanos() as Nanos;
    let mix = Mix {
        weight: 1,
        write: true,
        blocks: cell.blocks,
        address: match cell.pattern {
            Pattern::Random => Address::Random,
            Pattern::Sequential => Address::Sequential,
        },
    };
    let load = Load {
        jobs: vec![ClientJob {
            mix: vec![mix],
            threads: 1,
            depth: cell.depth,
        }],
        submit: SUBMIT,
        ..Load::default()
    };
    let measured = run(&Run {
        geometry,
        model: MemberModel::NVME,
        merging: cell.merging,
        longest_hold: cell.longest_hold,
        phases: vec![Phase {
            load,
            time: time + warm_up,
        }],
        warm_up,
        most_requests: (cell.depth as u64 * ROUNDS).max(LEAST_REQUESTS),
        least_time: LEAST_TIME.min(time),
        sample: 0,
        seed: 1,
    });
    Outcome {
        seconds: measured.time as f64 / 1e9,
        writes: measured.requests,
        blocks: measured.blocks_written,
        counters: measured.counters,
        p50: measured.p50,
        p99: measured.p99,
    }
}
