//! Threads that do one operation each, where the kernel has no io_uring or the member no file.

use super::perform;
use crate::block::Page;
use crate::member::Member;
use crate::request::{Action, Outcome};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Operations of a member at the same time. More threads wait for the same cores.
const THREADS: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// Threads that end when this does, after what they were given.
pub struct Pool {
    work: Sender<Work>,
    queue: Arc<Mutex<Receiver<Work>>>,
    threads: usize,
}

impl Pool {
    /// Without threads: they come as they are wanted.
    pub fn new() -> Pool {
        let (work, queue) = channel();
        Pool {
            work,
            queue: Arc::new(Mutex::new(queue)),
            threads: 0,
        }
    }

    /// Does an operation some time and tells how it ended.
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
        // Without this thread the others have more to do.
        if std::thread::Builder::new().name(name).spawn(work).is_ok() {
            self.threads += 1;
        }
        assert!(self.threads > 0, "not a single thread can be started");
    }
}
