//! Time of the system. No other module of this crate reads a clock.

#![allow(
    clippy::disallowed_methods,
    reason = "serves sockets, and measures requests in real time"
)]

use std::time::{Instant, SystemTime};

/// Returns the monotonic time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the wall time.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
