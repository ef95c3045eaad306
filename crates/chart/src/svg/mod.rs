//! Drawing of figures as SVG.

mod bars;
mod canvas;
mod lines;
mod ranking;
mod ruler;

use crate::colour::{Palette, class, colours};
use crate::escape::escape;
use crate::figure::Figure;
use bars::Bars;
use canvas::{Canvas, NARROW, WIDE};
use std::fmt::Write;

/// Style of the marks and the labels, for pages and for files.
pub(crate) const STYLE: &str = include_str!("marks.css");

/// Distance of a file's drawing from the edges.
const MARGIN: f64 = 16.0;
/// Height of a row of a file's title or legend.
const ROW: f64 = 24.0;
/// Width of an average letter of a file's legend.
const LETTER: f64 = 6.8;

/// Returns the drawings of a figure for a page: one for wide and one for narrow pages, so that text is readable
/// on phones and on paper without a script. The text is empty for a table.
pub(crate) fn of_page(figure: &Figure, palette: Palette) -> String {
    let draw = |name: &str, canvas: Canvas| {
        let (body, height) = draw(figure, canvas, palette)?;
        Some(format!(
            "<svg class=\"{name}\" viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
            canvas.width,
            escape(figure.title())
        ))
    };
    [("wide", WIDE), ("narrow", NARROW)]
        .into_iter()
        .filter_map(|(name, canvas)| draw(name, canvas))
        .collect()
}

/// Returns a figure as an SVG file with title, legend and background; an empty text for a table. The colours
/// follow the reader's preference for light or dark screens.
pub fn standalone(figure: &Figure, palette: Palette) -> String {
    let Some((body, height)) = draw(figure, WIDE, palette) else {
        return String::new();
    };
    let title = escape(figure.title());
    let mut legend = String::new();
    let below = legend_rows(figure, palette, &mut legend);
    let top = MARGIN + ROW;
    let whole_width = WIDE.width + 2.0 * MARGIN;
    let whole_height = top + height + below + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole_width}\" height=\"{whole_height}\" \
         viewBox=\"0 0 {whole_width} {whole_height}\" role=\"img\"><title>{title}</title><style>\n{STYLE}</style>\n\
         <rect class=\"card\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{:.0}\">{title}</text>\n\
         <g transform=\"translate({MARGIN} {top})\">{body}</g>\n\
         <g transform=\"translate({MARGIN} {:.0})\">{legend}</g>\n</svg>\n",
        MARGIN + 12.0,
        top + height
    )
}

/// Draws the legend of a file. Returns its height.
fn legend_rows(figure: &Figure, palette: Palette, svg: &mut String) -> f64 {
    if !figure.has_legend() {
        return 0.0;
    }
    let entries = figure.entries();
    let colours = colours(&entries, palette);
    let (mut x, mut y) = (WIDE.left, ROW - 8.0);
    for (entry, colour) in entries.iter().zip(colours) {
        let width = entry.name.chars().count() as f64 * LETTER + 36.0;
        if x > WIDE.left && x + width > WIDE.width {
            (x, y) = (WIDE.left, y + ROW);
        }
        let _ = write!(
            svg,
            "<g class=\"{}\"><rect x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"4\"/></g>\
             <text x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
            class(colour, entry.twin, entry.is_reference),
            y - 6.0,
            x + 20.0,
            escape(entry.name)
        );
        x += width;
    }
    y + 8.0
}

/// Draws a figure without its title. Returns the drawing and its height; `None` for a table.
fn draw(figure: &Figure, canvas: Canvas, palette: Palette) -> Option<(String, f64)> {
    let colours = colours(&figure.entries(), palette);
    match figure {
        Figure::Lines { x, y, series, .. } => {
            let body = lines::draw(canvas, x, y, series, &colours);
            Some((body, canvas.height))
        }
        Figure::Bars {
            y,
            categories,
            series,
            is_stacked,
            ..
        } => {
            let bars = Bars {
                y,
                categories,
                series,
                is_stacked: *is_stacked,
                colours: &colours,
            };
            Some((bars.draw(canvas), canvas.height))
        }
        Figure::Ranking {
            categories, series, ..
        } => Some(ranking::draw(canvas, categories, series, &colours)),
        Figure::Table { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::any_colour;
    use crate::figure::{Axis, LineSeries};

    fn lines(names: &[&str]) -> Figure {
        Figure::Lines {
            title: "a < b".into(),
            caption: String::new(),
            x: Axis::linear("V"),
            y: Axis::linear("MB/s"),
            series: names
                .iter()
                .map(|name| LineSeries::new(*name, vec![(0.0, 1.0), (1.0, 2.0)]))
                .collect(),
        }
    }

    #[test]
    fn a_file_contains_its_title_style_and_legend() {
        let svg = standalone(&lines(&["fifo"]), any_colour);
        assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b</title>") && svg.contains("prefers-color-scheme"));
        assert!(svg.contains("<polyline points=\"62.0,") && svg.contains(">fifo</text>"));
    }

    #[test]
    fn a_long_legend_has_several_rows() {
        let (mut short, mut long) = (String::new(), String::new());
        let name = "a name of considerable length, such as that of a run";
        let one = legend_rows(&lines(&["a", "b"]), any_colour, &mut short);
        let four = legend_rows(&lines(&[name; 4]), any_colour, &mut long);
        assert!(four > one, "{four} {one}");
    }

    #[test]
    fn a_table_has_no_drawing() {
        let table = Figure::Table {
            title: String::new(),
            caption: String::new(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        assert_eq!(of_page(&table, any_colour), "");
        assert_eq!(standalone(&table, any_colour), "");
    }
}
