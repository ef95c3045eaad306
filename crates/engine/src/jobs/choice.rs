//! Choice of the next step for segments that are being written.

/// Waiting bytes that justify a write step, or half a segment if segments are small. Every step
/// briefly takes the lock from writers, so fewer bytes wait until nothing else is to do.
const WORTH_WRITING: u64 = 1 << 20;
/// Closed segments that justify a seal step: syncing several segments costs little more than
/// syncing one.
const WORTH_SEALING: usize = 8;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Writes pieces to their segments.
    Write,
    /// Seals closed segments.
    Seal,
    /// Writes checkpoints of segments that accept blocks.
    Checkpoint,
    /// Has nothing urgent to do.
    Idle,
}

/// Inputs of a choice, read under one lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChoiceInputs {
    /// Bytes of a segment, R.
    pub segment_bytes: u64,
    /// Bytes that wait to be written.
    pub waiting: u64,
    /// Number of segments that are being written, closed ones included.
    pub open: usize,
    /// Number of closed segments, which accept no more blocks.
    pub closed: usize,
    /// True if the journal is at its bound. Writers then wait for a seal or a checkpoint.
    pub is_journal_full: bool,
    /// True if roll-up levels are due. The rows of a pass become durable with the checkpoints at its
    /// end, or with an earlier seal.
    pub is_rollup_due: bool,
    /// True if open segments use memory that a seal would free.
    pub is_short_of_memory: bool,
    /// True if merged segments wait for the seal of their successors and no space is left until
    /// they are removed: the next merge needs their space.
    pub is_merge_waiting: bool,
    /// True if the journal waits for a checkpoint.
    pub is_checkpoint_due: bool,
}

impl ChoiceInputs {
    /// Returns the next step.
    pub fn next(&self) -> Choice {
        let at_once = self.is_journal_full
            || self.is_rollup_due
            || self.is_short_of_memory
            || self.is_merge_waiting
            // If no segment accepts blocks, no further segment will be closed.
            || self.closed == self.open;
        if self.waiting >= WORTH_WRITING.min(self.segment_bytes / 2) {
            Choice::Write
        } else if self.closed >= WORTH_SEALING || self.closed > 0 && at_once {
            Choice::Seal
        } else if self.is_checkpoint_due {
            Choice::Checkpoint
        } else {
            Choice::Idle
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two segments, of which one is closed.
    const CALM: ChoiceInputs = ChoiceInputs {
        segment_bytes: 64 << 20,
        waiting: 0,
        open: 2,
        closed: 1,
        is_journal_full: false,
        is_rollup_due: false,
        is_short_of_memory: false,
        is_merge_waiting: false,
        is_checkpoint_due: false,
    };

    #[test]
    fn a_waiting_mebibyte_is_written_first() {
        let urgent = ChoiceInputs {
            closed: 2,
            is_checkpoint_due: true,
            ..CALM
        };
        let with = |waiting, segment_bytes| {
            let inputs = ChoiceInputs {
                waiting,
                segment_bytes,
                ..urgent
            };
            inputs.next()
        };
        assert_eq!(with((1 << 20) - 1, 64 << 20), Choice::Seal);
        assert_eq!(with(1 << 20, 64 << 20), Choice::Write);
        // Half a segment, if segments are small.
        assert_eq!(with(32 << 10, 64 << 10), Choice::Write);
        assert_eq!(with((32 << 10) - 1, 64 << 10), Choice::Seal);
    }

    #[test]
    fn closed_segments_are_sealed_in_groups_unless_they_are_needed() {
        assert_eq!(CALM.next(), Choice::Idle);
        let reasons: [fn(&mut ChoiceInputs); 6] = [
            |inputs| inputs.is_journal_full = true,
            |inputs| inputs.is_rollup_due = true,
            |inputs| inputs.is_short_of_memory = true,
            |inputs| inputs.is_merge_waiting = true,
            |inputs| inputs.open = 1,
            |inputs| (inputs.open, inputs.closed) = (9, 8),
        ];
        for (number, reason) in reasons.iter().enumerate() {
            let mut inputs = CALM;
            reason(&mut inputs);
            assert_eq!(inputs.next(), Choice::Seal, "reason {number}");
        }
        let few = ChoiceInputs {
            open: 9,
            closed: 7,
            ..CALM
        };
        assert_eq!(few.next(), Choice::Idle);
    }

    #[test]
    fn checkpoints_are_written_if_no_segment_needs_a_seal() {
        let due = ChoiceInputs {
            is_checkpoint_due: true,
            is_journal_full: true,
            ..CALM
        };
        assert_eq!(due.next(), Choice::Seal);
        assert_eq!(ChoiceInputs { closed: 0, ..due }.next(), Choice::Checkpoint);
        // Without a segment, there is nothing to seal.
        let none = ChoiceInputs {
            open: 0,
            closed: 0,
            is_checkpoint_due: false,
            ..due
        };
        assert_eq!(none.next(), Choice::Idle);
    }
}
