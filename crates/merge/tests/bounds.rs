//! Bounds that the default policy must keep, at a quarter of the size of `make bench-merge-sim`.

use seiner_merge::simulate::{Arrivals, Outcome, Settings, Stream, Workload, run};
use seiner_merge::{LaneSettings, MergePolicy, Throttle};

/// Segment size in blocks: the smallest segment, a sixteenth, is still a whole number of blocks.
const SEGMENT_BLOCKS: u64 = 96;

fn rings(sigma: f64) -> Workload {
    Workload::rings(1000, 50, sigma, 1)
}

fn settings(workload: &Workload, v: f64, policy: MergePolicy, lanes: bool) -> Settings {
    let block = u64::from(workload.block_bytes);
    let segment_bytes = SEGMENT_BLOCKS * block;
    let budget = ((workload.live_blocks * block) as f64 / v) as u64;
    Settings {
        budget,
        um: 0.95,
        segment_bytes,
        policy,
        lanes: lanes.then_some(LaneSettings {
            lanes: 32,
            segment_bytes,
            least_bytes: segment_bytes / 16,
        }),
        throttle: Throttle::default(),
        warm_up: 2 * budget,
        measured: budget,
    }
}

fn ours(workload: &Workload, v: f64) -> Outcome {
    let outcome = run(
        &settings(workload, v, MergePolicy::default(), true),
        Stream::new(workload),
        |_| (),
    );
    assert_eq!(outcome.full, None);
    assert!(outcome.peak_u <= 1.0, "{}", outcome.peak_u);
    assert!((outcome.v - v).abs() < 0.01, "{}", outcome.v);
    outcome
}

#[test]
fn planing_is_reached_at_four_fifths() {
    let outcome = ours(&rings(1.0), 0.8);
    assert!(outcome.written_per_byte() <= 1.05);
    assert!(outcome.counts.drops > 0);
}

#[test]
fn writes_stay_low_at_nine_tenths_with_rates_far_apart() {
    let written = ours(&rings(1.0), 0.9).written_per_byte();
    assert!(written <= 1.15, "{written}");
}

#[test]
fn writes_stay_low_at_nine_tenths_with_similar_rates() {
    let written = ours(&rings(0.5), 0.9).written_per_byte();
    assert!(written <= 1.15, "{written}");
}

/// Blocks of each source arrive at random, so the death of a block is at best known to a seventh of its life.
#[test]
fn writes_stay_low_at_nine_tenths_with_blocks_at_random() {
    let workload = Workload {
        arrivals: Arrivals::Random,
        ..rings(1.0)
    };
    let written = ours(&workload, 0.9).written_per_byte();
    assert!(written <= 1.5, "{written}");
}

/// After eight rings on average the rate of a source changes, often several times over. Forecasts follow in a few blocks.
#[test]
fn writes_stay_low_at_nine_tenths_with_rates_that_change() {
    let workload = Workload {
        rate_blocks: Some(400),
        ..rings(1.0)
    };
    let written = ours(&workload, 0.9).written_per_byte();
    assert!(written <= 1.35, "{written}");
}

/// Five classes from an hour to a year, with equal flow.
#[test]
fn mixed_lifetimes_cost_as_little_as_one() {
    let hours = [1.0, 24.0, 24.0 * 7.0, 24.0 * 30.0, 24.0 * 365.0];
    let mixed = ours(&Workload::ages(1000, &hours, 50_000, 1.0, 1), 0.9);
    let one = ours(&Workload::ages(1000, &[1.0], 50_000, 1.0, 1), 0.9);
    let (mixed, one) = (mixed.written_per_byte(), one.written_per_byte());
    assert!(mixed <= 1.1 * one, "{mixed} against {one}");
}

#[test]
fn no_policy_ever_exceeds_the_budget() {
    let workload = Workload {
        live_blocks: 10_000,
        ..Workload::rings(200, 50, 1.0, 3)
    };
    for policy in MergePolicy::ALL {
        for lanes in [false, true] {
            for v in [0.5, 0.9, 0.95] {
                let outcome = run(
                    &settings(&workload, v, policy, lanes),
                    Stream::new(&workload),
                    |_| (),
                );
                assert!(
                    outcome.peak_u <= 1.0,
                    "{policy} {lanes} {v}: {}",
                    outcome.peak_u
                );
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let workload = Workload {
        arrivals: Arrivals::Random,
        ..Workload::rings(200, 20, 1.0, 7)
    };
    let once = || {
        run(
            &settings(&workload, 0.85, MergePolicy::Patient, true),
            Stream::new(&workload),
            |_| (),
        )
    };
    assert_eq!(once(), once());
}
