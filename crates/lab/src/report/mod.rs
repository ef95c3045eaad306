//! Report of a run: one self-contained HTML page with charts. A small script adds tooltips and can
//! hide lines.

pub mod compare;
mod palette;
pub mod tour;

use crate::experiment::Profile;
use crate::location::{Device, StorageLocation};
use crate::results::Results;
use anyhow::Context;
use palette::store_colour;
use seiner_chart::page::{Extras, document, list};
use seiner_chart::{Figure, TableRow, about, bytes, escape, plain};
use std::fmt::Write;
use std::path::Path;

/// Style and footer of all pages.
const EXTRAS: Extras = Extras {
    style: include_str!("style.css"),
    footer: "Lines of the papers are faint and rows of the papers are in italics: other machines, other years.",
};

/// Formats an RFC 3339 time to the minute: `2026-11-22 03:40 UTC`.
fn moment(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => escape(time),
    }
}

/// Returns a warning that the reader needs before any figure; usually empty.
fn warning(results: &Results) -> &'static str {
    match results.job.profile {
        Profile::Toy => {
            " · <b class=\"warn\">a toy run: it only shows that the experiment runs; its figures have no meaning</b>"
        }
        _ => "",
    }
}

/// Writes `results.json`, `results.csv`, `lines.csv` and `report.html` into a directory.
///
/// # Errors
/// A file cannot be written.
pub fn write(results: &Results, directory: &Path) -> anyhow::Result<()> {
    results.write(directory)?;
    let path = directory.join("report.html");
    std::fs::write(&path, page(results))
        .with_context(|| format!("{} was not written", path.display()))
}

/// Returns the page of a run.
pub fn page(results: &Results) -> String {
    let mut body = String::new();
    let title = format!("seiner lab {}", results.experiment());
    let _ = write!(
        body,
        "<h1>{title}</h1><p class=\"lead\">{} · backend {} · {} of measuring, {} cells{}</p>",
        moment(&results.started),
        results.backend,
        about(results.cells.iter().map(|cell| cell.took_s).sum()),
        results.cells.len(),
        warning(results)
    );
    body.push_str(&list("Findings", &results.remarks()));
    for figure in results.figures() {
        body.push_str(&section(&figure));
    }
    let missing: Vec<String> = results
        .missing
        .iter()
        .map(|cell| format!("{}: {}", cell.name, cell.why))
        .collect();
    body.push_str(&list("Not measured", &missing));
    body.push_str(&surroundings(results));
    body.push_str(&list("Notes", &notes(results)));
    body.push_str(&section(&everything(results)));
    whole(&title, &body)
}

/// Returns a figure of a page, with the fixed colours of stores.
fn section(figure: &Figure) -> String {
    seiner_chart::page::section(figure, store_colour)
}

/// Returns a whole page for a body in HTML.
fn whole(title: &str, body: &str) -> String {
    document(title, body, EXTRAS)
}

/// Returns the description of machine, disk and job.
fn surroundings(results: &Results) -> String {
    let machine = &results.machine;
    let loads = results.cells.iter().map(|cell| cell.load);
    let heaviest = loads.fold(0.0, f64::max);
    let mut terms = vec![
        (
            "Processor",
            format!("{} × {}", machine.processors, machine.processor),
        ),
        ("Memory", bytes(machine.memory as f64)),
        (
            "System",
            format!(
                "{}, kernel {}{}{}",
                machine.system,
                machine.kernel,
                if machine.is_virtual {
                    ", a virtual machine"
                } else {
                    ""
                },
                if machine.is_root {
                    ", as root"
                } else {
                    ", as an ordinary user"
                }
            ),
        ),
        ("Load before a cell", format!("at most {}", plain(heaviest))),
        ("Program", results.program.clone()),
        (
            "Seed, profile",
            format!("{}, {:?}", results.job.seed, results.job.profile).to_lowercase(),
        ),
    ];
    if let Some(location) = &results.location {
        terms.push(("Place", describe(location)));
    }
    let mut html = "<section><h2>Machine and job</h2><dl>".to_string();
    for (name, text) in terms {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
    }
    html + "</dl></section>"
}

/// Describes a location in words.
fn describe(location: &StorageLocation) -> String {
    let mut words = Vec::new();
    if let Some(mount) = &location.mount {
        words.push(format!("{} ({})", mount.kind, mount.options.join(",")));
    }
    words.extend(location.device.iter().map(describe_device));
    words.join(" on ")
}

/// Describes a device in words.
fn describe_device(device: &Device) -> String {
    format!(
        "{}{}, {}, sectors {}/{}, {}, scheduler {}, {}",
        device.name,
        if device.model.is_empty() {
            String::new()
        } else {
            format!(" ({})", device.model)
        },
        bytes(device.bytes as f64),
        device.logical_sector,
        device.physical_sector,
        if device.rotational {
            "rotating"
        } else {
            "not rotating"
        },
        device.scheduler,
        device.write_cache
    )
}

/// Returns the notes of all cells, without duplicates.
fn notes(results: &Results) -> Vec<String> {
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in &results.cells {
        for note in &cell.notes {
            match notes.iter_mut().find(|(text, _)| text == note) {
                Some((_, cells)) => cells.push(&cell.name),
                None => notes.push((note.clone(), vec![&cell.name])),
            }
        }
    }
    let count = results.cells.len();
    notes
        .into_iter()
        .map(|(text, cells)| match cells.len() {
            all if all == count => text,
            1..=3 => format!("{}: {text}", cells.join(" · ")),
            some => format!("{some} of {count} cells: {text}"),
        })
        .collect()
}

/// Returns a table of every figure of every cell.
fn everything(results: &Results) -> Figure {
    let mut names: Vec<&String> = results
        .cells
        .iter()
        .flat_map(|cell| cell.figures.keys())
        .collect();
    names.sort();
    names.dedup();
    let head = ["cell", "load", "took s"].map(String::from).into_iter();
    let rows = results.cells.iter().map(|cell| {
        let start = [cell.name.clone(), plain(cell.load), plain(cell.took_s)].into_iter();
        let figures = names
            .iter()
            .map(|name| cell.figure(name).map(plain).unwrap_or_default());
        TableRow {
            fields: start.chain(figures).collect(),
            is_reference: false,
        }
    });
    Figure::Table {
        title: "Every cell".to_string(),
        caption: "The same figures and all samples are in results.json, results.csv and lines.csv."
            .to_string(),
        columns: head
            .chain(names.iter().map(|name| name.to_string()))
            .collect(),
        rows: rows.collect(),
    }
}
