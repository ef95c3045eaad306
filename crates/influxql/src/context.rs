//! State of a statement that is answered.

use crate::budget::Budget;
use crate::database::Databases;
use crate::error::Error;
use seiner_model::Interval;
use seiner_store::{Error as StoreError, Store};
use std::cell::RefCell;

/// State that the parts of a statement share.
pub struct Context<'a> {
    /// Store.
    pub store: &'a dyn Store,
    /// Value of `now()`, ns.
    pub now: i64,
    /// Databases, and the chosen one.
    pub databases: Databases,
    /// Memory and time of the statement.
    pub budget: Budget,
    warnings: RefCell<Vec<String>>,
}

impl<'a> Context<'a> {
    /// Creates the state of a statement without warnings.
    pub fn new(
        store: &'a dyn Store,
        now: i64,
        databases: Databases,
        budget: Budget,
    ) -> Context<'a> {
        Context {
            store,
            now,
            databases,
            budget,
            warnings: RefCell::default(),
        }
    }

    /// Returns the warnings.
    pub fn into_warnings(self) -> Vec<String> {
        self.warnings.into_inner()
    }

    /// Adds a warning to the answer, unless the answer has it.
    pub fn warn(&self, warning: String) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Adds warnings of losses that may concern an interval.
    pub fn warn_of_losses(&self, interval: Interval) {
        for loss in self.store.losses() {
            if loss.concerns(&interval) {
                self.warn(loss.to_string());
            }
        }
    }

    /// Returns an item of the store. Data that cannot be read is a warning, and `None`.
    ///
    /// # Errors
    /// If the query cannot go on.
    pub fn item<T>(&self, item: Result<T, StoreError>) -> Result<Option<T>, Error> {
        match item {
            Ok(item) => Ok(Some(item)),
            Err(damage @ StoreError::Damage { .. }) => {
                self.warn(damage.to_string());
                Ok(None)
            }
            Err(StoreError::Abandoned) => {
                self.budget.check()?;
                Err(Error::Canceled)
            }
            Err(error) => Err(error.into()),
        }
    }
}
