//! Latest sample of a series at each step.

use crate::error::Error;
use crate::numbers::seconds;
use crate::plan::Shift;
use crate::run::{Run, count_until};
use crate::series::{Steps, Values, is_absent};

/// Evaluation of an instant selector: the latest sample within the lookback of each step. A stale marker ends it.
#[derive(Debug)]
pub struct Instant {
    /// Steps.
    pub steps: Steps,
    /// Time that replaces that of a step.
    pub shift: Shift,
    /// Maximum age of a sample, exclusive, ns.
    pub lookback: i64,
    /// True if the result is the time of the sample in seconds, instead of its value.
    pub of_times: bool,
    /// Latest sample.
    pub latest: Option<(i64, f64)>,
    /// Next step.
    pub next: usize,
    /// Number of samples up to the last step, since the step before.
    pub usual: usize,
    /// Result.
    pub values: Values,
}

impl Instant {
    fn emit(&mut self) {
        let time = self.shift.apply(self.steps.time(self.next));
        if let Some((sampled, value)) = self.latest
            && sampled > time.saturating_sub(self.lookback)
            && !is_absent(value)
        {
            self.values[self.next] = match self.of_times {
                true => seconds(sampled),
                false => value,
            };
        }
        self.next += 1;
    }
}

impl Run for Instant {
    fn push(&mut self, times: &[i64], values: &[f64]) -> Result<(), Error> {
        let mut at = 0;
        while at < times.len() && self.next < self.steps.count {
            let time = self.shift.apply(self.steps.time(self.next));
            // The samples up to the step.
            let count = count_until(&times[at..], time, self.usual);
            self.usual = count;
            if count > 0 {
                self.latest = Some((times[at + count - 1], values[at + count - 1]));
                at += count;
            }
            if at < times.len() {
                self.emit();
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Values, Error> {
        while self.next < self.steps.count {
            self.emit();
        }
        Ok(self.values)
    }
}
