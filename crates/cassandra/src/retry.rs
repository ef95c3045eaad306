//! Repetition of requests that failed.
//!
//! The driver repeats a request at once on another node ([`CountedRetries`]). If that fails too, the request is
//! repeated after a pause, until its total time is over ([`Patience::repeat`]). Only requests with the same effect when
//! they run twice are repeated: plain writes carry the timestamp of their first attempt. Conditional writes run once.

use crate::statistics::Counters;
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};
use scylla::policies::retry::{
    DefaultRetryPolicy, RequestInfo, RetryDecision, RetryPolicy, RetrySession,
};
use seiner_cluster::RowsError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Pause before the first repetition. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Retry policy of the driver: its default policy, with a count.
#[derive(Debug)]
pub(crate) struct CountedRetries {
    pub(crate) counters: Arc<Counters>,
}

struct CountedSession {
    inner: Box<dyn RetrySession>,
    counters: Arc<Counters>,
}

impl RetryPolicy for CountedRetries {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(CountedSession {
            inner: DefaultRetryPolicy::new().new_session(),
            counters: Arc::clone(&self.counters),
        })
    }
}

impl RetrySession for CountedSession {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        let decision = self.inner.decide_should_retry(info);
        if let RetryDecision::RetrySameTarget(_) | RetryDecision::RetryNextTarget(_) = decision {
            self.counters.add_retry();
        }
        decision
    }

    fn reset(&mut self) {
        self.inner.reset();
    }
}

/// Bound on the time of a request.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// Time for all attempts together.
    pub(crate) total: Duration,
    pub(crate) counters: Arc<Counters>,
}

impl Patience {
    /// Repeats an idempotent request until it succeeds, is rejected, or its time is over.
    pub(crate) async fn repeat<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, RowsError>
    where
        F: Future<Output = Result<T, ExecutionError>>,
    {
        let end = Instant::now() + self.total;
        let mut pause = FIRST_PAUSE;
        let mut last = format!("no answer within {:?}", self.total);
        self.counters.add_request();
        loop {
            let Ok(outcome) = timeout_at(end, attempt()).await else {
                return Err(RowsError::Unavailable(last));
            };
            match outcome.map_err(|error| sort(&error)) {
                Err(RowsError::Unavailable(text)) if Instant::now() + pause < end => {
                    tracing::debug!("a request to Cassandra is repeated: {text}");
                    last = text;
                }
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
            self.counters.add_retry();
        }
    }

    /// Runs a request that may not be repeated. Only a node without the keyspace is asked again: it has executed nothing.
    pub(crate) async fn once<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, RowsError>
    where
        F: Future<Output = Result<T, ExecutionError>>,
    {
        let end = Instant::now() + self.total;
        self.counters.add_request();
        loop {
            let Ok(outcome) = timeout_at(end, attempt()).await else {
                let text = format!("no answer within {:?}", self.total);
                return Err(RowsError::Unavailable(text));
            };
            match outcome {
                Err(error)
                    if is_unknown_keyspace(&error) && Instant::now() + LONGEST_PAUSE < end =>
                {
                    tracing::debug!("a request to Cassandra is repeated: {error}");
                    sleep(LONGEST_PAUSE).await;
                    self.counters.add_retry();
                }
                outcome => return outcome.map_err(|error| sort(&error)),
            }
        }
    }
}

/// Sorts an error of the driver: can a repetition help?
pub(crate) fn sort(error: &ExecutionError) -> RowsError {
    let text = error.to_string();
    match is_rejection(error) {
        true => RowsError::Rejected(text),
        false => RowsError::Unavailable(text),
    }
}

fn is_rejection(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_) => true,
        ExecutionError::LastAttemptError(attempt) => is_rejected_attempt(attempt),
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt }) => {
            is_rejected_attempt(first_attempt)
        }
        _ => false,
    }
}

/// Returns whether a node has rejected a request because it does not know the keyspace.
fn is_unknown_keyspace(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(attempt) => lacks_keyspace(attempt),
        ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt }) => {
            lacks_keyspace(first_attempt)
        }
        _ => false,
    }
}

fn is_rejected_attempt(error: &RequestAttemptError) -> bool {
    match error {
        error if lacks_keyspace(error) => false,
        RequestAttemptError::DbError(error, _) => matches!(
            error,
            DbError::SyntaxError
                | DbError::Invalid
                | DbError::AlreadyExists { .. }
                | DbError::FunctionFailure { .. }
                | DbError::AuthenticationError
                | DbError::Unauthorized
                | DbError::ConfigError
                | DbError::ProtocolError
        ),
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_) => true,
        _ => false,
    }
}

/// Returns whether a node does not know the keyspace of a request. The keyspace exists when requests are made, but a
/// node that has just started may answer before it has the schema from the other nodes.
fn lacks_keyspace(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::DbError(DbError::Invalid | DbError::ConfigError, text) => {
            text.starts_with("keyspace ") && text.ends_with(" does not exist")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn patience(total: Duration) -> Patience {
        Patience {
            total,
            counters: Arc::default(),
        }
    }

    fn failed(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()))
    }

    fn invalid(text: &str) -> ExecutionError {
        let error = RequestAttemptError::DbError(DbError::Invalid, text.to_string());
        ExecutionError::LastAttemptError(error)
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn an_overloaded_cluster_is_asked_again() {
        let patience = patience(Duration::from_secs(9));
        let attempts = Cell::new(0);
        let outcome = wait(patience.repeat(|| async {
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                3 => Ok("done"),
                _ => Err(failed(DbError::Overloaded)),
            }
        }));
        assert_eq!(outcome, Ok("done"));
        let counts = patience.counters.get();
        assert_eq!((counts.requests, counts.retries), (3, 2));
    }

    #[test]
    fn a_rejected_request_is_not_repeated() {
        let patience = patience(Duration::from_secs(9));
        let outcome = wait(patience.repeat(|| async { Err::<(), _>(failed(DbError::Invalid)) }));
        assert!(
            matches!(outcome, Err(RowsError::Rejected(_))),
            "{outcome:?}"
        );
        assert_eq!(patience.counters.get().retries, 0);
    }

    #[test]
    fn a_node_without_the_keyspace_is_asked_again() {
        let patience = patience(Duration::from_secs(9));
        let attempts = Cell::new(0);
        let outcome = wait(patience.repeat(|| async {
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                1 => Err(invalid("keyspace faults does not exist")),
                _ => Ok("done"),
            }
        }));
        assert_eq!(outcome, Ok("done"));
        let missing =
            wait(patience.repeat(|| async { Err::<(), _>(invalid("table names does not exist")) }));
        assert!(
            matches!(missing, Err(RowsError::Rejected(_))),
            "{missing:?}"
        );
    }

    #[test]
    fn a_conditional_write_is_repeated_only_if_no_node_has_executed_it() {
        let patience = patience(Duration::from_secs(9));
        let attempts = Cell::new(0);
        let outcome = wait(patience.once(|| async {
            attempts.set(attempts.get() + 1);
            match attempts.get() {
                1 => Err(invalid("keyspace faults does not exist")),
                _ => Err::<(), _>(failed(DbError::Overloaded)),
            }
        }));
        assert!(
            matches!(outcome, Err(RowsError::Unavailable(_))),
            "{outcome:?}"
        );
        assert_eq!(attempts.get(), 2);
    }

    #[test]
    fn the_total_time_is_bounded() {
        let short = patience(Duration::from_millis(120));
        let outcome = wait(short.repeat(|| async { Err::<(), _>(failed(DbError::Overloaded)) }));
        assert!(
            matches!(outcome, Err(RowsError::Unavailable(_))),
            "{outcome:?}"
        );
        assert!((1..3).contains(&short.counters.get().retries));
        let hanging = wait(short.repeat(std::future::pending::<Result<(), _>>));
        assert!(
            matches!(hanging, Err(RowsError::Unavailable(_))),
            "{hanging:?}"
        );
    }
}
