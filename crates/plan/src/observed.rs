//! What a running store says of itself, as a demand and as a correction of what was tried out.

use crate::calibration::Calibration;
use crate::demand::Demand;

/// Fewer sealed blocks say little about how samples compress.
const ENOUGH_BLOCKS: f64 = 100.0;

/// A store's own figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Sources.
    pub sources: f64,
    /// Fields of all sources.
    pub series: f64,
    /// Rows that come in, a second.
    pub rows_per_s: f64,
    /// Since the store was opened: samples in sealed blocks.
    pub samples_sealed: f64,
    /// Sealed blocks.
    pub blocks_sealed: f64,
    /// Their bytes.
    pub block_bytes_sealed: f64,
}

impl Observed {
    /// Takes sensors, fields and rate of the store.
    ///
    /// # Errors
    /// When nothing is coming in, with the remedy.
    pub fn fill(&self, demand: &mut Demand) -> Result<(), String> {
        if self.sources < 1.0 || self.rows_per_s <= 0.0 {
            return Err(
                "nothing is coming in there just now: say yourself how many sensors there are, and how often they send"
                    .to_string(),
            );
        }
        demand.sensors = self.sources;
        demand.fields = self.fields() as u64;
        demand.every_s = self.sources / self.rows_per_s;
        Ok(())
    }

    /// Corrects bytes of a row by what the store's blocks really take, if there are enough of them.
    pub fn correct(&self, calibration: &mut Calibration) {
        if self.blocks_sealed < ENOUGH_BLOCKS || self.samples_sealed < self.blocks_sealed {
            return;
        }
        let rows = self.samples_sealed / self.fields();
        calibration.measured(rows / self.blocks_sealed, self.block_bytes_sealed / rows);
    }

    fn fields(&self) -> f64 {
        (self.series / self.sources.max(1.0)).round().max(1.0)
    }
}
