//! Trouble: reasons why a store does not work as expected, for observers of the store.
//!
//! The caller of a failed write receives the error. Most writes are made in the background, without
//! a caller. Each path therefore keeps its latest error until it succeeds again.

use crate::error::Error;
pub use seiner_store::Trouble;

/// Time after shedding during which the store reports that it sheds, ns.
const SHED_LATELY: u64 = 600_000_000_000;

/// Path to the disk.
#[derive(Clone, Copy)]
pub enum Path {
    /// Accepted rows, written to the journal.
    Journal,
    /// Blocks, written to segments, and names, written to the catalog.
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
    /// Records the failure or success of a path.
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

    /// Records that writers have space.
    #[inline]
    pub fn note_space(&mut self) {
        if self.full.is_some() {
            self.full = None;
        }
    }

    /// Records that data was shed.
    pub fn note_shed(&mut self, now: u64) {
        self.shed = Some(now);
    }

    /// Returns the obstacles at `now`, in monotonic ns of the clock, if writers have space or not, and are
    /// slowed for lack of space or not.
    pub fn now(&mut self, now: u64, has_space: bool, is_slow: bool) -> Trouble {
        if has_space {
            self.note_space();
        }
        let lately = |shed: u64| now.saturating_sub(shed) < SHED_LATELY;
        Trouble {
            journal: self.journal.clone(),
            segments: self.segments.clone(),
            full: self.full.clone(),
            throttled: is_slow,
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
        // These errors follow from others and add no information.
        troubles.note(Path::Segments, Err(&Error::Closed));
        troubles.note(Path::Journal, Err(&Error::Poisoned("one".to_string())));
        let trouble = troubles.now(0, true, false);
        assert_eq!(trouble.journal.as_deref(), Some("writing: two"));
        assert_eq!(trouble.segments.as_deref(), Some("writing: three"));
        troubles.note(Path::Journal, Ok(()));
        let trouble = troubles.now(0, true, false);
        assert_eq!((trouble.journal, trouble.segments.is_some()), (None, true));
    }

    #[test]
    fn a_store_is_full_until_writers_have_headroom() {
        let mut troubles = Troubles::default();
        let full = Error::Full {
            used: 9,
            reserved: 1,
            budget: 10,
            relief: Relief::None,
        };
        troubles.note(Path::Segments, Err(&full));
        // A successful write does not free space.
        troubles.note(Path::Segments, Ok(()));
        let trouble = troubles.now(0, false, true);
        assert!(trouble.full.is_some() && trouble.throttled);
        assert_eq!(trouble.segments, None);
        assert_eq!(troubles.now(0, true, true).full, None);
        assert_eq!(
            troubles.now(0, false, true).full,
            None,
            "free space ends the report of a full disk"
        );
    }

    #[test]
    fn shedding_is_shown_for_ten_minutes() {
        let mut troubles = Troubles::default();
        let quiet = troubles.now(SHED_LATELY, true, false);
        assert_eq!(quiet, Trouble::default());
        troubles.note_shed(5);
        assert!(troubles.now(5 + SHED_LATELY - 1, true, false).shedding);
        assert!(!troubles.now(5 + SHED_LATELY, true, false).shedding);
    }
}
