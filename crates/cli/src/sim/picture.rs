//! Charts of simulations.

use super::run::Run;
use seiner_chart::{Axis, Figure, LineSeries, page};
use seiner_merge::MergePolicy;

/// Maximum number of points of a line.
const POINTS: usize = 400;

/// Returns the page with the charts.
pub fn page(runs: &[Run], um: f64) -> String {
    let fullest = runs.iter().map(|run| run.v).fold(0.0, f64::max);
    let of_fullest = |run: &&Run| run.v == fullest;
    let last: Vec<&Run> = runs.iter().filter(of_fullest).collect();
    let figures = [
        written(runs),
        dead_shares(runs),
        fill(&last, fullest, um),
        segments(&last, fullest),
    ];
    page::of_figures("Merge policies, simulated", &[], &figures, policy_colour)
}

/// Returns the fixed colour of a policy.
fn policy_colour(name: &str) -> Option<usize> {
    MergePolicy::ALL
        .iter()
        .position(|policy| policy.to_string() == name)
}

/// Returns one line per policy, over V.
fn over_v(runs: &[Run], y: impl Fn(&Run) -> Option<f64>) -> Vec<LineSeries> {
    let line = |policy: MergePolicy| {
        let of_policy = runs.iter().filter(|run| run.policy == policy);
        let mut points: Vec<(f64, f64)> =
            of_policy.filter_map(|run| Some((run.v, y(run)?))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        LineSeries::new(policy.to_string(), points)
    };
    MergePolicy::ALL
        .into_iter()
        .map(line)
        .filter(|line| !line.points.is_empty())
        .collect()
}

/// Returns the axis of V, whose ends are those of the lines.
fn axis_of_v(lines: &[LineSeries]) -> Axis {
    let (low, high) = bounds(lines, |point| point.0);
    Axis::linear("live share V").within(low, high)
}

/// Returns the minimum and the maximum of `of` over all points.
fn bounds(lines: &[LineSeries], of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = lines.iter().flat_map(|line| &line.points).map(of);
    values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn written(runs: &[Run]) -> Figure {
    let series = over_v(runs, |run| Some(run.outcome.written_per_byte()));
    let (_, most) = bounds(&series, |point| point.1);
    Figure::Lines {
        title: "Bytes written per byte stored".to_string(),
        caption: "1: segments die whole and merges rewrite nothing (planing). Logarithmic."
            .to_string(),
        x: axis_of_v(&series),
        y: Axis::log("bytes written per byte").within(1.0, most.max(2.0) * 1.05),
        series,
    }
}

fn dead_shares(runs: &[Run]) -> Figure {
    let series = over_v(runs, |run| {
        let counts = &run.outcome.counts;
        let removed = counts.merges + counts.drops;
        (removed > 0).then(|| (counts.merged_dead_share + counts.drops as f64) / removed as f64)
    });
    Figure::Lines {
        title: "Mean dead share D of merged and dropped segments".to_string(),
        caption: "A higher dead share means that merges rewrite less.".to_string(),
        x: axis_of_v(&series),
        y: Axis::linear("dead share D").within(0.0, 1.0),
        series,
    }
}

fn fill(runs: &[&Run], v: f64, um: f64) -> Figure {
    let line = |run: &&Run| {
        let step = run.outcome.fill.len().div_ceil(POINTS).max(1);
        let points = run.outcome.fill.iter().step_by(step);
        let in_capacities = |&(bytes, u): &(u64, f64)| (bytes as f64 / run.budget as f64, u);
        LineSeries::new(run.policy.to_string(), points.map(in_capacities).collect())
    };
    let series: Vec<LineSeries> = runs.iter().map(line).collect();
    let (_, end) = bounds(&series, |point| point.0);
    let (least, _) = bounds(&series, |point| point.1);
    Figure::Lines {
        title: format!("Fill U at V = {v:.3}, Um = {um}"),
        caption: "Share of the capacity that is used, open segments included.".to_string(),
        x: Axis::linear("bytes stored, in capacities").within(0.0, end),
        y: Axis::linear("fill U").within(least.min(um) - 0.01, 1.0),
        series,
    }
}

fn segments(runs: &[&Run], v: f64) -> Figure {
    let line = |run: &&Run| {
        let shares = run.live_shares();
        let last = shares.len().max(2) - 1;
        let step = shares.len().div_ceil(POINTS).max(1);
        let place = |(index, share): (usize, f64)| (index as f64 / last as f64, share);
        let points = shares.into_iter().enumerate().step_by(step).map(place);
        LineSeries::new(run.policy.to_string(), points.collect())
    };
    Figure::Lines {
        title: format!("Live share of every segment at the end, V = {v:.3}"),
        caption: "Sorted by live share. Lanes aim at segments that are live or dead as a whole. Merges rewrite the \
            live blocks of the others."
            .to_string(),
        x: Axis::linear("share of segments").within(0.0, 1.0),
        y: Axis::linear("live share").within(0.0, 1.0),
        series: runs.iter().map(line).collect(),
    }
}
