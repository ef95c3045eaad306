//! Comparison of two runs: their common cells, figure by figure, and combined charts.

use super::{section, surroundings, whole};
use crate::cell::Cell;
use crate::results::Results;
use seiner_chart::page::list;
use seiner_chart::{BarSeries, Figure, LineSeries, TableRow, plain};
use std::collections::BTreeMap;

/// Relative difference below which a change is noise on most machines, as a share of the smaller figure.
const NOISE: f64 = 0.05;

/// Returns the page that compares `before` and `after`.
pub fn page(before: &Results, after: &Results) -> String {
    let mut body = format!(
        "<h1>seiner lab {}: A and B</h1><p class=\"lead\">A: {} · B: {}</p>",
        before.experiment(),
        super::moment(&before.started),
        super::moment(&after.started)
    );
    body.push_str(&list("Other differences", &differences(before, after)));
    body.push_str(&section(&summary(before, after)));
    let others = after.figures();
    for figure in before.figures() {
        if let Some(other) = others.iter().find(|other| other.title() == figure.title()) {
            body.push_str(
                &overlay(figure, other)
                    .map(|figure| section(&figure))
                    .unwrap_or_default(),
            );
        }
    }
    body.push_str(&section(&table(before, after)));
    body.push_str("<h2>A</h2>");
    body.push_str(&surroundings(before));
    body.push_str("<h2>B</h2>");
    body.push_str(&surroundings(after));
    whole("seiner lab report", &body)
}

/// Returns the differences between the circumstances of two runs.
fn differences(before: &Results, after: &Results) -> Vec<String> {
    let location = |results: &Results| {
        results
            .location
            .as_ref()
            .map_or_else(|| "no disk".to_string(), super::describe)
    };
    let pairs = [
        (
            "experiment",
            before.experiment().to_string(),
            after.experiment().to_string(),
        ),
        (
            "backend",
            before.backend.to_string(),
            after.backend.to_string(),
        ),
        (
            "profile",
            format!("{:?}", before.job.profile),
            format!("{:?}", after.job.profile),
        ),
        (
            "seed",
            before.job.seed.to_string(),
            after.job.seed.to_string(),
        ),
        (
            "kernel",
            before.machine.kernel.clone(),
            after.machine.kernel.clone(),
        ),
        (
            "processor",
            before.machine.processor.clone(),
            after.machine.processor.clone(),
        ),
        ("program", before.program.clone(), after.program.clone()),
        ("disk", location(before), location(after)),
    ];
    pairs
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| format!("{what}: {a} and {b}"))
        .collect()
}

/// Combines the lines or bars of both runs in one chart, with the same colours. Tables are compared figure by
/// figure.
fn overlay(before: Figure, after: &Figure) -> Option<Figure> {
    match (before, after) {
        (
            Figure::Lines {
                title,
                caption,
                x,
                y,
                series,
            },
            Figure::Lines { series: others, .. },
        ) => {
            let both = pairs(series, others, |line| (&line.name, line.is_reference));
            let series =
                both.into_iter()
                    .map(|(name, twin, line)| LineSeries { name, twin, ..line });
            Some(Figure::Lines {
                title,
                caption,
                x,
                y,
                series: series.collect(),
            })
        }
        (
            Figure::Bars {
                title,
                caption,
                y,
                categories,
                series,
                is_stacked: false,
            },
            Figure::Bars {
                categories: same,
                series: others,
                ..
            },
        ) if categories == *same => {
            let both = pairs(series, others, |bars| (&bars.name, bars.is_reference));
            let series =
                both.into_iter()
                    .map(|(name, twin, bars)| BarSeries { name, twin, ..bars });
            Some(Figure::Bars {
                title,
                caption,
                y,
                categories,
                series: series.collect(),
                is_stacked: false,
            })
        }
        _ => None,
    }
}

/// Returns the series of A followed by those of B, each with its name and the index of the series that it
/// repeats.
fn pairs<T: Clone>(
    ours: Vec<T>,
    others: &[T],
    about: fn(&T) -> (&String, bool),
) -> Vec<(String, Option<usize>, T)> {
    let named = |letter: &str, one: &T| match about(one).0.as_str() {
        "" => letter.to_string(),
        name => format!("{letter}: {name}"),
    };
    let ours: Vec<T> = ours.into_iter().filter(|one| !about(one).1).collect();
    let repeated = others.iter().filter(|one| !about(one).1).map(|one| {
        let same = |other: &T| about(other).0 == about(one).0;
        (named("B", one), ours.iter().position(same), one.clone())
    });
    let first = ours.iter().map(|one| (named("A", one), None, one.clone()));
    first.chain(repeated).collect()
}

/// Returns the summary: for each kind of figure the median and the extremes of B over A.
fn summary(before: &Results, after: &Results) -> Figure {
    let mut ratios: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (cell, other) in common(before, after) {
        for (name, a) in &cell.figures {
            if let Some(ratio) = other.figure(name).and_then(|b| ratio(*a, b)) {
                ratios.entry(name).or_default().push(ratio);
            }
        }
    }
    let rows = ratios.into_iter().map(|(name, mut of)| {
        of.sort_by(f64::total_cmp);
        let same = of.iter().filter(|ratio| is_same(**ratio)).count();
        TableRow {
            fields: vec![
                name.to_string(),
                plain(of[of.len() / 2]),
                plain(of[0]),
                plain(of[of.len() - 1]),
                format!("{same} of {}", of.len()),
            ],
            is_reference: false,
        }
    });
    Figure::Table {
        title: "Summary".to_string(),
        caption: format!(
            "B ÷ A over all common cells: the median, the minimum, the maximum, and the number of cells that differ by less than {} %.",
            plain(NOISE * 100.0)
        ),
        columns: ["figure", "B ÷ A, median", "minimum", "maximum", "same"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
    }
}

fn is_same(ratio: f64) -> bool {
    (ratio - 1.0).abs() < NOISE
}

/// Returns all common figures, with B over A.
fn table(before: &Results, after: &Results) -> Figure {
    let mut rows = Vec::new();
    for (cell, other) in common(before, after) {
        for (name, a) in &cell.figures {
            let Some(b) = other.figure(name) else {
                continue;
            };
            let verdict = match ratio(*a, b) {
                Some(ratio) if is_same(ratio) => format!("{} (same)", plain(ratio)),
                Some(ratio) => plain(ratio),
                None => "–".to_string(),
            };
            let fields = vec![
                cell.name.clone(),
                name.clone(),
                plain(*a),
                plain(b),
                verdict,
            ];
            rows.push(TableRow {
                fields,
                is_reference: false,
            });
        }
    }
    Figure::Table {
        title: "Figure by figure".to_string(),
        caption: format!(
            "\"Same\": they differ by less than {} %.",
            plain(NOISE * 100.0)
        ),
        columns: ["cell", "figure", "A", "B", "B ÷ A"]
            .map(String::from)
            .to_vec(),
        rows,
    }
}

/// Returns the cells of the same name.
pub fn common<'a>(before: &'a Results, after: &'a Results) -> Vec<(&'a Cell, &'a Cell)> {
    before
        .cells
        .iter()
        .filter_map(|cell| {
            Some((
                cell,
                after.cells.iter().find(|other| other.name == cell.name)?,
            ))
        })
        .collect()
}

fn ratio(before: f64, after: f64) -> Option<f64> {
    (before != 0.0).then(|| after / before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_line_of_two_runs_has_one_colour() {
        let line = |name: &str, is_reference| LineSeries {
            name: name.to_string(),
            points: vec![(1.0, 1.0)],
            is_reference,
            twin: None,
        };
        let both = pairs(
            vec![
                line("files", false),
                line("log", false),
                line("paper", true),
            ],
            &[line("log", false), line("sqlite", false)],
            |line| (&line.name, line.is_reference),
        );
        let found: Vec<(&str, Option<usize>)> = both
            .iter()
            .map(|(name, twin, _)| (name.as_str(), *twin))
            .collect();
        assert_eq!(
            found,
            [
                ("A: files", None),
                ("A: log", None),
                ("B: log", Some(1)),
                ("B: sqlite", None)
            ]
        );
    }
}
