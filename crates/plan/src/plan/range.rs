//! Range of a plan for generated samples: forecasts for the real samples that compress best and worst.

use super::fit::obstacles;
use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{Choice, Forecast};
use crate::real::Spread;

/// Forecasts of one configuration at both ends of the range.
#[derive(Clone, Debug)]
pub struct Range {
    /// Forecast for samples that compress best.
    pub low: Forecast,
    /// Forecast for samples that compress worst.
    pub high: Forecast,
    /// Obstacles for samples that compress best.
    low_obstacles: Vec<String>,
    /// Obstacles for samples that compress worst.
    high_obstacles: Vec<String>,
}

/// Returns the calibration for samples like the median of real sets.
pub fn median(demand: &Demand, calibration: &Calibration) -> Calibration {
    calibration.with_extra(Spread::of(demand.values).middle * demand.samples_per_row())
}

impl Range {
    /// Computes both ends of the range around [`median`]. `calibration` is that of generated samples.
    pub fn make(demand: &Demand, calibration: &Calibration, choice: &Choice) -> Range {
        let spread = Spread::of(demand.values);
        let end = |extra: f64| {
            let calibration = calibration.with_extra(extra * demand.samples_per_row());
            let forecast = Forecast::make(demand, &calibration, choice);
            let obstacles = obstacles(demand, &calibration, choice, &forecast);
            (forecast, obstacles)
        };
        let (low, low_obstacles) = end(spread.low);
        let (high, high_obstacles) = end(spread.high);
        Range {
            low,
            high,
            low_obstacles,
            high_obstacles,
        }
    }

    /// Returns notes on the range. `fits` is true if the demand fits with samples like the median.
    pub fn notes(&self, fits: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if fits && !self.high_obstacles.is_empty() {
            notes.push(format!(
                "with samples that compress worst, it does not fit: {}",
                self.high_obstacles.join("; ")
            ));
        }
        if !fits && self.low_obstacles.is_empty() {
            notes.push("with samples that compress best, it fits".to_string());
        }
        notes.push(format!(
            "sizes are those of real sensors, which differ by a factor of {:.0}: `seiner plan --like` plans for your \
             samples, from a CSV file, the directory of a store, or a server",
            self.high.disk_row / self.low.disk_row
        ));
        notes
    }
}
