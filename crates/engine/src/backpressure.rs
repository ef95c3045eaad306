//! Back-pressure: what happens to writers when the store is nearly full.
//!
//! Writers are slowed first, and wait while merging, ageing and shedding make room. They are refused
//! when nothing gives any. [`crate::space`] has the arithmetic.

use crate::engine::Engine;
use crate::error::{Error, io_error};
use crate::journal::DAMAGED;
use crate::scheduler::Job;
use crate::space::{delay_s, on_disk};
use crate::trouble::Path;
use crate::writing::Writing;
use seiner_platform::Disk;
use std::time::Duration;

/// Shortest delay for which a throttled writer sleeps.
const LEAST_DELAY: Duration = Duration::from_millis(2);
/// Interval between questions to the file system for its free bytes, and between attempts to make
/// room by all means before writers are refused, ns.
const ASK_EVERY: u64 = 1_000_000_000;
/// Liveness is counted anew after this part of the budget was written: as much may have died.
const WORTH_COUNTING: u64 = 128;
/// Rounds of merging and shedding before writers are refused.
const ROUNDS: usize = 256;

impl Engine {
    /// Waits as the throttle says, and makes room where there is none.
    ///
    /// # Errors
    /// [`Error::Full`] when neither merging nor what the classes allow to shed gives any.
    pub(crate) fn make_room(&self) -> Result<(), Error> {
        let (room, delay) = self.room();
        if room {
            if delay >= LEAST_DELAY {
                self.lock().debt.settle();
                self.clock.sleep(delay);
                self.lock().counters.waited_ns += delay.as_nanos() as u64;
            }
            return Ok(());
        }
        let began = self.clock.monotonic();
        let result = self.done(Job::Space);
        self.lock().counters.waited_ns += self.clock.monotonic() - began;
        result
    }

    /// Makes space for writers by all means that the rules allow.
    ///
    /// # Errors
    /// [`Error::Full`] if there is none.
    pub(crate) fn force_room(&self) -> Result<(), Error> {
        let result = self.try_room(&mut self.writing());
        if let Err(error) = &result {
            self.poison(error);
            self.note_trouble(Path::Segments, &result);
        }
        result
    }

    /// Returns whether writers have room, and how long they should wait.
    fn room(&self) -> (bool, Duration) {
        let mut state = self.lock();
        let load = state.load();
        let (used, limit) = (state.space.used(&load), state.space.limit(&load));
        let written = state.counters.block_bytes + state.staging.bytes() as u64;
        let delay = state.debt.charge(written, delay_s(used, limit));
        let room = used < limit;
        if room {
            state.troubles.note_room();
        }
        (room, delay)
    }

    fn try_room(&self, writing: &mut Writing) -> Result<(), Error> {
        // Somebody may have made room meanwhile.
        writing.asked = None;
        self.ask_for_room(writing)?;
        for _ in 0..ROUNDS {
            while !self.room().0 && self.step_with(writing)? {}
            if self.room().0 {
                return Ok(());
            }
            // What is written twice goes first.
            self.end_chapters(writing, |_| true)?;
            self.count_anew(writing)?;
            let more = self.tend(writing)?;
            if self.room().0 {
                return Ok(());
            }
            if more {
                continue;
            }
            if self.lock().is_crowded() || !self.shed()? {
                break;
            }
        }
        let state = self.lock();
        let fill = state.fill();
        Err(Error::Full {
            used: fill.used,
            budget: fill.budget,
            relief: state.relief(),
        })
    }

    /// Counts everything anew before something is refused, unless next to nothing can have died since.
    fn count_anew(&self, writing: &mut Writing) -> Result<(), Error> {
        let now = self.clock.monotonic();
        let (written, budget) = {
            let state = self.lock();
            (state.counters.block_bytes, state.budget())
        };
        let late = writing.tried.is_none_or(|tried| now - tried >= ASK_EVERY);
        if late || written - writing.surveyed >= budget / WORTH_COUNTING {
            (writing.tried, writing.surveyed) = (Some(now), written);
            self.survey_all(writing)?;
        }
        Ok(())
    }

    /// Counts what files take that were set aside: they are in nobody's way, but in the budget.
    pub(crate) fn count_set_aside(&self, disk: &dyn Disk) -> Result<(), Error> {
        let listing = || "listing what was set aside".to_string();
        let mut aside = 0;
        for name in disk.list().map_err(io_error(listing))? {
            if name.ends_with(DAMAGED) {
                let context = || format!("measuring {name}");
                let file = disk.open(&name).map_err(io_error(context))?;
                aside += on_disk(file.len().map_err(io_error(context))?, disk.unit());
            }
        }
        self.lock().space.note_aside(aside);
        Ok(())
    }

    /// Asks the file system how much is free, now and then.
    pub(crate) fn ask_for_room(&self, writing: &mut Writing) -> Result<(), Error> {
        let now = self.clock.monotonic();
        if writing.asked.is_some_and(|asked| now - asked < ASK_EVERY) {
            return Ok(());
        }
        writing.asked = Some(now);
        let free = writing
            .disk
            .free()
            .map_err(io_error(|| "asking how much room is free".to_string()))?;
        let mut state = self.lock();
        let (load, leave_free) = (state.load(), state.options.leave_free);
        state.space.note_free(free, leave_free, &load);
        Ok(())
    }
}
