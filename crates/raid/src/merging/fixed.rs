//! The strategies that know nothing: every request alone, what queues together, or everything held.

use super::{Look, Question, Strategy, Verdict, View};

/// Every request by itself.
pub struct Never;

impl Strategy for Never {
    fn judge(&mut self, _: &Look) -> Verdict {
        Verdict::Alone
    }

    fn view(&self, _: &Question) -> View {
        View::everywhere("every request goes by itself")
    }
}

/// Strategy that merges writes that queue behind a busy stripe, and holds nothing.
pub struct Batch;

impl Strategy for Batch {
    fn judge(&mut self, _: &Look) -> Verdict {
        Verdict::Together
    }

    fn view(&self, _: &Question) -> View {
        View::everywhere("what queues behind a busy stripe goes together, nothing is held")
    }
}

/// Everything is held until its stripe is full, or the longest time is over (the paper's static merging).
pub struct Always;

impl Strategy for Always {
    fn judge(&mut self, look: &Look) -> Verdict {
        if look.missing == 0 || look.now >= look.deadline {
            Verdict::Together
        } else {
            Verdict::Hold(look.deadline)
        }
    }

    fn view(&self, _: &Question) -> View {
        View::everywhere("everything is held until its stripe is full or the longest time is over")
    }
}
