//! Fixed strategies: every request alone, queued requests together, or everything held.

use super::{Strategy, Verdict, View, ViewRequest, WaitingWrites};

/// Strategy that starts every request alone.
pub struct Never;

impl Strategy for Never {
    fn judge(&mut self, _: &WaitingWrites) -> Verdict {
        Verdict::Alone
    }

    fn view(&self, _: &ViewRequest) -> View {
        View::everywhere("every request starts alone")
    }
}

/// Strategy that merges writes that queue behind a busy stripe, and holds nothing.
pub struct Batch;

impl Strategy for Batch {
    fn judge(&mut self, _: &WaitingWrites) -> Verdict {
        Verdict::Together
    }

    fn view(&self, _: &ViewRequest) -> View {
        View::everywhere("requests that queue behind a busy stripe start together; nothing is held")
    }
}

/// Strategy that holds every write until its stripe is full, or until the maximum time is over (the paper's static
/// merging).
pub struct Always;

impl Strategy for Always {
    fn judge(&mut self, waiting: &WaitingWrites) -> Verdict {
        if waiting.missing == 0 || waiting.now >= waiting.deadline {
            Verdict::Together
        } else {
            Verdict::Hold(waiting.deadline)
        }
    }

    fn view(&self, _: &ViewRequest) -> View {
        View::everywhere("every write is held until its stripe is full or the maximum time is over")
    }
}
