//! Samples for trials: generated, or played back from a recording. The same demand always gives the same samples.

mod recorded;
mod synthetic;

use crate::demand::Demand;
use recorded::RecordedLoad;
use seiner_engine::{Engine, Error};
pub use synthetic::SyntheticLoad;

/// Sensors that send rows in turn.
pub enum SampleLoad {
    /// Sensors with generated samples.
    Synthetic(SyntheticLoad),
    /// Sensors that play back a recording.
    Recorded(RecordedLoad),
}

impl SampleLoad {
    /// Registers sensors with the samples of a demand: those of its recording, or generated ones.
    ///
    /// # Errors
    /// If the engine rejects a source.
    pub fn register(engine: &Engine, demand: &Demand, sensors: u64) -> anyhow::Result<SampleLoad> {
        Ok(match &demand.recording {
            Some(recording) => {
                SampleLoad::Recorded(RecordedLoad::register(engine, recording, sensors)?)
            }
            None => SampleLoad::Synthetic(SyntheticLoad::register(engine, demand, sensors)?),
        })
    }

    /// Appends a row of every sensor. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn round(&mut self, engine: &Engine) -> Result<u64, Error> {
        match self {
            SampleLoad::Synthetic(load) => load.round(engine),
            SampleLoad::Recorded(load) => load.round(engine),
        }
    }
}
