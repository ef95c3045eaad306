//! Simulation of a few hundred seeds, or of the seeds that `SEINER_SIM_RUNS` or `SEINER_SIM_SEED` select.

use seiner_sim::{Campaign, Work, World};

const RUNS: u64 = 250;

#[test]
fn seeds() {
    let campaign = Campaign::from_env(RUNS);
    let outcome = campaign.run(|_, _| {});
    println!("{}", outcome.summary(&campaign.seeds));
    let texts: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
    assert!(
        texts.is_empty(),
        "{}\n{}",
        outcome.summary(&campaign.seeds),
        texts.join("\n")
    );
    if outcome.runs >= RUNS {
        let spared = |work: &Work| outcome.total.works.of(*work).ends() == 0;
        let spared: Vec<Work> = Work::ALL.into_iter().filter(spared).collect();
        assert!(spared.is_empty(), "never ended in the midst of {spared:?}");
    }
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    for world in [
        World::new,
        World::expiring,
        World::rolling_up,
        World::churning,
    ] {
        let run = |seed| match world(seed, World::plain, false).run() {
            Ok(report) => report,
            Err(violation) => panic!("{violation}"),
        };
        for seed in 0..20 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
        assert_ne!(run(1).trace, run(2).trace);
    }
}
