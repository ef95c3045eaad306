//! A row a sample, with (sensor, time) as its key: how general-purpose stores are given samples.

use super::Portion;
use crate::write::{SAMPLE_BYTES, Write};

/// Rows of a transaction, or of a batch.
pub const AT_ONCE: u64 = 1024;
/// The first time of all sensors, s; and the step between samples of one.
const FIRST_TIME: i64 = 1_700_000_000;
const STEP: i64 = 10;

/// A sample with its key.
pub struct Row {
    pub sensor: u64,
    pub time: i64,
    pub value: f64,
}

/// What room a table of rows has: what does not fit is overwritten, as in a ring.
pub struct Table {
    sensors: u64,
    kept: u64,
}

impl Table {
    /// A row is taken to need three times its sample at the most.
    pub fn new(settings: &Write, sensors: u64) -> Table {
        let kept = settings.room_bytes / (3 * SAMPLE_BYTES * sensors);
        Table {
            sensors,
            kept: kept.max(1),
        }
    }

    /// Samples of each sensor in a portion: few sensors hand over several, so that transactions are
    /// not what is measured.
    fn turns(&self) -> u64 {
        (AT_ONCE / self.sensors).max(1)
    }

    /// A portion's rows.
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

    /// Bytes of samples after which every sensor had its turn.
    pub fn lap_bytes(&self) -> u64 {
        self.sensors * SAMPLE_BYTES
    }
}

/// A reading with one decimal, anywhere between 0 and 1000.
fn value(word: &[u8]) -> f64 {
    let bits = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    (bits % 10_000) as f64 / 10.0
}
