//! Errors, as the exceptions of `seiner.errors`.

use pyo3::PyErr;
use seiner_engine::Error;
use std::io::ErrorKind;

mod python {
    #![allow(
        missing_docs,
        reason = "the classes are documented where they are defined, in Python"
    )]
    pyo3::import_exception!(seiner.errors, Closed);
    pyo3::import_exception!(seiner.errors, Damaged);
    pyo3::import_exception!(seiner.errors, DiskError);
    pyo3::import_exception!(seiner.errors, DiskFull);
    pyo3::import_exception!(seiner.errors, InUse);
    pyo3::import_exception!(seiner.errors, Invalid);
    pyo3::import_exception!(seiner.errors, Poisoned);
    pyo3::import_exception!(seiner.errors, SeinerError);
}

/// Error of a function that runs without Python's lock.
#[derive(Debug)]
pub enum Failure {
    /// Error of the engine.
    Engine(Error),
    /// This thread or another one has closed the store.
    Closed,
    /// Invalid argument. The text names the place and the remedy.
    Invalid(String),
}

/// Returns an error for an invalid argument.
pub fn invalid<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Invalid(text.into()))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Closed => Failure::Closed,
            error => Failure::Engine(error),
        }
    }
}

impl From<seiner_model::SelectorError> for Failure {
    fn from(error: seiner_model::SelectorError) -> Failure {
        Failure::Invalid(error.to_string())
    }
}

impl From<seiner_model::TimeError> for Failure {
    fn from(error: seiner_model::TimeError) -> Failure {
        Failure::Invalid(error.to_string())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Closed => {
                python::Closed::new_err("the store is closed; open it again with seiner.open")
            }
            Failure::Invalid(text) => python::Invalid::new_err(text),
            Failure::Engine(error) => engine_error(error),
        }
    }
}

fn engine_error(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { error, .. } if error.kind() == ErrorKind::WouldBlock => {
            python::InUse::new_err(error.to_string())
        }
        Error::Io { .. } => python::DiskError::new_err(text),
        Error::Damage { .. } => python::Damaged::new_err(text),
        Error::Full { .. } => python::DiskFull::new_err(text),
        Error::Poisoned(_) => python::Poisoned::new_err(text),
        Error::Options(_)
        | Error::Retention(_)
        | Error::Selector(_)
        | Error::Rejected(_)
        | Error::UnknownSource(_)
        | Error::Query(_) => python::Invalid::new_err(text),
        _ => python::SeinerError::new_err(text),
    }
}
