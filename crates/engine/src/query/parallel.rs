//! Parallel work of queries: results are in order, and a bounded number of them is computed ahead.
//!
//! All queries of the process share a number of helper threads, one more than there are cores. A
//! query that gets no helper does its work itself. The order and the content of the results never
//! depend on threads.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::Builder;

/// Number of busy helpers in this process.
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Permit to run a helper. Dropping it allows another helper.
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

type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Results of work, in the order in which the work was added.
///
/// Helpers take work from a queue, so that each stays busy while the queue has work.
pub(crate) struct Ordered<R> {
    works: VecDeque<Work<R>>,
    /// Number of works given to helpers so far.
    given: u64,
    /// Maximum number of helpers at a time.
    threads: usize,
    queue: Arc<Queue<R>>,
}

enum Work<R> {
    Done(R),
    Here(Job<R>),
    /// Work for a helper, with its number in the queue.
    Elsewhere(u64),
}

/// Queue between the thread that adds work and the helpers.
struct Queue<R> {
    state: Mutex<Queued<R>>,
    /// Signals a new result, or the end of a helper.
    changed: Condvar,
}

struct Queued<R> {
    jobs: VecDeque<(u64, Job<R>)>,
    results: BTreeMap<u64, std::thread::Result<R>>,
    helpers: usize,
}

impl<R> Queue<R> {
    fn lock(&self) -> MutexGuard<'_, Queued<R>> {
        self.state
            .lock()
            .expect("no work runs while the state is locked")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Queued<R>>) -> MutexGuard<'a, Queued<R>> {
        let woken = self.changed.wait(state);
        woken.expect("no work runs while the state is locked")
    }

    /// Does work until the queue is empty.
    fn help(&self) {
        let mut state = self.lock();
        while let Some((number, job)) = state.jobs.pop_front() {
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(job));
            state = self.lock();
            state.results.insert(number, result);
            self.changed.notify_all();
        }
        state.helpers -= 1;
        self.changed.notify_all();
    }
}

impl<R> Drop for Ordered<R> {
    /// Waits for helpers, which may have files of the store open.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.jobs.clear();
        while state.helpers > 0 {
            state = self.queue.wait(state);
        }
        state.results.clear();
    }
}

impl<R: Send + 'static> Ordered<R> {
    /// Creates an empty list of work for at most this number of helpers.
    pub fn new(threads: usize) -> Ordered<R> {
        Ordered {
            works: VecDeque::new(),
            given: 0,
            threads,
            queue: Arc::new(Queue {
                state: Mutex::new(Queued {
                    jobs: VecDeque::new(),
                    results: BTreeMap::new(),
                    helpers: 0,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    /// Returns the number of results that are not yet taken.
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

    /// Adds work for a helper. If no helper is free, the thread that takes the result does the
    /// work.
    pub fn begin(&mut self, work: impl FnOnce() -> R + Send + 'static) {
        let number = self.given;
        self.given += 1;
        self.works.push_back(Work::Elsewhere(number));
        let mut state = self.queue.lock();
        state.jobs.push_back((number, Box::new(work)));
        if state.helpers >= self.threads {
            return;
        }
        let Some(permit) = Permit::take() else {
            return;
        };
        let queue = self.queue.clone();
        let helper = Builder::new().name("seiner-query".to_string());
        let begun = helper.spawn(move || {
            let _permit = permit;
            queue.help();
        });
        // Without another helper, the present helpers or the caller do the work.
        state.helpers += usize::from(begun.is_ok());
    }

    /// Returns the next result. Waits for the result or does the work.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn take(&mut self) -> Option<R> {
        self.works.pop_front().map(|work| match work {
            Work::Done(result) => result,
            Work::Here(work) => work(),
            Work::Elsewhere(number) => self.wait_for(number),
        })
    }

    fn wait_for(&self, number: u64) -> R {
        let mut state = self.queue.lock();
        loop {
            if let Some(result) = state.results.remove(&number) {
                drop(state);
                return result.unwrap_or_else(|panic| resume_unwind(panic));
            }
            let is_next = matches!(state.jobs.front(), Some((next, _)) if *next == number);
            if state.helpers == 0 && is_next {
                let job = state.jobs.pop_front();
                drop(state);
                let (_, job) = job.expect("the front was examined");
                return job();
            }
            state = self.queue.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_however_many_helpers_there_are() {
        let mut works = Ordered::new(cores());
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
    fn helpers_stay_within_the_limit_and_end_with_the_list() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut works = Ordered::new(cores());
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

    #[test]
    fn a_panic_of_a_helper_reaches_the_thread_that_takes_the_result() {
        let mut works: Ordered<u64> = Ordered::new(2);
        works.begin(|| panic!("a test"));
        works.begin(|| 7);
        let taken = catch_unwind(AssertUnwindSafe(|| works.take()));
        assert!(taken.is_err());
        assert_eq!(works.take(), Some(7));
    }

    #[test]
    fn work_without_helpers_runs_in_the_calling_thread() {
        let mut works = Ordered::new(0);
        let here = std::thread::current().id();
        for _ in 0..3 {
            works.begin(move || std::thread::current().id() == here);
        }
        assert_eq!(
            std::iter::from_fn(|| works.take()).collect::<Vec<_>>(),
            [true; 3]
        );
    }
}
