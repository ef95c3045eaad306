//! Tests of every strategy under loads on modelled members.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_raid::simulate::{
    Address, Bursts, ClientJob, Load, Measured, MemberModel, Mix, Phase, Run, run,
};
use seiner_raid::{Geometry, Level, Merging, Nanos};

const HOLD: Nanos = 1_000_000;

fn job(address: Address, threads: usize, depth: usize) -> ClientJob {
    let mix = vec![Mix {
        weight: 1,
        write: true,
        blocks: 1,
        address,
    }];
    ClientJob {
        mix,
        threads,
        depth,
    }
}

fn measure(merging: Merging, address: Address, depth: usize) -> Measured {
    measure_jobs(merging, vec![job(address, 1, depth)])
}

fn measure_jobs(merging: Merging, jobs: Vec<ClientJob>) -> Measured {
    run(&scenario(merging, jobs))
}

fn scenario(merging: Merging, jobs: Vec<ClientJob>) -> Run {
    let load = Load {
        jobs,
        submit: 1500,
        ..Load::default()
    };
    Run {
        geometry: Geometry::new(Level::Raid6, 6, 16 << 10, 1 << 30).unwrap(),
        model: MemberModel::NVME,
        merging,
        longest_hold: HOLD,
        phases: vec![Phase {
            load,
            time: 200_000_000,
        }],
        warm_up: 10_000_000,
        most_requests: 4000,
        least_time: 0,
        sample: 0,
        seed: 7,
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    for merging in Merging::ALL {
        assert_eq!(
            measure(merging, Address::Sequential, 16),
            measure(merging, Address::Sequential, 16)
        );
    }
}

#[test]
fn the_default_writes_whole_stripes_with_a_window_of_a_stripe() {
    let ours = measure(Merging::Adaptive, Address::Sequential, 16);
    let (full, partial) = (ours.counters.full, ours.counters.partial);
    assert!(
        full > 50 * partial.max(1) || partial == 0,
        "{full} whole, {partial} in part"
    );
    let operations =
        (ours.counters.reads + ours.counters.writes) as f64 / ours.blocks_written as f64;
    assert!(
        (operations - 6.0 / 16.0).abs() < 0.02,
        "{operations} operations a block"
    );
    assert_eq!(
        measure(Merging::Never, Address::Sequential, 16)
            .counters
            .full,
        0
    );
}

#[test]
fn a_small_window_has_higher_throughput_and_lower_latency_than_batches() {
    let (ours, batch) = (
        measure(Merging::Adaptive, Address::Sequential, 8),
        measure(Merging::Batch, Address::Sequential, 8),
    );
    assert!(
        ours.rate() > 1.2 * batch.rate(),
        "{} against {}",
        ours.rate(),
        batch.rate()
    );
    assert!(ours.p99 < batch.p99, "{} against {}", ours.p99, batch.p99);
}

#[test]
fn random_writes_are_not_held() {
    let (ours, batch) = (
        measure(Merging::Adaptive, Address::Random, 8),
        measure(Merging::Batch, Address::Random, 8),
    );
    assert!(ours.rate() > 0.99 * batch.rate());
    assert_eq!(ours.counters.expired, 0);
    let always = measure(Merging::Always, Address::Random, 8);
    assert!(
        always.longest >= HOLD && always.rate() < 0.5 * batch.rate(),
        "held writes cost as much as in the paper"
    );
}

#[test]
fn trials_find_that_holding_all_writes_pays() {
    let jobs = || {
        vec![
            job(Address::Sequential, 2, 24),
            job(Address::Sequential, 8, 2),
        ]
    };
    let [batch, always, ours] = [Merging::Batch, Merging::Always, Merging::Adaptive]
        .map(|merging| measure_jobs(merging, jobs()).rate());
    assert!(always > 2.0 * batch, "{always} against {batch}");
    assert!(ours > 0.9 * always, "{ours} against {always}");
}

#[test]
fn trials_of_worse_strategies_cost_little() {
    for (address, depth) in [
        (Address::Sequential, 4),
        (Address::Sequential, 16),
        (Address::Holes(12), 6),
        (Address::Streams(5), 8),
    ] {
        let fixed = [Merging::Never, Merging::Batch, Merging::Always];
        let best = fixed
            .map(|merging| measure(merging, address, depth).rate())
            .into_iter()
            .fold(0.0, f64::max);
        let ours = measure(Merging::Adaptive, address, depth).rate();
        assert!(
            ours > 0.95 * best,
            "{address:?}, depth {depth}: {ours} against {best}"
        );
    }
}

#[test]
fn the_paper_merges_only_where_depth_times_block_exceeds_a_stripe() {
    let deep = measure(Merging::Paper, Address::Sequential, 64);
    assert!(
        deep.counters.full > deep.counters.partial,
        "{:?}",
        deep.counters
    );
    let shallow = measure(Merging::Paper, Address::Sequential, 4);
    assert_eq!(shallow.counters.full, 0);
    let random = measure(Merging::Paper, Address::Random, 64);
    assert_eq!(random.counters.full, 0);
}

#[test]
fn no_write_is_held_longer_than_the_maximum_time() {
    for merging in Merging::ALL {
        for depth in [1, 5, 16] {
            let measured = measure(merging, Address::Sequential, depth);
            // A write may also wait for an earlier write in its stripe before it is written itself.
            assert!(
                measured.p50 < HOLD + 500_000,
                "{}: {}",
                merging.name(),
                measured.p50
            );
        }
    }
}

/// Returns the default's rate as a share of the best rate of the plain strategies.
fn share(change: impl Fn(&mut Run), job: &ClientJob) -> f64 {
    let rate = |merging| {
        let mut scenario = scenario(merging, vec![job.clone()]);
        change(&mut scenario);
        run(&scenario).rate()
    };
    let plain = [Merging::Never, Merging::Batch, Merging::Always];
    let best = plain.into_iter().map(rate).fold(0.0, f64::max);
    rate(Merging::Adaptive) / best
}

fn in_bursts(run: &mut Run) {
    let (on, off) = (3_000_000, 9_000_000);
    run.phases[0].load.bursts = Some(Bursts { on, off });
    run.phases[0].time = 10_000_000_000;
    (run.warm_up, run.most_requests) = (50_000_000, 0);
    run.least_time = 40 * (on + off);
}

#[test]
fn a_pause_of_the_clients_does_not_end_filling() {
    let found = share(in_bursts, &job(Address::Sequential, 8, 36));
    assert!(found >= 0.95, "{found:.3} of the best strategy");
}

#[test]
fn a_pause_is_detected_when_reads_follow_it() {
    let mut mixed = job(Address::Sequential, 4, 34);
    mixed.mix.push(Mix {
        write: false,
        address: Address::Random,
        ..mixed.mix[0]
    });
    let found = share(in_bursts, &mixed);
    assert!(found >= 0.95, "{found:.3} of the best strategy");
}

#[test]
fn streams_that_begin_with_a_stripe_stay_in_step_with_short_holds() {
    let short = |run: &mut Run| {
        run.longest_hold = 100_000;
        run.warm_up = 50_000_000;
        run.most_requests = 12_800;
        run.least_time = 50_000_000;
    };
    let found = share(short, &job(Address::Sequential, 8, 32));
    assert!(found >= 0.95, "{found:.3} of the best strategy");
}
