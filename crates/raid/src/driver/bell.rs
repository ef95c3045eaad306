//! Wakes a thread that sleeps, and costs nothing while it is awake.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// A bell. Whoever leaves work for the sleeper rings it afterwards.
pub struct Bell {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell {
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            asleep: AtomicBool::new(false),
        })
    }

    /// Wakes the sleeper, if there is one.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It fails only when it was rung 2^64 times, and then the sleeper wakes as well.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Forgets past rings; from now on they are heard. Look for work once more after this, then sleep.
    pub fn prepare(&self) {
        // Not later: a ring after the last look for work must find its way into the sleep. It fails when nobody rang.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// No more sleep.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps until it has rung since [`Bell::prepare`] or the time is over.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut heard = [PollFd::new(&self.event, PollFlags::IN)];
        match poll(&mut heard, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// What becomes readable when it rings.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
