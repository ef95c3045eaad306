//! End of an array: background tasks, then a flush, then the shards, then the records.

use super::{Keeper, Word};
use crate::mark::Mark;
use crate::request::Failure;
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;

/// Progress of the end.
pub enum Ending {
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

impl Keeper {
    /// Records a clean stop, and the marks of stripes that still need a resync.
    fn close_books(&mut self, marks: BTreeSet<Mark>, is_durable: bool) {
        if let Some(books) = self.books.as_mut().filter(|_| is_durable) {
            books.intent().set_marks(marks);
            books.superblock().clean = true;
            self.intent_changed = true;
            self.put_on_record();
            self.members_changed = true;
        }
        self.put_on_record();
    }

    /// Advances the end. Returns whether it is complete.
    pub(super) fn has_ended(&mut self) -> bool {
        match self.ending.take() {
            Some(Ending::Tasks(answer)) if self.tasks.is_empty() => {
                let keeper = self.shared.keeper.clone();
                self.shared.flush(Box::new(move |result| {
                    let _ = keeper.send(Word::Flushed(result.map(drop)));
                }));
                self.ending = Some(Ending::Flush(answer));
            }
            Some(Ending::Shards(answer, result, 0, marks)) => {
                self.close_books(marks, result.is_ok());
                let _ = answer.send(result);
                return true;
            }
            ending => self.ending = ending,
        }
        false
    }
}
