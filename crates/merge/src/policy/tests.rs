use super::*;
use crate::Death;
use proptest::prelude::*;

/// One day in nanoseconds.
const DAY: f64 = 86_400e9;

/// Returns a segment of 100 bytes with `dead` dead bytes, sealed at `born`.
fn segment(number: u64, dead: u64, born: i64, dies: Death) -> SegmentStat {
    SegmentStat {
        number,
        lane: 0,
        bytes: 100,
        live: 100 - dead,
        dead,
        born,
        dies,
    }
}

/// Returns the view of a store with space for ten segments that merges above 80 %.
fn view(segments: &[SegmentStat], used: u64) -> View<'_> {
    View {
        now: 1000,
        fill: Fill {
            budget: 1000,
            used,
            live: segments.iter().map(|segment| segment.live).sum(),
            reserved: 100,
            um: 0.8,
        },
        output_limit: 1000,
        least_dead_share: least_dead_share(false),
        segments,
    }
}

fn merged(decision: &Decision) -> Vec<u64> {
    decision.merge.iter().map(|victim| victim.number).collect()
}

fn segments() -> Vec<SegmentStat> {
    vec![
        segment(1, 20, 100, Death::At(9000)),
        segment(2, 100, 200, Death::At(900)),
        segment(3, 60, 300, Death::At(1010)),
        segment(4, 50, 900, Death::At(5000)),
    ]
}

#[test]
fn nothing_is_merged_while_um_is_not_reached() {
    let segments = segments();
    for kind in MergePolicy::ALL {
        // 900 bytes are used, 100 of them in a wholly dead segment.
        let decision = kind.policy().choose(&view(&segments, 900));
        assert_eq!(decision.drop, [2], "{kind}");
        assert_eq!(merged(&decision), [], "{kind}");
        assert_eq!(decision.why.policy, kind);
        assert!(decision.why.hunger.abs() < 1e-9);
    }
}

#[test]
fn fifo_takes_the_oldest() {
    let segments = segments();
    // 30 bytes too many after the drop: segment 1 frees 20, segment 3 frees 60.
    let decision = Fifo.choose(&view(&segments, 930));
    assert_eq!(
        (decision.drop.as_slice(), merged(&decision)),
        (&[2][..], vec![1, 3])
    );
}

#[test]
fn greedy_takes_the_segments_with_the_largest_dead_share() {
    let segments = segments();
    assert_eq!(merged(&Greedy.choose(&view(&segments, 930))), [3]);
    let decision = Greedy.choose(&view(&segments, 970));
    assert_eq!(merged(&decision), [3, 4]);
    assert_eq!(decision.merge[0].dead_share, 0.6);
    assert_eq!((decision.merge[0].live, decision.merge[0].gain), (40, 60));
}

#[test]
fn cost_benefit_weighs_age() {
    let segments = segments();
    let decision = CostBenefit.choose(&view(&segments, 1000));
    // (1 − u)·age/(1 + u): 0.6·700/1.4 = 300; 0.2·900/1.8 = 100; 0.5·100/1.5 = 33.3. The live bytes
    // of the second, 80, do not fit into the 60 bytes of space that the first leaves.
    assert_eq!(merged(&decision), [3, 4]);
    assert!((decision.merge[0].score - 300.0).abs() < 1e-9);
    assert!((decision.merge[1].score - 100.0 / 3.0).abs() < 1e-9);
    let mut view = view(&segments, 1000);
    view.fill.budget = 1200;
    view.fill.um = 0.6;
    assert_eq!(merged(&CostBenefit.choose(&view)), [3, 1, 4]);
}

#[test]
fn the_fisherman_follows_hunger_and_merged_segments() {
    let segments = segments();
    let mut fisherman = Fisherman::new(0.5);
    // 820 bytes after the drop: H = 0.2. One wholly dead segment was taken: ewma = 1,
    // Dm = min(0.8, 1).
    let decision = fisherman.choose(&view(&segments, 920));
    assert!((decision.why.least_dead_share.unwrap() - 0.8).abs() < 1e-9);
    assert_eq!(decision.why.average_dead_share, Some(1.0));
    assert_eq!(
        (decision.drop.as_slice(), merged(&decision)),
        (&[2][..], vec![])
    );
    // H = 0.52 without a dead segment: Dm = 0.48, and all segments with a larger D are taken.
    let living: Vec<SegmentStat> = segments
        .iter()
        .copied()
        .filter(|one| one.number != 2)
        .collect();
    let decision = fisherman.choose(&view(&living, 852));
    assert_eq!(merged(&decision), [3, 4]);
    // ewma: 1 → 0.8 → 0.65; three segments were taken.
    assert!((fisherman.memory().average_dead_share - 0.65).abs() < 1e-9);
    assert_eq!(fisherman.memory().taken, 3);
    // With little hunger the average decides: Dm = min(1 − 0.1, 0.65).
    let decision = fisherman.choose(&view(&living, 810));
    assert!((decision.why.least_dead_share.unwrap() - 0.65).abs() < 1e-9);
    assert_eq!(merged(&decision), []);
}

#[test]
fn the_fisherman_merges_any_victim_when_writers_have_no_headroom() {
    // Writers stop at 900. The dead bytes are spread thinly over all segments.
    let segments: Vec<SegmentStat> = (1..=9)
        .map(|number| segment(number, 10, 100, Death::Never))
        .collect();
    let mut fisherman = Fisherman::default();
    fisherman.recall(Memory {
        average_dead_share: 0.5,
        taken: 100,
    });
    assert_eq!(merged(&fisherman.choose(&view(&segments, 860))), []);
    assert!(!merged(&fisherman.choose(&view(&segments, 900))).is_empty());
}

#[test]
fn the_fisherman_restores_its_memory() {
    let memory = Memory {
        average_dead_share: 0.4,
        taken: 7,
    };
    let mut fisherman = Fisherman::default();
    fisherman.recall(memory);
    assert_eq!(fisherman.memory(), memory);
    assert_eq!(fisherman.least_dead_share(0.1), 0.4);
    assert_eq!(fisherman.least_dead_share(0.9), 1.0 - 0.9);
    assert_eq!(fisherman.least_dead_share(0.0), 1.0);
    assert_eq!(
        Fisherman::default().least_dead_share(0.3),
        0.7,
        "the policy has merged nothing so far"
    );
}

#[test]
fn the_patient_skips_segments_that_die_soon() {
    let mut segments = segments();
    segments.remove(1);
    // Gain × wait / live: 20·8000/80 = 2000; 60·10/40 = 15; 50·4000/50 = 4000.
    let decision = Patient.choose(&view(&segments, 860));
    assert_eq!(merged(&decision), [4, 1]);
    assert!((decision.merge[0].score - 4000.0 / DAY).abs() < 1e-15);
    assert!((decision.merge[1].score - 2000.0 / DAY).abs() < 1e-15);
}

#[test]
fn the_patient_waits_until_most_of_the_rest_is_dead() {
    let segments: Vec<SegmentStat> = (1..=100)
        .map(|number| SegmentStat {
            bytes: 10,
            live: 9,
            dead: 1,
            ..segment(number, 0, 0, Death::At(2000))
        })
        .collect();
    let of = |used, live| {
        let view = view(&segments, used);
        let fill = Fill {
            reserved: 0,
            live,
            ..view.fill
        };
        Patient.choose(&View {
            fill,
            output_limit: 10,
            ..view
        })
    };
    // At V = 0.9, nothing is merged up to 0.975.
    assert!(of(975, 900).is_empty());
    assert_eq!(of(976, 900).merge.len(), 1);
    // At V = 0.95, nothing is merged up to 0.987 of the space without an output, 0.9771.
    assert!(of(977, 950).is_empty());
    assert_eq!(of(978, 950).merge.len(), 1);
    // With less live, three quarters of the rest are dead at an earlier fill, but Um is the least.
    assert!(Patient.choose(&view(&segments[..50], 800)).is_empty());
}

#[test]
fn the_patient_distrusts_failed_predictions() {
    let overdue = [
        segment(1, 60, 0, Death::At(990)),
        segment(2, 40, 0, Death::At(1010)),
    ];
    let decision = Patient.choose(&view(&overdue, 880));
    // Both scores follow from the predicted lives: 60·990/40 and 40·1010/60.
    assert_eq!(merged(&decision), [1, 2]);
    assert!((decision.merge[0].score - 60.0 * 990.0 / 40.0 / DAY).abs() < 1e-15);
}

#[test]
fn segments_with_almost_no_gain_are_not_merged() {
    // All blocks are live; 8 bytes of 108 are the segment's index.
    let full = SegmentStat {
        bytes: 108,
        ..segment(1, 0, 0, Death::Never)
    };
    let little = segment(2, 10, 0, Death::Never);
    let segments = [full, little];
    for kind in MergePolicy::ALL {
        let mut view = view(&segments, 850);
        view.fill.um = 0.1;
        // Hungry enough for the fisherman to take any segment.
        for _ in 0..3 {
            assert!(!merged(&kind.policy().choose(&view)).contains(&1), "{kind}");
        }
        view.least_dead_share = least_dead_share(true);
        assert_eq!(merged(&kind.policy().choose(&view)), [], "{kind}");
    }
    let mut view = view(&segments, 850);
    view.fill.um = 0.1;
    assert_eq!(merged(&Greedy.choose(&view)), [2]);
}

#[test]
fn names_are_read_back() {
    for kind in MergePolicy::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(kind.policy().kind(), kind);
    }
    let reason = "oldest".parse::<MergePolicy>().unwrap_err();
    assert!(
        reason.contains("'oldest'") && reason.contains("fisherman"),
        "{reason}"
    );
}

fn any_death() -> impl Strategy<Value = Death> {
    prop_oneof![
        8 => (-10_000..10_000i64).prop_map(Death::At),
        1 => Just(Death::Unknown),
        1 => Just(Death::Never),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(Death::At),
    ]
}

fn any_segments() -> impl Strategy<Value = Vec<SegmentStat>> {
    let one = (0..50u64, 0..50u64, 0..10u64, any::<i64>(), any_death());
    let stat = |(number, (live, dead, end, born, dies)): (usize, (u64, u64, u64, i64, Death))| {
        SegmentStat {
            number: number as u64,
            lane: 0,
            bytes: live + dead + end,
            live,
            dead,
            born,
            dies,
        }
    };
    prop::collection::vec(one, 0..40)
        .prop_map(move |all| all.into_iter().enumerate().map(stat).collect())
}

proptest! {
    #[test]
    fn every_policy_follows_the_common_rules(
        segments in any_segments(),
        space in 0..200u64,
        output_limit in 0..200u64,
        um in 0.0..0.99f64,
        now in any::<i64>(),
    ) {
        let used: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let fill = Fill {
            budget: used + space,
            used,
            live: segments.iter().map(|segment| segment.live).sum(),
            reserved: 0,
            um,
        };
        let view = View { now, fill, output_limit, least_dead_share: least_dead_share(false), segments: &segments };
        for kind in MergePolicy::ALL {
            let mut policy = kind.policy();
            let decision = policy.choose(&view);
            prop_assert_eq!(
                &kind.policy().choose(&view),
                &decision,
                "equal views give equal decisions"
            );
            let dead: Vec<u64> = segments.iter().filter(|one| one.is_dead()).map(|one| one.number).collect();
            prop_assert_eq!(&decision.drop, &dead);
            let mut named = merged(&decision);
            named.extend(&decision.drop);
            named.sort_unstable();
            let all = named.len();
            named.dedup();
            prop_assert_eq!(named.len(), all, "a segment is chosen twice");
            let output: u64 = decision.merge.iter().map(|victim| victim.live).sum();
            let freed: u64 = segments.iter().filter(|one| one.is_dead()).map(|one| one.bytes).sum();
            prop_assert!(output <= output_limit);
            prop_assert!(used - freed + output <= fill.budget, "a merge can always be finished");
            prop_assert!(policy.memory().average_dead_share <= 1.0);
        }
    }
}
