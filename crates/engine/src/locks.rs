//! The locks of the head and of the log.
//!
//! A thread that holds one is in a [critical section](seiner_platform::critical): it makes no system call
//! and encodes nothing. A thread that needs both takes the head's first. Builds with debug assertions check both rules.

use crate::error::Error;
use crate::head::Head;
use crate::health::Health;
use crate::holds::{HoldCounter, Holds};
use crate::log::Log;
use crate::trouble::Path;
use crate::turns::Turns;
use crate::volume::Volume;
use seiner_platform::critical::Section;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{Arc, LockResult, MutexGuard};
use std::time::Instant;

#[cfg(debug_assertions)]
thread_local! {
    /// Number of logs that this thread has locked.
    static LOGS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Head and log of a store, shared by threads.
pub struct Locks {
    head: Lock<Head>,
    log: Lock<Log>,
    health: Arc<Health>,
}

struct Lock<T> {
    value: Turns<T>,
    holds: HoldCounter,
}

/// Access to the head or to the log.
pub struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    holds: &'a HoldCounter,
    since: Instant,
    place: &'static Location<'static>,
    _section: Section,
}

/// Access to the head.
pub type HeadGuard<'a> = Guard<'a, Head>;

/// Access to the log.
pub struct LogGuard<'a> {
    guard: Guard<'a, Log>,
    _held: HeldLog,
}

/// The fact that this thread has locked a log.
struct HeldLog;

impl Locks {
    /// Shares a head and a log.
    pub fn new(head: Head, log: Log, health: Arc<Health>) -> Locks {
        Locks {
            head: Lock::new(head),
            log: Lock::new(log),
            health,
        }
    }

    /// Returns how long each of the locks was held.
    pub fn holds(&self) -> Holds {
        self.head.holds.read().and(&self.log.holds.read())
    }

    /// Waits for the head.
    #[track_caller]
    pub fn head(&self) -> HeadGuard<'_> {
        HeldLog::assert_none();
        Guard::new(self.head.value.lock(), &self.head.holds, &self.health)
    }

    /// Waits for the log.
    #[track_caller]
    pub fn log(&self) -> LogGuard<'_> {
        LogGuard::new(Guard::new(
            self.log.value.lock(),
            &self.log.holds,
            &self.health,
        ))
    }

    /// Returns the log if no other thread has it.
    #[track_caller]
    pub fn try_log(&self) -> Option<LogGuard<'_>> {
        let locked = self.log.value.try_lock()?;
        Some(LogGuard::new(Guard::new(
            locked,
            &self.log.holds,
            &self.health,
        )))
    }

    /// Waits for the head and for the log: what is in memory and what is in segments at one moment.
    #[track_caller]
    pub fn both(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        let head = self.head();
        (head, self.log())
    }

    /// Waits for the head, after all other waiting threads, and for the log. For writers, which take
    /// the lock again and again.
    #[track_caller]
    pub fn both_after_others(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        HeldLog::assert_none();
        let locked = self.head.value.lock_after_others();
        let head = Guard::new(locked, &self.head.holds, &self.health);
        (head, self.log())
    }

    /// Waits for the log, and makes sure that a segment can be begun. A slot is claimed without the lock.
    ///
    /// # Errors
    /// When no slot can be claimed. Unless this passes, the store takes no more rows.
    #[track_caller]
    pub fn log_with_slot(&self, volume: &dyn Volume) -> Result<LogGuard<'_>, Error> {
        loop {
            let mut log = self.log();
            if log.has_slot() {
                return Ok(log);
            }
            let number = log.number_segment();
            drop(log);
            match volume.claim(number) {
                Ok(file) => self.log().add_slots([(number, file)]),
                Err(error) => {
                    self.health.note(Path::Segments, Err(&error));
                    if !error.passes() {
                        self.health.poison(|| error.to_string());
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl<T> Lock<T> {
    fn new(value: T) -> Lock<T> {
        Lock {
            value: Turns::new(value),
            holds: HoldCounter::default(),
        }
    }
}

impl<'a, T> Guard<'a, T> {
    /// A panic under a lock may have left a row half accepted: then nothing may be written.
    #[track_caller]
    fn new(
        locked: LockResult<MutexGuard<'a, T>>,
        holds: &'a HoldCounter,
        health: &Health,
    ) -> Guard<'a, T> {
        let value = locked.unwrap_or_else(|poisoned| {
            health.poison(|| "a writer panicked".to_string());
            poisoned.into_inner()
        });
        Guard {
            value,
            holds,
            since: Instant::now(),
            place: Location::caller(),
            _section: Section::enter(),
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.holds.count(self.since.elapsed(), self.place);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<'a> LogGuard<'a> {
    fn new(guard: Guard<'a, Log>) -> LogGuard<'a> {
        LogGuard {
            guard,
            _held: HeldLog::enter(),
        }
    }
}

impl Deref for LogGuard<'_> {
    type Target = Log;

    #[inline]
    fn deref(&self) -> &Log {
        &self.guard
    }
}

impl DerefMut for LogGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Log {
        &mut self.guard
    }
}

impl HeldLog {
    fn enter() -> HeldLog {
        #[cfg(debug_assertions)]
        LOGS.with(|logs| logs.set(logs.get() + 1));
        HeldLog
    }

    /// Asserts that this thread has no log locked, in debug builds.
    #[track_caller]
    fn assert_none() {
        #[cfg(debug_assertions)]
        LOGS.with(|logs| {
            let held = logs.get() > 0 && !std::thread::panicking();
            assert!(!held, "the head is locked before the log");
        });
    }
}

impl Drop for HeldLog {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        LOGS.with(|logs| logs.set(logs.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Members;
    use crate::options::Options;
    use crate::retention::Retention;
    use crate::volume::DirectoryVolume;
    use seiner_platform::sim::{Chance, Faults, SimDisk};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn locks() -> (Arc<SimDisk>, Arc<DirectoryVolume>, Locks) {
        let disk = Arc::new(SimDisk::new(1));
        let volume = Arc::new(DirectoryVolume::new(disk.clone()));
        let options = Arc::new(Options::default());
        let members = Arc::new(Members::new(options.classes.clone()));
        let head = Head::new(options.clone(), members.clone(), 7);
        let log = Log::new(options, Retention::new(members, None), 4096);
        (disk, volume, Locks::new(head, log, Arc::default()))
    }

    #[test]
    fn a_slot_is_claimed_once_and_stays_until_it_is_taken() {
        let (_, volume, locks) = locks();
        for _ in 0..2 {
            assert!(locks.log_with_slot(&*volume).unwrap().has_slot());
        }
        let mut log = locks.log();
        assert_eq!((log.take_slots().len(), log.number_segment()), (1, 2));
    }

    #[test]
    fn a_disk_that_fails_poisons_the_store() {
        let (disk, volume, locks) = locks();
        disk.set_faults(Faults {
            change_error: Chance::ALWAYS,
            ..Faults::default()
        });
        let error = locks.log_with_slot(&*volume).map(drop).unwrap_err();
        assert!(!error.is_want_of_room(), "{error}");
        assert!(matches!(locks.health.writable(), Err(Error::Poisoned(_))));
    }

    #[test]
    fn a_panic_under_a_lock_ends_writing() {
        let (_, _, locks) = locks();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _log = locks.log();
            panic!("a test");
        }));
        assert!(caught.is_err());
        drop(locks.both());
        assert!(matches!(locks.health.writable(), Err(Error::Poisoned(_))));
    }

    #[test]
    fn the_head_is_locked_before_the_log() {
        let (_, _, locks) = locks();
        drop(locks.both());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _log = locks.log();
            drop(locks.head());
        }));
        assert_eq!(caught.is_err(), cfg!(debug_assertions));
        // Who only looks whether the log is free may have the head.
        let head = locks.head();
        assert!(locks.try_log().is_some());
        drop(head);
        let log = locks.log();
        std::thread::scope(|scope| {
            let busy = scope.spawn(|| locks.try_log().is_none());
            assert!(busy.join().unwrap());
        });
        drop(log);
    }
}
