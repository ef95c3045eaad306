//! The locks of the head and of the log.
//!
//! A thread that holds one of them is in a [critical section](seiner_platform::critical): it makes
//! no system call and encodes nothing. A thread that needs both locks takes the head's lock first.
//! Builds with debug assertions check both rules.

use crate::error::Error;
use crate::head::Head;
use crate::health::Health;
use crate::holds::{HoldCounter, Holds};
use crate::log::Log;
use crate::trouble::Path;
use crate::volume::Volume;
use parking_lot::{Mutex, MutexGuard};
use seiner_platform::critical::Section;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;
use std::time::Instant;

#[cfg(debug_assertions)]
thread_local! {
    /// Number of heads, and of logs, that this thread has locked.
    static HELD: [std::cell::Cell<u32>; 2] = const { [const { std::cell::Cell::new(0) }; 2] };
}

/// Head and log of a store, shared by threads.
pub struct Locks {
    head: Lock<Head>,
    log: Lock<Log>,
    health: Arc<Health>,
}

/// Fair mutex: a thread that locks it again and again gives way to a waiting thread at least every half
/// millisecond.
struct Lock<T> {
    value: Mutex<T>,
    holds: HoldCounter,
}

/// Access to the head or to the log.
pub struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    holds: &'a HoldCounter,
    health: &'a Health,
    since: Instant,
    place: &'static Location<'static>,
    _section: Section,
    _held: Held,
}

/// Access to the head.
pub type HeadGuard<'a> = Guard<'a, Head>;

/// Access to the log.
pub type LogGuard<'a> = Guard<'a, Log>;

/// Marker of a part of the store that this thread has locked.
#[cfg_attr(
    not(debug_assertions),
    allow(dead_code, reason = "only debug builds count")
)]
struct Held(Part);

/// Part of a store with a lock of its own.
#[derive(Clone, Copy)]
enum Part {
    Head,
    Log,
}

/// Asserts that this thread has locked neither a head nor a log, in debug builds. `what` names the lock that it takes
/// next, for the message.
#[inline]
#[track_caller]
pub fn assert_none_held(what: &str) {
    Held::assert_none(&[Part::Head, Part::Log], what, "the head and the log");
}

impl Locks {
    /// Creates the locks of a head and a log.
    pub fn new(head: Head, log: Log, health: Arc<Health>) -> Locks {
        Locks {
            head: Lock::new(head),
            log: Lock::new(log),
            health,
        }
    }

    /// Returns the times for which the locks were held.
    pub fn holds(&self) -> Holds {
        self.head.holds.read().and(&self.log.holds.read())
    }

    /// Locks the head.
    #[track_caller]
    pub fn head(&self) -> HeadGuard<'_> {
        Held::assert_none(&[Part::Log], "the head", "the log");
        let value = self.head.value.lock();
        Guard::new(value, &self.head.holds, &self.health, Part::Head)
    }

    /// Locks the log.
    #[track_caller]
    pub fn log(&self) -> LogGuard<'_> {
        let value = self.log.value.lock();
        Guard::new(value, &self.log.holds, &self.health, Part::Log)
    }

    /// Locks the log if no other thread holds its lock.
    #[track_caller]
    pub fn try_log(&self) -> Option<LogGuard<'_>> {
        let value = self.log.value.try_lock()?;
        Some(Guard::new(value, &self.log.holds, &self.health, Part::Log))
    }

    /// Locks the head and the log, so that rows in memory and in segments are those of the same
    /// moment.
    #[track_caller]
    pub fn both(&self) -> (HeadGuard<'_>, LogGuard<'_>) {
        let head = self.head();
        (head, self.log())
    }

    /// Locks the log when a segment can be begun. If necessary, a slot is claimed without the lock.
    ///
    /// # Errors
    /// If no slot can be claimed. The store then accepts no more rows, unless the error is
    /// temporary.
    #[track_caller]
    pub fn log_with_slot(&self, volume: &dyn Volume) -> Result<LogGuard<'_>, Error> {
        self.log_with_slots(volume, |_| 1)
    }

    /// Locks the log when as many segments can be begun as `needed` returns.
    ///
    /// # Errors
    /// As [`Locks::log_with_slot`].
    #[track_caller]
    pub fn log_with_slots(
        &self,
        volume: &dyn Volume,
        needed: impl Fn(&Log) -> usize,
    ) -> Result<LogGuard<'_>, Error> {
        loop {
            let mut log = self.log();
            if log.slots() >= needed(&log) {
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
            value: Mutex::new(value),
            holds: HoldCounter::default(),
        }
    }
}

impl<'a, T> Guard<'a, T> {
    #[track_caller]
    fn new(
        value: MutexGuard<'a, T>,
        holds: &'a HoldCounter,
        health: &'a Health,
        part: Part,
    ) -> Guard<'a, T> {
        Guard {
            value,
            holds,
            health,
            since: Instant::now(),
            place: Location::caller(),
            _section: Section::enter(),
            _held: Held::enter(part),
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.holds.count(self.since.elapsed(), self.place);
        // A row may be accepted in part.
        if std::thread::panicking() {
            self.health.poison(|| "a writer panicked".to_string());
        }
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

impl Held {
    fn enter(part: Part) -> Held {
        #[cfg(debug_assertions)]
        HELD.with(|held| held[part as usize].update(|count| count + 1));
        Held(part)
    }

    /// Asserts that this thread has locked none of these parts, in debug builds. `what` is the lock that it takes next,
    /// and `before` names the parts.
    #[inline]
    #[track_caller]
    fn assert_none(parts: &[Part], what: &str, before: &str) {
        #[cfg(debug_assertions)]
        HELD.with(|held| {
            let is_held = parts.iter().any(|part| held[*part as usize].get() > 0);
            // A thread that panics has already printed a message.
            let is_right = !is_held || std::thread::panicking();
            assert!(is_right, "{what} is locked before {before}");
        });
        let _ = (parts, what, before);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| held[self.0 as usize].update(|count| count - 1));
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
        assert!(!error.is_out_of_space(), "{error}");
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
        // A thread that holds the head may try to lock the log.
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
