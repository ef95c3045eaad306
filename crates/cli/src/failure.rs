//! How a subcommand fails, and what it leaves as exit status.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Why a subcommand ends early.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the settings make no sense: status 2.
    Usage(String),
    /// It did not work: status 1.
    Failed(anyhow::Error),
    /// It worked, but something that was already reported was refused: status 1.
    Refused,
}

impl Failure {
    /// Tells why, and answers the status.
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
            Failure::Refused => ExitCode::FAILURE,
        }
    }
}

/// `seiner query … | head` is no failure.
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
