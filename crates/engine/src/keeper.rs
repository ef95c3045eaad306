//! The keeper: the thread that does in production what the simulator does step by step.

use crate::engine::Engine;
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

/// A running keeper.
pub struct Keeper {
    stop: Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts a thread for the journal and one for the segments: syncing the one must not wait for
    /// writing the other. They end when the engine is closed or dropped.
    pub fn start(engine: &Arc<Engine>) -> Keeper {
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
fn every(stopped: &Receiver<()>, engine: &Weak<Engine>, mut work: impl FnMut(&Engine) -> Duration) {
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
