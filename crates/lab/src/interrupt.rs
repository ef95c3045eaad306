//! The user's request to stop, checked between pieces of work.
//!
//! The first SIGINT or SIGTERM sets a flag, so that the run can remove its resources. A later signal ends the
//! process at once. In that case the registry cleans up at the next start.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time between signals that count as one request. `timeout` and `make` send a signal to
/// the process and to its group.
const SAME_WISH: Duration = Duration::from_secs(1);
/// Exit status of a process that a signal stopped.
const STOPPED: i32 = 130;

/// State of a request to stop and of a time limit. Cheap to clone and to check.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    wish: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Starts to listen to signals.
    ///
    /// # Errors
    /// If the system rejects the handlers.
    pub fn listen() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        let heard = interrupt.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in signals.forever() {
                heard.set();
                if first.get_or_insert_with(crate::time::now).elapsed() > SAME_WISH {
                    low_level::exit(STOPPED);
                }
            }
        });
        Ok(interrupt)
    }

    /// Returns a copy of this request with a time limit.
    pub fn until(&self, deadline: Option<Instant>) -> Interrupt {
        Interrupt {
            wish: self.wish.clone(),
            deadline,
        }
    }

    /// Returns true if the run must stop.
    pub fn is_set(&self) -> bool {
        self.wish.load(Ordering::Relaxed) || self.is_late()
    }

    /// Returns true if the run must stop only because of the time limit.
    pub fn is_late(&self) -> bool {
        let passed = self.deadline.is_some_and(|end| crate::time::now() >= end);
        passed && !self.wish.load(Ordering::Relaxed)
    }

    /// Returns true if `time` is left before the limit.
    pub fn has(&self, time: Duration) -> bool {
        let end = crate::time::now() + time;
        self.deadline.is_none_or(|deadline| end <= deadline)
    }

    /// Returns an error if it is time to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Requests a stop, as a signal does.
    pub fn set(&self) {
        self.wish.store(true, Ordering::Relaxed);
    }
}
