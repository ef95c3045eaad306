//! Seeded runs with failing members: they die, lose or tear writes, and become unreadable. Power is cut at any
//! step. No acknowledged write may be lost, and no wrong data may be read. `SEINER_SIM_RUNS` sets the number of
//! seeds, each run with losses that the level tolerates and with more.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use seiner_raid::simulate::faults::{Canary, Severity, Summary, run, run_all};

fn seeds() -> u64 {
    std::env::var("SEINER_SIM_RUNS").map_or(3000, |runs| {
        runs.parse().expect("SEINER_SIM_RUNS is a number")
    })
}

fn all(severity: Severity) -> Summary {
    let sum = run_all(0..seeds(), severity, &|_| {}).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{severity:?}: {sum:?}");
    sum
}

#[test]
fn tolerated_losses_fail_no_request() {
    let sum = all(Severity::Tolerated);
    assert_eq!(sum.failed, 0);
    assert!(
        sum.deaths > 100 && sum.rebuilt > 50 && sum.sectors > 100 && sum.cuts > 100,
        "{sum:?}"
    );
    assert!(
        sum.corrupted > 100 && sum.found > 50 && sum.trimmed > 1000 && sum.cleared > 100,
        "{sum:?}"
    );
}

#[test]
fn excessive_losses_are_reported_and_no_wrong_data_are_read() {
    let sum = all(Severity::Excessive);
    assert!(sum.failed > 100 && sum.failed < sum.answered / 2, "{sum:?}");
    assert!(
        sum.proved > 20 && sum.resumed > 5 && sum.cuts_with_stripes > 100,
        "{sum:?}"
    );
}

#[test]
fn inconsistent_syndromes_are_detected_where_data_are_lost() {
    let found = (0..1000)
        .filter(|&seed| run(seed, Severity::Excessive, Some(Canary::NoResync)).is_err())
        .count();
    assert!(found > 5, "found by {found} of 1000 seeds");
}

#[test]
fn canaries_are_found() {
    for (canary, name, severity, seeds) in Canary::ALL {
        let found = (0..seeds)
            .filter(|&seed| run(seed, severity, Some(canary)).is_err())
            .count();
        println!("{name}: found by {found} of {seeds} seeds");
        assert!(found > 5, "{name}: found by {found} of {seeds} seeds");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..20 {
        assert_eq!(
            run(seed, Severity::Excessive, None),
            run(seed, Severity::Excessive, None)
        );
    }
}
