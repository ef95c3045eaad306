//! Answers that are given even if their owner is dropped.

use crate::block::Page;
use crate::request::Failure;

/// Callback that receives the blocks read (none for other commands) or the failure, exactly once. It runs on a
/// thread of the array and must not wait for the array.
pub type Completion = Box<dyn FnOnce(Result<Vec<Page>, Failure>) + Send>;

/// A completion that must be called. If it is dropped because the array ends first, it reports
/// [`Failure::Stopped`].
pub struct Answer(Option<Completion>);

impl Answer {
    /// Creates an answer from its completion.
    pub fn new(completion: Completion) -> Answer {
        Answer(Some(completion))
    }

    /// Calls the completion.
    pub fn give(mut self, result: Result<Vec<Page>, Failure>) {
        self.0.take().expect("an answer is given once")(result);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(completion) = self.0.take() {
            completion(Err(Failure::Stopped));
        }
    }
}
