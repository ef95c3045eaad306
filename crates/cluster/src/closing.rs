//! Closing of a port: its last work is repeated for a while if the distributed store rejects it.

use crate::failure::HandoverError;
use seiner_platform::Clock;
use std::time::Duration;

/// Time for which a port that closes repeats its last work. Conditional writes fail for some seconds after the loss of a
/// node.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Repeats a step until the distributed store accepts it, for at most [`PATIENCE`].
///
/// # Errors
/// The last error of the distributed store, or the first error of the engine.
pub(crate) fn repeat<T>(
    clock: &dyn Clock,
    step: impl Fn() -> Result<T, HandoverError>,
) -> Result<T, HandoverError> {
    let end = clock.monotonic() + PATIENCE.as_nanos() as u64;
    loop {
        match step() {
            Err(HandoverError::Rows(error)) if clock.monotonic() < end => {
                tracing::warn!("the port cannot close yet, and tries again: {error}");
                clock.sleep(PAUSE);
            }
            result => return result,
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
        assert_eq!(repeat(&SimClock::new(0), step).unwrap(), 7);
        assert_eq!(attempts.get(), 5);
    }

    #[test]
    fn patience_ends() {
        let clock = SimClock::new(0);
        let never = || -> Result<(), HandoverError> { Err(unavailable()) };
        assert!(repeat(&clock, never).is_err());
        assert_eq!(clock.monotonic(), PATIENCE.as_nanos() as u64);
    }
}
