//! Cells: the measurements of a run.

use crate::blocks::Statistics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of a cell, by name.
pub type CellSettings = BTreeMap<String, serde_json::Value>;

/// A cell that could not be measured on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the cell.
    pub name: String,
    /// Reason, with a remedy if there is one.
    pub why: String,
}

/// One measurement of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// Name, unique in the run.
    pub name: String,
    /// Settings of the measurement.
    pub settings: CellSettings,
    /// Measured figures by name; the name contains the unit.
    pub figures: BTreeMap<String, f64>,
    /// Figures over time.
    pub lines: Vec<Line>,
    /// Block operations during the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Statistics>,
    /// Notes that a reader needs to interpret the figures.
    pub notes: Vec<String>,
    /// Start of the measurement, RFC 3339.
    pub started: String,
    /// Duration with preparation, s.
    pub took_s: f64,
    /// Load average of the machine in the minute before.
    pub load: f64,
}

/// A figure over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name with the unit.
    pub name: String,
    /// Pairs of x and value. x is the time in seconds since the load began, except for two lines: in
    /// `live share by segment` it is percent of the segments, in `passed at MB/s` it is the rate.
    pub points: Vec<(f64, f64)>,
}

impl Cell {
    /// Returns a figure by name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// Returns a setting by name, as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.settings.get(name)?.as_f64()
    }

    /// Returns a setting by name, as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name)?.as_str()
    }

    /// Stores a figure. Values that are not finite are left out.
    pub fn record(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_string(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_are_not_numbers_are_not_recorded() {
        let mut cell = Cell::default();
        cell.record("MB/s", f64::NAN);
        cell.record("operations", 3.0);
        assert_eq!(cell.figures.len(), 1);
        assert_eq!(cell.figure("operations"), Some(3.0));
    }

    #[test]
    fn figures_round_trip_through_json() {
        let mut cell = Cell::default();
        for figure in [1_753.625_479_175_235_3, 1_732.068_617_590_250_1] {
            cell.record("MB/s", figure);
            let kept = serde_json::to_string(&cell).unwrap();
            let read: Cell = serde_json::from_str(&kept).unwrap();
            assert_eq!(read.figure("MB/s"), Some(figure));
        }
    }
}
