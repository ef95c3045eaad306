//! Charts of the results, over the depth.

use super::cell::Pattern;
use super::report::Line;
use seiner_chart::{Axis, Figure, LineSeries, page};
use seiner_raid::Merging;

/// Quantity to draw.
struct Quantity {
    title: &'static str,
    caption: &'static str,
    axis: fn() -> Axis,
    of: fn(&Line) -> f64,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        title: "Rate",
        caption: "Bytes that clients wrote per second. Logarithmic.",
        axis: || Axis::log("MB/s"),
        of: |line| line.mb_per_s,
    },
    Quantity {
        title: "Member operations per write",
        caption: "Reads and writes of members per write of a client. Coalesced writes need fewer.",
        axis: || Axis::linear("member operations"),
        of: |line| line.member_operations_per_write,
    },
    Quantity {
        title: "Latency, 99th percentile",
        caption: "Time from submission to acknowledgement. Logarithmic.",
        axis: || Axis::log("µs"),
        of: |line| line.p99_us,
    },
];

/// Returns the page with the charts. `storage` is the name of the storage that was measured.
pub fn page(storage: &str, lines: &[Line]) -> String {
    let figures: Vec<Figure> = Pattern::ALL
        .into_iter()
        .flat_map(|pattern| QUANTITIES.map(|quantity| draw(pattern, &quantity, lines)))
        .collect();
    page::of_figures(
        &format!("Small writes: {storage}"),
        &[],
        &figures,
        strategy_colour,
    )
}

fn draw(pattern: Pattern, quantity: &Quantity, lines: &[Line]) -> Figure {
    let of_strategy = |merging: Merging| {
        let own = |line: &&Line| line.pattern == pattern.name() && line.merging == merging.name();
        let point = |line: &Line| (line.depth as f64, (quantity.of)(line));
        let points = lines.iter().filter(own).map(point).collect();
        LineSeries::new(merging.name(), points)
    };
    Figure::Lines {
        title: format!("{}, {}", quantity.title, pattern.name()),
        caption: quantity.caption.to_string(),
        x: Axis::log("writes outstanding"),
        y: (quantity.axis)(),
        series: Merging::ALL
            .into_iter()
            .map(of_strategy)
            .filter(|line| !line.points.is_empty())
            .collect(),
    }
}

/// Returns the fixed colour of a merging strategy.
fn strategy_colour(name: &str) -> Option<usize> {
    Merging::ALL
        .iter()
        .position(|merging| merging.name() == name)
}
