//! Time of the system. No other module of this crate reads a clock or waits.

#![allow(clippy::disallowed_methods, reason = "a program for people")]

use std::time::Duration;

/// Returns the monotonic time.
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the wall time as a date.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Blocks the calling thread.
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns the wall time.
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
