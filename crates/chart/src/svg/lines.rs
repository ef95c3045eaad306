//! Drawing of line charts.

use super::canvas::{Canvas, TOP, left_axis, lower_axis};
use super::ruler::Ruler;
use crate::colour::class;
use crate::escape::escape;
use crate::figure::{Axis, LineSeries, Scale};
use crate::number::plain;
use std::fmt::Write;

/// Number of points above which a line has no dots.
const DOTS: usize = 60;
/// Maximum number of points of a line that show their values under the pointer, unless the line has dots.
const TIPS: usize = 100;
/// Number of distinct values of x up to which all are marked.
const MARKS: usize = 10;

/// Draws the lines with their axes.
pub(super) fn draw(
    canvas: Canvas,
    x: &Axis,
    y: &Axis,
    series: &[LineSeries],
    colours: &[usize],
) -> String {
    let points = || series.iter().flat_map(|line| line.points.iter());
    let xs = points().map(|point| point.0);
    let ys = points().map(|point| point.1);
    let across = Ruler::new(x, xs, canvas.left, canvas.right());
    let up = Ruler::new(y, ys, canvas.floor(), TOP);
    let mut svg = left_axis(canvas, &up, y);
    lower_axis(&mut svg, canvas, &across, x, &marks(&across, x, series));
    for (place, line) in series.iter().enumerate() {
        let class = class(colours[place], line.twin, line.is_reference);
        let path: Vec<String> = line
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", across.at(*x), up.at(*y)))
            .collect();
        let _ = write!(
            svg,
            "<g class=\"{class}\" data-series=\"{place}\"><polyline points=\"{}\"/>",
            path.join(" ")
        );
        dots(&mut svg, &across, &up, (x, y), line);
        svg.push_str("</g>");
    }
    svg
}

/// Returns the values of x to mark: all that were measured, if these are few and the scale is logarithmic.
fn marks(across: &Ruler, x: &Axis, series: &[LineSeries]) -> Vec<f64> {
    if x.scale == Scale::Linear {
        return across.ticks();
    }
    let mut marks: Vec<f64> = series
        .iter()
        .filter(|line| !line.is_reference)
        .flat_map(|line| line.points.iter().map(|point| point.0))
        .collect();
    if series.iter().any(|line| line.is_reference) {
        marks.extend(across.ticks());
    }
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    if marks.len() > MARKS {
        return across.ticks();
    }
    marks
}

/// Draws the points of a line, with their values for the pointer. Points of a long line are transparent.
fn dots(svg: &mut String, across: &Ruler, up: &Ruler, (x, y): (&Axis, &Axis), line: &LineSeries) {
    let (radius, class, every) = if line.points.len() > DOTS {
        let every = line.points.len().div_ceil(TIPS);
        (6.0, " class=\"unseen\"", every)
    } else {
        (3.5, "", 1)
    };
    for (x_value, y_value) in line.points.iter().step_by(every) {
        let tip = format!(
            "{}\n{}: {}\n{}: {}",
            line.name,
            x.label,
            plain(*x_value),
            y.label,
            plain(*y_value)
        );
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"{class} data-tip=\"{}\"/>",
            across.at(*x_value),
            up.at(*y_value),
            escape(&tip)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::WIDE;
    use super::*;

    #[test]
    fn a_long_line_keeps_its_points_and_has_few_tips() {
        let points: Vec<(f64, f64)> = (0..1000).map(|n| (f64::from(n), 1.0)).collect();
        let series = [LineSeries::new("long", points)];
        let axis = Axis::linear("n");
        let svg = draw(WIDE, &axis, &axis, &series, &[0]);
        assert_eq!(svg.matches("<circle").count(), TIPS);
        let path = svg.split("points=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!(path.split(' ').count(), 1000);
    }
}
