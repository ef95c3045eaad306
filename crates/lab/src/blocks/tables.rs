//! Tables and figures of block statistics, in the form of *FS*, tables 3 to 5.

use super::{Origin, moves_data};
use crate::cell::Cell;
use crate::papers::{self, KINDS};
use seiner_chart::{Axis, BarSeries, Figure, LineSeries, TableRow, plain};

/// Returns the figures of the cells with block statistics; none if no cell has any.
pub fn figures(cells: &[Cell]) -> Vec<Figure> {
    let counted: Vec<&Cell> = cells.iter().filter(|cell| cell.blocks.is_some()).collect();
    if counted.is_empty() {
        return Vec::new();
    }
    let mut figures = vec![table(&counted)];
    let typed: Vec<&Cell> = counted.into_iter().filter(|cell| is_typed(cell)).collect();
    if !typed.is_empty() {
        figures.push(stacks(&typed));
    }
    figures
}

fn is_typed(cell: &Cell) -> bool {
    cell.blocks
        .as_ref()
        .is_some_and(|blocks| blocks.origin != Origin::Counters)
}

/// Returns the types that moved data in any of the cells, the papers' types first.
fn kinds(cells: &[&Cell]) -> Vec<String> {
    let seen = cells
        .iter()
        .filter_map(|cell| cell.blocks.as_ref())
        .flat_map(|blocks| blocks.types.keys());
    let mut kinds: Vec<String> = seen.filter(|kind| moves_data(kind)).cloned().collect();
    kinds.sort();
    kinds.dedup();
    let place = |kind: &String| {
        KINDS
            .iter()
            .position(|known| known == kind)
            .unwrap_or(KINDS.len())
    };
    kinds.sort_by_key(place);
    kinds
}

fn table(cells: &[&Cell]) -> Figure {
    let typed: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| is_typed(cell))
        .collect();
    let mut kinds = kinds(&typed);
    for kind in KINDS {
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_string());
        }
    }
    let mut columns = ["cell", "v MB/s", "K_wa"].map(String::from).to_vec();
    columns.extend(kinds.iter().map(|kind| format!("{kind} s/a")));
    columns.push("operations".to_string());
    let mut rows: Vec<TableRow> = cells.iter().map(|cell| own_row(cell, &kinds)).collect();
    rows.extend(papers::blocks().iter().map(|row| paper_row(row, &kinds)));
    Figure::Table {
        title: "Block operations by type".to_string(),
        caption: "s: share of all bytes, %. a: mean size, KiB. K_wa: bytes to the device over bytes of the application. \
                  Empty where types are not known. In italics the paper's rows (kernel 3.16, where ext4's journal was \
                  WS and WSM; present kernels show it as WSM)."
            .to_string(),
        columns,
        rows,
    }
}

fn own_row(cell: &Cell, kinds: &[String]) -> TableRow {
    let figure = |name: &str| cell.figure(name).map(plain).unwrap_or_default();
    let mut fields = vec![cell.name.clone(), figure("MB/s"), figure("K_wa")];
    for kind in kinds {
        let known = cell.blocks.as_ref().filter(|_| is_typed(cell));
        fields.push(known.map_or(String::new(), |blocks| {
            pair(blocks.share(kind), blocks.mean_kib(kind))
        }));
    }
    fields.push(
        cell.blocks
            .as_ref()
            .map(|blocks| plain(blocks.operations() as f64))
            .unwrap_or_default(),
    );
    TableRow {
        fields,
        is_reference: false,
    }
}

fn paper_row(row: &papers::BlockRow, kinds: &[String]) -> TableRow {
    let name = format!(
        "{} {} F={} B={}K",
        row.disk, row.file_system, row.files, row.buffer_kib
    );
    let mut fields = vec![name, plain(row.mb_s), plain(row.kwa)];
    for kind in kinds {
        let known = KINDS
            .iter()
            .position(|known| known == kind)
            .map(|place| row.kinds[place]);
        fields.push(known.map_or(String::new(), |(share, mean)| pair(share, mean)));
    }
    fields.push(String::new());
    TableRow {
        fields,
        is_reference: true,
    }
}

fn pair(share: Option<f64>, mean: Option<f64>) -> String {
    match (share, mean) {
        (None, None) => String::new(),
        (share, mean) => {
            let text = |value: Option<f64>| {
                value
                    .map(|value| plain((value * 10.0).round() / 10.0))
                    .unwrap_or_default()
            };
            format!("{}/{}", text(share), text(mean))
        }
    }
}

fn stacks(cells: &[&Cell]) -> Figure {
    let share = |kind: &String| BarSeries {
        name: kind.clone(),
        values: cells
            .iter()
            .map(|cell| cell.blocks.as_ref().and_then(|blocks| blocks.share(kind)))
            .collect(),
        is_reference: false,
        twin: None,
    };
    Figure::Bars {
        title: "Shares of block operations".to_string(),
        caption: "R reads, W writes; S synchronous, M metadata, A ahead, F forced to the medium."
            .to_string(),
        y: Axis::linear("share of bytes, %"),
        categories: cells.iter().map(|cell| cell.name.clone()).collect(),
        series: kinds(cells).iter().map(share).collect(),
        is_stacked: true,
    }
}

/// Returns the figure of one cell's bytes by type over time; `None` without block statistics.
pub fn over_time(cell: &Cell) -> Option<Figure> {
    let blocks = cell.blocks.as_ref()?;
    let line = |kind: &String| LineSeries {
        name: kind.clone(),
        points: blocks
            .seconds
            .iter()
            .enumerate()
            .map(|(second, types)| {
                (
                    second as f64 + 1.0,
                    types.get(kind).copied().unwrap_or(0) as f64 / 1e6,
                )
            })
            .collect(),
        is_reference: false,
        twin: None,
    };
    Some(Figure::Lines {
        title: format!("Block operations over time: {}", cell.name),
        caption: String::new(),
        x: Axis::linear("seconds"),
        y: Axis::linear("MB/s"),
        series: kinds(&[cell]).iter().map(line).collect(),
    })
}
