//! Wake-up of a sleeping thread, almost free while the thread is awake.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// A wake-up event. A thread that adds work for the sleeper rings the bell afterwards.
pub struct Bell {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    /// Creates a bell.
    ///
    /// # Errors
    /// If the process has too many open files.
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
            // The write fails only if the counter is at its maximum, and then the sleeper wakes too.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Discards past rings and announces a sleep. The caller must look for work once more after this call and
    /// then sleep.
    pub fn prepare(&self) {
        // The event is cleared before the announcement: a ring after the last look for work must wake the
        // sleeper. The read fails if the event is not set.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement of a sleep.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps until a ring since [`Bell::prepare`] or until the timeout.
    ///
    /// # Errors
    /// If `poll` fails.
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

    /// Returns the file descriptor that becomes readable on a ring.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
