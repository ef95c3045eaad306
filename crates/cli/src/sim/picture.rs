//! The curves of simulations, as a page with SVG inside and nothing outside.

use super::merge::Run;
use seiner_merge::{Kind, SegmentStat};
use std::fmt::Write as _;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Points of one curve at most.
const POINTS: usize = 400;

/// A curve: whose, and its points.
type Curve = (Kind, Vec<(f64, f64)>);

/// A chart with its axes.
struct Chart {
    title: String,
    about: &'static str,
    x: (&'static str, f64, f64),
    y: (&'static str, f64, f64),
    /// Whether y is drawn by its logarithm.
    log: bool,
    curves: Vec<Curve>,
}

/// The page.
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
    let charts: String = charts
        .iter()
        .filter(|chart| !chart.is_empty())
        .map(Chart::draw)
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Merge policies</title><style>{STYLE}\
         </style></head><body><h1>Merge policies, simulated</h1><main>{charts}</main></body></html>\n"
    )
}

/// Live shares of segments, smallest first.
pub fn live_shares(segments: &[SegmentStat]) -> Vec<f64> {
    let mut shares: Vec<f64> = segments.iter().map(|one| 1.0 - one.dead_share()).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:24px auto;max-width:1200px;padding:0 16px;\
    color:#1d2733;background:#fff}h1{font-size:22px}h2{font-size:16px;margin:0}p{margin:2px 0 6px;color:#566373;\
    font-size:13px}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:28px}\
    svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#566373}.grid{stroke:#e3e8ee}\
    .curve{fill:none;stroke-width:2;stroke-linejoin:round}.name{font-weight:600}";

fn color(kind: Kind) -> &'static str {
    match kind {
        Kind::Fifo => "#8a8f98",
        Kind::Greedy => "#c2571a",
        Kind::CostBenefit => "#8c5bb5",
        Kind::Fisherman => "#1f77b4",
        Kind::Patient => "#16825d",
    }
}

/// One curve a policy, over V.
fn over_v(runs: &[Run], y: impl Fn(&Run) -> Option<f64>) -> Vec<Curve> {
    let points = |kind: Kind| {
        let of_kind = runs.iter().filter(|run| run.policy == kind);
        let mut points: Vec<(f64, f64)> =
            of_kind.filter_map(|run| Some((run.v, y(run)?))).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        (kind, points)
    };
    Kind::ALL
        .into_iter()
        .map(points)
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

fn bounds(curves: &[Curve], of: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = curves.iter().flat_map(|(_, points)| points).map(of);
    values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn written(runs: &[Run]) -> Chart {
    let curves = over_v(runs, |run| Some(run.outcome.written_per_byte()));
    let (_, most) = bounds(&curves, |(_, y)| *y);
    let (low, high) = bounds(&curves, |(x, _)| *x);
    Chart {
        title: "Bytes written for each byte stored".to_string(),
        about: "1: segments die whole, nothing is written twice (planing). Logarithmic.",
        x: ("live share V", low, high),
        y: ("", 1.0, most.max(2.0)),
        log: true,
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
        x: ("live share V", low, high),
        y: ("", 0.0, 1.0),
        log: false,
        curves,
    }
}

fn fill(runs: &[&Run], v: f64, um: f64) -> Chart {
    let thinned = |run: &&Run| {
        let step = run.outcome.fill.len().div_ceil(POINTS).max(1);
        let points = run.outcome.fill.iter().step_by(step);
        let in_capacities = |&(bytes, u): &(u64, f64)| (bytes as f64 / run.budget as f64, u);
        (run.policy, points.map(in_capacities).collect())
    };
    let curves: Vec<Curve> = runs.iter().map(thinned).collect();
    let (_, end) = bounds(&curves, |(x, _)| *x);
    let (least, _) = bounds(&curves, |(_, y)| *y);
    Chart {
        title: format!("Fill U at V = {v:.3}, Um = {um}"),
        about: "Room that is used, open segments included.",
        x: ("bytes stored, in capacities", 0.0, end),
        y: ("", least.min(um) - 0.01, 1.0),
        log: false,
        curves,
    }
}

fn segments(runs: &[&Run], v: f64) -> Chart {
    let sorted = |run: &&Run| {
        let shares = live_shares(&run.outcome.segments);
        let last = shares.len().max(2) - 1;
        let step = shares.len().div_ceil(POINTS).max(1);
        let place = |(index, share): (usize, f64)| (index as f64 / last as f64, share);
        (
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
        x: ("segments", 0.0, 1.0),
        y: ("", 0.0, 1.0),
        log: false,
        curves: runs.iter().map(sorted).collect(),
    }
}

impl Chart {
    fn is_empty(&self) -> bool {
        self.curves.iter().all(|(_, points)| points.is_empty())
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let scale = |y: f64| if self.log { y.max(1e-9).ln() } else { y };
        let share = |value: f64, low: f64, high: f64| (value - low) / (high - low).max(1e-9);
        let across = share(x, self.x.1, self.x.2);
        let up = share(scale(y), scale(self.y.1), scale(self.y.2));
        (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM),
        )
    }

    fn draw(&self) -> String {
        let mut svg = format!(
            "<section><h2>{}</h2><p>{}</p><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            self.title, self.about, self.title
        );
        self.axes(&mut svg);
        let mut names: Vec<(f64, Kind)> = Vec::new();
        for (kind, points) in &self.curves {
            let path: Vec<String> = points
                .iter()
                .map(|&(x, y)| {
                    let (x, y) = self.place(x, y);
                    format!("{x:.1},{y:.1}")
                })
                .collect();
            let color = color(*kind);
            let _ = write!(
                svg,
                "<polyline class=\"curve\" stroke=\"{color}\" points=\"{}\"/>",
                path.join(" ")
            );
            if let Some(&(x, y)) = points.last() {
                names.push((self.place(x, y).1, *kind));
            }
        }
        self.names(&mut svg, names);
        svg.push_str("</svg></section>");
        svg
    }

    fn axes(&self, svg: &mut String) {
        for value in ticks(self.y.1, self.y.2, self.log) {
            let (_, y) = self.place(self.x.1, value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                number(value)
            );
        }
        for value in ticks(self.x.1, self.x.2, false) {
            let (x, y) = self.place(value, self.y.1);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 18.0,
                number(value)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            self.x.0
        );
    }

    /// Names at the ends of curves, moved apart where they would lie on each other.
    fn names(&self, svg: &mut String, mut names: Vec<(f64, Kind)>) {
        names.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut free = TOP;
        let lowest = HEIGHT - BOTTOM - 14.0 * names.len() as f64;
        for (index, (y, kind)) in names.into_iter().enumerate() {
            let y = y.max(free).min(lowest + 14.0 * (index as f64 + 1.0));
            free = y + 14.0;
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{}\" y=\"{:.1}\" style=\"fill:{}\">{kind}</text>",
                WIDTH - RIGHT + 8.0,
                y + 4.0,
                color(kind)
            );
        }
    }
}

/// Round values from `low` to `high`: about five, or 1, 2, 5 … if logarithmic.
fn ticks(low: f64, high: f64, log: bool) -> Vec<f64> {
    if log {
        let decades = (0..6).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)));
        return decades.filter(|tick| (low..=high).contains(tick)).collect();
    }
    let rough = (high - low).max(1e-9) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    let step = factor.unwrap_or(10.0) * power;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let text = |low, high, log| {
            ticks(low, high, log)
                .iter()
                .map(|&tick| number(tick))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            text(0.0, 1.0, false),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
        assert_eq!(text(0.5, 0.9, false), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(text(1.0, 12.0, true), ["1", "2", "5", "10"]);
    }
}
