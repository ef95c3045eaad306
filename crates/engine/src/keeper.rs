//! The keeper: the thread that does in production what the simulator does step by step.

use crate::error::Error;
use crate::options::Durability;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often segments are looked after when the journal asks for nothing.
const STEP_EVERY: Duration = Duration::from_millis(100);
/// How soon after there was something to do: a small store is full again before long.
const STEP_AGAIN: Duration = Duration::from_millis(10);

/// How often memory that is free is given back to the system.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// Work on a store that the keeper does again and again.
pub trait Kept: Send + Sync + 'static {
    /// Returns when acknowledged rows survive what, which says how often to commit.
    fn durability(&self) -> Durability;
    /// Writes and syncs the journal.
    ///
    /// # Errors
    /// The store keeps them.
    fn commit(&self) -> Result<(), Error>;
    /// Does one step of the work on segments; returns whether there was any.
    ///
    /// # Errors
    /// The store keeps them.
    fn step(&self) -> Result<bool, Error>;
    /// Returns free memory to the system.
    fn trim_memory(&self);
}

/// A running keeper.
pub struct Keeper {
    stop: Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts a thread for the journal and one for the segments: syncing the one must not wait for
    /// writing the other. They end when the engine is closed or dropped.
    pub fn start<T: Kept>(engine: &Arc<T>) -> Keeper {
        let interval = match engine.durability() {
            Durability::Interval(interval) => interval,
            _ => STEP_EVERY,
        };
        let (stop, stopped) = channel::<()>();
        let (stop_segments, segments_stopped) = channel::<()>();
        let journal = {
            let engine = Arc::downgrade(engine);
            std::thread::Builder::new()
                .name("seiner-journal".to_string())
                .spawn(move || {
                    // Held so that the segments' thread stops with this one.
                    let _stop_segments = stop_segments;
                    every(&stopped, &engine, |engine| {
                        drop(engine.commit());
                        interval
                    });
                })
        };
        let segments = {
            let engine = Arc::downgrade(engine);
            std::thread::Builder::new()
                .name("seiner-segments".to_string())
                .spawn(move || {
                    let mut pause = STEP_EVERY;
                    let mut trimmed = Instant::now();
                    every(&segments_stopped, &engine, |engine| {
                        pause = (2 * pause).min(STEP_EVERY);
                        while engine.step().unwrap_or(false) {
                            pause = STEP_AGAIN;
                        }
                        if trimmed.elapsed() >= TRIM_EVERY {
                            engine.trim_memory();
                            trimmed = Instant::now();
                        }
                        pause
                    });
                })
        };
        let threads = [journal, segments]
            .into_iter()
            .map(|thread| thread.expect("the system gives two threads"))
            .collect();
        Keeper { stop, threads }
    }

    /// Stops the threads and waits for them.
    pub fn stop(self) {
        drop(self.stop);
        for thread in self.threads {
            // A thread that panicked has poisoned the store, which tells of it.
            let _ = thread.join();
        }
    }
}

/// Works again and again, each time after the pause that the work before asked for. Errors are kept
/// by the engine, which refuses writes from then on and tells why.
fn every<T>(stopped: &Receiver<()>, engine: &Weak<T>, mut work: impl FnMut(&T) -> Duration) {
    let mut pause = Duration::ZERO;
    loop {
        match stopped.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
        let Some(engine) = engine.upgrade() else {
            return;
        };
        pause = work(&engine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::SyncSender;

    /// A store that tells of each call.
    struct Told(SyncSender<&'static str>);

    impl Kept for Told {
        fn durability(&self) -> Durability {
            Durability::Interval(Duration::from_millis(1))
        }

        fn commit(&self) -> Result<(), Error> {
            let _ = self.0.try_send("commit");
            Err(Error::Closed)
        }

        fn step(&self) -> Result<bool, Error> {
            let _ = self.0.try_send("step");
            Err(Error::Closed)
        }

        fn trim_memory(&self) {}
    }

    #[test]
    fn journal_and_segments_are_kept_despite_errors_until_the_keeper_stops() {
        let (tell, told) = std::sync::mpsc::sync_channel(1000);
        let store = Arc::new(Told(tell));
        let keeper = Keeper::start(&store);
        let mut count = [0, 0];
        while count[0] < 3 || count[1] < 2 {
            match told.recv_timeout(Duration::from_secs(60)).unwrap() {
                "commit" => count[0] += 1,
                _ => count[1] += 1,
            }
        }
        keeper.stop();
        while told.try_recv().is_ok() {}
        drop(store);
        // Both threads let go of the store.
        let ended = told.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn threads_end_with_the_store() {
        let (tell, told) = std::sync::mpsc::sync_channel(1000);
        let store = Arc::new(Told(tell));
        let keeper = Keeper::start(&store);
        drop(store);
        while told.recv_timeout(Duration::from_secs(60)).is_ok() {}
        for thread in keeper.threads {
            thread.join().unwrap();
        }
    }
}
