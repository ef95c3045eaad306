//! Conversion of the lab's errors, for the commands that run its code.

use crate::failure::Failure;
use seiner_lab::Error;

/// Converts an error of the lab. A rejected demand becomes a usage error.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Rejected(reason) => Failure::Usage(reason),
        Error::Interrupted => Failure::Rejected,
        Error::Failed(error) => Failure::Failed(error),
    }
}
