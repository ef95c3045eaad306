//! Drawing of figures as SVG. Each figure has a drawing for wide pages and one for narrow pages, so that text
//! is readable on phones and on paper without a script.

use super::colour::colours;
use super::escape;
use super::figure::{Axis, BarSeries, Figure, Scale, Series, plain, tick};
use std::fmt::Write;

/// Number of points above which a line has no dots.
const DOTS: usize = 60;
/// Number of distinct values of x up to which all are marked.
const MARKS: usize = 10;
/// Ratio of the longest bar to the median above which the axis is logarithmic, because the other bars would be
/// invisible.
const LOG_RATIO: f64 = 40.0;

/// Size of a drawing, in its own units.
#[derive(Clone, Copy)]
struct Canvas {
    width: f64,
    height: f64,
    left: f64,
    bottom: f64,
}

const TOP: f64 = 14.0;
const RIGHT: f64 = 14.0;

/// Drawings by width of page.
const CANVASES: [(&str, Canvas); 2] = [
    (
        "wide",
        Canvas {
            width: 860.0,
            height: 380.0,
            left: 62.0,
            bottom: 48.0,
        },
    ),
    (
        "narrow",
        Canvas {
            width: 360.0,
            height: 300.0,
            left: 50.0,
            bottom: 46.0,
        },
    ),
];

/// Returns the drawings of a figure; an empty text for a table.
pub fn draw(figure: &Figure) -> String {
    CANVASES
        .iter()
        .map(|(class, canvas)| {
            let body = match figure {
                Figure::Lines { x, y, series, .. } => lines(*canvas, x, y, series),
                Figure::Bars { y, categories, series, is_stacked, .. } => {
                    bars(*canvas, y, categories, series, *is_stacked)
                }
                Figure::Table { .. } => return String::new(),
            };
            format!(
                "<svg class=\"{class}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
                canvas.width,
                canvas.height,
                escape(figure.title())
            )
        })
        .collect()
}

/// Returns the CSS classes of a series: its colour and its style. References are faint. A series that repeats
/// another has the same colour.
pub fn class(colour: usize, twin: Option<usize>, is_reference: bool) -> String {
    let faint = if is_reference { " reference" } else { "" };
    let repeated = if twin.is_some() { " twin" } else { "" };
    format!("c{colour}{faint}{repeated}")
}

/// Conversion of values to positions on an axis.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let (low, high) = values
            .filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
            .fold((f64::MAX, f64::MIN), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = match scale {
            _ if low > high => (0.1, 1.0),
            Scale::Linear => {
                let step = step(high.max(1e-9));
                (low.min(0.0), (high / step).ceil().max(1.0) * step)
            }
            Scale::Log => (low / 1.15, high * 1.15),
        };
        Ruler {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let steps: &[f64] = match decades {
                    d if d < 1.0 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
                    d if d < 2.5 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
                decades
                    .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
                    .filter(|tick| (self.low..=self.high).contains(tick))
                    .collect()
            }
        }
    }
}

/// Returns a round step that divides a range into about five parts.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let best = steps.iter().find(|step| **step * power >= rough * 0.999);
    best.copied().unwrap_or(10.0) * power
}

fn lines(canvas: Canvas, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|line| line.points.iter());
    let right = canvas.width - RIGHT;
    let floor = canvas.height - canvas.bottom;
    let across = Ruler::new(x.scale, points().map(|point| point.0), canvas.left, right);
    let up = Ruler::new(y.scale, points().map(|point| point.1), floor, TOP);
    let mut svg = frame(canvas, &up, y);
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
    if marks.len() > MARKS || x.scale == Scale::Linear {
        marks = across.ticks();
    }
    across_axis(&mut svg, canvas, &across, x, &marks);
    let names = series.iter().map(|line| (line.name.as_str(), line.twin));
    let colours = colours(&names.collect::<Vec<_>>());
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
        let (radius, every) = if line.points.len() > DOTS {
            (6.0, true)
        } else {
            (3.5, false)
        };
        for (x_value, y_value) in &line.points {
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
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"{} data-tip=\"{}\"/>",
                across.at(*x_value),
                up.at(*y_value),
                if every { " class=\"unseen\"" } else { "" },
                escape(&tip)
            );
        }
        svg.push_str("</g>");
    }
    svg
}

/// Draws the grid, the left axis and its name.
fn frame(canvas: Canvas, up: &Ruler, y: &Axis) -> String {
    let mut svg = String::new();
    let right = canvas.width - RIGHT;
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
    let middle = (TOP + canvas.height - canvas.bottom) / 2.0;
    let _ = write!(
        svg,
        "<text class=\"axis middle\" transform=\"translate(13 {middle:.0}) rotate(-90)\">{}</text>",
        escape(&y.label)
    );
    svg
}

fn across_axis(svg: &mut String, canvas: Canvas, across: &Ruler, x: &Axis, marks: &[f64]) {
    let floor = canvas.height - canvas.bottom;
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
        (canvas.left + canvas.width - RIGHT) / 2.0,
        canvas.height - 8.0,
        escape(&x.label)
    );
}

/// Returns true if bars need a logarithmic axis to be visible.
fn needs_log(series: &[BarSeries], is_stacked: bool) -> bool {
    let mut values: Vec<f64> = series
        .iter()
        .flat_map(|bars| bars.values.iter().flatten().copied())
        .collect();
    values.retain(|value| *value > 0.0);
    values.sort_by(f64::total_cmp);
    match (values.last(), values.get(values.len() / 2)) {
        (Some(last), Some(median)) => !is_stacked && last / median > LOG_RATIO,
        _ => false,
    }
}

fn bars(
    canvas: Canvas,
    y: &Axis,
    categories: &[String],
    series: &[BarSeries],
    is_stacked: bool,
) -> String {
    // Names below many bars are rotated.
    let right = canvas.width - RIGHT;
    let slot = (right - canvas.left) / categories.len().max(1) as f64;
    let longest = categories
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0) as f64;
    let is_upright = longest * 6.4 > slot;
    let canvas = Canvas {
        bottom: if is_upright {
            (longest * 6.2 + 14.0).min(150.0)
        } else {
            30.0
        },
        ..canvas
    };
    let floor = canvas.height - canvas.bottom;
    let tops: Vec<f64> = if is_stacked {
        let sum = |place: usize| {
            series
                .iter()
                .filter_map(|bars| bars.values.get(place).copied().flatten())
                .sum()
        };
        (0..categories.len()).map(sum).collect()
    } else {
        series
            .iter()
            .flat_map(|bars| bars.values.iter().flatten().copied())
            .collect()
    };
    let scale = if needs_log(series, is_stacked) {
        Scale::Log
    } else {
        y.scale
    };
    let up = Ruler::new(scale, tops.into_iter(), floor, TOP);
    let mut svg = frame(canvas, &up, y);
    category_names(&mut svg, canvas, categories, slot, is_upright);
    let gap = slot * 0.15;
    let width = (slot - 2.0 * gap)
        / if is_stacked {
            1.0
        } else {
            series.len().max(1) as f64
        };
    let mut floors = vec![0.0; categories.len()];
    let names = series.iter().map(|bars| (bars.name.as_str(), bars.twin));
    let colours = colours(&names.collect::<Vec<_>>());
    for (place, bars) in series.iter().enumerate() {
        let _ = write!(
            svg,
            "<g class=\"{}\" data-series=\"{place}\">",
            class(colours[place], bars.twin, bars.is_reference)
        );
        for (number, value) in bars.values.iter().enumerate().take(categories.len()) {
            let Some(value) = *value else { continue };
            let base = if is_stacked { floors[number] } else { 0.0 };
            floors[number] = base + value;
            let low = if scale == Scale::Log {
                floor
            } else {
                up.at(base)
            };
            let high = up.at(base + value).min(low);
            let shift = if is_stacked {
                0.0
            } else {
                place as f64 * width
            };
            let tip = format!(
                "{}\n{}\n{}: {}",
                categories[number],
                bars.name,
                y.label,
                plain(value)
            );
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" data-tip=\"{}\"/>",
                canvas.left + number as f64 * slot + gap + shift,
                (width - if is_stacked { 0.0 } else { 1.0 }).max(1.0),
                (low - high).max(0.5),
                escape(&tip)
            );
        }
        svg.push_str("</g>");
    }
    svg
}

fn category_names(
    svg: &mut String,
    canvas: Canvas,
    categories: &[String],
    slot: f64,
    is_upright: bool,
) {
    let floor = canvas.height - canvas.bottom;
    let room = ((canvas.bottom - 14.0) / 6.2).floor() as usize;
    for (number, name) in categories.iter().enumerate() {
        let x = canvas.left + (number as f64 + 0.5) * slot;
        let short: String = name
            .chars()
            .take(if is_upright { room } else { usize::MAX })
            .collect();
        let _ = if is_upright {
            write!(
                svg,
                "<text class=\"tick end\" transform=\"translate({:.1} {:.1}) rotate(-90)\">{}</text>",
                x + 4.0,
                floor + 8.0,
                escape(&short)
            )
        } else {
            write!(
                svg,
                "<text class=\"tick middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                floor + 17.0,
                escape(&short)
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rulers_put_values_in_their_place() {
        let linear = Ruler::new(Scale::Linear, [3.0, 9.7].into_iter(), 0.0, 100.0);
        assert_eq!((linear.low, linear.high), (0.0, 10.0));
        assert_eq!(linear.at(5.0), 50.0);
        assert_eq!(linear.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let log = Ruler::new(Scale::Log, [1.0, 10_000.0, 0.0].into_iter(), 0.0, 100.0);
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((log.at(100.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_measured_draws_without_fault() {
        for scale in [Scale::Linear, Scale::Log] {
            let ruler = Ruler::new(scale, std::iter::empty(), 0.0, 10.0);
            assert!(ruler.at(0.5).is_finite());
            assert!(!ruler.ticks().is_empty());
        }
    }

    #[test]
    fn bars_of_very_different_length_get_a_logarithmic_axis() {
        let of = |values: &[f64]| {
            [BarSeries {
                name: String::new(),
                values: values.iter().copied().map(Some).collect(),
                is_reference: false,
                twin: None,
            }]
        };
        assert!(needs_log(&of(&[1.0, 2.0, 3000.0]), false));
        assert!(!needs_log(&of(&[1.0, 2.0, 3000.0]), true));
        assert!(!needs_log(&of(&[1.0, 2.0, 3.0]), false));
    }
}
