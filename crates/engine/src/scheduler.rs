//! Scheduler: the background threads of a store, and requests of writers to them.
//!
//! | thread | work of its own accord | on request |
//! |---|---|---|
//! | journal | commits at the interval of the durability | [`Job::Journal`] |
//! | sealer | – | [`Job::Seal`] |
//! | segments | writes, seals, drops and merges segments | [`Job::Segments`], [`Job::Space`] |
//!
//! Syncing the journal must not wait for segments, and blocks must be encoded while either waits for
//! the disk. A writer whose batch finds too much unfinished work requests the job that finishes the
//! work, and waits. The writer never does the job itself, even when the threads have ended because
//! the store is closing: the request then fails. A store in a simulation never has threads:
//! [`Scheduler::request`] then returns `None`, and the caller does the job.

use crate::error::Error;
use crate::options::Durability;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between steps on segments without a request.
const STEP_EVERY: Duration = Duration::from_millis(100);
/// Interval between steps on segments after a step with work: a small store is soon full again.
const STEP_AGAIN: Duration = Duration::from_millis(10);
/// Interval at which free memory is returned to the system.
const TRIM_EVERY: Duration = Duration::from_secs(5);
/// Number of jobs.
const JOBS: usize = 4;

/// Jobs that writers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Writes staged bytes to the journal, without a sync.
    Journal,
    /// Encodes taken buffers into blocks.
    Seal,
    /// Works on segments until writers may continue.
    Segments,
    /// Makes space within the disk budget.
    Space,
}

/// Work of a store.
pub trait Work: Send + Sync + 'static {
    /// Returns the durability of acknowledged rows, which determines the interval of commits.
    fn durability(&self) -> Durability;
    /// Writes and syncs the journal.
    ///
    /// # Errors
    /// The store records them.
    fn commit(&self) -> Result<(), Error>;
    /// Performs one step of the work on segments. Returns whether there was any work.
    ///
    /// # Errors
    /// The store records them.
    fn step(&self) -> Result<bool, Error>;
    /// Performs a job.
    ///
    /// # Errors
    /// Those of the job. Writers that wait for the job get a copy.
    fn run(&self, job: Job) -> Result<(), Error>;
    /// Returns free memory to the system.
    fn trim_memory(&self);
}

/// Background threads of a store. Without [`Scheduler::start`], there are none.
#[derive(Default)]
pub struct Scheduler {
    journal: Arc<Post>,
    sealer: Arc<Post>,
    segments: Arc<Post>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Requests to one thread. Each request has a number. A request is done when a run that began after
/// the request has ended.
#[derive(Default)]
struct Post {
    requests: Mutex<Requests>,
    /// Wakes the thread.
    wake: Condvar,
    /// Wakes the threads that wait for this thread.
    done: Condvar,
}

#[derive(Default)]
struct Requests {
    is_running: bool,
    is_stopping: bool,
    /// True if the thread ran and has ended.
    has_ended: bool,
    is_nudged: bool,
    requested: [u64; JOBS],
    done: [u64; JOBS],
    /// Errors of the last runs.
    errors: [Option<Error>; JOBS],
}

impl Scheduler {
    /// Starts the threads of a store. The threads end when they are stopped, or when the store is
    /// dropped.
    pub fn start<T: Work>(&self, store: &Arc<T>) {
        let interval = match store.durability() {
            Durability::Interval(interval) => interval,
            _ => STEP_EVERY,
        };
        let commit = move |store: &T, _: &Post| {
            drop(store.commit());
            interval
        };
        let nothing = |_: &T, _: &Post| Duration::MAX;
        let mut pause = STEP_EVERY;
        let mut trimmed = Instant::now();
        let step = move |store: &T, post: &Post| {
            pause = (2 * pause).min(STEP_EVERY);
            while store.step().unwrap_or(false) {
                pause = STEP_AGAIN;
                if post.has_requests() {
                    return Duration::ZERO;
                }
            }
            if trimmed.elapsed() >= TRIM_EVERY {
                store.trim_memory();
                trimmed = Instant::now();
            }
            pause
        };
        let threads = [
            thread("seiner-journal", &self.journal, store, commit),
            thread("seiner-sealer", &self.sealer, store, nothing),
            thread("seiner-segments", &self.segments, store, step),
        ];
        *self.threads() = threads.into();
    }

    /// Returns whether the threads run.
    pub fn is_running(&self) -> bool {
        self.segments.lock().is_running
    }

    /// Stops the threads and waits until they have ended. Threads that wait for a job are released.
    pub fn stop(&self) {
        self.dismiss();
        for thread in std::mem::take(&mut *self.threads()) {
            // A thread that panicked has poisoned the store, which reports it.
            let _ = thread.join();
        }
    }

    /// Requests a job and waits for the end of a run that began after the request. Returns `None`
    /// if the store never had threads.
    ///
    /// # Errors
    /// Those of the job; [`Error::Closed`] if the thread of the job has ended.
    pub fn request(&self, job: Job) -> Option<Result<(), Error>> {
        let post = self.post(job);
        let mut requests = post.lock();
        if requests.has_ended {
            return Some(Err(Error::Closed));
        }
        if !requests.is_running {
            return None;
        }
        let at = job as usize;
        requests.requested[at] += 1;
        let own = requests.requested[at];
        post.wake.notify_one();
        while requests.is_running && requests.done[at] < own {
            requests = post
                .done
                .wait(requests)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if requests.done[at] < own {
            return Some(Err(Error::Closed));
        }
        let error = requests.errors[at].as_ref();
        Some(error.map_or(Ok(()), |error| Err(error.copy())))
    }

    /// Requests a job without waiting for it.
    pub fn nudge(&self, job: Job) {
        let post = self.post(job);
        let mut requests = post.lock();
        let at = job as usize;
        // One request without a waiting thread is enough.
        if requests.is_running && !requests.is_nudged {
            requests.is_nudged = true;
            requests.requested[at] += 1;
            post.wake.notify_one();
        }
    }

    fn post(&self, job: Job) -> &Arc<Post> {
        match job {
            Job::Journal => &self.journal,
            Job::Seal => &self.sealer,
            Job::Segments | Job::Space => &self.segments,
        }
    }

    fn dismiss(&self) {
        for post in [&self.journal, &self.sealer, &self.segments] {
            post.lock().is_stopping = true;
            post.wake.notify_one();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // Threads are not joined here: one of them may be dropping the store.
        self.dismiss();
    }
}

impl Post {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_requests(&self) -> bool {
        let requests = self.lock();
        requests.is_stopping || requests.requested != requests.done
    }

    /// Waits for requests until a time. Returns the number of the latest request for each job, or
    /// `None` if the thread should end.
    fn wait(&self, until: Option<Instant>) -> Option<[u64; JOBS]> {
        let mut requests = self.lock();
        loop {
            if requests.is_stopping {
                return None;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if requests.requested != requests.done || left == Some(Duration::ZERO) {
                requests.is_nudged = false;
                return Some(requests.requested);
            }
            requests = match left {
                Some(left) => {
                    let waited = self.wake.wait_timeout(requests, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .wake
                    .wait(requests)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Records the end of a run for all requests of a job up to a number.
    fn note(&self, job: Job, number: u64, result: Result<(), Error>) {
        let mut requests = self.lock();
        requests.done[job as usize] = number;
        requests.errors[job as usize] = result.err();
        self.done.notify_all();
    }
}

/// Guard that marks its thread as running.
struct Running(Arc<Post>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut requests = self.0.lock();
        (requests.is_running, requests.has_ended) = (false, true);
        drop(requests);
        self.0.done.notify_all();
    }
}

/// Starts a thread that performs requested jobs, and calls `work` in between. `work` returns the
/// delay until its next call.
fn thread<T: Work>(
    name: &str,
    post: &Arc<Post>,
    store: &Arc<T>,
    mut work: impl FnMut(&T, &Post) -> Duration + Send + 'static,
) -> JoinHandle<()> {
    post.lock().is_running = true;
    let (running, store) = (Running(post.clone()), Arc::downgrade(store));
    let spawned = std::thread::Builder::new()
        .name(name.to_string())
        .spawn(move || {
            let post = &*running.0;
            let mut next = Some(Instant::now());
            while let Some(requested) = post.wait(next) {
                let Some(store) = Weak::upgrade(&store) else {
                    return;
                };
                for job in [Job::Journal, Job::Seal, Job::Segments, Job::Space] {
                    let number = requested[job as usize];
                    if number > post.lock().done[job as usize] {
                        post.note(job, number, store.run(job));
                    }
                }
                if next.is_some_and(|next| next <= Instant::now()) {
                    next = Instant::now().checked_add(work(&store, post));
                }
            }
        });
    spawned.expect("the system can start three threads")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    /// Store that reports each call and can fail.
    struct CallRecorder {
        sender: SyncSender<String>,
        is_full: bool,
    }

    impl CallRecorder {
        fn new(is_full: bool) -> (Arc<CallRecorder>, Receiver<String>) {
            let (sender, calls) = sync_channel(10_000);
            (Arc::new(CallRecorder { sender, is_full }), calls)
        }
    }

    impl Work for CallRecorder {
        fn durability(&self) -> Durability {
            Durability::Interval(Duration::from_millis(1))
        }

        fn commit(&self) -> Result<(), Error> {
            let _ = self.sender.try_send("commit".to_string());
            Err(Error::Closed)
        }

        fn step(&self) -> Result<bool, Error> {
            let _ = self.sender.try_send("step".to_string());
            Err(Error::Closed)
        }

        fn run(&self, job: Job) -> Result<(), Error> {
            let _ = self.sender.try_send(format!("{job:?}"));
            match self.is_full {
                true => Err(Error::Io {
                    context: "claiming".to_string(),
                    error: std::io::ErrorKind::StorageFull.into(),
                }),
                false => Ok(()),
            }
        }

        fn trim_memory(&self) {}
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn journal_and_segments_are_worked_on_despite_errors_until_the_threads_stop() {
        let (store, calls) = CallRecorder::new(false);
        let scheduler = Scheduler::default();
        scheduler.start(&store);
        let mut count = [0, 0];
        while count[0] < 3 || count[1] < 2 {
            match calls.recv_timeout(LONG).unwrap().as_str() {
                "commit" => count[0] += 1,
                _ => count[1] += 1,
            }
        }
        scheduler.stop();
        while calls.try_recv().is_ok() {}
        drop(store);
        // All threads have dropped the store.
        let ended = calls.recv_timeout(LONG);
        assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
        // The caller may be a thread that must not wait for a disk, so it does no job.
        let late = scheduler.request(Job::Seal);
        assert!(matches!(late, Some(Err(Error::Closed))));
    }

    #[test]
    fn each_request_gets_the_result_of_a_run_of_its_own_job() {
        let (store, calls) = CallRecorder::new(true);
        let scheduler = Scheduler::default();
        assert!(scheduler.request(Job::Seal).is_none(), "no thread runs yet");
        scheduler.start(&store);
        for job in [Job::Journal, Job::Seal, Job::Segments, Job::Space] {
            let error = scheduler.request(job).unwrap().unwrap_err();
            assert!(error.is_out_of_space(), "{error}");
            let name = format!("{job:?}");
            assert!(calls.try_iter().any(|call| call == name), "{name}");
        }
        scheduler.stop();
    }

    #[test]
    fn concurrent_requests_are_all_answered() {
        let (store, _calls) = CallRecorder::new(false);
        let scheduler = Scheduler::default();
        scheduler.start(&store);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        scheduler.nudge(Job::Seal);
                        scheduler.request(Job::Seal).unwrap().unwrap();
                    }
                });
            }
        });
        scheduler.stop();
    }

    #[test]
    fn threads_end_with_the_scheduler_of_a_store_that_is_dropped() {
        let (store, calls) = CallRecorder::new(false);
        let scheduler = Scheduler::default();
        scheduler.start(&store);
        let threads = std::mem::take(&mut *scheduler.threads());
        drop((scheduler, store));
        while calls.recv_timeout(LONG).is_ok() {}
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
