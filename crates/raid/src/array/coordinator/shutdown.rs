//! End of an array: background tasks, then a flush, then the shards, then the records.

use super::{Coordinator, CoordinatorMessage};
use crate::mark::Mark;
use crate::request::Failure;
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;

/// Progress of the end.
pub enum Shutdown {
    /// Waiting for tasks.
    Tasks(Sender<Result<(), Failure>>),
    /// Waiting for the flush.
    Flush(Sender<Result<(), Failure>>),
    /// Waiting for this number of shards.
    Shards(
        Sender<Result<(), Failure>>,
        Result<(), Failure>,
        usize,
        BTreeSet<Mark>,
    ),
}

impl Coordinator {
    /// Records a clean stop, and the marks of stripes that still need a resync.
    fn record_stop(&mut self, marks: BTreeSet<Mark>, is_durable: bool) {
        if let Some(metadata_log) = self.metadata_log.as_mut().filter(|_| is_durable) {
            metadata_log.intent().set_marks(marks);
            metadata_log.superblock().clean = true;
            self.intent_changed = true;
            self.record_changes();
            self.members_changed = true;
        }
        self.record_changes();
    }

    /// Advances the end. Returns whether it is complete.
    pub(super) fn advance_shutdown(&mut self) -> bool {
        match self.shutdown.take() {
            Some(Shutdown::Tasks(answer)) if self.tasks.is_empty() => {
                let coordinator = self.shared.coordinator.clone();
                self.shared.flush(Box::new(move |result| {
                    let _ = coordinator.send(CoordinatorMessage::Flushed(result.map(drop)));
                }));
                self.shutdown = Some(Shutdown::Flush(answer));
            }
            Some(Shutdown::Shards(answer, result, 0, marks)) => {
                self.record_stop(marks, result.is_ok());
                let _ = answer.send(result);
                return true;
            }
            shutdown => self.shutdown = shutdown,
        }
        false
    }
}
