//! Figures and remarks of the test, with those of the papers.

use super::{Align, OPERATIONS};
use crate::backend::Backend;
use crate::cell::Cell;
use crate::experiment::Measurements;
use crate::papers;
use seiner_chart::{Axis, BarSeries, Figure, TableRow, plain};

/// Returns the figures of a report.
pub fn figures(settings: &Align, results: &Measurements<'_>) -> Vec<Figure> {
    let mut figures = vec![
        counts(results),
        penalties(
            results,
            "model",
            "Penalty on a modelled disk with 4 KiB sectors",
        ),
    ];
    if settings.device.is_some() {
        figures.push(penalties(
            results,
            "clock",
            "Penalty in wall-clock time on this disk",
        ));
    }
    figures.extend([published(), rows(results)]);
    figures
}

/// Returns sentences that summarize the results and state their limits.
pub fn remarks(settings: &Align, results: &Measurements<'_>) -> Vec<String> {
    let sum = |which: &str| -> f64 {
        let of = |cell: &Cell| {
            OPERATIONS
                .iter()
                .filter_map(|name| cell.figure(&format!("{name} rmw, {which}")))
                .sum::<f64>()
        };
        results.cells.iter().map(of).sum()
    };
    let mut remarks = vec![format!(
        "Over all file systems, the medium reads {} sectors before it writes them if the partition is unaligned, and {} if it is aligned.",
        plain(sum("unaligned")),
        plain(sum("aligned"))
    )];
    remarks.push(match settings.device {
        Some(_) => "Wall-clock seconds are those of this device. The counts come from the requests to the device.".to_string(),
        None if settings.backend == Backend::Guest => "Counts come from the traced requests of an emulated machine; its seconds count instructions. \
                 The model's seconds are those of a disk of 7200 turns per minute without a write cache that sorts."
            .to_string(),
        None => "The image's own disk hides the penalty: wall-clock seconds are noise here. Counts come from the traced requests; \
                 the model's seconds are those of a disk of 7200 turns per minute without a write cache that sorts."
            .to_string(),
    });
    remarks
}

fn counts(results: &Measurements<'_>) -> Figure {
    let series = ["aligned", "unaligned"].map(|which| BarSeries {
        name: which.to_string(),
        values: results
            .cells
            .iter()
            .map(|cell| {
                let of = |name: &&str| cell.figure(&format!("{name} rmw, {which}"));
                Some(OPERATIONS.iter().filter_map(of).sum())
            })
            .collect(),
        is_reference: false,
        twin: None,
    });
    Figure::Bars {
        title: "Sectors read before they are written".to_string(),
        caption: "Counted from the requests of all operations, for a medium with sectors of 4 KiB."
            .to_string(),
        y: Axis::linear("read-modify-writes"),
        categories: results.cells.iter().map(|cell| cell.name.clone()).collect(),
        series: series.into(),
        is_stacked: false,
    }
}

/// Penalty of an operation: seconds unaligned ÷ seconds aligned. `None` if a figure is missing or
/// the aligned time is 0.
fn penalty(cell: &Cell, operation: &str, by: &str) -> Option<f64> {
    let of = |which: &str| cell.figure(&format!("{operation} s {by}, {which}"));
    let (aligned, unaligned) = (of("aligned")?, of("unaligned")?);
    (aligned > 0.0).then(|| unaligned / aligned)
}

fn penalties(results: &Measurements<'_>, by: &str, title: &str) -> Figure {
    let ours = results.cells.iter().map(|cell| BarSeries {
        name: cell.name.clone(),
        values: OPERATIONS
            .iter()
            .map(|operation| penalty(cell, operation, by))
            .collect(),
        is_reference: false,
        twin: None,
    });
    Figure::Bars {
        title: title.to_string(),
        caption: "Unaligned over aligned; 1 is no penalty.".to_string(),
        y: Axis::linear("times as long"),
        categories: OPERATIONS.map(String::from).into(),
        series: ours.collect(),
        is_stacked: false,
    }
}

/// Figure of the three disks in the paper.
fn published() -> Figure {
    let penalties = papers::alignment();
    let operations = [
        "mkfs",
        "extract",
        "copy large",
        "read small",
        "read large",
        "delete",
    ];
    let mut disks: Vec<&String> = penalties.iter().map(|penalty| &penalty.disk).collect();
    disks.dedup();
    let series = disks.into_iter().map(|disk| BarSeries {
        name: format!("paper: {disk}"),
        values: operations
            .iter()
            .map(|operation| {
                let found = penalties
                    .iter()
                    .find(|penalty| &penalty.disk == disk && &penalty.operation == operation);
                found.and_then(|penalty| penalty.values[1])
            })
            .collect(),
        is_reference: true,
        twin: None,
    });
    Figure::Bars {
        title: "The paper's disks".to_string(),
        caption: "Mean over ext3, ext4, ReiserFS, JFS, XFS and Btrfs; the greatest are 25.5 (extract, ReiserFS, 2009) and 8.5 (read small, JFS, 2012).".to_string(),
        y: Axis::linear("times as long"),
        categories: operations.map(String::from).into(),
        series: series.collect(),
        is_stacked: false,
    }
}

fn rows(results: &Measurements<'_>) -> Figure {
    let mut rows = Vec::new();
    for cell in results.cells {
        for operation in OPERATIONS {
            let figure = |name: &str| {
                cell.figure(&format!("{operation} {name}"))
                    .map(plain)
                    .unwrap_or_default()
            };
            let ratio = |by: &str| penalty(cell, operation, by).map(plain).unwrap_or_default();
            rows.push(TableRow {
                fields: vec![
                    format!("{} {operation}", cell.name),
                    figure("requests, unaligned"),
                    figure("rmw, aligned"),
                    figure("rmw, unaligned"),
                    ratio("model"),
                    ratio("clock"),
                ],
                is_reference: false,
            });
        }
    }
    let columns = [
        "operation",
        "requests",
        "rmw at sector 40",
        "rmw at sector 34",
        "penalty, model",
        "penalty, clock",
    ];
    Figure::Table {
        title: "Operation by operation".to_string(),
        caption: "rmw: sectors that the medium reads before it writes them.".to_string(),
        columns: columns.map(String::from).into(),
        rows,
    }
}
