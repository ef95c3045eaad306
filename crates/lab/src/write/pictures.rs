//! Report of the write test, in the form of the first paper's figures 2 to 8.

use super::{SEQUENTIAL, StoreKind, Write};
use crate::backend::Backend;
use crate::blocks::tables;
use crate::cell::Cell;
use crate::experiment::Measurements;
use crate::papers;
use seiner_chart::{Axis, Figure, LineSeries, plain};

/// Maximum number of cells whose rate over time is drawn.
const COURSES: usize = 10;
/// Ratio above which two rates count as equal.
const SAME_RATE: f64 = 0.9;

/// Returns all figures.
pub fn figures(results: &Measurements<'_>) -> Vec<Figure> {
    let mut figures = vec![
        by_sensors(results),
        by_share(results),
        amplification(results),
        by_portion(results),
    ];
    figures.extend(over_time(results));
    figures.extend(tables::figures(results.cells));
    figures
}

fn kind(cell: &Cell) -> Option<StoreKind> {
    serde_json::from_value(cell.settings.get("store")?.clone()).ok()
}

/// Returns the name of a cell's line in the legend.
fn label(cell: &Cell) -> String {
    match (kind(cell), cell.number("B")) {
        _ if cell.name == SEQUENTIAL => SEQUENTIAL.to_string(),
        (Some(StoreKind::Files), Some(portion)) => format!("files B={}K", plain(portion / 1024.0)),
        (Some(kind), _) => kind.name().to_string(),
        _ => String::new(),
    }
}

/// Returns the sustained rate if it was measured, otherwise the maximum rate.
fn rate(cell: &Cell) -> Option<f64> {
    cell.figure("sustained MB/s")
        .or_else(|| cell.figure("MB/s"))
}

/// Returns lines of cells over a setting.
fn lines(
    results: &Measurements<'_>,
    x: &str,
    name: impl Fn(&Cell) -> Option<String>,
    y: impl Fn(&Cell) -> Option<f64>,
) -> Vec<LineSeries> {
    let mut series: Vec<LineSeries> = Vec::new();
    for cell in results.cells {
        let (Some(name), Some(x), Some(y)) = (name(cell), cell.number(x), y(cell)) else {
            continue;
        };
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, y)),
            None => series.push(LineSeries {
                name,
                points: vec![(x, y)],
                is_reference: false,
                twin: None,
            }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}

/// Returns the paper's rows with B = 4K as lines; `y` takes a row and the rate of its line at F = 1.
fn paper_lines(y: impl Fn(&papers::BlockRow, f64) -> f64) -> Vec<LineSeries> {
    let rows = papers::blocks();
    [("HDD", "ext4"), ("SSD", "ext4"), ("SSD", "f2fs")]
        .iter()
        .map(|(disk, file_system)| {
            let mut of: Vec<_> = rows
                .iter()
                .filter(|row| {
                    row.disk == *disk && row.file_system == *file_system && row.buffer_kib == 4.0
                })
                .collect();
            of.sort_by(|a, b| a.files.total_cmp(&b.files));
            let single = of.first().map_or(1.0, |row| row.mb_s);
            LineSeries {
                name: format!("paper: files B=4K, {disk} {file_system}"),
                points: of.iter().map(|row| (row.files, y(row, single))).collect(),
                is_reference: true,
                twin: None,
            }
        })
        .collect()
}

fn by_sensors(results: &Measurements<'_>) -> Figure {
    let mut series = lines(results, "F", |cell| Some(label(cell)), rate);
    series.extend(paper_lines(|row, _| row.mb_s));
    Figure::Lines {
        title: "Rate of writing against the number of sensors".to_string(),
        caption: "MB of samples (16 bytes each) per second that reached the disk. All stores have the same load.".to_string(),
        x: Axis::log("sensors"),
        y: Axis::log("MB/s"),
        series,
    }
}

/// Returns the best rate of one file, the limit of this disk.
fn sequential(results: &Measurements<'_>) -> Option<f64> {
    let single = results
        .cells
        .iter()
        .filter(|cell| kind(cell) == Some(StoreKind::Files) && cell.number("F") == Some(1.0));
    single.filter_map(rate).reduce(f64::max)
}

/// Returns true if one file was clearly faster in small portions than in large pieces.
fn is_disturbed(results: &Measurements<'_>, single: f64) -> bool {
    let mut cells = results.cells.iter();
    cells
        .find(|cell| cell.name == SEQUENTIAL)
        .and_then(rate)
        .is_some_and(|in_pieces| in_pieces < SAME_RATE * single)
}

fn by_share(results: &Measurements<'_>) -> Figure {
    let series = match sequential(results) {
        Some(single) => {
            let mut series = lines(
                results,
                "F",
                |cell| Some(label(cell)),
                |cell| Some(100.0 * rate(cell)? / single),
            );
            series.extend(paper_lines(|row, single| 100.0 * row.mb_s / single));
            series
        }
        None => Vec::new(),
    };
    Figure::Lines {
        title: "Share of the rate of one file".to_string(),
        caption: "100 % is the best rate of one file on the same disk, portions of 1 MiB included. The paper's file \
                  store keeps 0.5 to 20 % of it with a million files and B = 4K."
            .to_string(),
        x: Axis::log("sensors"),
        y: Axis::linear("% of the rate of one file"),
        series,
    }
}

fn amplification(results: &Measurements<'_>) -> Figure {
    let mut series = lines(
        results,
        "F",
        |cell| Some(label(cell)),
        |cell| cell.figure("K_wa"),
    );
    series.extend(paper_lines(|row, _| row.kwa));
    Figure::Lines {
        title: "K_wa against the number of sensors".to_string(),
        caption: "Bytes written to the device over bytes of samples. A store that compresses can be below 1.".to_string(),
        x: Axis::log("sensors"),
        y: Axis::log("K_wa"),
        series,
    }
}

fn by_portion(results: &Measurements<'_>) -> Figure {
    let name = |cell: &Cell| {
        let sensors = cell.number("F")?;
        (kind(cell) == Some(StoreKind::Files) && cell.name != SEQUENTIAL)
            .then(|| format!("F={}", plain(sensors)))
    };
    let mut series = lines(results, "B", name, rate);
    series.retain(|line| line.points.len() > 1);
    for (portion, _) in series.iter_mut().flat_map(|line| &mut line.points) {
        *portion /= 1024.0;
    }
    Figure::Lines {
        title: "Files: rate against the size of portions".to_string(),
        caption: String::new(),
        x: Axis::log("B, KiB"),
        y: Axis::log("MB/s"),
        series,
    }
}

/// Returns the rate over time, for the cells with the most sensors.
fn over_time(results: &Measurements<'_>) -> Option<Figure> {
    let most = results
        .cells
        .iter()
        .filter_map(|cell| cell.number("F"))
        .fold(0.0, f64::max);
    let cells = results
        .cells
        .iter()
        .filter(|cell| cell.number("F") == Some(most))
        .take(COURSES);
    let series = cells.filter_map(|cell| {
        let line = cell.lines.iter().find(|line| line.name == "MB/s")?;
        Some(LineSeries {
            name: label(cell),
            points: line.points.clone(),
            is_reference: false,
            twin: None,
        })
    });
    Some(Figure::Lines {
        title: format!("Rate over time with {} sensors", plain(most)),
        caption: "Samples that the store accepted, before the sync at the end.".to_string(),
        x: Axis::linear("seconds"),
        y: Axis::linear("MB/s"),
        series: series.collect(),
    })
}

/// Returns sentences about the results.
pub fn remarks(settings: &Write, results: &Measurements<'_>) -> Vec<String> {
    let most = results
        .cells
        .iter()
        .filter_map(|cell| cell.number("F"))
        .fold(0.0, f64::max);
    let mut remarks = Vec::new();
    if let Some(single) = sequential(results) {
        remarks.push(format!(
            "The rate of one file is at most {} MB/s here, with the load of this test.",
            plain(single)
        ));
        if is_disturbed(results, single) {
            remarks.push(
                "The rate in pieces of 1 MiB was lower than in small portions: the disk was slower at that time, or another program used it. Shares are approximate."
                    .to_string(),
            );
        }
        for cell in results
            .cells
            .iter()
            .filter(|cell| cell.number("F") == Some(most))
        {
            if let Some(rate) = rate(cell) {
                remarks.push(format!(
                    "{} with {} sensors: {} MB/s, {} % of that rate ({} samples/s).",
                    label(cell),
                    plain(most),
                    plain(rate),
                    plain(100.0 * rate / single),
                    plain(rate * 1e6 / super::SAMPLE_BYTES as f64)
                ));
            }
        }
    }
    let unsteady = results
        .cells
        .iter()
        .filter(|cell| cell.figure("steady") == Some(0.0))
        .count();
    if unsteady > 0 {
        remarks.push(format!(
            "{unsteady} of {} cells were not steady, so their figures are not suitable for planning. Use longer --seconds.",
            results.cells.len()
        ));
    }
    if settings.backend == Backend::Guest {
        remarks.push(
            "Written in an emulated machine whose clock counts instructions and whose disk takes no time: rates compare what stores cost a \
             processor; K_wa and block operations are those of any machine with this kernel and file system."
                .to_string(),
        );
    } else if settings.memory_bytes == 0 {
        remarks.push(
            "Memory was not limited: until the page cache is full, it hides much of the work of the disk. As root, --memory 256MiB limits the cache."
                .to_string(),
        );
    }
    remarks.push("In-place, akumuli and yawndb are presets of the papers' general model, implemented in the lab. They are not the original programs.".to_string());
    remarks
}
