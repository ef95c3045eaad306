//! What a picture shows, apart from how it is drawn.

/// How values become places on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally far apart; begins at 0.
    Linear,
    /// Equal ratios are equally far apart.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            scale: Scale::Log,
        }
    }
}

/// A line of a picture.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Its points, by rising x.
    pub points: Vec<(f64, f64)>,
    /// Whether somebody else measured it: drawn faintly, never mixed with ours.
    pub is_reference: bool,
    /// The place of the line that it repeats, whose colour it gets: drawn dashed.
    pub twin: Option<usize>,
}

/// A group of bars, or a part of each stack.
#[derive(Clone, Debug)]
pub struct BarSeries {
    /// What the legend calls it.
    pub name: String,
    /// A value a category; none where nothing was measured.
    pub values: Vec<Option<f64>>,
    /// Whether somebody else measured it.
    pub is_reference: bool,
    /// The place of the bars that these repeat, whose colour they get: drawn faintly.
    pub twin: Option<usize>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its fields; the first names the row.
    pub fields: Vec<String>,
    /// Whether somebody else measured it.
    pub is_reference: bool,
}

/// A picture or a table.
#[derive(Clone, Debug)]
pub enum Figure {
    /// Lines over a common axis.
    Lines {
        /// What it shows.
        title: String,
        /// How to read it.
        caption: String,
        /// The axis below.
        x: Axis,
        /// The axis on the left.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
    },
    /// Bars side by side or on top of each other.
    Bars {
        /// What it shows.
        title: String,
        /// How to read it.
        caption: String,
        /// The axis on the left.
        y: Axis,
        /// The names below the bars.
        categories: Vec<String>,
        /// The bars.
        series: Vec<BarSeries>,
        /// Whether they stand on top of each other.
        is_stacked: bool,
    },
    /// Rows and columns.
    Table {
        /// What it shows.
        title: String,
        /// How to read it.
        caption: String,
        /// The heads of the columns.
        columns: Vec<String>,
        /// The rows.
        rows: Vec<Row>,
    },
}

impl Figure {
    /// What it shows.
    pub fn title(&self) -> &str {
        match self {
            Figure::Lines { title, .. }
            | Figure::Bars { title, .. }
            | Figure::Table { title, .. } => title,
        }
    }

    /// How to read it.
    pub fn caption(&self) -> &str {
        match self {
            Figure::Lines { caption, .. }
            | Figure::Bars { caption, .. }
            | Figure::Table { caption, .. } => caption,
        }
    }

    /// Whether there is anything to show.
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

/// A number for people: three digits that count, thousands apart.
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

/// A number of bytes for people, in powers of two.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (value.max(1.0).log2() / 10.0).floor().min(5.0);
    format!(
        "{} {}",
        plain(value / 1024f64.powf(step)),
        units[step as usize]
    )
}

/// A short number for an axis: 1000 is 1k.
pub fn tick(value: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(step, _)| value.abs() >= *step) {
        Some((step, letter)) => format!("{}{letter}", plain(value / step)),
        None => plain(value),
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
}
