//! Samples of series, without an evaluation.

use crate::answer::Raw;
use crate::budget::{Budget, Hold, SAMPLE};
use crate::error::Error;
use crate::metric::Pick;
use crate::reader::Reader;
use crate::run::Run;
use crate::series::{Values, is_absent};
use seiner_model::Interval;
use std::sync::{Arc, Mutex};

/// Samples of all series of a query, and the memory that they need.
type Collected = Arc<Mutex<Vec<(Vec<i64>, Vec<f64>, Hold)>>>;

/// Returns the samples of all series in an interval, with or without stale markers.
pub fn collect(
    reader: &Reader<'_>,
    picks: &[Pick],
    interval: Interval,
    keeps_stale: bool,
) -> Result<Vec<Raw>, Error> {
    let all = Collected::default();
    let create = || {
        Ok(Collect {
            keeps_stale,
            all: all.clone(),
            times: Vec::new(),
            samples: Vec::new(),
            hold: Hold::new(reader.budget, 0)?,
            budget: reader.budget.clone(),
        })
    };
    let mut found = Vec::new();
    reader.read(picks, interval, &create, &mut |series| {
        let mut all = all.lock().expect("no thread panics while it adds samples");
        let (times, values, _) = &mut all[series.values[0] as usize];
        found.push(Raw {
            labels: series.labels,
            times: std::mem::take(times),
            values: std::mem::take(values),
        });
        Ok(())
    })?;
    found.retain(|raw| !raw.times.is_empty());
    Ok(found)
}

/// Collection of the samples of one series. Its value is its number among all.
struct Collect {
    keeps_stale: bool,
    all: Collected,
    times: Vec<i64>,
    samples: Vec<f64>,
    hold: Hold,
    budget: Arc<Budget>,
}

impl Run for Collect {
    fn push(&mut self, times: &[i64], values: &[f64]) -> Result<(), Error> {
        self.hold.grow(SAMPLE * times.len())?;
        for (&time, &value) in times.iter().zip(values) {
            if self.keeps_stale || !is_absent(value) {
                self.times.push(time);
                self.samples.push(value);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Values, Error> {
        let mut all = self
            .all
            .lock()
            .expect("no thread panics while it adds samples");
        all.push((self.times, self.samples, self.hold));
        Values::filled(&self.budget, 1, (all.len() - 1) as f64)
    }
}
