//! Charts of figures: lines and bars as SVG, on a self-contained page.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;
/// Colours that nearly all readers can distinguish.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933",
];

/// Line or row of bars.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Points, in ascending order of x.
    pub points: Vec<(f64, f64)>,
}

/// Chart.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Figure {
    /// Name of the chart's files.
    pub name: &'static str,
    /// Title of the chart.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x: &'static str,
    /// Name and unit of the vertical axis.
    pub y: &'static str,
    /// True to draw points as bars.
    pub bars: bool,
    /// Series to draw.
    pub series: Vec<Series>,
}

impl Figure {
    /// Returns the points as CSV, one row per point.
    pub fn csv(&self) -> String {
        let mut text = format!("series,{:?},{:?}\n", self.x, self.y);
        for series in &self.series {
            for (x, y) in &series.points {
                let _ = writeln!(text, "{:?},{x},{y}", series.name);
            }
        }
        text
    }

    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let largest = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let (x_step, x_end) = scale(largest(|point| point.0));
        let (y_step, y_end) = scale(largest(|point| point.1));
        let right = WIDTH - RIGHT;
        let at_x = |x: f64| LEFT + x / x_end * (right - LEFT);
        let at_y = |y: f64| HEIGHT - BOTTOM - y / y_end * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             font-family=\"sans-serif\" font-size=\"12\"><title>{}</title>\n",
            escape(&self.title)
        );
        for tick in 0..=(y_end / y_step).round() as u32 {
            let (value, y) = (f64::from(tick) * y_step, at_y(f64::from(tick) * y_step));
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{right:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                label(value)
            );
        }
        for tick in 0..=(x_end / x_step).round() as u32 {
            let value = f64::from(tick) * x_step;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                at_x(value),
                HEIGHT - BOTTOM + 16.0,
                label(value)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1})\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape(self.x),
            HEIGHT / 2.0,
            HEIGHT / 2.0,
            escape(self.y)
        );
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            svg += &match self.bars {
                true => bars(series, colour, (right - LEFT) / x_end, at_x, at_y),
                false => line(series, colour, at_x, at_y),
            };
            let y = TOP + 10.0 + 18.0 * number as f64;
            let _ = writeln!(
                svg,
                "<path d=\"M{:.1} {y:.1}h18\" stroke=\"{colour}\" stroke-width=\"3\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                right + 10.0,
                right + 34.0,
                y + 4.0,
                escape(&series.name)
            );
        }
        svg + "</svg>\n"
    }
}

fn line(
    series: &Series,
    colour: &str,
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
) -> String {
    let mut path = String::new();
    let mut marks = String::new();
    for &(x, y) in &series.points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", at_x(x), at_y(y));
        if series.points.len() <= 20 {
            let _ = write!(
                marks,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                at_x(x),
                at_y(y)
            );
        }
    }
    format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>{marks}\n")
}

fn bars(
    series: &Series,
    colour: &str,
    unit: f64,
    at_x: impl Fn(f64) -> f64,
    at_y: impl Fn(f64) -> f64,
) -> String {
    let mut path = String::new();
    for &(x, y) in &series.points {
        let (top, bottom) = (at_y(y), at_y(0.0));
        let _ = write!(
            path,
            "M{:.2} {bottom:.1}V{top:.1}h{:.2}V{bottom:.1}z",
            at_x(x),
            unit.max(0.5)
        );
    }
    format!("<path d=\"{path}\" fill=\"{colour}\" fill-opacity=\"0.7\"/>\n")
}

/// Returns the interval of an axis' marks and the end of the axis: 1, 2 or 5 times a power of ten.
fn scale(most: f64) -> (f64, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| step * 5.0 >= most)
        .unwrap_or(10.0 * power);
    (step, (most / step).ceil() * step)
}

fn label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns a page with all charts, each with an explanation.
pub fn page(title: &str, figures: &[(Figure, String)]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\
         <style>body{{font-family:sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}}\
         svg{{width:100%;height:auto}}</style><h1>{0}</h1>\n",
        escape(title)
    );
    for (figure, words) in figures {
        let _ = write!(
            html,
            "<h2>{}</h2>\n<p>{}</p>\n{}",
            escape(&figure.title),
            escape(words),
            figure.svg()
        );
    }
    html + "</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(scale(9.3), (2.0, 10.0));
        assert_eq!(scale(0.95), (0.2, 1.0));
        assert_eq!(scale(0.0), (0.2, 1.0));
    }

    #[test]
    fn a_figure_is_drawn_and_listed() {
        let figure = Figure {
            name: "f",
            title: "a < b".into(),
            x: "V",
            y: "MB/s",
            bars: false,
            series: vec![Series {
                name: "fifo".into(),
                points: vec![(0.0, 1.0), (1.0, 2.0)],
            }],
        };
        assert_eq!(
            figure.csv(),
            "series,\"V\",\"MB/s\"\n\"fifo\",0,1\n\"fifo\",1,2\n"
        );
        let page = page("p", &[(figure, "words".into())]);
        assert!(
            page.contains("a &lt; b") && page.contains("<path d=\"M64.0 144.0L470.0 16.0\""),
            "{page}"
        );
    }
}
