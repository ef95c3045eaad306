//! Limits of one query, and the memory and samples that the query uses.

use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Values that the labels of a series count as, because they need memory as well.
pub const SERIES_VALUES: usize = 24;

/// Limits of one query.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of values (steps times series, and samples of windows) in memory. A value has 8 bytes.
    pub values: usize,
    /// Maximum number of samples read from the store.
    pub samples: u64,
    /// Maximum number of points of an answer.
    pub points: usize,
    /// Maximum number of steps of a query or subquery.
    pub steps: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            values: 32 << 20,
            samples: 1_000_000_000,
            points: 20_000_000,
            steps: 1_000_000,
        }
    }
}

/// Reason to end a query early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time is over.
    TimedOut,
    /// The reader has gone.
    Canceled,
}

/// Function that returns a reason to end the query, if there is one.
pub type Stopper = Arc<dyn Fn() -> Option<Stop> + Send + Sync>;

/// Consumption of one query.
pub struct Budget {
    limits: Limits,
    stopper: Option<Stopper>,
    held: AtomicUsize,
    read: AtomicU64,
}

impl Budget {
    /// Creates a budget of which nothing is used.
    pub fn new(limits: Limits, stopper: Option<Stopper>) -> Budget {
        Budget {
            limits,
            stopper,
            held: AtomicUsize::new(0),
            read: AtomicU64::new(0),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the function that ends the query.
    pub fn stopper(&self) -> Option<Stopper> {
        self.stopper.clone()
    }

    /// Returns an error if the query must end.
    pub fn check(&self) -> Result<(), Error> {
        match self.stopper.as_ref().and_then(|stopper| stopper()) {
            None => Ok(()),
            Some(Stop::TimedOut) => Err(Error::TimedOut),
            Some(Stop::Canceled) => Err(Error::Canceled),
        }
    }

    /// Counts samples that were read.
    pub fn read(&self, samples: usize) -> Result<(), Error> {
        let total = self.read.fetch_add(samples as u64, Relaxed) + samples as u64;
        match total > self.limits.samples {
            true => Err(Error::Limit(format!(
                "query reads more than {} samples (limit max_samples_read); use a shorter range or fewer series",
                self.limits.samples
            ))),
            false => Ok(()),
        }
    }

    /// Counts values that are in memory from now on.
    pub fn hold(&self, values: usize) -> Result<(), Error> {
        let total = self.held.fetch_add(values, Relaxed) + values;
        match total > self.limits.values {
            true => Err(Error::Limit(format!(
                "query processing would load too many samples into memory in query execution: more than {} values \
                 (limit max_values_held); use a longer step, a shorter range or fewer series",
                self.limits.values
            ))),
            false => Ok(()),
        }
    }

    /// Counts values that are not in memory any more.
    pub fn release(&self, values: usize) {
        self.held.fetch_sub(values, Relaxed);
    }
}

/// Values in memory that the budget counts until this is dropped.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    values: usize,
}

impl Hold {
    /// Counts values.
    pub fn new(budget: &Arc<Budget>, values: usize) -> Result<Hold, Error> {
        let mut hold = Hold {
            budget: budget.clone(),
            values: 0,
        };
        hold.grow(values)?;
        Ok(hold)
    }

    /// Counts more values.
    pub fn grow(&mut self, values: usize) -> Result<(), Error> {
        self.values += values;
        self.budget.hold(values)
    }

    /// Returns the budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.release(self.values);
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}
