//! Turns: a mutex that is held most of the time by threads that yield to others.
//!
//! A writer releases the lock and takes it again at once. A waiting thread is woken each time,
//! mostly in vain, and each wake-up costs the writer more than yielding would. Before a writer
//! takes the lock, it therefore checks for waiting threads and leaves them time to wake up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LockResult, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Maximum time a yielding writer spins for waiting threads before it proceeds. The waiting threads
/// have been woken and run on another processor, if there is one. For such a short time it is not
/// worthwhile to give up the writer's own processor.
const SPIN: Duration = Duration::from_micros(100);
/// Number of scheduler yields after the spin, before the writer blocks on the mutex.
const LOOKS: usize = 32;

/// Mutex whose frequent user can yield to waiting threads.
pub struct Turns<T> {
    mutex: Mutex<T>,
    waiting: AtomicUsize,
}

impl<T> Turns<T> {
    /// Creates an unlocked mutex.
    pub fn new(value: T) -> Turns<T> {
        Turns {
            mutex: Mutex::new(value),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Locks the mutex, as [`Mutex::lock`] does.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.mutex.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let locked = self.mutex.lock();
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                locked
            }
        }
    }

    /// Locks the mutex if no thread holds it.
    pub fn try_lock(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(Ok(guard)),
            Err(TryLockError::Poisoned(error)) => Some(Err(error)),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks the mutex after waiting threads that arrive promptly. For threads that lock it again
    /// and again. The other threads hold it only briefly, so sleeping is not worthwhile.
    pub fn lock_after_others(&self) -> LockResult<MutexGuard<'_, T>> {
        if let Some(locked) = self.lock_if_nobody_waits() {
            return locked;
        }
        let began = Instant::now();
        while began.elapsed() < SPIN {
            std::hint::spin_loop();
            if let Some(locked) = self.lock_if_nobody_waits() {
                return locked;
            }
        }
        for _ in 0..LOOKS {
            std::thread::yield_now();
            if let Some(locked) = self.lock_if_nobody_waits() {
                return locked;
            }
        }
        self.lock()
    }

    /// Locks the mutex unless a thread waits for it or holds it.
    fn lock_if_nobody_waits(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        if self.waiting.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn lock_after_others_does_not_starve_other_threads() {
        let (turns, done) = (Turns::new(0u64), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut held = turns.lock_after_others().unwrap();
                    let until = Instant::now() + Duration::from_micros(200);
                    while Instant::now() < until {
                        *held += 1;
                    }
                }
            });
            let began = Instant::now();
            for _ in 0..500 {
                *turns.lock().unwrap() += 1;
            }
            let passed = began.elapsed();
            done.store(true, Ordering::Relaxed);
            // On average two or three holds for each turn, where a plain mutex takes tens.
            assert!(passed < Duration::from_secs(2), "{passed:?}");
        });
        assert_eq!(turns.waiting.load(Ordering::Relaxed), 0);
    }
}
