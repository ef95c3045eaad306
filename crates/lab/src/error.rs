//! How an experiment ends early.

use std::fmt;
use std::io;

/// Why an experiment ends early.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be done, or is not done; nothing was created. Names the remedy.
    Refused(String),
    /// The user ended it. What was created is gone, what was measured is kept.
    Interrupted,
    /// It did not work.
    Failed(anyhow::Error),
}

/// What an experiment answers.
pub type Result<T> = std::result::Result<T, Error>;

/// Shorthand for a refusal.
pub fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Refused(reason.into()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(reason) => write!(f, "{reason}"),
            Error::Interrupted => write!(f, "interrupted; what was created has been removed"),
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
