//! The user's wish to stop, asked for between two pieces of work.
//!
//! The first SIGINT or SIGTERM sets a flag, so that everything created can be removed. One that comes
//! later ends the process at once, and the registry puts things in order at the next start.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Signals within this time of the first are the same wish: `timeout` and `make` send the one that
/// they got to the process and to its group.
const SAME_WISH: Duration = Duration::from_secs(1);
/// The status of a process that was told to stop.
const STOPPED: i32 = 130;

/// Whether the user wants to stop, or the time is up. Cheap to clone and to ask.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    wish: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Listens to signals from now on.
    ///
    /// # Errors
    /// When the system refuses handlers.
    pub fn listen() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        let heard = interrupt.clone();
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        std::thread::spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in signals.forever() {
                heard.set();
                if first.get_or_insert_with(Instant::now).elapsed() > SAME_WISH {
                    low_level::exit(STOPPED);
                }
            }
        });
        Ok(interrupt)
    }

    /// The same wish, and a time after which to stop anyway.
    pub fn until(&self, deadline: Option<Instant>) -> Interrupt {
        Interrupt {
            wish: self.wish.clone(),
            deadline,
        }
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.wish.load(Ordering::Relaxed) || self.is_late()
    }

    /// Whether to stop for the time alone.
    pub fn is_late(&self) -> bool {
        let passed = self.deadline.is_some_and(|end| Instant::now() >= end);
        passed && !self.wish.load(Ordering::Relaxed)
    }

    /// Whether so much time is left.
    pub fn has(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        self.deadline.is_none_or(|deadline| end <= deadline)
    }

    /// An error if it is time to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    /// What a signal does.
    pub fn set(&self) {
        self.wish.store(true, Ordering::Relaxed);
    }
}
