//! Errors of an experiment.

use std::fmt;
use std::io;

/// Reason for which an experiment ends early.
#[derive(Debug)]
pub enum Error {
    /// The request cannot be carried out or is not allowed. Nothing was created. The text names the
    /// remedy.
    Rejected(String),
    /// The user stopped the run. Resources were removed; measured cells are kept.
    Interrupted,
    /// An operation failed.
    Failed(anyhow::Error),
}

/// Result of an operation of the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns [`Error::Rejected`] with this reason.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Rejected(reason.into()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Rejected(reason) => write!(f, "{reason}"),
            Error::Interrupted => write!(f, "interrupted; all temporary resources were removed"),
            Error::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        Error::Failed(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Failed(error.into())
    }
}

impl From<seiner_engine::Error> for Error {
    fn from(error: seiner_engine::Error) -> Error {
        Error::Failed(anyhow::anyhow!("{error}"))
    }
}
