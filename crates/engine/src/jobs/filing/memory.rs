//! Memory of the job that files names between its steps.

/// State of the job between its steps.
#[derive(Default)]
pub(crate) struct FilingMemory {
    /// Number of the next names file. `None` before the first.
    pub next: Option<u64>,
    /// True if the names and tags in memory exceeded their part, and not all of them were filed since.
    pub is_under_way: bool,
    /// State of the search for sources that may become dormant.
    pub dormancy: Dormancy,
}

/// State of the search for sources that may become dormant. Times are those of the monotonic clock, ns.
#[derive(Clone, Copy)]
pub(crate) enum Dormancy {
    /// The registry has enough space, or the last search found nothing: no search begins before `until`.
    Off { until: u64 },
    /// The head notes which sources are idle, those below `cursor` already.
    Noting { cursor: u32 },
    /// Sources that are used meanwhile stay.
    Waiting { since: u64 },
    /// Names leave memory, those below `cursor` already, if the source had no row for so many ticks. `before` is the
    /// number of dormant sources at the beginning.
    Leaving {
        cursor: u32,
        ticks: u16,
        before: u64,
    },
    /// Idle sources that are not filed are filed, and their names leave memory at once.
    Filing { ticks: u16, before: u64 },
}

impl Default for Dormancy {
    fn default() -> Dormancy {
        Dormancy::Off { until: 0 }
    }
}
