//! Contents of charts and tables, independent of the drawing.

use crate::escape::csv_field;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear scale.
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
    /// Lowest and highest value. `None`: a linear axis begins at 0, a logarithmic one at the lowest value,
    /// and both end at the highest value.
    pub ends: Option<(f64, f64)>,
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_string(),
            scale: Scale::Linear,
            ends: None,
        }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear(label)
        }
    }

    /// Sets the lowest and the highest value of the axis.
    pub fn within(self, low: f64, high: f64) -> Axis {
        Axis {
            ends: Some((low, high)),
            ..self
        }
    }
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct LineSeries {
    /// Name in the legend.
    pub name: String,
    /// Points in ascending order of x.
    pub points: Vec<(f64, f64)>,
    /// True if the values are not measurements of this run. Such lines are drawn faintly.
    pub is_reference: bool,
    /// Index of the line that this one repeats. This line is dashed and gets the same colour.
    pub twin: Option<usize>,
}

impl LineSeries {
    /// Creates a line of measurements.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> LineSeries {
        LineSeries {
            name: name.into(),
            points,
            is_reference: false,
            twin: None,
        }
    }
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

impl BarSeries {
    /// Creates bars of measurements.
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> BarSeries {
        BarSeries {
            name: name.into(),
            values,
            is_reference: false,
            twin: None,
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// Fields of the row. The first one is its name.
    pub fields: Vec<String>,
    /// True if the values are not measurements of this run.
    pub is_reference: bool,
}

impl TableRow {
    /// Creates a row of measurements.
    pub fn new(fields: Vec<String>) -> TableRow {
        TableRow {
            fields,
            is_reference: false,
        }
    }
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
        series: Vec<LineSeries>,
    },
    /// Upright bars, grouped or stacked.
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
    /// Horizontal bars from 0, in groups, each with its name and its value.
    Ranking {
        /// Title of the chart: the quantity, with its unit.
        title: String,
        /// Sentence on how to read the chart.
        caption: String,
        /// Names of the groups.
        categories: Vec<String>,
        /// Bars of the chart.
        series: Vec<BarSeries>,
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
        rows: Vec<TableRow>,
    },
}

/// An entry of a legend: name and style of a series.
pub(crate) struct LegendEntry<'a> {
    pub name: &'a str,
    pub twin: Option<usize>,
    pub is_reference: bool,
}

impl Figure {
    /// Returns the title.
    pub fn title(&self) -> &str {
        match self {
            Figure::Lines { title, .. }
            | Figure::Bars { title, .. }
            | Figure::Ranking { title, .. }
            | Figure::Table { title, .. } => title,
        }
    }

    /// Returns the sentence on how to read the figure.
    pub fn caption(&self) -> &str {
        match self {
            Figure::Lines { caption, .. }
            | Figure::Bars { caption, .. }
            | Figure::Ranking { caption, .. }
            | Figure::Table { caption, .. } => caption,
        }
    }

    /// Returns true if the figure contains nothing to show.
    pub fn is_empty(&self) -> bool {
        match self {
            Figure::Lines { series, .. } => series.iter().all(|line| line.points.is_empty()),
            Figure::Bars { series, .. } | Figure::Ranking { series, .. } => series
                .iter()
                .all(|bars| bars.values.iter().all(Option::is_none)),
            Figure::Table { rows, .. } => rows.is_empty(),
        }
    }

    /// Returns the values as CSV with a head: one row per point, per bar or per row of the table.
    pub fn csv(&self) -> String {
        let row = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
            fields.join(",") + "\n"
        };
        let number = |value: f64| value.to_string();
        let of_bars = |label: &str, categories: &[String], series: &[BarSeries]| {
            let mut text = row(&["series", "category", label]);
            for bars in series {
                for (category, value) in categories.iter().zip(&bars.values) {
                    let value = value.map(number).unwrap_or_default();
                    text.push_str(&row(&[&bars.name, category, &value]));
                }
            }
            text
        };
        match self {
            Figure::Lines { x, y, series, .. } => {
                let mut text = row(&["series", &x.label, &y.label]);
                for line in series {
                    for (x, y) in &line.points {
                        text.push_str(&row(&[&line.name, &number(*x), &number(*y)]));
                    }
                }
                text
            }
            Figure::Bars {
                y,
                categories,
                series,
                ..
            } => of_bars(&y.label, categories, series),
            Figure::Ranking {
                title,
                categories,
                series,
                ..
            } => of_bars(title, categories, series),
            Figure::Table { columns, rows, .. } => {
                let all = std::iter::once(columns).chain(rows.iter().map(|row| &row.fields));
                all.map(|fields| row(&fields.iter().map(String::as_str).collect::<Vec<_>>()))
                    .collect()
            }
        }
    }

    /// Returns the names and styles of the series; none for a table.
    pub(crate) fn entries(&self) -> Vec<LegendEntry<'_>> {
        match self {
            Figure::Lines { series, .. } => series
                .iter()
                .map(|line| LegendEntry {
                    name: &line.name,
                    twin: line.twin,
                    is_reference: line.is_reference,
                })
                .collect(),
            Figure::Bars { series, .. } | Figure::Ranking { series, .. } => series
                .iter()
                .map(|bars| LegendEntry {
                    name: &bars.name,
                    twin: bars.twin,
                    is_reference: bars.is_reference,
                })
                .collect(),
            Figure::Table { .. } => Vec::new(),
        }
    }

    /// Returns true if the figure needs a legend. The bars of a ranking have their names beside them.
    pub(crate) fn has_legend(&self) -> bool {
        let entries = self.entries();
        !matches!(self, Figure::Ranking { .. })
            && (entries.len() > 1 || entries.iter().any(|entry| !entry.name.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed() {
        let lines = Figure::Lines {
            title: String::new(),
            caption: String::new(),
            x: Axis::linear("R, MB"),
            y: Axis::linear("MB/s"),
            series: vec![LineSeries::new("fifo", vec![(0.5, 1.0), (1.0, 2.25)])],
        };
        assert_eq!(
            lines.csv(),
            "series,\"R, MB\",MB/s\nfifo,0.5,1\nfifo,1,2.25\n"
        );
        let bars = Figure::Ranking {
            title: "M samples/s".into(),
            caption: String::new(),
            categories: vec!["a".into(), "b".into()],
            series: vec![BarSeries::new("x", vec![Some(3.0), None])],
        };
        assert_eq!(bars.csv(), "series,category,M samples/s\nx,a,3\nx,b,\n");
    }

    #[test]
    fn a_single_series_without_a_name_has_no_legend() {
        let of = |names: &[&str]| Figure::Bars {
            title: String::new(),
            caption: String::new(),
            y: Axis::linear(""),
            categories: Vec::new(),
            series: names
                .iter()
                .map(|name| BarSeries::new(*name, Vec::new()))
                .collect(),
            is_stacked: false,
        };
        assert!(!of(&[""]).has_legend());
        assert!(of(&["a"]).has_legend() && of(&["", ""]).has_legend());
    }
}
