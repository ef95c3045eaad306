//! Samples as rows with the key (sensor, time), for general-purpose stores.

use super::Portion;
use crate::write::{SAMPLE_BYTES, Write};

/// Rows per transaction or batch.
pub const AT_ONCE: u64 = 1024;
/// First time of all sensors, and step between the samples of a sensor, s.
const FIRST_TIME: i64 = 1_700_000_000;
const STEP: i64 = 10;

/// A sample with its key.
pub struct Row {
    pub sensor: u64,
    pub time: i64,
    pub value: f64,
}

/// Shape of a table of limited size. Once the table is full, new rows overwrite the oldest rows, as
/// in a ring.
pub struct Table {
    sensors: u64,
    kept: u64,
}

impl Table {
    /// Computes the rows kept per sensor. A row is assumed to take at most three times the bytes of
    /// its sample.
    pub fn new(settings: &Write, sensors: u64) -> Table {
        let kept = settings.space_bytes / (3 * SAMPLE_BYTES * sensors);
        Table {
            sensors,
            kept: kept.max(1),
        }
    }

    /// Number of samples per sensor in a portion. With few sensors it is greater than 1, so that
    /// the cost of transactions does not dominate.
    fn turns(&self) -> u64 {
        (AT_ONCE / self.sensors).max(1)
    }

    /// Returns the rows of a portion.
    pub fn rows<'a>(&'a self, portion: &'a Portion<'a>) -> impl Iterator<Item = Row> + 'a {
        let turns = portion.turn * self.turns()..(portion.turn + 1) * self.turns();
        let sensors = portion.first..portion.first + portion.count;
        let words = portion.contents.chunks_exact(8).cycle();
        turns
            .flat_map(move |turn| sensors.clone().map(move |sensor| (turn, sensor)))
            .zip(words.skip(portion.content / 8))
            .map(|((turn, sensor), word)| Row {
                sensor,
                time: FIRST_TIME + (turn % self.kept) as i64 * STEP,
                value: value(word),
            })
    }

    /// Bytes of samples in a portion.
    pub fn bytes(&self, portion: &Portion<'_>) -> u64 {
        portion.count * self.turns() * SAMPLE_BYTES
    }

    /// Bytes of one sample of every sensor.
    pub fn lap_bytes(&self) -> u64 {
        self.sensors * SAMPLE_BYTES
    }
}

/// Returns a reading with one decimal, uniform in 0 to 1000.
fn value(word: &[u8]) -> f64 {
    let bits = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    (bits % 10_000) as f64 / 10.0
}
