//! The strategies that know nothing: every request alone, what queues together, or everything held.

use super::{Look, Strategy, Verdict};

/// Every request by itself.
pub struct Never;

impl Strategy for Never {
    fn judge(&mut self, _: &Look) -> Verdict {
        Verdict::Alone
    }
}

/// What queues behind a busy stripe goes together; nothing is held.
pub struct Batch;

impl Strategy for Batch {
    fn judge(&mut self, _: &Look) -> Verdict {
        Verdict::Together
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
}
