//! Function of the samples within a range, at each step.

use crate::budget::{Hold, SAMPLE};
use crate::error::Error;
use crate::functions::samples::{Compute, Window};
use crate::plan::Shift;
use crate::run::{Run, count_until};
use crate::series::{Steps, Values, is_absent};
use std::sync::Arc;

/// Number of samples before the range that are kept until they are removed together.
const SPARE: usize = 1024;

/// Evaluation of a function of ranges. A range excludes its begin and includes its end. Stale markers are skipped.
#[derive(Debug)]
pub struct Ranges {
    /// Steps.
    pub steps: Steps,
    /// Time that replaces that of a step as the end of the range.
    pub shift: Shift,
    /// Length of the range, ns.
    pub range: i64,
    /// Function.
    pub compute: Compute,
    /// Scalar arguments of the function: for each of them, a value for each step.
    pub arguments: Arc<Vec<Values>>,
    /// Samples of the range, after some that are not in it any more.
    times: Vec<i64>,
    samples: Vec<f64>,
    /// Index of the first sample in the range.
    first: usize,
    /// Next step.
    next: usize,
    /// Numbers of samples that the last step added to the range, and removed from it.
    added: usize,
    removed: usize,
    /// Memory of the samples.
    hold: Hold,
    held: usize,
    values: Values,
}

impl Ranges {
    /// Creates the evaluation of one series.
    pub fn new(
        (steps, shift, range): (Steps, Shift, i64),
        compute: Compute,
        arguments: Arc<Vec<Values>>,
        hold: Hold,
        values: Values,
    ) -> Ranges {
        Ranges {
            steps,
            shift,
            range,
            compute,
            arguments,
            times: Vec::new(),
            samples: Vec::new(),
            first: 0,
            next: 0,
            added: 0,
            removed: 0,
            hold,
            held: 0,
            values,
        }
    }

    fn emit(&mut self) -> Result<(), Error> {
        let now = self.steps.time(self.next);
        let end = self.shift.apply(now);
        let start = end.saturating_sub(self.range);
        self.removed = count_until(&self.times[self.first..], start, self.removed);
        self.first += self.removed;
        if self.first < self.times.len() {
            let window = Window {
                times: &self.times[self.first..],
                values: &self.samples[self.first..],
                start,
                end,
                now,
            };
            let mut arguments = [0.0; 2];
            for (argument, values) in arguments.iter_mut().zip(self.arguments.iter()) {
                *argument = values[self.next];
            }
            if let Some(value) = (self.compute)(window, &arguments)? {
                self.values[self.next] = value;
            }
        }
        self.next += 1;
        self.forget();
        Ok(())
    }

    /// Removes samples before the range, if they are many.
    fn forget(&mut self) {
        if self.first > SPARE && self.first > self.times.len() / 2 {
            self.times.drain(..self.first);
            self.samples.drain(..self.first);
            self.first = 0;
        }
    }

    /// Adds samples that are within the range of the next step.
    fn extend(&mut self, times: &[i64], values: &[f64], start: i64) -> Result<(), Error> {
        let skipped = count_until(times, start, 0);
        for (&time, &value) in times[skipped..].iter().zip(&values[skipped..]) {
            if !is_absent(value) {
                self.times.push(time);
                self.samples.push(value);
            }
        }
        if self.times.capacity() > self.held {
            self.hold
                .grow(SAMPLE * (self.times.capacity() - self.held))?;
            self.held = self.times.capacity();
        }
        Ok(())
    }
}

impl Run for Ranges {
    fn push(&mut self, times: &[i64], values: &[f64]) -> Result<(), Error> {
        let mut at = 0;
        while at < times.len() && self.next < self.steps.count {
            let end = self.shift.apply(self.steps.time(self.next));
            let count = count_until(&times[at..], end, self.added);
            self.added = count;
            let to = at + count;
            self.extend(
                &times[at..to],
                &values[at..to],
                end.saturating_sub(self.range),
            )?;
            at = to;
            if at < times.len() {
                self.emit()?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Values, Error> {
        while self.next < self.steps.count {
            self.emit()?;
        }
        Ok(self.values)
    }
}
