//! Line charts in a self-contained HTML page with SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

/// A curve of a chart.
pub struct Curve {
    /// Name of the curve.
    pub name: String,
    /// Colour in CSS notation.
    pub color: &'static str,
    /// Points in ascending order of x.
    pub points: Vec<(f64, f64)>,
}

/// An axis of a chart.
#[derive(Clone, Copy)]
pub struct Axis {
    /// Name of the axis.
    pub name: &'static str,
    /// Lowest and highest value.
    pub ends: (f64, f64),
    /// True if the scale is logarithmic.
    pub log: bool,
}

/// A chart with its axes.
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Sentence on how to read the chart.
    pub about: &'static str,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves to draw.
    pub curves: Vec<Curve>,
}

/// Returns a page with all charts that contain points.
pub fn page(title: &str, charts: &[Chart]) -> String {
    let charts: String = charts
        .iter()
        .filter(|chart| !chart.is_empty())
        .map(Chart::draw)
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}\
         </style></head><body><h1>{title}</h1><main>{charts}</main></body></html>\n"
    )
}

/// Returns the minimum and the maximum of `of` over all points.
pub fn bounds(curves: &[Curve], of: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = curves.iter().flat_map(|curve| &curve.points).map(of);
    values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:24px auto;max-width:1200px;padding:0 16px;\
    color:#1d2733;background:#fff}h1{font-size:22px}h2{font-size:16px;margin:0}p{margin:2px 0 6px;color:#566373;\
    font-size:13px}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:28px}\
    svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#566373}.grid{stroke:#e3e8ee}\
    .curve{fill:none;stroke-width:2;stroke-linejoin:round}.name{font-weight:600}";

impl Axis {
    /// Returns the position of a value along the axis, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let scale = |value: f64| {
            if self.log {
                value.max(1e-9).ln()
            } else {
                value
            }
        };
        let (low, high) = (scale(self.ends.0), scale(self.ends.1));
        (scale(value) - low) / (high - low).max(1e-9)
    }

    fn ticks(&self) -> Vec<f64> {
        ticks(self.ends.0, self.ends.1, self.log)
    }
}

impl Chart {
    fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.points.is_empty())
    }

    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (
            LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM),
        )
    }

    fn draw(&self) -> String {
        let mut svg = format!(
            "<section><h2>{}</h2><p>{}</p><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            self.title, self.about, self.title
        );
        self.axes(&mut svg);
        let mut names: Vec<(f64, &Curve)> = Vec::new();
        for curve in &self.curves {
            let path: Vec<String> = curve
                .points
                .iter()
                .map(|&(x, y)| {
                    let (x, y) = self.place(x, y);
                    format!("{x:.1},{y:.1}")
                })
                .collect();
            let color = curve.color;
            let _ = write!(
                svg,
                "<polyline class=\"curve\" stroke=\"{color}\" points=\"{}\"/>",
                path.join(" ")
            );
            if let Some(&(x, y)) = curve.points.last() {
                names.push((self.place(x, y).1, curve));
            }
        }
        self.names(&mut svg, names);
        svg.push_str("</svg></section>");
        svg
    }

    fn axes(&self, svg: &mut String) {
        for value in self.y.ticks() {
            let (_, y) = self.place(self.x.ends.0, value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                number(value)
            );
        }
        for value in self.x.ticks() {
            let (x, y) = self.place(value, self.y.ends.0);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 18.0,
                number(value)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            self.x.name
        );
    }

    /// Writes the names at the ends of their curves. Moves names apart if they would overlap.
    fn names(&self, svg: &mut String, mut names: Vec<(f64, &Curve)>) {
        names.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut free = TOP;
        let lowest = HEIGHT - BOTTOM - 14.0 * names.len() as f64;
        for (index, (y, curve)) in names.into_iter().enumerate() {
            let y = y.max(free).min(lowest + 14.0 * (index as f64 + 1.0));
            free = y + 14.0;
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{}\" y=\"{:.1}\" style=\"fill:{}\">{}</text>",
                WIDTH - RIGHT + 8.0,
                y + 4.0,
                curve.color,
                curve.name
            );
        }
    }
}

/// Returns round values from `low` to `high`: about five on a linear scale; 1, 2 and 5 times powers of ten on a
/// logarithmic one.
fn ticks(low: f64, high: f64, log: bool) -> Vec<f64> {
    if log {
        let decades = (0..6).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)));
        return decades.filter(|tick| (low..=high).contains(tick)).collect();
    }
    let rough = (high - low).max(1e-9) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    let step = factor.unwrap_or(10.0) * power;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let text = |low, high, log| {
            ticks(low, high, log)
                .iter()
                .map(|&tick| number(tick))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            text(0.0, 1.0, false),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
        assert_eq!(text(0.5, 0.9, false), ["0.5", "0.6", "0.7", "0.8", "0.9"]);
        assert_eq!(text(1.0, 12.0, true), ["1", "2", "5", "10"]);
    }
}
