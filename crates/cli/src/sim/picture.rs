//! Charts of simulations.

use super::run::Run;
use crate::chart::{Axis, Chart, Curve, bounds};
use seiner_merge::MergePolicy;

/// Maximum number of points of a curve.
const POINTS: usize = 400;

/// Returns the page with the charts.
pub fn page(runs: &[Run], um: f64) -> String {
    let fullest = runs.iter().map(|run| run.v).fold(0.0, f64::max);
    let of_fullest = |run: &&Run| run.v == fullest;
    let last: Vec<&Run> = runs.iter().filter(of_fullest).collect();
    let charts = [
        written(runs),
        dead_shares(runs),
        fill(&last, fullest, um),
        segments(&last, fullest),
    ];
    crate::chart::page("Merge policies, simulated", &charts)
}

fn color(kind: MergePolicy) -> &'static str {
    match kind {
        MergePolicy::Fifo => "#8a8f98",
        MergePolicy::Greedy => "#c2571a",
        MergePolicy::CostBenefit => "#8c5bb5",
        MergePolicy::Fisherman => "#1f77b4",
        MergePolicy::Patient => "#16825d",
    }
}

fn curve(policy: MergePolicy, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name: policy.to_string(),
        color: color(policy),
        points,
    }
}

fn axis(name: &'static str, ends: (f64, f64)) -> Axis {
    Axis {
        name,
        ends,
        log: false,
    }
}

/// Returns one curve per policy, over V.
fn over_v(runs: &[Run], y: impl Fn(&Run) -> Option<f64>) -> Vec<Curve> {
    let points = |kind: MergePolicy| {
        let of_kind = runs.iter().filter(|run| run.policy == kind);
        let mut points: Vec<(f64, f64)> =
            of_kind.filter_map(|run| Some((run.v, y(run)?))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        curve(kind, points)
    };
    MergePolicy::ALL
        .into_iter()
        .map(points)
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

fn written(runs: &[Run]) -> Chart {
    let curves = over_v(runs, |run| Some(run.outcome.written_per_byte()));
    let (_, most) = bounds(&curves, |(_, y)| *y);
    let (low, high) = bounds(&curves, |(x, _)| *x);
    Chart {
        title: "Bytes written for each byte stored".to_string(),
        about: "1: segments die whole, nothing is written twice (planing). Logarithmic.",
        x: axis("live share V", (low, high)),
        y: Axis {
            log: true,
            ..axis("", (1.0, most.max(2.0)))
        },
        curves,
    }
}

fn dead_shares(runs: &[Run]) -> Chart {
    let curves = over_v(runs, |run| {
        let counts = &run.outcome.counts;
        let eaten = counts.merges + counts.drops;
        (eaten > 0).then(|| (counts.merged_dead_share + counts.drops as f64) / eaten as f64)
    });
    let (low, high) = bounds(&curves, |(x, _)| *x);
    Chart {
        title: "Mean dead share D of what was merged or dropped".to_string(),
        about: "The more is dead, the less is written again.",
        x: axis("live share V", (low, high)),
        y: axis("", (0.0, 1.0)),
        curves,
    }
}

fn fill(runs: &[&Run], v: f64, um: f64) -> Chart {
    let thinned = |run: &&Run| {
        let step = run.outcome.fill.len().div_ceil(POINTS).max(1);
        let points = run.outcome.fill.iter().step_by(step);
        let in_capacities = |&(bytes, u): &(u64, f64)| (bytes as f64 / run.budget as f64, u);
        curve(run.policy, points.map(in_capacities).collect())
    };
    let curves: Vec<Curve> = runs.iter().map(thinned).collect();
    let (_, end) = bounds(&curves, |(x, _)| *x);
    let (least, _) = bounds(&curves, |(_, y)| *y);
    Chart {
        title: format!("Fill U at V = {v:.3}, Um = {um}"),
        about: "Room that is used, open segments included.",
        x: axis("bytes stored, in capacities", (0.0, end)),
        y: axis("", (least.min(um) - 0.01, 1.0)),
        curves,
    }
}

fn segments(runs: &[&Run], v: f64) -> Chart {
    let sorted = |run: &&Run| {
        let shares = run.live_shares();
        let last = shares.len().max(2) - 1;
        let step = shares.len().div_ceil(POINTS).max(1);
        let place = |(index, share): (usize, f64)| (index as f64 / last as f64, share);
        curve(
            run.policy,
            shares
                .into_iter()
                .enumerate()
                .step_by(step)
                .map(place)
                .collect(),
        )
    };
    Chart {
        title: format!("Live share of every segment at the end, V = {v:.3}"),
        about: "Sorted. All or nothing is what lanes are for; in between is what merging has to write again.",
        x: axis("segments", (0.0, 1.0)),
        y: axis("", (0.0, 1.0)),
        curves: runs.iter().map(sorted).collect(),
    }
}
