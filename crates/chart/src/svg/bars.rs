//! Drawing of upright bars, grouped or stacked.

use super::canvas::{Canvas, LETTER, TOP, left_axis};
use super::ruler::Ruler;
use crate::colour::class;
use crate::escape::escape;
use crate::figure::{Axis, BarSeries, Scale};
use crate::number::plain;
use std::fmt::Write;

/// Ratio of the longest bar to the median above which the axis is logarithmic, because the other bars would be
/// invisible.
const LOG_RATIO: f64 = 40.0;

/// Bars of a chart, with the colour of each series.
pub(super) struct Bars<'a> {
    pub y: &'a Axis,
    pub categories: &'a [String],
    pub series: &'a [BarSeries],
    pub is_stacked: bool,
    pub colours: &'a [usize],
}

/// Horizontal space of a category, and of a bar in it.
struct Slot {
    width: f64,
    gap: f64,
    bar: f64,
}

impl Bars<'_> {
    /// Draws the bars with their axis.
    pub(super) fn draw(&self, canvas: Canvas) -> String {
        let width = (canvas.right() - canvas.left) / self.categories.len().max(1) as f64;
        let (canvas, is_upright) = self.with_space_for_names(canvas, width);
        let y = Axis {
            scale: if self.needs_log() {
                Scale::Log
            } else {
                self.y.scale
            },
            ..self.y.clone()
        };
        let up = Ruler::new(&y, self.tops().into_iter(), canvas.floor(), TOP);
        let mut svg = left_axis(canvas, &up, &y);
        self.names(&mut svg, canvas, width, is_upright);
        let gap = width * 0.15;
        let beside = if self.is_stacked {
            1
        } else {
            self.series.len().max(1)
        };
        let slot = Slot {
            width,
            gap,
            bar: (width - 2.0 * gap) / beside as f64,
        };
        let mut floors = vec![0.0; self.categories.len()];
        for place in 0..self.series.len() {
            self.of_series(&mut svg, canvas, (&up, y.scale), &slot, place, &mut floors);
        }
        svg
    }

    /// Draws the bars of one series, on the stacks of earlier ones.
    fn of_series(
        &self,
        svg: &mut String,
        canvas: Canvas,
        (up, scale): (&Ruler, Scale),
        slot: &Slot,
        place: usize,
        floors: &mut [f64],
    ) {
        let bars = &self.series[place];
        let _ = write!(
            svg,
            "<g class=\"{}\" data-series=\"{place}\">",
            class(self.colours[place], bars.twin, bars.is_reference)
        );
        let (shift, space) = if self.is_stacked {
            (0.0, 0.0)
        } else {
            (place as f64 * slot.bar, 1.0)
        };
        for (number, category) in self.categories.iter().enumerate() {
            let Some(value) = bars.values.get(number).copied().flatten() else {
                continue;
            };
            let base = if self.is_stacked { floors[number] } else { 0.0 };
            floors[number] = base + value;
            let low = if scale == Scale::Log {
                canvas.floor()
            } else {
                up.at(base)
            };
            let high = up.at(base + value).min(low);
            let tip = format!(
                "{category}\n{}\n{}: {}",
                bars.name,
                self.y.label,
                plain(value)
            );
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\" data-tip=\"{}\"/>",
                canvas.left + number as f64 * slot.width + slot.gap + shift,
                (slot.bar - space).max(1.0),
                (low - high).max(0.5),
                escape(&tip)
            );
        }
        svg.push_str("</g>");
    }

    /// Returns the canvas with space for the names below the bars, and true if these must be rotated.
    fn with_space_for_names(&self, canvas: Canvas, slot: f64) -> (Canvas, bool) {
        let lengths = self.categories.iter().map(|name| name.chars().count());
        let longest = lengths.max().unwrap_or(0) as f64;
        let is_upright = longest * LETTER > slot;
        let bottom = if is_upright {
            (longest * 6.2 + 14.0).min(150.0)
        } else {
            30.0
        };
        (Canvas { bottom, ..canvas }, is_upright)
    }

    /// Returns the upper ends of all bars or stacks.
    fn tops(&self) -> Vec<f64> {
        if !self.is_stacked {
            return self.values().collect();
        }
        let sum = |place: usize| {
            self.series
                .iter()
                .filter_map(|bars| bars.values.get(place).copied().flatten())
                .sum()
        };
        (0..self.categories.len()).map(sum).collect()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.series
            .iter()
            .flat_map(|bars| bars.values.iter().flatten().copied())
    }

    /// Returns true if the bars need a logarithmic axis to be visible.
    fn needs_log(&self) -> bool {
        let mut values: Vec<f64> = self.values().filter(|value| *value > 0.0).collect();
        values.sort_by(f64::total_cmp);
        match (values.last(), values.get(values.len() / 2)) {
            (Some(last), Some(median)) => !self.is_stacked && last / median > LOG_RATIO,
            _ => false,
        }
    }

    fn names(&self, svg: &mut String, canvas: Canvas, slot: f64, is_upright: bool) {
        let floor = canvas.floor();
        let longest = ((canvas.bottom - 14.0) / 6.2).floor() as usize;
        for (number, name) in self.categories.iter().enumerate() {
            let x = canvas.left + (number as f64 + 0.5) * slot;
            let _ = if is_upright {
                let short: String = name.chars().take(longest).collect();
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
                    escape(name)
                )
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_very_different_length_get_a_logarithmic_axis() {
        let y = Axis::linear("");
        let needs_log = |values: &[f64], is_stacked| {
            let values = values.iter().copied().map(Some).collect();
            let bars = Bars {
                y: &y,
                categories: &[],
                series: &[BarSeries::new("", values)],
                is_stacked,
                colours: &[0],
            };
            bars.needs_log()
        };
        assert!(needs_log(&[1.0, 2.0, 3000.0], false));
        assert!(!needs_log(&[1.0, 2.0, 3000.0], true));
        assert!(!needs_log(&[1.0, 2.0, 3.0], false));
    }
}
