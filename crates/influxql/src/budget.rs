//! Limits of one statement, and the memory that it uses.

use crate::error::Error;
use seiner_store::{IsOver, Stop, Stopper};
use std::cell::Cell;
use std::sync::Arc;

/// Limits of one statement.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum bytes in memory: rows, values of buckets, and names.
    pub bytes: usize,
    /// Rule by which `bytes` was set, for the error of a statement that exceeds the limit. May be empty.
    pub bytes_rule: &'static str,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 256 << 20,
            bytes_rule: "",
        }
    }
}

/// Memory of one statement.
pub struct Budget {
    limits: Limits,
    stopper: Stopper,
    held: Cell<usize>,
}

impl Budget {
    /// Creates a budget with all of its memory free.
    pub fn new(limits: Limits, stopper: Stopper) -> Budget {
        Budget {
            limits,
            stopper,
            held: Cell::new(0),
        }
    }

    /// Returns the function that ends a query of the store.
    pub fn is_over(&self) -> IsOver {
        let stopper = self.stopper.clone();
        Arc::new(move || stopper().is_some())
    }

    /// Returns an error if the statement must end.
    pub fn check(&self) -> Result<(), Error> {
        match (self.stopper)() {
            None => Ok(()),
            Some(Stop::TimedOut) => Err(Error::TimedOut),
            Some(Stop::Canceled) => Err(Error::Canceled),
        }
    }

    /// Counts bytes that are in memory from now on.
    pub fn hold(&self, bytes: usize) -> Result<(), Error> {
        let held = self.held.get().saturating_add(bytes);
        self.held.set(held);
        if held <= self.limits.bytes {
            return Ok(());
        }
        let rule = match self.limits.bytes_rule {
            "" => String::new(),
            rule => format!(" ({rule})"),
        };
        Err(Error::Limit(format!(
            "the query needs more than {} bytes of memory{rule}; use a shorter time range, a longer GROUP BY time(), \
             fewer series, or LIMIT",
            self.limits.bytes
        )))
    }

    /// Counts bytes that are no longer in memory.
    pub fn release(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }
}
