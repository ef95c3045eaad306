//! Failures of a subcommand and their exit status.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Reasons for a subcommand to end early.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the settings are not valid: status 2.
    Usage(String),
    /// An operation failed: status 1.
    Failed(anyhow::Error),
    /// The command ran, but something was rejected and has already been reported: status 1.
    Rejected,
}

impl Failure {
    /// Prints the reason to standard error and returns the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Usage(reason) => {
                eprintln!("seiner: {reason}");
                ExitCode::from(2)
            }
            Failure::Failed(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
            Failure::Failed(error) => {
                eprintln!("seiner: {error:#}");
                ExitCode::FAILURE
            }
            Failure::Rejected => ExitCode::FAILURE,
        }
    }
}

/// Returns true if the reader of a pipe has closed it. `seiner query … | head` is not a failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Failed(error.into())
    }
}
