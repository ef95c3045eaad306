//! How an array ends: tasks, then a flush, then the shards, then the record of it.

use super::{Keeper, Word};
use crate::request::Failure;
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;

/// How far stopping has come.
pub enum Ending {
    /// Tasks end.
    Tasks(Sender<Result<(), Failure>>),
    /// All is flushed.
    Flush(Sender<Result<(), Failure>>),
    /// So many shards have not ended.
    Shards(
        Sender<Result<(), Failure>>,
        Result<(), Failure>,
        usize,
        BTreeSet<u64>,
    ),
}

impl Keeper {
    /// Puts on record that the array was stopped, and what is left to do.
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

    /// Goes on with ending; says whether that is over.
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
