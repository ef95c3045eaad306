//! Self-contained HTML pages of figures. A small script only adds tooltips and hides lines.

use crate::colour::{Palette, class, colours};
use crate::escape::escape;
use crate::figure::{Figure, TableRow};
use crate::svg;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("script.js");

/// Number of columns above which tables are printed row by row, because paper cannot scroll.
const PRINTED_COLUMNS: usize = 9;
/// Number of bytes above which a field of a table is set as text, over several lines.
const LONG_FIELD: usize = 40;

/// Parts of a page that differ between programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// CSS for elements outside the figures.
    pub style: &'static str,
    /// Plain text at the end of the page.
    pub footer: &'static str,
}

/// Returns a page of a title, a list of findings and figures. Figures without values are left out.
pub fn of_figures(
    title: &str,
    findings: &[String],
    figures: &[Figure],
    palette: Palette,
) -> String {
    let mut body = format!("<h1>{}</h1>{}", escape(title), list("Findings", findings));
    for figure in figures {
        body.push_str(&section(figure, palette));
    }
    document(title, &body, Extras::default())
}

/// Returns a whole page. `body` is HTML.
pub fn document(title: &str, body: &str, extras: Extras) -> String {
    let footer = if extras.footer.is_empty() {
        String::new()
    } else {
        format!("<footer>{}</footer>", escape(extras.footer))
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title><style>{}{STYLE}{}</style></head><body><main>{body}{footer}\
         </main><div id=\"tip\" role=\"status\"></div><script>{SCRIPT}</script></body></html>\n",
        escape(title),
        svg::STYLE,
        extras.style,
    )
}

/// Returns a list of texts with its title; an empty text for an empty list.
pub fn list(title: &str, points: &[String]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut html = format!("<section><h2>{}</h2><ul>", escape(title));
    for point in points {
        let _ = write!(html, "<li>{}</li>", escape(point));
    }
    html + "</ul></section>"
}

/// Returns a figure with its title, caption and legend; an empty text if the figure has no values.
pub fn section(figure: &Figure, palette: Palette) -> String {
    if figure.is_empty() {
        return String::new();
    }
    let mut html = format!("<section><h2>{}</h2>", escape(figure.title()));
    if !figure.caption().is_empty() {
        let caption = escape(figure.caption());
        let _ = write!(html, "<p class=\"caption\">{caption}</p>");
    }
    html.push_str(&svg::of_page(figure, palette));
    if let Figure::Table { columns, rows, .. } = figure {
        html.push_str(&table(columns, rows));
    }
    html.push_str(&legend(figure, palette));
    html + "</section>"
}

/// Returns the legend of a figure, whose buttons hide series; an empty text if the figure needs none.
fn legend(figure: &Figure, palette: Palette) -> String {
    if !figure.has_legend() {
        return String::new();
    }
    let entries = figure.entries();
    let colours = colours(&entries, palette);
    let mut html = String::from("<div class=\"legend\">");
    for (place, entry) in entries.iter().enumerate() {
        let _ = write!(
            html,
            "<button data-series=\"{place}\" aria-pressed=\"true\" class=\"{}\"><span class=\"{}\"><i></i></span>{}</button>",
            if entry.is_reference { "reference" } else { "" },
            class(colours[place], entry.twin, false),
            escape(entry.name)
        );
    }
    html + "</div>"
}

fn table(columns: &[String], rows: &[TableRow]) -> String {
    let is_broad = columns.len() > PRINTED_COLUMNS;
    let class = if is_broad { "wrap broad" } else { "wrap" };
    let mut html = format!("<div class=\"{class}\"><table><thead><tr>");
    for column in columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr></thead><tbody>");
    for row in rows {
        html.push_str(if row.is_reference {
            "<tr class=\"reference\">"
        } else {
            "<tr>"
        });
        for (place, field) in row.fields.iter().enumerate() {
            let class = if field.len() > LONG_FIELD {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::any_colour;
    use crate::figure::{Axis, BarSeries};

    fn table(title: &str, columns: Vec<String>, rows: Vec<TableRow>) -> Figure {
        Figure::Table {
            title: title.into(),
            caption: String::new(),
            columns,
            rows,
        }
    }

    #[test]
    fn names_are_escaped_in_the_page() {
        let row = TableRow {
            fields: vec!["<i>".into()],
            is_reference: true,
        };
        let figure = table("<script>", vec!["<b>".into()], vec![row]);
        let html = section(&figure, any_colour);
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<i>"));
        assert!(html.contains("class=\"reference\""));
    }

    #[test]
    fn a_figure_without_values_is_left_out() {
        assert_eq!(section(&table("t", vec![], vec![]), any_colour), "");
        let page = of_figures("p", &[], &[table("t", vec![], vec![])], any_colour);
        assert!(page.contains("<h1>p</h1>") && !page.contains("<section>"));
    }

    #[test]
    fn a_ranking_has_names_at_its_bars_and_no_legend() {
        let figure = Figure::Ranking {
            title: "M samples per CPU-s".into(),
            caption: String::new(),
            categories: vec!["(a)".into()],
            series: vec![BarSeries::new("Seiner", vec![Some(5.0)])],
        };
        let html = section(&figure, any_colour);
        assert!(html.contains(">Seiner 5</text>") && !html.contains("legend"));
        let bars = Figure::Bars {
            title: String::new(),
            caption: String::new(),
            y: Axis::linear(""),
            categories: vec!["(a)".into()],
            series: vec![BarSeries::new("Seiner", vec![Some(5.0)])],
            is_stacked: false,
        };
        assert!(section(&bars, any_colour).contains("legend"));
    }
}
