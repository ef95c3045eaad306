//! Limits of one query, and the memory and samples that the query uses.

use crate::error::Error;
use seiner_store::{Stop, Stopper};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of a value.
pub const VALUE: usize = size_of::<f64>();
/// Bytes of a sample: a time and a value.
pub const SAMPLE: usize = 2 * VALUE;
/// Bytes that a series counts besides its values and labels: its place in lists and maps.
pub const SERIES: usize = 192;

/// Limits of one query.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum bytes in memory: values of all steps and series, samples of windows, rows that were read, and labels.
    pub bytes: usize,
    /// Rule by which `bytes` was set, for the error of a query that exceeds the limit. May be empty.
    pub bytes_rule: &'static str,
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
            bytes: 256 << 20,
            bytes_rule: "",
            samples: 1_000_000_000,
            points: 20_000_000,
            steps: 1_000_000,
        }
    }
}

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

    /// Counts bytes that are in memory from now on.
    fn hold(&self, bytes: usize) -> Result<(), Error> {
        let total = self.held.fetch_add(bytes, Relaxed) + bytes;
        match total > self.limits.bytes {
            true => Err(Error::Limit(format!(
                "query processing would load too many samples into memory in query execution: more than {} bytes \
                 (limit max_bytes_held{}{}); use a longer step, a shorter range, fewer series or shorter labels",
                self.limits.bytes,
                if self.limits.bytes_rule.is_empty() {
                    ""
                } else {
                    ", "
                },
                self.limits.bytes_rule,
            ))),
            false => Ok(()),
        }
    }
}

/// Bytes in memory that the budget counts until this is dropped.
#[derive(Debug)]
pub struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Hold {
    /// Counts bytes.
    pub fn new(budget: &Arc<Budget>, bytes: usize) -> Result<Hold, Error> {
        let mut hold = Hold {
            budget: budget.clone(),
            bytes: 0,
        };
        hold.grow(bytes)?;
        Ok(hold)
    }

    /// Counts more bytes.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        self.budget.hold(bytes)
    }

    /// Counts fewer bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.held.fetch_sub(bytes, Relaxed);
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").finish_non_exhaustive()
    }
}
