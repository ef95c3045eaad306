//! Contents of charts and tables, independent of the drawing.

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear scale, which begins at 0.
    Linear,
    /// Logarithmic scale.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Quantity on the axis, with its unit.
    pub label: String,
    /// Scale of the axis.
    pub scale: Scale,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            scale: Scale::Linear,
        }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            scale: Scale::Log,
        }
    }
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points in ascending order of x.
    pub points: Vec<(f64, f64)>,
    /// True if the values are not measurements of this run. Such lines are drawn faintly.
    pub is_reference: bool,
    /// Index of the line that this one repeats. This line is dashed and gets the same colour.
    pub twin: Option<usize>,
}

/// A group of bars, or a part of each stack.
#[derive(Clone, Debug)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// Values by category; `None` where nothing was measured.
    pub values: Vec<Option<f64>>,
    /// True if the values come from elsewhere.
    pub is_reference: bool,
    /// Index of the bars that these repeat. These bars are faint and get the same colour.
    pub twin: Option<usize>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Fields of the row. The first one is its name.
    pub fields: Vec<String>,
    /// True if the values are not measurements of this run.
    pub is_reference: bool,
}

/// A chart or a table.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Lines over a common axis.
    Lines {
        /// Title of the chart.
        title: String,
        /// Sentence on how to read the chart.
        caption: String,
        /// Horizontal axis.
        x: Axis,
        /// Vertical axis.
        y: Axis,
        /// Lines of the chart.
        series: Vec<Series>,
    },
    /// Bars, grouped or stacked.
    Bars {
        /// Title of the chart.
        title: String,
        /// Sentence on how to read the chart.
        caption: String,
        /// Vertical axis.
        y: Axis,
        /// Names below the bars.
        categories: Vec<String>,
        /// Bars of the chart.
        series: Vec<BarSeries>,
        /// True if the bars are stacked.
        is_stacked: bool,
    },
    /// A table.
    Table {
        /// Title of the table.
        title: String,
        /// Sentence on how to read the table.
        caption: String,
        /// Heads of the columns.
        columns: Vec<String>,
        /// Rows of the table.
        rows: Vec<Row>,
    },
}

impl Figure {
    /// Returns the title.
    pub fn title(&self) -> &str {
        match self {
            Figure::Lines { title, .. }
            | Figure::Bars { title, .. }
            | Figure::Table { title, .. } => title,
        }
    }

    /// Returns the sentence on how to read the figure.
    pub fn caption(&self) -> &str {
        match self {
            Figure::Lines { caption, .. }
            | Figure::Bars { caption, .. }
            | Figure::Table { caption, .. } => caption,
        }
    }

    /// Returns true if the figure contains nothing to show.
    pub fn is_empty(&self) -> bool {
        match self {
            Figure::Lines { series, .. } => series.iter().all(|line| line.points.is_empty()),
            Figure::Bars { series, .. } => series
                .iter()
                .all(|bars| bars.values.iter().all(Option::is_none)),
            Figure::Table { rows, .. } => rows.is_empty(),
        }
    }
}

/// Formats a number with three significant digits and separated thousands.
pub fn plain(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".into()
        } else {
            "–".into()
        };
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    group(text)
}

fn group(text: &str) -> String {
    let (sign, text) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text, None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && whole.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// Formats a number of bytes with binary units.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (value.max(1.0).log2() / 10.0).floor().min(5.0);
    format!(
        "{} {}",
        plain(value / 1024f64.powf(step)),
        units[step as usize]
    )
}

/// Formats a number for an axis: 1000 becomes 1k.
pub fn tick(value: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(step, _)| value.abs() >= *step) {
        Some((step, letter)) => format!("{}{letter}", plain(value / step)),
        None => plain(value),
    }
}

/// Returns a duration as text for people.
pub fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(1.0), "1");
        assert_eq!(plain(0.01234), "0.0123");
        assert_eq!(plain(123.456), "123");
        assert_eq!(plain(12345.6), "12\u{202f}346");
        assert_eq!(plain(-2.5), "−2.5");
        assert_eq!(plain(100.0), "100");
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(tick(700_000.0), "700k");
    }

    #[test]
    fn durations_for_people() {
        assert_eq!(about(12.2), "12 s");
        assert_eq!(about(600.0), "10 min");
        assert_eq!(about(9000.0), "2.5 h");
    }
}
