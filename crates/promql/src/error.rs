//! Errors of queries.

/// Error of a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a valid expression, or uses a part of the language that is not supported.
    #[error("{0}")]
    Invalid(String),
    /// The expression is valid, but the data do not permit an answer.
    #[error("{0}")]
    Execution(String),
    /// The query needs more than a limit permits.
    #[error("{0}")]
    Limit(String),
    /// The time for the query is over.
    #[error("query timed out in expression evaluation")]
    TimedOut,
    /// The reader abandoned the query.
    #[error("query was canceled in expression evaluation")]
    Canceled,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] seiner_store::Error),
}

impl Error {
    /// Creates an error of the text of a query.
    pub(crate) fn invalid(message: impl ToString) -> Error {
        Error::Invalid(message.to_string())
    }

    /// Creates an error of the evaluation.
    pub(crate) fn execution(message: impl ToString) -> Error {
        Error::Execution(message.to_string())
    }

    /// Creates the error of two series with equal labels at the same step.
    pub(crate) fn same_labels() -> Error {
        Error::execution("vector cannot contain metrics with the same labelset")
    }
}
