//! Sensors with generated samples.

use crate::demand::{Clockwork, Demand, Values};
use seiner_engine::{Engine, Error};
use seiner_model::{Bitmap, Column, Columns, FieldColumn, SourceId, SourceKey};
use seiner_random::SplitMixRng;

/// First time of all series, in nanoseconds.
const FIRST: i64 = 1_700_000_000_000_000_000;
/// Bound of random delays, in milliseconds. Delays are also shorter than half an interval.
const JITTER_MS: u64 = 20;

/// Sensors that send rows in turn.
pub struct SyntheticLoad {
    values: Values,
    clockwork: Clockwork,
    every_ns: i64,
    names: Vec<String>,
    sources: Vec<SourceId>,
    /// Present value of each source and field, in tenths.
    walks: Vec<i32>,
    rng: SplitMixRng,
    round: i64,
}

impl SyntheticLoad {
    /// Registers the sensors.
    ///
    /// # Errors
    /// If the engine rejects a source.
    pub fn register(
        engine: &Engine,
        demand: &Demand,
        sensors: u64,
    ) -> anyhow::Result<SyntheticLoad> {
        let fields = demand.fields;
        let mut sources = Vec::new();
        for sensor in 0..sensors {
            sources.push(engine.register(&key(sensor, demand.per_host.max(1))?)?);
        }
        Ok(SyntheticLoad {
            values: demand.values,
            clockwork: demand.clockwork,
            every_ns: ((demand.every_s * 1e9) as i64).max(1_000_000),
            names: (0..fields).map(|field| format!("field{field}")).collect(),
            walks: (0..sensors * fields)
                .map(|place| (place % 700) as i32 + 150)
                .collect(),
            sources,
            rng: SplitMixRng::new(1),
            round: 0,
        })
    }

    fn value(&mut self, place: usize) -> f64 {
        let draw = self.rng.next_u64();
        match self.values {
            Values::Decimals => {
                // A value mostly stays, and sometimes changes by one or two steps.
                self.walks[place] += [0, 0, 0, 1, -1, 0, 2, -2][(draw >> 60) as usize & 7];
                f64::from(self.walks[place]) / 10.0
            }
            Values::Counters => {
                self.walks[place] += ((draw >> 56) & 63) as i32;
                f64::from(self.walks[place])
            }
            Values::Floats => {
                f64::from(self.walks[place]) + (draw >> 11) as f64 / (1u64 << 53) as f64
            }
        }
    }

    fn time(&mut self) -> i64 {
        let beat = FIRST + self.round * self.every_ns;
        match self.clockwork {
            Clockwork::Regular => beat,
            Clockwork::Jittered => {
                let bound = (self.every_ns / 1_000_000 / 2).clamp(1, JITTER_MS as i64) as u64;
                beat + self.rng.below(bound) as i64 * 1_000_000
            }
        }
    }

    /// Appends a row of every sensor. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn round(&mut self, engine: &Engine) -> Result<u64, Error> {
        if self.names.len() == 1 {
            self.round_of_samples(engine)?;
        } else {
            self.round_of_rows(engine)?;
        }
        self.round += 1;
        Ok(self.sources.len() as u64)
    }

    fn round_of_samples(&mut self, engine: &Engine) -> Result<(), Error> {
        const AT_ONCE: usize = 1024;
        for first in (0..self.sources.len()).step_by(AT_ONCE) {
            let end = self.sources.len().min(first + AT_ONCE);
            let times: Vec<i64> = (first..end).map(|_| self.time()).collect();
            let values: Vec<f64> = (first..end).map(|place| self.value(place)).collect();
            engine.append_samples(&self.names[0], &self.sources[first..end], &times, &values)?;
        }
        Ok(())
    }

    fn round_of_rows(&mut self, engine: &Engine) -> Result<(), Error> {
        let fields = self.names.len();
        let mut row = Columns {
            times: vec![0],
            fields: vec![
                FieldColumn {
                    present: None::<Bitmap>,
                    values: Column::F64(vec![0.0])
                };
                fields
            ],
        };
        for number in 0..self.sources.len() {
            row.times[0] = self.time();
            for (field, column) in row.fields.iter_mut().enumerate() {
                column.values = Column::F64(vec![self.value(number * fields + field)]);
            }
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            engine.append_columns(self.sources[number], &names, &row)?;
        }
        Ok(())
    }
}

/// Returns the key of a sensor. Without hosts, each sensor has a tag value of its own.
fn key(sensor: u64, per_host: u64) -> anyhow::Result<SourceKey> {
    let host = sensor / per_host;
    let site = ("site", format!("{:03}", host % 997));
    Ok(match per_host {
        1 => SourceKey::new("planned", [("sensor", format!("{sensor:07}")), site])?,
        _ => {
            let sensor = ("sensor", format!("{:03}", sensor % per_host));
            SourceKey::new("planned", [("host", format!("{host:07}")), sensor, site])?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_engine::{Durability, Options};
    use seiner_platform::SystemClock;
    use seiner_platform::sim::SimDisk;
    use std::sync::Arc;

    #[test]
    fn jitter_only_delays_samples_and_is_described_as_late() {
        let options = Options {
            durability: Durability::Memory,
            ..Options::default()
        };
        let disk = Arc::new(SimDisk::new(1));
        let engine = Engine::open(disk, Arc::new(SystemClock::new()), options).unwrap();
        for (every_s, longest_ms) in [(10.0, JITTER_MS as i64 - 1), (0.01, 4), (0.001, 0)] {
            let demand = Demand {
                every_s,
                clockwork: Clockwork::Jittered,
                ..Demand::of_tests()
            };
            let mut load = SyntheticLoad::register(&engine, &demand, 1).unwrap();
            let delays: Vec<i64> = (0..1000).map(|_| load.time() - FIRST).collect();
            assert_eq!(delays.iter().min(), Some(&0), "every {every_s} s");
            let longest = Some(longest_ms * 1_000_000);
            assert_eq!(delays.iter().max().copied(), longest, "every {every_s} s");
        }
        let words = Demand {
            clockwork: Clockwork::Jittered,
            ..Demand::of_tests()
        }
        .samples_in_words();
        assert!(
            words.contains("late") && !words.contains("early"),
            "{words}"
        );
    }
}
