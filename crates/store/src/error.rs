//! Errors of a store: expected ones, and damage. Bugs of the store are assertions.

use crate::outlook::Outlook;
use seiner_model::{FieldType, KeyError, SelectorError, duration_text};
use std::time::Duration;
use std::{fmt, io};

/// Error of a store's method.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A write or sync failed earlier. The contents of the disk are uncertain until the store is reopened.
    #[error("a write to disk failed earlier ({0}); the store rejects writes until it is reopened")]
    Poisoned(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk failed.
    #[error("{context}: {error}")]
    Io {
        /// Operation, and the file.
        context: String,
        /// Error of the disk.
        error: io::Error,
    },
    /// The disk budget is used up, and no rule allows data to be dropped.
    #[error(
        "the disk budget of {budget} bytes is used up ({used} used, {reserved} reserved for merging and rows in memory) and \
         no retention class may be shed; {relief}"
    )]
    Full {
        /// Bytes used.
        used: u64,
        /// Bytes reserved: for merging, and for rows in memory.
        reserved: u64,
        /// Bytes that may be used.
        budget: u64,
        /// Event that frees space.
        relief: Relief,
    },
    /// Bytes on the disk differ from the written bytes.
    #[error("{file}, offset {offset}: {what}")]
    Damage {
        /// Name of the file.
        file: String,
        /// Offset in the file, bytes.
        offset: u64,
        /// Expected and found contents.
        what: String,
    },
    /// The settings contradict each other or the files on disk.
    #[error("{0}")]
    Options(String),
    /// The given rules drop data sooner than the stored rules, and are not confirmed.
    #[error("{0}")]
    Retention(Box<Outlook>),
    /// The store is open for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The selector cannot be read.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A source was rejected.
    #[error("{0}")]
    Rejected(Reason),
    /// No source is registered under this number.
    #[error("source {0} is not registered in this store")]
    UnknownSource(u32),
    /// The query is invalid.
    #[error("{0}")]
    Query(String),
    /// The reader abandoned the query.
    #[error("the query was abandoned by its reader")]
    Abandoned,
}

impl Error {
    /// Returns whether the disk or the budget was full. The store continues when there is space.
    pub fn is_out_of_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::Full { .. } => true,
            Error::Io { error, .. } => matches!(error.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }

    /// Returns an equal error, for another thread that waits for the same work.
    pub fn copy(&self) -> Error {
        match self {
            Error::Poisoned(why) => Error::Poisoned(why.clone()),
            Error::Closed => Error::Closed,
            Error::Io { context, error } => Error::Io {
                context: context.clone(),
                error: match error.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(error.kind(), error.to_string()),
                },
            },
            &Error::Full {
                used,
                reserved,
                budget,
                relief,
            } => Error::Full {
                used,
                reserved,
                budget,
                relief,
            },
            Error::Damage { file, offset, what } => Error::Damage {
                file: file.clone(),
                offset: *offset,
                what: what.clone(),
            },
            Error::ReadOnly => Error::ReadOnly,
            // Background work causes no other errors.
            other => Error::Query(other.to_string()),
        }
    }

    /// Returns whether the process has reached its limit of open files.
    fn is_out_of_files(&self) -> bool {
        // EMFILE and ENFILE, which have no `ErrorKind`.
        const CODES: [i32; 2] = [24, 23];
        match self {
            Error::Io { error, .. } => error
                .raw_os_error()
                .or_else(|| os_error_within(error))
                .is_some_and(|code| CODES.contains(&code)),
            _ => false,
        }
    }

    /// Returns whether a file that could not be created because of this error can be created later.
    pub fn passes(&self) -> bool {
        self.is_out_of_space() || self.is_out_of_files()
    }
}

/// Returns the code of the system's error inside an error with a file's name.
fn os_error_within(error: &io::Error) -> Option<i32> {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return inner.raw_os_error().or_else(|| os_error_within(inner));
        }
        source = inner.source();
    }
    None
}

/// Event that frees space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Samples become too old for their class after about this time.
    After(Duration),
    /// Other programs free the space that the budget counts on.
    Others,
    /// No event: waiting does not help.
    None,
}

impl Relief {
    /// Returns the approximate time until there is space, if it is known.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Relief::After(wait) => Some(wait),
            Relief::Others | Relief::None => None,
        }
    }
}

impl fmt::Display for Relief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "raise `disk`, delete something, or let a class shed its oldest data";
        match self {
            Relief::After(wait) => {
                let ns = wait.as_secs().max(1) * 1_000_000_000;
                let wait = duration_text(ns);
                write!(
                    f,
                    "waiting helps: in about {wait} samples become too old and free space; or {remedy}"
                )
            }
            Relief::Others => write!(
                f,
                "others have filled the disk, and waiting helps if they free space; or {remedy}"
            ),
            Relief::None => write!(f, "waiting does not help; {remedy}"),
        }
    }
}

/// Reason why a row was rejected. The other rows of its batch are kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The name is not a valid source.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// The field has another type in this source.
    #[error("field {field:?} is {stored} in this source, not {sent}", stored = stored.name(), sent = sent.name())]
    FieldType {
        /// Name of the field.
        field: String,
        /// Stored type.
        stored: FieldType,
        /// Type of the sent value.
        sent: FieldType,
    },
    /// The field's name is empty, too long or not UTF-8.
    #[error("a field's name is empty, over 1,024 bytes, or not UTF-8")]
    FieldName,
    /// The row has no fields, the same field twice, or too many.
    #[error("a row needs 1 to {max} different fields", max = crate::MAX_FIELDS)]
    Fields,
    /// A text is too long.
    #[error("a text of {0} bytes is longer than {max}", max = crate::MAX_TEXT_BYTES)]
    TextTooLong(usize),
    /// The row is older than the age of its class, and would be hidden at once.
    #[error(
        "it is older than the retention class {class:?} keeps ({age}); send it sooner, or raise the age of the class"
    )]
    TooOld {
        /// Name of the class.
        class: String,
        /// Age of the class, as text.
        age: String,
    },
    /// Earlier rules rolled up the samples around the row's time. A row cannot be added to a
    /// roll-up.
    #[error(
        "of its time only coarser steps are left, which earlier rules of its class made; send such history under another name"
    )]
    RolledUp,
    /// The memory budget has no space for another source.
    #[error("the memory budget has no space for another source; raise `memory`")]
    TooManySources,
    /// The writer may not write to the source.
    #[error("the token may not write to this source; its selector is {0}")]
    Forbidden(String),
}

/// Outcome of a batch.
#[derive(Clone, Debug, Default)]
pub struct Receipt {
    /// Number of accepted rows.
    pub rows: usize,
    /// Number of accepted values. A row with three fields has three.
    pub samples: usize,
    /// First [`Receipt::MAX_REJECTED`] rejected rows: index in the batch, and reason.
    pub rejected: Vec<(usize, Reason)>,
    /// Number of all rejected rows.
    pub rejected_total: usize,
    /// Position for [`crate::Store::wait_durable`], which returns when the batch is on disk.
    pub position: u64,
    /// Numbers of rows, samples and rejected rows that [`Receipt::take_counts`] has already
    /// returned.
    noted: (u64, u64, u64),
}

impl Receipt {
    /// Maximum number of rejected rows that are listed.
    pub const MAX_REJECTED: usize = 100;

    /// Adds a rejected row, given by its index in the batch.
    pub fn reject(&mut self, row: usize, reason: Reason) {
        self.rejected_total += 1;
        if self.rejected.len() < Self::MAX_REJECTED {
            self.rejected.push((row, reason));
        }
    }

    /// Returns the numbers of rows, samples and rejected rows since the last call, for the counters
    /// of a store.
    pub fn take_counts(&mut self) -> (u64, u64, u64) {
        let (rows, samples, rejected) = self.noted;
        self.noted = (
            self.rows as u64,
            self.samples as u64,
            self.rejected_total as u64,
        );
        (
            self.noted.0 - rows,
            self.noted.1 - samples,
            self.noted.2 - rejected,
        )
    }
}
