//! Conversion of values to positions on an axis.

use crate::figure::{Axis, Scale};

/// An axis of a drawing: values from `low` to `high` at positions from `from` to `to`.
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    /// Creates the ruler of an axis. Without ends of the axis, the values determine the ends.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let scale = axis.scale;
        let (low, high) = axis.ends.unwrap_or_else(|| ends(scale, values));
        // A single value would have no position.
        let (low, high) = match scale {
            _ if high > low => (low, high),
            Scale::Linear => (low - 0.5, low + 0.5),
            Scale::Log => (low / 1.15, low * 1.15),
        };
        Ruler {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    /// Returns the position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns round values to mark, in ascending order.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high - self.low);
                let first = (self.low / step - 1e-9).ceil() as i64;
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

/// Returns the ends of an axis for these values: 0 and a round number, or nearly the extremes of a logarithmic scale.
fn ends(scale: Scale, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0))
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    match scale {
        _ if low > high => (0.1, 1.0),
        Scale::Linear => {
            let step = step(high.max(1e-9));
            (low.min(0.0), (high / step).ceil().max(1.0) * step)
        }
        Scale::Log => (low / 1.15, high * 1.15),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ruler(axis: &Axis, values: &[f64]) -> Ruler {
        Ruler::new(axis, values.iter().copied(), 0.0, 100.0)
    }

    #[test]
    fn rulers_put_values_in_their_place() {
        let linear = ruler(&Axis::linear(""), &[3.0, 9.7]);
        assert_eq!((linear.low, linear.high), (0.0, 10.0));
        assert_eq!(linear.at(5.0), 50.0);
        assert_eq!(linear.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let log = ruler(&Axis::log(""), &[1.0, 10_000.0, 0.0]);
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((log.at(100.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn configured_ends_of_an_axis_apply_to_any_values() {
        let linear = ruler(&Axis::linear("").within(0.5, 0.9), &[0.0, 7.0]);
        assert_eq!((linear.at(0.5), linear.at(0.9)), (0.0, 100.0));
        assert_eq!(linear.ticks().len(), 5);
        let log = ruler(&Axis::log("").within(1.0, 12.0), &[]);
        assert_eq!(log.ticks(), [1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn positions_are_finite_without_values_and_for_a_single_value() {
        for axis in [Axis::linear(""), Axis::log("")] {
            assert!(ruler(&axis, &[]).at(0.5).is_finite());
            assert!(!ruler(&axis, &[]).ticks().is_empty());
            assert!(ruler(&axis.within(0.7, 0.7), &[]).at(0.7).is_finite());
        }
    }
}
