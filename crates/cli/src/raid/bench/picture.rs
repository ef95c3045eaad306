//! Charts of the results, over the depth.

use super::cell::Pattern;
use super::report::Line;
use crate::chart::{self, Axis, Chart, Curve, bounds};
use seiner_raid::Merging;

/// Quantity to draw: name, explanation, true for a logarithmic scale, and the function that returns
/// the value.
type Figure = (&'static str, &'static str, bool, fn(&Line) -> f64);

const FIGURES: [Figure; 3] = [
    ("MB/s", "What clients wrote. Logarithmic.", true, |line| {
        line.mb_per_s
    }),
    (
        "Member operations a write",
        "Reads and writes of members for each write of a client: what merging saves.",
        false,
        |line| line.member_operations_per_write,
    ),
    (
        "99 of 100 writes took no longer, µs",
        "From submission to acknowledgement. Logarithmic.",
        true,
        |line| line.p99_us,
    ),
];

/// Returns the page with the charts.
pub fn page(ground: &str, lines: &[Line]) -> String {
    let charts: Vec<Chart> = Pattern::ALL
        .into_iter()
        .flat_map(|pattern| FIGURES.map(|figure| draw(pattern, figure, lines)))
        .collect();
    chart::page(&format!("Small writes: {ground}"), &charts)
}

fn draw(pattern: Pattern, (name, about, log, of): Figure, lines: &[Line]) -> Chart {
    let curve = |merging: Merging| {
        let own = |line: &&Line| line.pattern == pattern.name() && line.merging == merging.name();
        let point = |line: &Line| (line.depth as f64, of(line));
        Curve {
            name: merging.name().to_string(),
            color: color(merging),
            points: lines.iter().filter(own).map(point).collect(),
        }
    };
    let curves: Vec<Curve> = Merging::ALL.into_iter().map(curve).collect();
    let (shallow, deep) = bounds(&curves, |(x, _)| *x);
    let (least, most) = bounds(&curves, |(_, y)| *y);
    Chart {
        title: format!("{}, {}", name, pattern.name()),
        about,
        x: Axis {
            name: "writes outstanding",
            ends: (shallow, deep),
            log: true,
        },
        y: Axis {
            name: "",
            ends: (if log { least * 0.8 } else { 0.0 }, most * 1.1),
            log,
        },
        curves,
    }
}

fn color(merging: Merging) -> &'static str {
    match merging {
        Merging::Never => "#8a8f98",
        Merging::Batch => "#c2571a",
        Merging::Always => "#8c5bb5",
        Merging::Paper => "#1f77b4",
        Merging::PaperBatch => "#0b3d66",
        Merging::Adaptive => "#16825d",
    }
}
