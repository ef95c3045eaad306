//! Health of a store: whether it accepts writes, and the obstacles to writing.

use crate::error::Error;
use crate::trouble::{Path, Trouble, Troubles};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Health of a store. Its lock comes after all others and is held for the time of one access.
#[derive(Default)]
pub struct Health {
    poisoned: OnceLock<String>,
    closed: AtomicBool,
    read_only: AtomicBool,
    obstacles: Mutex<Obstacles>,
}

#[derive(Default)]
struct Obstacles {
    troubles: Troubles,
    /// Reason why roll-up levels cannot be made.
    rollup_blocked: Option<String>,
}

impl Health {
    // ---- end of writing

    /// Returns an error if writing has ended.
    ///
    /// # Errors
    /// The most severe reason.
    pub fn writable(&self) -> Result<(), Error> {
        self.unpoisoned()?;
        match () {
            () if self.is_closed() => Err(Error::Closed),
            () if self.read_only.load(Ordering::Acquire) => Err(Error::ReadOnly),
            () => Ok(()),
        }
    }

    /// Returns an error if an earlier error has ended writing.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first such error.
    pub fn unpoisoned(&self) -> Result<(), Error> {
        let why = self.poisoned.get();
        why.map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    /// Ends writing because of an error. The first error is kept.
    pub fn poison(&self, why: impl FnOnce() -> String) {
        self.poisoned.get_or_init(why);
    }

    /// Returns the error that ended writing.
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.get().map(String::as_str)
    }

    /// Returns whether the store was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Ends writing because the store is closed. Called under the head's lock, so that no batch is
    /// accepted in part.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Disables writing for a store that is opened for reading.
    pub fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    // ---- obstacles

    /// Records the failure or success of a path to the disk.
    pub fn note(&self, path: Path, result: Result<(), &Error>) {
        self.obstacles().troubles.note(path, result);
    }

    /// Records that writers have space.
    pub fn note_space(&self) {
        self.obstacles().troubles.note_space();
    }

    /// Records that data was shed at `now`, in monotonic ns of the clock.
    pub fn note_shed(&self, now: u64) {
        self.obstacles().troubles.note_shed(now);
    }

    /// Records the reason why roll-up levels cannot be made, or `None`. Returns whether the reason
    /// is new.
    pub fn note_rollup(&self, waits: Option<&str>) -> bool {
        let known = &mut self.obstacles().rollup_blocked;
        let is_new = known.as_deref() != waits;
        *known = waits.map(str::to_string);
        is_new
    }

    /// Returns the reason why roll-up levels cannot be made.
    pub fn rollup_blocked(&self) -> Option<String> {
        self.obstacles().rollup_blocked.clone()
    }

    /// Returns the obstacles at `now`, in monotonic ns of the clock, if writers have space or not, and are
    /// slowed for lack of space or not.
    pub fn trouble(&self, now: u64, has_space: bool, is_slow: bool) -> Trouble {
        self.obstacles().troubles.now(now, has_space, is_slow)
    }

    fn obstacles(&self) -> MutexGuard<'_, Obstacles> {
        self.obstacles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_rejected_for_the_gravest_reason() {
        let health = Health::default();
        assert!(health.writable().is_ok());
        health.set_read_only();
        assert!(matches!(health.writable(), Err(Error::ReadOnly)));
        health.close();
        assert!(matches!(health.writable(), Err(Error::Closed)));
        health.poison(|| "why".to_string());
        health.poison(|| "another".to_string());
        assert!(matches!(health.writable(), Err(Error::Poisoned(why)) if why == "why"));
    }

    #[test]
    fn a_change_of_the_reason_is_reported_once() {
        let health = Health::default();
        assert!(!health.note_rollup(None));
        assert!(health.note_rollup(Some("full")));
        assert!(!health.note_rollup(Some("full")));
        assert_eq!(health.rollup_blocked().as_deref(), Some("full"));
        assert!(health.note_rollup(None));
        assert_eq!(health.rollup_blocked(), None);
    }
}
