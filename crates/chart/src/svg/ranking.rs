//! Drawing of horizontal bars, each with its name and its value at its end.

use super::canvas::Canvas;
use crate::colour::class;
use crate::escape::escape;
use crate::figure::BarSeries;
use crate::number::plain;
use std::fmt::Write;

/// Height of a bar, with the space to the next one.
const BAR: f64 = 18.0;
/// Height of the name of a group, with the space before it.
const HEAD: f64 = 32.0;
/// Width of an average letter of the texts beside the bars.
const LETTER: f64 = 7.2;

/// Draws the bars. Returns the drawing and its height.
pub(super) fn draw(
    canvas: Canvas,
    categories: &[String],
    series: &[BarSeries],
    colours: &[usize],
) -> (String, f64) {
    let values = || {
        series.iter().flat_map(|bars| {
            bars.values
                .iter()
                .flatten()
                .map(|value| (&bars.name, *value))
        })
    };
    let largest = values().map(|(_, value)| value).fold(1e-9, f64::max);
    let longest = values()
        .map(|(name, value)| text(name, value).chars().count())
        .max()
        .unwrap_or(0);
    let width = (canvas.width - longest as f64 * LETTER - 8.0).max(40.0);
    let mut svg = String::new();
    let mut y = 0.0;
    for (number, category) in categories.iter().enumerate() {
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"0\" y=\"{:.0}\">{}</text>",
            y + HEAD - 10.0,
            escape(category)
        );
        y += HEAD;
        for (place, bars) in series.iter().enumerate() {
            let Some(value) = bars.values.get(number).copied().flatten() else {
                continue;
            };
            let length = (value / largest * width).max(0.5);
            let text = escape(&text(&bars.name, value));
            let _ = write!(
                svg,
                "<g class=\"{}\"><rect x=\"0\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"{}\"/></g>\
                 <text x=\"{:.1}\" y=\"{:.0}\">{text}</text>",
                class(colours[place], bars.twin, bars.is_reference),
                BAR - 4.0,
                length + 6.0,
                y + 11.0,
            );
            y += BAR;
        }
    }
    (svg, y + 4.0)
}

fn text(name: &str, value: f64) -> String {
    format!("{name} {}", plain(value))
}
