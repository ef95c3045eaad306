//! Two runs side by side: the cells that both have, figure by figure, and their pictures in one.

use super::figure::{Figure, Row, Series, plain};
use super::{list, section, surroundings, whole};
use crate::results::{Cell, Results};

/// Differences below this share of the smaller figure are noise on most machines.
const NOISE: f64 = 0.05;

/// The page that compares `before` and `after`.
pub fn page(before: &Results, after: &Results) -> String {
    let mut body = format!(
        "<h1>seiner lab {}: A and B</h1><p class=\"lead\">A: {} · B: {}</p>",
        before.experiment(),
        super::escape(&before.started),
        super::escape(&after.started)
    );
    list(
        &mut body,
        "What differs besides",
        &differences(before, after),
    );
    let others = after.job.work.experiment().figures(after);
    for figure in before.job.work.experiment().figures(before) {
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

/// What is not the same in two runs, apart from figures.
fn differences(before: &Results, after: &Results) -> Vec<String> {
    let place = |results: &Results| {
        results
            .place
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
        ("disk", place(before), place(after)),
    ];
    pairs
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| format!("{what}: {a} and {b}"))
        .collect()
}

/// The lines of both in one picture; other kinds of figures are compared in the table only.
fn overlay(before: Figure, after: &Figure) -> Option<Figure> {
    let (
        Figure::Lines {
            title,
            caption,
            x,
            y,
            series,
        },
        Figure::Lines { series: others, .. },
    ) = (before, after)
    else {
        return None;
    };
    let ours = |letter: &str, lines: Vec<Series>| -> Vec<Series> {
        let lines = lines.into_iter().filter(|line| !line.is_reference);
        lines
            .map(|line| Series {
                name: format!("{letter}: {}", line.name),
                ..line
            })
            .collect()
    };
    let mut series = ours("A", series);
    series.extend(ours("B", others.clone()));
    Some(Figure::Lines {
        title,
        caption,
        x,
        y,
        series,
    })
}

/// Every figure that both have, with B over A.
fn table(before: &Results, after: &Results) -> Figure {
    let mut rows = Vec::new();
    for (cell, other) in common(before, after) {
        for (name, a) in &cell.figures {
            let Some(b) = other.figure(name) else {
                continue;
            };
            let verdict = match ratio(*a, b) {
                Some(ratio) if (ratio - 1.0).abs() < NOISE => format!("{} (same)", plain(ratio)),
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
            rows.push(Row {
                fields,
                is_reference: false,
            });
        }
    }
    Figure::Table {
        title: "Figure by figure".to_string(),
        caption: format!(
            "\"Same\" where they differ by less than {} %.",
            plain(NOISE * 100.0)
        ),
        columns: ["cell", "figure", "A", "B", "B ÷ A"]
            .map(String::from)
            .to_vec(),
        rows,
    }
}

/// Cells of the same name.
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
