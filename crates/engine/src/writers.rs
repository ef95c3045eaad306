//! Writers: take turns, and wait for the background threads if these are behind.
//!
//! If two writers compete for the lock of the head, they wake each other at every hold, and each wake-up costs as much
//! processor time as some hundred rows. A writer therefore takes a *turn*, which lasts for the whole of a short batch.
//! Within a turn, the head is locked for at most [`ROWS_A_LOCK`](crate::core::ROWS_A_LOCK) rows and about
//! [`BYTES_A_LOCK`] bytes at a time, so that readers and background threads wait for one hold only.

use crate::background::done;
use crate::core::Core;
use crate::error::Error;
use crate::head::{Backlog, Head};
use crate::jobs::free::headroom;
use crate::locks::HeadGuard;
use crate::scheduler::Job;
use parking_lot::MutexGuard;
use std::time::Duration;

/// Shortest delay for which a throttled writer sleeps.
const LEAST_DELAY: Duration = Duration::from_millis(2);
/// Approximate maximum bytes appended under one lock. Rows may be long, and the disk budget and the
/// backlogs are checked before each lock.
const BYTES_A_LOCK: u64 = 64 << 10;
/// Number of holds of the head after which a turn ends if other writers wait.
const HOLDS_A_TURN: u32 = 16;

/// Turn of a writer. All other writers wait until it ends, but not while this writer itself waits.
pub(crate) struct Turn<'a> {
    core: &'a Core,
    turn: MutexGuard<'a, ()>,
    holds: u32,
    /// Bytes of the rows in all buffers at the beginning of the present hold.
    began: u64,
}

impl<'a> Turn<'a> {
    /// Begins a turn after those of other writers.
    pub fn begin(core: &'a Core) -> Turn<'a> {
        Turn {
            core,
            turn: core.writers.lock(),
            holds: 0,
            began: 0,
        }
    }

    /// Locks the head for a batch of rows. Waits first while too much work is unfinished or the disk is full, so that
    /// memory and disk stay bounded.
    ///
    /// # Errors
    /// If the store accepts no more rows.
    pub fn head(&mut self) -> Result<HeadGuard<'a>, Error> {
        self.holds += 1;
        if self.holds.is_multiple_of(HOLDS_A_TURN) {
            MutexGuard::bump(&mut self.turn);
        }
        let core = self.core;
        let head = match head_without_wait(core)? {
            Some(head) => head,
            None => {
                self.pause(|| make_way(core))?;
                let mut head = core.head();
                core.prepare(&mut head)?;
                head
            }
        };
        self.began = head.buffers().row_bytes();
        Ok(head)
    }

    /// Does something that may take long, while others have their turns. The head is not locked.
    pub fn pause<T>(&mut self, work: impl FnOnce() -> T) -> T {
        MutexGuard::unlocked(&mut self.turn, work)
    }

    /// Returns whether the maximum of bytes was appended in the present hold.
    pub fn is_long(&self, head: &Head) -> bool {
        head.buffers().row_bytes() - self.began >= BYTES_A_LOCK
    }
}

/// Locks the head for a batch of rows if no job is needed before. Head and log are locked once.
fn head_without_wait(core: &Core) -> Result<Option<HeadGuard<'_>>, Error> {
    let (mut head, mut log) = core.both();
    core.inform(&mut head, &mut log);
    if head.staged().max(head.taken()) != Backlog::Small {
        return Ok(None);
    }
    let staged = head.staging.bytes() as u64;
    let (has_space, delay) = log.charge_writers(&head.load(), staged);
    let is_behind = log.is_behind(head.is_journal_full()) || head.is_filing_behind();
    drop(log);
    if is_behind || !has_space || delay >= LEAST_DELAY {
        return Ok(None);
    }
    core.prepare_informed(&mut head)?;
    Ok(Some(head))
}

/// Waits while too much work is unfinished. The background threads do the work. They are woken
/// before writers have to wait for them.
fn make_way(core: &Core) -> Result<(), Error> {
    let (staged, taken, journal_full, names_behind) = {
        let head = core.head();
        let names_behind = head.is_filing_behind();
        (
            head.staged(),
            head.taken(),
            head.is_journal_full(),
            names_behind,
        )
    };
    let behind = core.log().is_behind(journal_full) || names_behind;
    wait_if_full(core, Job::Journal, staged)?;
    wait_if_full(core, Job::Seal, taken)?;
    if behind {
        wait_if_full(core, Job::Segments, Backlog::Full)?;
    }
    make_space(core)
}

/// Waits for a job if its backlog is full.
fn wait_if_full(core: &Core, job: Job, backlog: Backlog) -> Result<(), Error> {
    match backlog {
        Backlog::Small => Ok(()),
        Backlog::Large => {
            core.scheduler.nudge(job);
            Ok(())
        }
        Backlog::Full => done(core, job),
    }
}

/// Waits as the throttle requires, and frees space if there is none.
///
/// # Errors
/// [`Error::Full`] if neither merging nor shedding frees any space.
fn make_space(core: &Core) -> Result<(), Error> {
    let (has_space, delay) = headroom(core);
    if has_space {
        if delay >= LEAST_DELAY {
            core.log().debt.clear();
            core.clock.sleep(delay);
            core.head().counters.waited_ns += delay.as_nanos() as u64;
        }
        return Ok(());
    }
    let began = core.clock.monotonic();
    let result = done(core, Job::Space);
    core.head().counters.waited_ns += core.clock.monotonic() - began;
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Instant;

    /// Longest wait for another thread.
    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_long_turn_ends_for_a_writer_that_waits() {
        let world = World::new(options());
        let had_turn = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut turn = Turn::begin(&world.core);
            scope.spawn(|| {
                drop(Turn::begin(&world.core));
                had_turn.store(true, SeqCst);
            });
            let began = Instant::now();
            while !had_turn.load(SeqCst) && began.elapsed() < PATIENCE {
                drop(turn.head().unwrap());
            }
            assert!(had_turn.load(SeqCst));
        });
    }

    #[test]
    fn a_turn_is_kept_for_a_short_batch() {
        let world = World::new(options());
        let mut turn = Turn::begin(&world.core);
        for _ in 1..HOLDS_A_TURN {
            drop(turn.head().unwrap());
            assert!(world.core.writers.is_locked());
        }
        drop(turn);
        assert!(!world.core.writers.is_locked());
    }
}
