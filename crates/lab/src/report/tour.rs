//! Page of a tour: the main statement and figure of every experiment, with a link to its own page.

use super::{moment, section, surroundings, warning, whole};
use crate::cell::Cell;
use crate::check::{Finding, Severity};
use crate::job::Work;
use crate::results::Results;
use seiner_chart::page::list;
use seiner_chart::{Figure, about, escape, plain};
use std::fmt::Write;

/// Maximum number of charts of an experiment on the page.
const PICTURES: usize = 4;

/// A completed part of a tour.
pub struct TourPart {
    /// Results of the part.
    pub results: Results,
    /// Path of its own page, relative to the tour's page.
    pub page: String,
}

/// Returns the page of a tour: the findings of `lab check`, the results of the experiments, and the experiments that
/// could not run, with the reasons.
pub fn page(findings: &[Finding], parts: &[TourPart], left_out: &[(&str, String)]) -> String {
    let mut body = String::from("<h1>seiner lab tour</h1>");
    if let Some(first) = parts.first() {
        let cells: Vec<&Cell> = parts.iter().flat_map(|part| &part.results.cells).collect();
        let _ = write!(
            body,
            "<p class=\"lead\">{} · {} · {} of measuring, {} cells{}</p>",
            moment(&first.results.started),
            if first.results.machine.is_root {
                "as root"
            } else {
                "as an ordinary user"
            },
            about(cells.iter().map(|cell| cell.took_s).sum()),
            cells.len(),
            warning(&first.results)
        );
    }
    tiles(&mut body, parts);
    checked(&mut body, findings);
    for part in parts {
        write_part(&mut body, part);
    }
    let left_out: Vec<String> = left_out
        .iter()
        .map(|(name, why)| format!("{name}: {why}"))
        .collect();
    body.push_str(&list("Left out", &left_out));
    if let Some((first, others)) = parts.split_first() {
        let mut all = first.results.clone();
        let cells = others.iter().flat_map(|part| &part.results.cells);
        all.cells.extend(cells.cloned());
        body.push_str(&surroundings(&all));
    }
    whole("seiner lab tour", &body)
}

/// Returns the subject of an experiment, for readers without knowledge of the names.
fn subject(work: &Work) -> &'static str {
    match work {
        Work::Disk(_) => "The disk",
        Work::Write(_) => "Many sensors, several stores",
        Work::Files(_) => "File systems",
        Work::Align(_) => "Partitions that begin between sectors",
        Work::Merge(_) => "Bytes that merges write",
        Work::Trace(_) => "Block operations",
    }
}

/// Appends the main figures in large type.
fn tiles(body: &mut String, parts: &[TourPart]) {
    let headlines: Vec<(String, String)> = parts
        .iter()
        .flat_map(|part| headline(&part.results))
        .collect();
    if headlines.is_empty() {
        return;
    }
    body.push_str("<div class=\"tiles\">");
    for (figure, what) in headlines {
        let _ = write!(
            body,
            "<div><b>{}</b><span>{}</span></div>",
            escape(&figure),
            escape(&what)
        );
    }
    body.push_str("</div>");
}

fn headline(results: &Results) -> Vec<(String, String)> {
    // Returns the largest figure. The flag states if its cell was steady; `None` if that was not examined.
    let most = |cells: &mut dyn Iterator<Item = &Cell>, figure: &str| {
        cells
            .filter_map(|cell| Some((cell.figure(figure)?, cell.figure("steady") != Some(0.0))))
            .reduce(|a, b| if b.0 > a.0 { b } else { a })
    };
    let named = |name: &'static str| {
        results
            .cells
            .iter()
            .filter(move |cell| cell.name.starts_with(name))
    };
    let mut headlines = Vec::new();
    let mut add = |figure: Option<(f64, bool)>, unit: &str, what: &str| {
        if let Some((figure, is_steady)) = figure {
            let doubt = if is_steady { "" } else { "; not steady" };
            headlines.push((
                format!("{} {unit}", plain(figure)),
                format!("{what}{doubt}"),
            ));
        }
    };
    match &results.job.work {
        Work::Disk(_) => {
            add(
                most(&mut named("sequential write"), "MB/s"),
                "MB/s",
                "written in sequence",
            );
            add(
                most(&mut named("random write 4 KiB × 1"), "MB/s"),
                "MB/s",
                "written at random, 4 KiB at a time",
            );
            add(
                most(&mut named("sync 4 KiB"), "p50 ms"),
                "ms",
                "for a synced write of 4 KiB",
            );
        }
        Work::Write(write) => {
            let sensors = write.sensors.iter().max().copied().unwrap_or(0) as f64;
            for (store, name) in [("files", "files"), ("log", "this store's log")] {
                let mut cells = results.cells.iter().filter(|cell| {
                    cell.text("store") == Some(store) && cell.number("F") == Some(sensors)
                });
                add(
                    most(&mut cells, "MB/s"),
                    "MB/s",
                    &format!("of {} sensors into {name}", plain(sensors)),
                );
            }
        }
        _ => {}
    }
    headlines
}

fn checked(body: &mut String, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    body.push_str("<section><h2>Checks before the run</h2><ul class=\"findings\">");
    for finding in findings {
        let class = match finding.severity {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Warn => "warn",
        };
        let _ = write!(
            body,
            "<li class=\"{class}\"><b>{class}</b><span>{}: {}</span></li>",
            escape(&finding.subject),
            escape(&finding.text)
        );
    }
    body.push_str("</ul></section>");
}

fn write_part(body: &mut String, part: &TourPart) {
    let results = &part.results;
    let _ = write!(
        body,
        "<h2 class=\"part\">{} <a href=\"{}\">lab {}: everything</a></h2>",
        subject(&results.job.work),
        escape(&part.page),
        results.experiment()
    );
    body.push_str(&list("Findings", &results.remarks()));
    let pictures: Vec<String> = results
        .figures()
        .iter()
        .filter(|figure| !matches!(figure, Figure::Table { .. }) && !figure.is_empty())
        .take(PICTURES)
        .map(section)
        .collect();
    let class = if pictures.len() > 1 { "pair" } else { "" };
    let _ = write!(body, "<div class=\"{class}\">{}</div>", pictures.concat());
    let missing: Vec<String> = results
        .missing
        .iter()
        .map(|cell| format!("{}: {}", cell.name, cell.why))
        .collect();
    body.push_str(&list("Not measured", &missing));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_and_omitted_parts_are_on_the_page() {
        let findings = [Finding {
            severity: Severity::Warn,
            subject: "<sda1>".to_string(),
            text: "begins at sector 63".to_string(),
        }];
        let page = page(&findings, &[], &[("align", "takes root".to_string())]);
        assert!(page.contains("<b>warn</b><span>&lt;sda1&gt;: begins at sector 63"));
        assert!(page.contains("<li>align: takes root</li>"));
        assert!(!page.contains("tiles\">"), "no figures, no tiles");
    }
}
