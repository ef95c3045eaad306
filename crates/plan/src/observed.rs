//! Figures of a running store, as a demand and as corrections of the trials.

use crate::calibration::Calibration;
use crate::demand::Demand;

/// Minimum number of sealed blocks from which the compression of samples is estimated.
const ENOUGH_BLOCKS: f64 = 100.0;

/// Figures of a running store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Number of sources.
    pub sources: f64,
    /// Number of fields of all sources.
    pub series: f64,
    /// Rows received per second.
    pub rows_per_s: f64,
    /// Samples in blocks that were sealed since the store was opened.
    pub samples_sealed: f64,
    /// Number of these blocks.
    pub blocks_sealed: f64,
    /// Bytes of these blocks.
    pub block_bytes_sealed: f64,
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
        demand.fields = self.fields() as u64;
        demand.every_s = self.sources / self.rows_per_s;
        Ok(())
    }

    /// Corrects the bytes per row by the sizes of the store's blocks, if there are enough of them.
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
