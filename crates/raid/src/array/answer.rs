//! Answers that cannot be forgotten.

use crate::block::Page;
use crate::request::Failure;

/// Called once with the blocks that were read (none for anything else), or with the failure. It runs on a thread of the
/// array and must not wait for the array.
pub type Completion = Box<dyn FnOnce(Result<Vec<Page>, Failure>) + Send>;

/// A completion that is owed. If it is dropped, because the array ends before the request, it says so.
pub struct Answer(Option<Completion>);

impl Answer {
    /// Owes this.
    pub fn new(completion: Completion) -> Answer {
        Answer(Some(completion))
    }

    /// Gives it.
    pub fn give(mut self, result: Result<Vec<Page>, Failure>) {
        self.0.take().expect("it is given once")(result);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(completion) = self.0.take() {
            completion(Err(Failure::Stopped));
        }
    }
}
