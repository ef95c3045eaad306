//! Figures of the report, in the form of figures 4 to 12 of *Riak*.

use super::Merge;
use crate::cell::Cell;
use crate::experiment::Measurements;
use seiner_chart::{Axis, Figure, LineSeries, plain};

/// Best rate of one node of the paper's cluster, MB/s (*Riak*, conclusion).
const PAPER_MB_S: f64 = 85.0;

/// Returns all figures.
pub fn figures(settings: &Merge, results: &Measurements<'_>) -> Vec<Figure> {
    let mut figures = vec![
        by(
            results,
            settings,
            Sweep::Live,
            "MB/s",
            "Rate against V",
            "Bytes of blocks stored per second, waits included: the paper's figures 5, 8 and 11. Its node reached at most 85 MB/s.",
        ),
        by(
            results,
            settings,
            Sweep::Live,
            "written per byte",
            "Bytes written per byte stored",
            "Blocks sealed and blocks that merges rewrote. 1: segments died whole, which the paper calls planing. Counts depend on the load alone.",
        ),
        by(
            results,
            settings,
            Sweep::Live,
            "mean D of merged",
            "Dead share of merged segments",
            "As in the paper's figures 5 and 8. Segments that die whole are dropped unread and do not count.",
        ),
        by(
            results,
            settings,
            Sweep::Segment,
            "MB/s",
            "Rate against R",
            "The paper's figure 10.",
        ),
        by(
            results,
            settings,
            Sweep::Segment,
            "written per byte",
            "Bytes written per byte stored, against R",
            "",
        ),
        by(
            results,
            settings,
            Sweep::Block,
            "MB/s",
            "Rate against B",
            "The paper's figure 12.",
        ),
    ];
    figures.push(over_time(results, settings, "MB/s", "Rate over time"));
    figures.push(over_time(results, settings, "U", "Fill over time"));
    figures.push(live(results, settings));
    figures
}

/// Setting on the x axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Live,
    Segment,
    Block,
}

impl Sweep {
    fn setting(self) -> &'static str {
        match self {
            Sweep::Live => "V",
            Sweep::Segment => "R",
            Sweep::Block => "B",
        }
    }

    fn axis(self) -> Axis {
        match self {
            Sweep::Live => Axis::linear("V, live share of the budget"),
            Sweep::Segment => Axis::log("R, KiB of a segment"),
            Sweep::Block => Axis::log("B, KiB of a block"),
        }
    }

    /// Returns true if all other settings of a cell have the fixed values of this sweep.
    fn has(self, cell: &Cell, settings: &Merge) -> bool {
        let first = |name: &str, value: f64| cell.number(name) == Some(value);
        let size = (self == Sweep::Segment || first("R", settings.segments[0] as f64))
            && (self == Sweep::Block || first("B", f64::from(settings.blocks[0])));
        let is_first = cell.text("policy") == settings.policies.first().map(String::as_str);
        match self {
            Sweep::Live => size,
            _ => size && is_first && first("V", settings.v_of_sizes),
        }
    }
}

fn by(
    results: &Measurements<'_>,
    settings: &Merge,
    sweep: Sweep,
    figure: &str,
    title: &str,
    caption: &str,
) -> Figure {
    let scale = if sweep == Sweep::Live { 1.0 } else { 1024.0 };
    let mut series: Vec<LineSeries> = Vec::new();
    for cell in results
        .cells
        .iter()
        .filter(|cell| sweep.has(cell, settings))
    {
        let (Some(policy), Some(x), Some(y)) = (
            cell.text("policy"),
            cell.number(sweep.setting()),
            cell.figure(figure),
        ) else {
            continue;
        };
        let point = (x / scale, y);
        match series.iter_mut().find(|line| line.name == policy) {
            Some(line) => line.points.push(point),
            None => series.push(LineSeries {
                name: policy.to_string(),
                points: vec![point],
                is_reference: false,
                twin: None,
            }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    if figure == "MB/s" && sweep == Sweep::Live && !series.is_empty() {
        series.push(LineSeries {
            name: "paper: best rate of a node".to_string(),
            points: vec![(0.1, PAPER_MB_S), (0.6, PAPER_MB_S)],
            is_reference: true,
            twin: None,
        });
    }
    Figure::Lines {
        title: title.to_string(),
        caption: caption.to_string(),
        x: sweep.axis(),
        y: Axis::linear(figure),
        series,
    }
}

/// Lines over time of the first policy's cells, one for each V.
fn lines(results: &Measurements<'_>, settings: &Merge, name: &str) -> Vec<LineSeries> {
    let of = |cell: &Cell| {
        let line = cell.lines.iter().find(|line| line.name == name)?;
        Some(LineSeries {
            name: format!("V={}", plain(cell.number("V")?)),
            points: line.points.clone(),
            is_reference: false,
            twin: None,
        })
    };
    let cells = results.cells.iter().filter(|cell| {
        Sweep::Live.has(cell, settings)
            && cell.text("policy") == settings.policies.first().map(String::as_str)
    });
    cells.filter_map(of).collect()
}

fn over_time(results: &Measurements<'_>, settings: &Merge, name: &str, title: &str) -> Figure {
    Figure::Lines {
        title: title.to_string(),
        caption: format!(
            "Policy {}. Earlier seconds belong to the warm-up. As in the paper's figures 4 and 6.",
            settings.policies[0]
        ),
        x: Axis::linear("seconds"),
        y: Axis::linear(name),
        series: lines(results, settings, name),
    }
}

fn live(results: &Measurements<'_>, settings: &Merge) -> Figure {
    Figure::Lines {
        title: "Live share by segment, at the end".to_string(),
        caption: "Segments in the order of their live share: the paper's figure 9. The more segments are at 0 or 1, the less a merge must write."
            .to_string(),
        x: Axis::linear("segments, percent"),
        y: Axis::linear("live share"),
        series: lines(results, settings, "live share by segment"),
    }
}

/// Returns the results as sentences.
pub fn remarks(settings: &Merge, results: &Measurements<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    let at = |policy: &str, v: f64| {
        results.cells.iter().find(|cell| {
            Sweep::Live.has(cell, settings)
                && cell.text("policy") == Some(policy)
                && cell.number("V") == Some(v)
        })
    };
    let highest = settings.v.iter().copied().fold(0.0, f64::max);
    let written: Vec<String> = settings
        .policies
        .iter()
        .filter_map(|policy| {
            let figure = at(policy, highest)?.figure("written per byte")?;
            Some(format!("{policy} {}", plain(figure)))
        })
        .collect();
    if !written.is_empty() {
        remarks.push(format!(
            "At V = {}, bytes written per byte stored: {}.",
            plain(highest),
            written.join(", ")
        ));
    }
    let rejected = results
        .cells
        .iter()
        .filter(|cell| cell.figure("MB/s").is_none());
    let rejected: Vec<&str> = rejected.map(|cell| cell.name.as_str()).collect();
    if !rejected.is_empty() {
        remarks.push(format!("Too slow, rejected rows: {}.", rejected.join("; ")));
    }
    let first = &settings.policies[0];
    let planing = settings.v.iter().copied().filter(|v| {
        at(first, *v)
            .and_then(|cell| cell.figure("written per byte"))
            .is_some_and(|written| written < 1.01)
    });
    let planing = planing.fold(f64::NAN, f64::max);
    if planing.is_finite() {
        remarks.push(format!(
            "{first} planes (rewrites less than 1 %) up to V = {} of the values tried. The paper's store planed up to 0.2.",
            plain(planing)
        ));
    }
    remarks.push(
        "Sensors have lognormal rates. All keep the same number of samples, of incompressible values. Counts of bytes follow from the seed. Rates are those of this machine, with one thread that also merges."
            .to_string(),
    );
    remarks
}
