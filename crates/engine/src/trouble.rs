//! Trouble: why a store does not do what it is asked, for those who look at it rather than write to it.
//!
//! A write that fails is an answer to whoever made it. The background makes most of them, and asks
//! nobody: so each path keeps why it failed last, until it succeeds again.

use crate::error::Error;
use crate::space::delay_s;
use crate::state::State;

/// For so long after something was shed the store says that it sheds, ns.
const SHED_LATELY: u64 = 600_000_000_000;

/// Paths to the disk.
#[derive(Clone, Copy)]
pub enum Path {
    /// What was accepted goes to the journal.
    Journal,
    /// Blocks go to segments, and names to the catalog.
    Segments,
}

/// Why paths to the disk failed last, if they did not succeed since.
#[derive(Default)]
pub struct Troubles {
    journal: Option<String>,
    segments: Option<String>,
    /// Why writers were refused, if there was no room for them since.
    full: Option<String>,
    /// When something was shed last, in the clock's monotone ns.
    shed: Option<u64>,
}

/// The same, for a [`crate::Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Why the journal cannot be written: acknowledged rows wait in memory.
    pub journal: Option<String>,
    /// Why segments cannot be written.
    pub segments: Option<String>,
    /// Why writers are refused: the budget is used up.
    pub full: Option<String>,
    /// Whether writers are slowed, for the budget is nearly used up.
    pub throttled: bool,
    /// Whether data was let go before its time in the last ten minutes, to make room.
    pub shedding: bool,
    /// Whether new sources are refused, for their names would take the memory of rows.
    pub no_new_sources: bool,
}

impl Troubles {
    /// A path failed, or worked again.
    pub fn note(&mut self, path: Path, result: Result<(), &Error>) {
        let place = match path {
            Path::Journal => &mut self.journal,
            Path::Segments => &mut self.segments,
        };
        match result {
            Ok(()) => *place = None,
            Err(error @ Error::Full { .. }) => self.full = Some(error.to_string()),
            Err(Error::Poisoned(_) | Error::Closed) => {}
            Err(error) => *place = Some(error.to_string()),
        }
    }

    /// There is room for writers.
    #[inline]
    pub fn note_room(&mut self) {
        if self.full.is_some() {
            self.full = None;
        }
    }

    /// Something was shed.
    pub fn note_shed(&mut self, now: u64) {
        self.shed = Some(now);
    }
}

impl State {
    /// What is in the way now; `now`: by the clock's monotone ns.
    pub fn trouble(&mut self, now: u64) -> Trouble {
        let room = self.room_for_writers();
        if room > 0 {
            self.troubles.note_room();
        }
        let used = self.used();
        let limit = (used + room).max(1);
        let troubles = &self.troubles;
        let lately = |shed: u64| now.saturating_sub(shed) < SHED_LATELY;
        Trouble {
            journal: troubles.journal.clone(),
            segments: troubles.segments.clone(),
            full: troubles.full.clone(),
            throttled: delay_s(used, limit) > 0.0,
            shedding: troubles.shed.is_some_and(lately),
            no_new_sources: self.registry_full,
        }
    }
}
