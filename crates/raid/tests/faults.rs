//! Members die, forget, tear and become unreadable; power is cut at any step. Nothing acknowledged may be lost, and
//! nothing wrong be read. `SEINER_SIM_RUNS` sets how many seeds are run, each with losses that the level bears and with more.

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
fn what_the_level_bears_harms_nobody() {
    let sum = all(Severity::Borne);
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
fn what_is_beyond_the_level_is_reported_and_nothing_wrong_is_read() {
    let sum = all(Severity::Beyond);
    assert!(sum.failed > 100 && sum.failed < sum.answered / 2, "{sum:?}");
    assert!(
        sum.vouched > 20 && sum.resumed > 5 && sum.cuts_with_stripes > 100,
        "{sum:?}"
    );
}

#[test]
fn syndromes_that_do_not_fit_are_found_where_data_are_lost() {
    let found = (0..1000)
        .filter(|&seed| run(seed, Severity::Beyond, Some(Canary::NoResync)).is_err())
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
            run(seed, Severity::Beyond, None),
            run(seed, Severity::Beyond, None)
        );
    }
}
