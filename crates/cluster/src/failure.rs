//! Failures of the work that moves rows into the distributed store.

use crate::rows::RowsError;
use seiner_store::Error;

/// Failure of a handover. It is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    /// The distributed store failed.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Failure of a request to the distributed store, or of work with such requests.
pub(crate) trait Failure: std::fmt::Display {
    /// Returns whether too few replicas answered, which may be different a moment later.
    fn may_pass(&self) -> bool;
}

impl Failure for RowsError {
    fn may_pass(&self) -> bool {
        matches!(self, RowsError::Unavailable(_))
    }
}

impl Failure for HandoverError {
    fn may_pass(&self) -> bool {
        matches!(self, HandoverError::Rows(error) if error.may_pass())
    }
}

impl From<HandoverError> for Error {
    fn from(error: HandoverError) -> Error {
        match error {
            HandoverError::Rows(error) => error.into(),
            HandoverError::Engine(error) => error,
        }
    }
}
