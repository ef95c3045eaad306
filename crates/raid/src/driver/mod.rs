//! Many operations of members under way at once: by io_uring where the kernel has it, else by threads.
//!
//! A driver belongs to one thread, which gives it operations, takes what has ended, and sleeps in [`Driver::wait`] until
//! something ends or somebody rings its [`Bell`].

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
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How members are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By io_uring if the kernel has it, else by threads.
    #[default]
    Automatic,
    /// By io_uring.
    Ring,
    /// By threads that wait for one operation each.
    Threads,
}

/// An operation that has ended, by the caller's name for it.
pub type Ended = (u64, Outcome<Page>);

/// Operations of members under way.
pub struct Driver {
    ring: Option<Ring>,
    pool: Option<Pool>,
    bell: Arc<Bell>,
    /// What has ended and was not taken.
    ended: Vec<Ended>,
    from_pool: Receiver<Ended>,
    to_us: Sender<Ended>,
}

impl Driver {
    /// For the thread that calls this, and no other.
    ///
    /// # Errors
    /// If io_uring was asked for and the kernel refuses it.
    pub fn new(method: Method, bell: Arc<Bell>) -> io::Result<Driver> {
        let ring = match (method, Ring::new()) {
            (Method::Threads, _) | (Method::Automatic, Err(_)) => None,
            (_, ring) => Some(ring?),
        };
        let (to_us, from_pool) = channel();
        Ok(Driver {
            ring,
            pool: None,
            bell,
            ended: Vec::new(),
            from_pool,
            to_us,
        })
    }

    /// Begins an operation. Its blocks count from `offset`, in bytes.
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
        match &mut self.ring {
            Some(ring) if member.descriptor().is_some() => {
                ring.submit(name, member.clone(), offset, action);
            }
            _ => {
                let pool = self.pool.get_or_insert_with(Pool::new);
                let (to_us, bell) = (self.to_us.clone(), self.bell.clone());
                pool.run(member.clone(), offset, action, move |outcome| {
                    // Nobody waits any more if the driver has gone.
                    if to_us.send((name, outcome)).is_ok() {
                        bell.ring();
                    }
                });
            }
        }
    }

    /// Takes what has ended.
    pub fn take(&mut self, into: &mut Vec<Ended>) {
        into.append(&mut self.ended);
        if self.pool.is_some() {
            into.extend(self.from_pool.try_iter());
        }
        if let Some(ring) = &mut self.ring {
            ring.take(into);
        }
    }

    /// Sleeps until something ends, the bell rings, or the time is over; unless `is_idle` says that there is something to
    /// do, which it is asked at the last moment.
    ///
    /// # Errors
    /// If the kernel does not do what it promised.
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
        // What the pool sends while we are awake rings no bell.
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

/// Does an operation and waits for it.
pub(crate) fn perform(member: &dyn Member, offset: u64, action: Action<Page>) -> Outcome<Page> {
    let at = |start: u64| offset + start * BLOCK_BYTES as u64;
    let reads = matches!(action, Action::Read { .. });
    let done = match action {
        Action::Read { start, blocks } => {
            let mut pages = pages(blocks);
            let read = member.read(at(start), &mut pages);
            return match read {
                Ok(()) => Outcome::Read(pages),
                Err(error) => outcome_of(&error, reads),
            };
        }
        Action::Write {
            start,
            data,
            durable,
        } => member.write(at(start), &data, durable),
        Action::Flush => member.flush(),
    };
    match done {
        Ok(()) => Outcome::Done,
        Err(error) => outcome_of(&error, reads),
    }
}

/// Pages to read into, each by itself.
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

    fn run(driver: &mut Driver, count: usize) -> Vec<Ended> {
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
        for method in [Method::Automatic, Method::Threads] {
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
                    "it ends in between"
                );
            }
        }
    }

    #[test]
    fn a_bell_wakes_and_time_passes() {
        for method in [Method::Automatic, Method::Threads] {
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
    fn a_bell_that_rings_after_the_last_look_for_work_is_heard() {
        for method in [Method::Automatic, Method::Threads] {
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
