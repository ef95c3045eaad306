//! Report of a run: one self-contained HTML page with charts. A small script only adds tooltips and
//! hides lines.

mod colour;
pub mod compare;
pub mod figure;
mod svg;
pub mod tour;

use crate::experiment::Profile;
use crate::place::{Device, Place};
use crate::results::Results;
use anyhow::Context;
use figure::{Figure, Row, about, bytes, plain};
use std::fmt::Write;
use std::path::Path;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Number of columns above which tables are printed row by row, because paper cannot scroll.
const PRINTED_COLUMNS: usize = 9;

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
            " · <b class=\"warn\">a toy run: it shows that it works, its figures mean nothing</b>"
        }
        _ => "",
    }
}

/// Escapes a text for HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            other => safe.push(other),
        }
    }
    safe
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
    list(&mut body, "What it says", &results.remarks());
    for figure in results.figures() {
        body.push_str(&section(&figure));
    }
    let missing: Vec<String> = results
        .missing
        .iter()
        .map(|cell| format!("{}: {}", cell.name, cell.why))
        .collect();
    list(&mut body, "Not measured", &missing);
    body.push_str(&surroundings(results));
    list(&mut body, "Notes", &notes(results));
    body.push_str(&section(&everything(results)));
    whole(&title, &body)
}

/// Returns a page of figures that do not come from a run.
pub fn of_figures(title: &str, remarks: &[String], figures: &[Figure]) -> String {
    let mut body = format!("<h1>{}</h1>", escape(title));
    list(&mut body, "What it says", remarks);
    for figure in figures {
        body.push_str(&section(figure));
    }
    whole(title, &body)
}

/// Returns a whole page for a body.
fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{STYLE}</style></head><body><main>{body}\
         <footer>Lines and rows of the papers are drawn faintly and set in italics: other machines, other years.</footer>\
         </main><div id=\"tip\" role=\"status\"></div><script>{SCRIPT}</script></body></html>\n",
        escape(title)
    )
}

fn list(body: &mut String, title: &str, points: &[String]) {
    if points.is_empty() {
        return;
    }
    let _ = write!(body, "<section><h2>{}</h2><ul>", escape(title));
    for point in points {
        let _ = write!(body, "<li>{}</li>", escape(point));
    }
    body.push_str("</ul></section>");
}

/// Returns a figure with its title, legend and caption; an empty text if nothing was measured.
fn section(figure: &Figure) -> String {
    if figure.is_empty() {
        return String::new();
    }
    let names: Vec<(&str, Option<usize>, bool)> = match figure {
        Figure::Lines { series, .. } => series
            .iter()
            .map(|line| (line.name.as_str(), line.twin, line.is_reference))
            .collect(),
        Figure::Bars { series, .. } => series
            .iter()
            .map(|bars| (bars.name.as_str(), bars.twin, bars.is_reference))
            .collect(),
        Figure::Table { .. } => Vec::new(),
    };
    let mut html = format!("<section><h2>{}</h2>", escape(figure.title()));
    if !figure.caption().is_empty() {
        let _ = write!(
            html,
            "<p class=\"caption\">{}</p>",
            escape(figure.caption())
        );
    }
    html.push_str(&svg::draw(figure));
    if let Figure::Table { columns, rows, .. } = figure {
        html.push_str(&table(columns, rows));
    }
    if names.len() > 1 || names.iter().any(|(name, ..)| !name.is_empty()) {
        html.push_str("<div class=\"legend\">");
        let named: Vec<_> = names.iter().map(|(name, twin, _)| (*name, *twin)).collect();
        let colours = colour::colours(&named);
        for (place, (name, twin, is_reference)) in names.iter().enumerate() {
            let _ = write!(
                html,
                "<button data-series=\"{place}\" aria-pressed=\"true\" class=\"{}\"><span class=\"{}\"><i></i></span>{}</button>",
                if *is_reference { "reference" } else { "" },
                svg::class(colours[place], *twin, false),
                escape(name)
            );
        }
        html.push_str("</div>");
    }
    html + "</section>"
}

fn table(columns: &[String], rows: &[Row]) -> String {
    let is_broad = columns.len() > PRINTED_COLUMNS;
    let class = if is_broad { "wrap broad" } else { "wrap" };
    let mut html = format!("<div class=\"{class}\"><table><thead><tr>");
    for column in columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(
            html,
            "<tr{}>",
            if row.is_reference {
                " class=\"reference\""
            } else {
                ""
            }
        );
        for (place, field) in row.fields.iter().enumerate() {
            let class = if field.len() > 40 {
                " class=\"words\""
            } else {
                ""
            };
            let head = match columns.get(place) {
                Some(head) if is_broad && place > 0 && !field.is_empty() => {
                    format!(" data-head=\"{}\"", escape(head))
                }
                _ => String::new(),
            };
            let _ = write!(html, "<td{class}{head}>{}</td>", escape(field));
        }
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
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
        (
            "Load before a cell",
            format!("{} at the most", plain(heaviest)),
        ),
        ("Program", results.program.clone()),
        (
            "Seed, profile",
            format!("{}, {:?}", results.job.seed, results.job.profile).to_lowercase(),
        ),
    ];
    if let Some(place) = &results.place {
        terms.push(("Place", describe(place)));
    }
    let mut html = "<section><h2>Where it ran</h2><dl>".to_string();
    for (name, text) in terms {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
    }
    html + "</dl></section>"
}

/// Describes a place in words.
fn describe(place: &Place) -> String {
    let mut words = Vec::new();
    if let Some(mount) = &place.mount {
        words.push(format!("{} ({})", mount.kind, mount.options.join(",")));
    }
    words.extend(place.device.iter().map(describe_device));
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
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in &results.cells {
        for note in &cell.notes {
            match told.iter_mut().find(|(text, _)| text == note) {
                Some((_, cells)) => cells.push(&cell.name),
                None => told.push((note.clone(), vec![&cell.name])),
            }
        }
    }
    let count = results.cells.len();
    told.into_iter()
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
        Row {
            fields: start.chain(figures).collect(),
            is_reference: false,
        }
    });
    Figure::Table {
        title: "Every cell".to_string(),
        caption: "The same, and every sample, are in results.json, results.csv and lines.csv."
            .to_string(),
        columns: head
            .chain(names.iter().map(|name| name.to_string()))
            .collect(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        assert_eq!(
            escape("<a b=\"c\">&\n"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#10;"
        );
        let figure = Figure::Table {
            title: "<script>".into(),
            caption: String::new(),
            columns: vec!["<b>".into()],
            rows: vec![Row {
                fields: vec!["<i>".into()],
                is_reference: true,
            }],
        };
        let html = section(&figure);
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<i>"));
        assert!(html.contains("class=\"reference\""));
    }

    #[test]
    fn a_figure_without_values_is_left_out() {
        let figure = Figure::Table {
            title: "t".into(),
            caption: String::new(),
            columns: vec![],
            rows: vec![],
        };
        assert_eq!(section(&figure), "");
    }
}
