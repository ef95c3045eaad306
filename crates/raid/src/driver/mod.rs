//! Concurrent member operations: by io_uring if the kernel supports it, otherwise by threads.
//!
//! A driver belongs to one thread. The thread submits operations, collects completed ones, and sleeps in
//! [`Driver::wait`] until an operation completes or another thread rings the [`Bell`].

mod bell;
mod pool;
mod ring;

pub use bell::Bell;

use crate::block::Page;
use crate::geometry::BLOCK_BYTES;
use crate::member::{Member, outcome_of};
use crate::request::{Action, Outcome};
use pool::Pool;
use ring::Ring;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Methods of member I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMethod {
    /// io_uring if the kernel supports it, otherwise threads.
    #[default]
    Automatic,
    /// io_uring.
    Ring,
    /// Threads. Each thread waits for one operation.
    Threads,
}

/// Name and outcome of a completed operation.
pub type EndedOperation = (u64, Outcome<Page>);

/// Member operations in flight.
pub struct Driver {
    ring: Option<Ring>,
    /// One pool per member that needs one, so that a hanging member does not block the threads of others.
    pools: Vec<(Weak<dyn Member>, Pool)>,
    bell: Arc<Bell>,
    /// Completed operations not collected yet.
    ended: Vec<EndedOperation>,
    from_pool: Receiver<EndedOperation>,
    to_us: Sender<EndedOperation>,
}

impl Driver {
    /// Creates a driver for the calling thread.
    ///
    /// # Errors
    /// If io_uring was requested and the kernel rejects it.
    pub fn new(method: IoMethod, bell: Arc<Bell>) -> io::Result<Driver> {
        let ring = match (method, Ring::new()) {
            (IoMethod::Threads, _) | (IoMethod::Automatic, Err(_)) => None,
            (_, ring) => Some(ring?),
        };
        let (to_us, from_pool) = channel();
        Ok(Driver {
            ring,
            pools: Vec::new(),
            bell,
            ended: Vec::new(),
            from_pool,
            to_us,
        })
    }

    /// Submits an operation. Its blocks count from `offset`, in bytes.
    pub fn submit(
        &mut self,
        name: u64,
        member: &Arc<dyn Member>,
        offset: u64,
        action: Action<Page>,
    ) {
        if member.is_instant() {
            return self.ended.push((name, perform(&**member, offset, action)));
        }
        let by_kernel = !matches!(action, Action::Discard { .. }) && member.descriptor().is_some();
        match &mut self.ring {
            Some(ring) if by_kernel => {
                ring.submit(name, member.clone(), offset, action);
            }
            _ => {
                let (to_us, bell) = (self.to_us.clone(), self.bell.clone());
                self.pool(member)
                    .run(member.clone(), offset, action, move |outcome| {
                        // The receiver is gone if the driver was dropped.
                        if to_us.send((name, outcome)).is_ok() {
                            bell.ring();
                        }
                    });
            }
        }
    }

    /// Returns the pool of a member. Removes the pools of dropped members.
    fn pool(&mut self, member: &Arc<dyn Member>) -> &mut Pool {
        let weak = Arc::downgrade(member);
        let known = self.pools.iter().position(|(of, _)| of.ptr_eq(&weak));
        let at = known.unwrap_or_else(|| {
            self.pools.retain(|(of, _)| of.strong_count() > 0);
            self.pools.push((weak, Pool::new()));
            self.pools.len() - 1
        });
        &mut self.pools[at].1
    }

    /// Announces that some operations may never complete. The driver's drop then does not wait for them.
    pub fn abandon(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.abandon();
        }
    }

    /// Collects completed operations.
    pub fn take(&mut self, into: &mut Vec<EndedOperation>) {
        into.append(&mut self.ended);
        if !self.pools.is_empty() {
            into.extend(self.from_pool.try_iter());
        }
        if let Some(ring) = &mut self.ring {
            ring.take(into);
        }
    }

    /// Sleeps until an operation completes, the bell rings, or the timeout ends. `is_idle` is called
    /// immediately before the sleep and prevents it by returning false.
    ///
    /// # Errors
    /// If the kernel fails to wait.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut is_idle: impl FnMut() -> bool,
    ) -> io::Result<()> {
        if !self.ended.is_empty() {
            return Ok(());
        }
        if let Some(ring) = &mut self.ring {
            ring.start()?;
        }
        self.bell.prepare();
        // The pool rings no bell while this thread is awake.
        match self.from_pool.try_recv() {
            Ok(ended) => self.ended.push(ended),
            Err(_) if !is_idle() => {}
            Err(_) => match &mut self.ring {
                Some(ring) => ring.wait(&self.bell, timeout)?,
                None => self.bell.wait(timeout)?,
            },
        }
        self.bell.awake();
        Ok(())
    }
}

/// Executes an operation and waits for it.
pub(crate) fn perform(member: &dyn Member, offset: u64, action: Action<Page>) -> Outcome<Page> {
    let at = |start: u64| offset + start * BLOCK_BYTES as u64;
    let adopts = matches!(action, Action::Adopt { .. });
    let done = match action {
        Action::Read { start, blocks } | Action::Adopt { start, blocks } => {
            let mut pages = pages(blocks);
            let read = match adopts {
                true => member.adopt(at(start), &mut pages),
                false => member.read(at(start), &mut pages),
            };
            return match read {
                Ok(()) => Outcome::Read(pages),
                Err(error) => outcome_of(&error, true),
            };
        }
        Action::Write {
            start,
            data,
            durable,
        } => member.write(at(start), &data, durable),
        Action::Discard { start, blocks } => member.discard(at(start), blocks * BLOCK_BYTES as u64),
        Action::Flush => member.flush(),
    };
    match done {
        Ok(()) => Outcome::Done,
        Err(error) => outcome_of(&error, false),
    }
}

/// Allocates pages to read into, each separately.
fn pages(blocks: u32) -> Vec<Page> {
    use crate::block::Block;
    (0..blocks).map(|_| Page::zero()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Device, Ram};
    use std::time::Instant;

    fn page(fill: u8) -> Page {
        Page::copy_of(&[fill; BLOCK_BYTES])
    }

    fn run(driver: &mut Driver, count: usize) -> Vec<EndedOperation> {
        let mut ended = Vec::new();
        while ended.len() < count {
            driver.wait(None, || true).unwrap();
            driver.take(&mut ended);
        }
        ended.sort_by_key(|(name, _)| *name);
        ended
    }

    #[test]
    fn operations_end_by_every_method_on_every_member() {
        let dir = tempfile::tempdir().unwrap();
        let members: [Arc<dyn Member>; 2] = [
            Arc::new(Device::create(&dir.path().join("a"), 8 << 20).unwrap()),
            Arc::new(Ram::new(8 << 20)),
        ];
        for method in [IoMethod::Automatic, IoMethod::Threads] {
            let mut driver = Driver::new(method, Arc::new(Bell::new().unwrap())).unwrap();
            for member in &members {
                for at in 0..400u64 {
                    let action = Action::Write {
                        start: 3 * at,
                        data: vec![page(at as u8), page(1), page(2)],
                        durable: at % 100 == 0,
                    };
                    driver.submit(at, member, 4096, action);
                }
                let ended = run(&mut driver, 400);
                assert!(
                    ended
                        .iter()
                        .all(|(_, outcome)| matches!(outcome, Outcome::Done))
                );
                driver.submit(7, member, 0, Action::Flush);
                assert!(matches!(run(&mut driver, 1)[0], (7, Outcome::Done)));
                for at in 0..400u64 {
                    let action = Action::Read {
                        start: 3 * at,
                        blocks: 2,
                    };
                    driver.submit(at, member, 4096, action);
                }
                for (at, outcome) in run(&mut driver, 400) {
                    let Outcome::Read(pages) = outcome else {
                        panic!("{method:?}: {outcome:?}");
                    };
                    assert_eq!((pages[0].bytes()[9], pages[1].bytes()[9]), (at as u8, 1));
                }
                let action = Action::Read {
                    start: 2047,
                    blocks: 2,
                };
                driver.submit(1, member, 0, action);
                assert!(
                    matches!(run(&mut driver, 1)[0], (1, Outcome::Unreadable)),
                    "the member ends within the read"
                );
            }
        }
    }

    #[test]
    fn a_bell_or_a_timeout_ends_a_wait() {
        for method in [IoMethod::Automatic, IoMethod::Threads] {
            let bell = Arc::new(Bell::new().unwrap());
            let mut driver = Driver::new(method, bell.clone()).unwrap();
            let begin = Instant::now();
            let short = Duration::from_millis(20);
            while begin.elapsed() < short {
                driver
                    .wait(Some(short - begin.elapsed().min(short)), || true)
                    .unwrap();
            }
            let rings = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                bell.ring();
            });
            driver.wait(Some(Duration::from_secs(60)), || true).unwrap();
            assert!(begin.elapsed() < Duration::from_secs(50));
            rings.join().unwrap();
            driver.wait(None, || false).unwrap();
        }
    }

    #[test]
    fn a_bell_that_rings_after_the_last_look_for_work_wakes_the_thread() {
        for method in [IoMethod::Automatic, IoMethod::Threads] {
            let bell = Arc::new(Bell::new().unwrap());
            let mut driver = Driver::new(method, bell.clone()).unwrap();
            let long = Duration::from_secs(20);
            for round in 0..10 {
                let begin = Instant::now();
                let rings = || {
                    bell.ring();
                    true
                };
                driver.wait(Some(long), rings).unwrap();
                assert!(begin.elapsed() < long, "{method:?}, round {round}");
                driver.take(&mut Vec::new());
            }
        }
    }
}
