//! Figures of a running store, as a demand.

use crate::demand::Demand;

/// Figures of a running store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Number of sources.
    pub sources: f64,
    /// Rows received per second.
    pub rows_per_s: f64,
    /// Samples received per second.
    pub samples_per_s: f64,
}

impl Observed {
    /// Sets sensors, fields and rate of the demand to those of the store.
    ///
    /// # Errors
    /// A text with the remedy if the store receives no rows.
    pub fn fill(&self, demand: &mut Demand) -> Result<(), String> {
        if self.sources < 1.0 || self.rows_per_s <= 0.0 {
            return Err(
                "the server receives no rows at present: state the number of sensors and their interval"
                    .to_string(),
            );
        }
        demand.sensors = self.sources;
        demand.fields = (self.samples_per_s / self.rows_per_s).round().max(1.0) as u64;
        demand.every_s = self.sources / self.rows_per_s;
        Ok(())
    }
}
