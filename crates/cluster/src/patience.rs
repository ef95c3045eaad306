//! Patience of a port: requests that are repeated while the distributed store starts, and while the port closes.

use crate::failure::{Failure, HandoverError};
use seiner_platform::Clock;
use std::time::Duration;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Attempts of a request at the start of a port.
const ATTEMPTS: usize = 20;
/// Time for which a port that closes repeats its last work. Conditional writes fail for some seconds after the loss of a
/// node.
const CLOSING: Duration = Duration::from_secs(30);

/// Repeats a request at the start of a port while too few replicas answer: nodes of the distributed store may start at
/// the same time, or one may just have failed. Repeating the request must be safe.
///
/// # Errors
/// If too few replicas answer for long, or the request fails otherwise.
pub(crate) fn at_start<T, E: Failure>(
    clock: &dyn Clock,
    request: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut left = ATTEMPTS;
    repeat(clock, request, |error| {
        left -= 1;
        let is_repeated = left > 0 && error.may_pass();
        if is_repeated {
            tracing::warn!("a request at the start is repeated: {error}");
        }
        is_repeated
    })
}

/// Repeats a step of a port that closes until the distributed store accepts it, for at most 30 s.
///
/// # Errors
/// The last error of the distributed store, or the first error of the engine.
pub(crate) fn at_end<T>(
    clock: &dyn Clock,
    step: impl FnMut() -> Result<T, HandoverError>,
) -> Result<T, HandoverError> {
    let end = clock.monotonic() + CLOSING.as_nanos() as u64;
    repeat(clock, step, |error| {
        let is_repeated = matches!(error, HandoverError::Rows(_)) && clock.monotonic() < end;
        if is_repeated {
            tracing::warn!("the port cannot close yet, and tries again: {error}");
        }
        is_repeated
    })
}

/// Repeats a request while `may_repeat` returns true for its error.
fn repeat<T, E>(
    clock: &dyn Clock,
    mut request: impl FnMut() -> Result<T, E>,
    mut may_repeat: impl FnMut(&E) -> bool,
) -> Result<T, E> {
    loop {
        match request() {
            Err(error) if may_repeat(&error) => clock.sleep(PAUSE),
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowsError;
    use seiner_platform::sim::SimClock;
    use std::cell::Cell;

    fn unavailable() -> HandoverError {
        HandoverError::Rows(RowsError::Unavailable("no replica answers".to_string()))
    }

    #[test]
    fn a_step_is_repeated_until_it_succeeds() {
        let attempts = Cell::new(0);
        let step = || {
            attempts.set(attempts.get() + 1);
            (attempts.get() == 5).then_some(7).ok_or_else(unavailable)
        };
        assert_eq!(at_end(&SimClock::new(0), step).unwrap(), 7);
        assert_eq!(attempts.get(), 5);
    }

    #[test]
    fn patience_ends() {
        let clock = SimClock::new(0);
        let never = || -> Result<(), HandoverError> { Err(unavailable()) };
        assert!(at_end(&clock, never).is_err());
        assert_eq!(clock.monotonic(), CLOSING.as_nanos() as u64);
    }

    #[test]
    fn a_start_waits_for_replicas_and_not_for_a_rejection() {
        let clock = SimClock::new(0);
        let attempts = Cell::new(0);
        let answer = |error: &dyn Fn() -> RowsError| {
            attempts.set(attempts.get() + 1);
            (attempts.get() == 5).then_some(7).ok_or_else(error)
        };
        let unavailable = || RowsError::Unavailable("no replica answers".to_string());
        let rejected = || RowsError::Rejected("no such table".to_string());
        assert_eq!(at_start(&clock, || answer(&unavailable)).unwrap(), 7);
        attempts.set(0);
        assert!(at_start(&clock, || answer(&rejected)).is_err());
        assert_eq!(attempts.get(), 1);
        let never = || -> Result<(), HandoverError> { Err(unavailable().into()) };
        assert!(at_start(&clock, never).is_err());
    }
}
