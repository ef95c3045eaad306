//! Reasons to end a query early.

use std::sync::Arc;

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
