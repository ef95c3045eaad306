//! Threads that execute one operation each, for kernels without io_uring and members without a file.

use super::perform;
use crate::block::Page;
use crate::member::Member;
use crate::request::{Action, Outcome};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of concurrent operations per member. More threads only compete for the same cores.
const THREADS: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// A pool of threads. The threads end after the pool is dropped and their work is done.
pub struct Pool {
    work: Sender<Work>,
    queue: Arc<Mutex<Receiver<Work>>>,
    threads: usize,
}

impl Pool {
    /// Creates a pool without threads. Threads start on demand.
    pub fn new() -> Pool {
        let (work, queue) = channel();
        Pool {
            work,
            queue: Arc::new(Mutex::new(queue)),
            threads: 0,
        }
    }

    /// Queues an operation. `then` receives its outcome.
    pub fn run(
        &mut self,
        member: Arc<dyn Member>,
        offset: u64,
        action: Action<Page>,
        then: impl FnOnce(Outcome<Page>) + Send + 'static,
    ) {
        if self.threads < THREADS {
            self.grow();
        }
        let work = move || then(perform(&*member, offset, action));
        self.work
            .send(Box::new(work))
            .expect("the queue lives as long as the pool");
    }

    fn grow(&mut self) {
        let queue = self.queue.clone();
        let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let work = move || {
            while let Ok(work) = next() {
                work();
            }
        };
        let name = format!("member-{}", self.threads);
        // If this thread cannot start, the others execute the work.
        if std::thread::Builder::new().name(name).spawn(work).is_ok() {
            self.threads += 1;
        }
        assert!(self.threads > 0, "not a single thread can be started");
    }
}
