//! Errors of the disk, as errors of the store.

pub use seiner_store::{Error, Reason, Receipt, Relief};
use std::io;

/// Adds the failed operation to an error of the disk.
pub(crate) fn io_error<C: Fn() -> String>(context: C) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io {
        context: context(),
        error,
    }
}

/// Converts the error of a sync. The disk contents after a failed sync are uncertain, whatever the
/// cause, so this error never means a mere lack of space.
pub(crate) fn sync_error<C: Fn() -> String>(context: C) -> impl FnOnce(io::Error) -> Error {
    move |error| io_error(context)(io::Error::other(error))
}
