//! Reasons of this program, besides those of DataFusion, for which a query does not run or ends early.

use datafusion::error::DataFusionError;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Reason for which a query does not run or ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// As many queries run as are permitted.
    Busy,
    /// The query reached its maximum time.
    Late(Duration),
    /// The statement with this name does not only read.
    Write(String),
}

impl Rejection {
    /// Returns the rejection that is the cause of an error.
    pub fn of(error: &DataFusionError) -> Option<&Rejection> {
        match error.find_root() {
            DataFusionError::External(reason) => reason.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Busy => write!(f, "too many SQL queries at one time; try again"),
            Rejection::Late(time) => {
                let seconds = time.as_secs_f64();
                write!(f, "the query took longer than {seconds} s")
            }
            Rejection::Write(name) => write!(f, "{name} is rejected: SQL only reads"),
        }
    }
}

impl Error for Rejection {}

impl From<Rejection> for DataFusionError {
    fn from(rejection: Rejection) -> DataFusionError {
        DataFusionError::External(Box::new(rejection))
    }
}
