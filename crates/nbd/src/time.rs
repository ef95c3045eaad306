//! Time of the system. No other module of this crate reads a clock or waits.

#![allow(clippy::disallowed_methods, reason = "waits for real connections")]

use std::time::{Duration, Instant};

/// Returns the monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Blocks the calling thread.
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
