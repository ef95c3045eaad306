//! Errors of statements.

/// Error of a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a statement.
    #[error("error parsing query: {reason}, at character {at}")]
    Syntax {
        /// Number of the character, from 1.
        at: usize,
        /// Reason, with what is expected.
        reason: String,
    },
    /// The statement is valid InfluxQL that this server does not have, or that has no meaning.
    #[error("{0}")]
    Invalid(String),
    /// The statement needs more than a limit permits.
    #[error("{0}")]
    Limit(String),
    /// The time for the statement is over.
    #[error("query timed out")]
    TimedOut,
    /// The reader abandoned the query.
    #[error("query was interrupted")]
    Canceled,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] seiner_store::Error),
}

impl Error {
    /// Creates an error of a statement without meaning.
    pub(crate) fn invalid(message: impl ToString) -> Error {
        Error::Invalid(message.to_string())
    }
}
