//! The lock around the state of a store.
//!
//! A thread that holds it is in a [critical section](seiner_platform::critical): it makes no system call
//! and encodes nothing. Builds with debug assertions check that.

use crate::error::Error;
use crate::holds::{HoldCounter, Holds};
use crate::state::State;
use crate::trouble::Path;
use crate::turns::Turns;
use crate::volume::Volume;
use seiner_platform::critical::Section;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{LockResult, MutexGuard};
use std::time::Instant;

/// State of a store, shared by threads.
pub struct Shared {
    state: Turns<State>,
    holds: HoldCounter,
}

/// Access to the state.
pub struct Guard<'a> {
    state: MutexGuard<'a, State>,
    holds: &'a HoldCounter,
    since: Instant,
    place: &'static Location<'static>,
    _section: Section,
}

impl Shared {
    /// Shares a state.
    pub fn new(state: State) -> Shared {
        Shared {
            state: Turns::new(state),
            holds: HoldCounter::default(),
        }
    }

    /// Returns how long the lock was held.
    pub fn holds(&self) -> Holds {
        self.holds.read()
    }

    /// Waits for the state.
    #[track_caller]
    pub fn lock(&self) -> Guard<'_> {
        Guard::new(self.state.lock(), &self.holds)
    }

    /// Waits for the state, after all others who wait for it. For writers, who take the lock again and again.
    #[track_caller]
    pub fn lock_after_others(&self) -> Guard<'_> {
        Guard::new(self.state.lock_after_others(), &self.holds)
    }

    /// Waits for the state, and makes sure that a segment can be begun. A slot is claimed without the lock.
    ///
    /// # Errors
    /// When no slot can be claimed. Unless this passes, the store takes no more rows.
    #[track_caller]
    pub fn lock_with_slot(&self, volume: &dyn Volume) -> Result<Guard<'_>, Error> {
        loop {
            let mut state = self.lock();
            if !state.ready.is_empty() {
                return Ok(state);
            }
            let number = state.number_segment();
            drop(state);
            let claimed = volume.claim(number);
            let mut state = self.lock();
            match claimed {
                Ok(file) => state.ready.push_back((number, file)),
                Err(error) => {
                    state.troubles.note(Path::Segments, Err(&error));
                    if !error.passes() {
                        state.poisoned.get_or_insert_with(|| error.to_string());
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl<'a> Guard<'a> {
    /// A panic under the lock may have left a row half accepted: then nothing may be written.
    #[track_caller]
    fn new(locked: LockResult<MutexGuard<'a, State>>, holds: &'a HoldCounter) -> Guard<'a> {
        let state = locked.unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state
                .poisoned
                .get_or_insert_with(|| "a writer panicked".to_string());
            state
        });
        Guard {
            state,
            holds,
            since: Instant::now(),
            place: Location::caller(),
            _section: Section::enter(),
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.holds.count(self.since.elapsed(), self.place);
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::volume::DirectoryVolume;
    use seiner_platform::sim::{Chance, Faults, SimDisk};
    use std::sync::Arc;

    fn shared() -> (Arc<SimDisk>, Arc<DirectoryVolume>, Shared) {
        let disk = Arc::new(SimDisk::new(1));
        let volume = Arc::new(DirectoryVolume::new(disk.clone()));
        let state = State::new(Options::default(), volume.clone(), 7, 4096);
        (disk, volume, Shared::new(state))
    }

    #[test]
    fn a_slot_is_claimed_once_and_stays_until_it_is_taken() {
        let (_, volume, shared) = shared();
        for _ in 0..2 {
            let state = shared.lock_with_slot(&*volume).unwrap();
            assert_eq!((state.ready.len(), state.next_segment), (1, 2));
        }
    }

    #[test]
    fn a_disk_that_fails_poisons_the_store() {
        let (disk, volume, shared) = shared();
        disk.set_faults(Faults {
            change_error: Chance::ALWAYS,
            ..Faults::default()
        });
        let error = shared.lock_with_slot(&*volume).map(drop).unwrap_err();
        assert!(!error.is_want_of_room(), "{error}");
        assert!(matches!(shared.lock().writable(), Err(Error::Poisoned(_))));
    }

    #[test]
    fn a_panic_under_the_lock_ends_writing() {
        let (_, _, shared) = shared();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _state = shared.lock();
            panic!("a test");
        }));
        assert!(caught.is_err());
        assert!(matches!(shared.lock().writable(), Err(Error::Poisoned(_))));
    }
}
