//! Size of a drawing, and its axes.

use super::ruler::Ruler;
use crate::escape::escape;
use crate::figure::Axis;
use crate::number::tick;
use std::fmt::Write;

/// Size of a drawing, in its own units.
#[derive(Clone, Copy)]
pub(super) struct Canvas {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub bottom: f64,
}

/// Space above the plot.
pub(super) const TOP: f64 = 14.0;
/// Space on the right of the plot.
const RIGHT: f64 = 14.0;
/// Width of an average letter in labels of the axes.
pub(super) const LETTER: f64 = 6.4;

/// Canvas for wide pages and for files.
pub(super) const WIDE: Canvas = Canvas {
    width: 860.0,
    height: 380.0,
    left: 62.0,
    bottom: 48.0,
};

/// Canvas for narrow pages.
pub(super) const NARROW: Canvas = Canvas {
    width: 360.0,
    height: 300.0,
    left: 50.0,
    bottom: 46.0,
};

impl Canvas {
    /// Returns the right end of the plot.
    pub(super) fn right(&self) -> f64 {
        self.width - RIGHT
    }

    /// Returns the lower end of the plot.
    pub(super) fn floor(&self) -> f64 {
        self.height - self.bottom
    }
}

/// Draws the grid, the left axis and its name.
pub(super) fn left_axis(canvas: Canvas, up: &Ruler, y: &Axis) -> String {
    let mut svg = String::new();
    let right = canvas.right();
    for value in up.ticks() {
        let place = up.at(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{}\" x2=\"{right}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>\
             <text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            canvas.left,
            canvas.left - 6.0,
            place + 4.0,
            tick(value)
        );
    }
    let middle = (TOP + canvas.floor()) / 2.0;
    let _ = write!(
        svg,
        "<text class=\"axis middle\" transform=\"translate(13 {middle:.0}) rotate(-90)\">{}</text>",
        escape(&y.label)
    );
    svg
}

/// Draws the lower axis with the marks that do not overlap.
pub(super) fn lower_axis(
    svg: &mut String,
    canvas: Canvas,
    across: &Ruler,
    x: &Axis,
    marks: &[f64],
) {
    let floor = canvas.floor();
    let mut taken = f64::MIN;
    for &value in marks {
        let place = across.at(value);
        let half = tick(value).chars().count() as f64 * 3.6 + 4.0;
        if place - half < taken {
            continue;
        }
        taken = place + half;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{floor}\"/>\
             <text class=\"tick middle\" x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
            floor + 16.0,
            tick(value)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"axis middle\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
        (canvas.left + canvas.right()) / 2.0,
        canvas.height - 8.0,
        escape(&x.label)
    );
}
