//! Series of step values.

use crate::budget::{Budget, Hold, SERIES, VALUE};
use crate::error::Error;
use crate::labels::Labels;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Stale marker of Prometheus: a sample with this value ends its series. In step values it stands for "no value",
/// because no visible sample has it: selectors hide stale markers, and arithmetic never produces their bits.
pub const ABSENT: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Returns whether a step has no value, or a sample is a stale marker.
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT.to_bits()
}

/// Steps of a query: `count` times from `start`, `step` ns apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// First time, ns.
    pub start: i64,
    /// Distance of two times, ns, at least 1.
    pub step: i64,
    /// Number of times, at least 1.
    pub count: usize,
}

impl Steps {
    /// Returns the steps of a single time.
    pub fn one(time: i64) -> Steps {
        Steps {
            start: time,
            step: 1,
            count: 1,
        }
    }

    /// Returns the time of a step.
    pub fn time(&self, at: usize) -> i64 {
        let ahead = (at as i64).saturating_mul(self.step);
        self.start.saturating_add(ahead)
    }

    /// Returns the last time.
    pub fn end(&self) -> i64 {
        self.time(self.count - 1)
    }
}

/// Values of a series, one for each step. [`is_absent`] recognises a step without a value.
#[derive(Debug)]
pub struct Values {
    values: Vec<f64>,
    hold: Hold,
}

impl Values {
    /// Returns `count` times the same value.
    pub fn filled(budget: &Arc<Budget>, count: usize, value: f64) -> Result<Values, Error> {
        let hold = Hold::new(budget, count * VALUE + SERIES)?;
        Ok(Values {
            values: vec![value; count],
            hold,
        })
    }

    /// Returns the bytes that are counted.
    pub fn bytes(&self) -> usize {
        self.hold.bytes()
    }

    /// Counts the bytes of labels that belong to these values.
    pub fn hold_labels(&mut self, labels: &Labels) -> Result<(), Error> {
        self.hold.grow(labels.bytes())
    }

    /// Counts bytes that belong to these values.
    pub fn hold_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.hold.grow(bytes)
    }

    /// Returns a copy.
    pub fn copy(&self) -> Result<Values, Error> {
        let hold = Hold::new(self.hold.budget(), self.values.len() * VALUE + SERIES)?;
        Ok(Values {
            values: self.values.clone(),
            hold,
        })
    }

    /// Returns whether no step has a value.
    pub fn is_all_absent(&self) -> bool {
        self.values.iter().all(|value| is_absent(*value))
    }

    /// Replaces each value that is present.
    pub fn map(&mut self, change: impl Fn(f64) -> f64) {
        for value in self.values.iter_mut().filter(|value| !is_absent(**value)) {
            *value = change(*value);
        }
    }
}

impl Deref for Values {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.values
    }
}

/// One series of an instant vector, at all steps.
#[derive(Debug)]
pub struct Series {
    /// Labels.
    pub labels: Labels,
    /// True if the labels that describe the metric are removed at the end of the query.
    pub drop_name: bool,
    /// Values.
    pub values: Values,
}

/// Function that receives series one by one.
pub type Sink<'s> = dyn FnMut(Series) -> Result<(), Error> + 's;

/// Joins series with equal labels, which must not have values at the same step. Keeps the order.
pub fn join_equal(series: Vec<Series>) -> Result<Vec<Series>, Error> {
    let mut places: HashMap<Labels, usize> = HashMap::with_capacity(series.len());
    let mut joined: Vec<Series> = Vec::with_capacity(series.len());
    for one in series {
        match places.get(&one.labels) {
            None => {
                places.insert(one.labels.clone(), joined.len());
                joined.push(one);
            }
            Some(&place) => {
                let known = &mut joined[place].values;
                for (known, new) in known.iter_mut().zip(one.values.iter()) {
                    match (is_absent(*known), is_absent(*new)) {
                        (_, true) => {}
                        (true, false) => *known = *new,
                        (false, false) => return Err(Error::same_labels()),
                    }
                }
            }
        }
    }
    Ok(joined)
}
