//! Trouble: why a store does not do what it is asked, for those who look at it rather than write to it.
//!
//! A write that fails is an answer to whoever made it. The background makes most of them, and asks
//! nobody: so each path keeps why it failed last, until it succeeds again.

use crate::error::Error;
use crate::space::delay_s;
pub use seiner_store::Trouble;

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

/// Latest failures of paths to the disk, if no success followed.
#[derive(Default)]
pub struct Troubles {
    journal: Option<String>,
    segments: Option<String>,
    /// Reason why writers were rejected, if there was no space for them since.
    full: Option<String>,
    /// Time at which data was last shed, in monotonic ns of the clock.
    shed: Option<u64>,
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

    /// Returns what is in the way at `now`, by the clock's monotone ns, when `used` bytes are used and
    /// writers may use `room` more.
    pub fn now(&mut self, now: u64, used: u64, room: u64) -> Trouble {
        if room > 0 {
            self.note_room();
        }
        let lately = |shed: u64| now.saturating_sub(shed) < SHED_LATELY;
        Trouble {
            journal: self.journal.clone(),
            segments: self.segments.clone(),
            full: self.full.clone(),
            throttled: delay_s(used, used.saturating_add(room)) > 0.0,
            shedding: self.shed.is_some_and(lately),
            no_new_sources: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Relief;

    fn io(text: &'static str) -> Error {
        Error::Io {
            context: "writing".to_string(),
            error: std::io::Error::other(text),
        }
    }

    #[test]
    fn each_path_keeps_its_last_error_until_it_works() {
        let mut troubles = Troubles::default();
        troubles.note(Path::Journal, Err(&io("one")));
        troubles.note(Path::Journal, Err(&io("two")));
        troubles.note(Path::Segments, Err(&io("three")));
        // These follow from others, and say nothing new.
        troubles.note(Path::Segments, Err(&Error::Closed));
        troubles.note(Path::Journal, Err(&Error::Poisoned("one".to_string())));
        let told = troubles.now(0, 0, 1);
        assert_eq!(told.journal.as_deref(), Some("writing: two"));
        assert_eq!(told.segments.as_deref(), Some("writing: three"));
        troubles.note(Path::Journal, Ok(()));
        let told = troubles.now(0, 0, 1);
        assert_eq!((told.journal, told.segments.is_some()), (None, true));
    }

    #[test]
    fn a_full_store_says_so_until_writers_have_room() {
        let mut troubles = Troubles::default();
        let full = Error::Full {
            used: 9,
            budget: 10,
            relief: Relief::None,
        };
        troubles.note(Path::Segments, Err(&full));
        // A write that succeeds makes no room.
        troubles.note(Path::Segments, Ok(()));
        let told = troubles.now(0, 9, 0);
        assert!(told.full.is_some() && told.throttled);
        assert_eq!(told.segments, None);
        assert_eq!(troubles.now(0, 9, 1).full, None);
        assert_eq!(troubles.now(0, 9, 0).full, None, "and is forgotten then");
    }

    #[test]
    fn writers_are_slowed_near_the_end_and_shedding_is_told_for_ten_minutes() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.now(SHED_LATELY, 97, 3), Trouble::default());
        assert!(troubles.now(0, 99, 1).throttled);
        assert!(!troubles.now(0, 0, u64::MAX).throttled);
        troubles.note_shed(5);
        assert!(troubles.now(5 + SHED_LATELY - 1, 0, 1).shedding);
        assert!(!troubles.now(5 + SHED_LATELY, 0, 1).shedding);
    }
}
