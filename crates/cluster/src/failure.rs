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

impl From<HandoverError> for Error {
    fn from(error: HandoverError) -> Error {
        match error {
            HandoverError::Rows(error) => error.into(),
            HandoverError::Engine(error) => error,
        }
    }
}
