//! End of an array: background tasks, then a flush, then the shards, then the records.

use super::{Keeper, Word};
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
        BTreeSet<u64>,
    ),
}

impl Keeper {
    /// Records a clean stop, and the regions that still need a resync.
    fn close_books(&mut self, marked: BTreeSet<u64>, is_durable: bool) {
        if let Some(books) = self.books.as_mut().filter(|_| is_durable) {
            let cleared: Vec<u64> = books
                .intent()
                .marked()
                .difference(&marked)
                .copied()
                .collect();
            cleared
                .into_iter()
                .for_each(|region| books.intent().clear(region));
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
            Some(Ending::Shards(answer, result, 0, marked)) => {
                self.close_books(marked, result.is_ok());
                let _ = answer.send(result);
                return true;
            }
            ending => self.ending = ending,
        }
        false
    }
}
