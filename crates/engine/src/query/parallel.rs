//! Work on other threads, with results in order and a bounded number of them ahead.
//!
//! All queries of the process share a number of helper threads, one more than there are cores. A query that gets none
//! does its work itself. The order and the content of the results never depend on threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle};

/// Helpers at work, in this process.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A place among the helpers of the process, free again when it is dropped.
struct Permit;

impl Permit {
    fn take() -> Option<Permit> {
        let limit = cores() + 1;
        let more = |helpers| (helpers < limit).then_some(helpers + 1);
        let taken = HELPERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Results of work in the order in which the work was given.
pub(crate) struct Ordered<R> {
    works: VecDeque<Work<R>>,
}

enum Work<R> {
    Done(R),
    Here(Box<dyn FnOnce() -> R + Send>),
    Elsewhere(JoinHandle<R>),
}

impl<R> Drop for Ordered<R> {
    /// Waits for helpers: they may have files of the store open.
    fn drop(&mut self) {
        for work in self.works.drain(..) {
            if let Work::Elsewhere(helper) = work {
                // A panic is of no interest to somebody who does not want the result.
                let _ = helper.join();
            }
        }
    }
}

impl<R: Send + 'static> Ordered<R> {
    /// Creates an empty list of work.
    pub fn new() -> Ordered<R> {
        Ordered {
            works: VecDeque::new(),
        }
    }

    /// Returns the number of results that were not taken.
    pub fn len(&self) -> usize {
        self.works.len()
    }

    /// Adds a result.
    pub fn push(&mut self, result: R) {
        self.works.push_back(Work::Done(result));
    }

    /// Adds work for the thread that takes its result.
    pub fn begin_here(&mut self, work: impl FnOnce() -> R + Send + 'static) {
        self.works.push_back(Work::Here(Box::new(work)));
    }

    /// Begins work on a helper if one is free; otherwise the thread that takes the result does it.
    pub fn begin(&mut self, work: impl FnOnce() -> R + Send + 'static) {
        let Some(permit) = Permit::take() else {
            self.works.push_back(Work::Here(Box::new(work)));
            return;
        };
        // The thread may not start: then the work must still be here.
        let shared = Arc::new(Mutex::new(Some(work)));
        let given = shared.clone();
        let helper = Builder::new().name("seiner-query".to_string());
        let begun = helper.spawn(move || {
            let _permit = permit;
            let work = given
                .lock()
                .expect("nothing panics while it is held")
                .take();
            work.expect("work is taken once")()
        });
        self.works.push_back(match begun {
            Ok(helper) => Work::Elsewhere(helper),
            Err(_) => {
                let work = shared
                    .lock()
                    .expect("nothing panics while it is held")
                    .take();
                Work::Here(Box::new(work.expect("no thread took it")))
            }
        });
    }

    /// Returns the next result, after waiting for it or doing the work.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn take(&mut self) -> Option<R> {
        self.works.pop_front().map(|work| match work {
            Work::Done(result) => result,
            Work::Here(work) => work(),
            Work::Elsewhere(helper) => helper
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_however_many_helpers_there_are() {
        let mut works = Ordered::new();
        for work in 0..50_u64 {
            match work % 7 {
                0 => works.push(work),
                _ => works.begin(move || {
                    std::thread::sleep(std::time::Duration::from_micros(500 * (work % 3)));
                    work
                }),
            }
        }
        assert_eq!(works.len(), 50);
        let found: Vec<u64> = std::iter::from_fn(|| works.take()).collect();
        assert_eq!(found, (0..50).collect::<Vec<u64>>());
    }

    #[test]
    fn helpers_are_as_many_as_allowed_and_end_with_the_list() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut works = Ordered::new();
        for _ in 0..4 * cores() + 8 {
            let (now, most) = (now.clone(), most.clone());
            works.begin(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
                now.fetch_sub(1, Ordering::SeqCst);
            });
        }
        drop(works);
        assert_eq!(now.load(Ordering::SeqCst), 0);
        assert!(most.load(Ordering::SeqCst) <= cores() + 1);
    }
}
