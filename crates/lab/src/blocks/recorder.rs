//! Counts the block operations of a device while other code runs.

use super::counters::Counters;
use super::tracer::{EVERY, Tracer};
use super::{Origin, Statistics};
use crate::location::Device;
use crate::registry::Registry;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running count. Dropping it ends the count.
pub struct Recorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Statistics>>,
    device: Device,
    before: Counters,
    /// Reason why types are not counted; `None` if they are.
    pub without_types: Option<String>,
}

impl Recorder {
    /// Starts to count, with types if the tracer is available.
    pub fn start(device: &Device, registry: &Arc<Registry>) -> Recorder {
        let stop = Arc::new(AtomicBool::new(false));
        let tracer = if rustix::process::geteuid().is_root() {
            Tracer::start(device, registry).map_err(|error| error.to_string())
        } else {
            Err("only root may trace".to_string())
        };
        let before = Counters::read(device).unwrap_or_default();
        let (seen, watched) = (stop.clone(), device.clone());
        let (thread, without_types) = match tracer {
            Ok(tracer) => (std::thread::spawn(move || follow(tracer, &seen)), None),
            Err(why) => (
                std::thread::spawn(move || watch(&watched, &seen)),
                Some(why),
            ),
        };
        Recorder {
            stop,
            thread: Some(thread),
            device: device.clone(),
            before,
            without_types,
        }
    }

    /// Ends the count and returns the statistics. Bytes read and written are from the device's
    /// counters.
    pub fn finish(mut self) -> Statistics {
        let counted = Counters::read(&self.device)
            .unwrap_or_default()
            .since(&self.before);
        let mut statistics = self.join().expect("the thread was not joined before");
        statistics.read_bytes = counted.read_bytes;
        statistics.written_bytes = counted.written_bytes;
        if statistics.origin == Origin::Counters {
            let sum = |operations, bytes| super::Sum { operations, bytes };
            statistics.types = BTreeMap::from([
                ("R".to_string(), sum(counted.reads, counted.read_bytes)),
                ("W".to_string(), sum(counted.writes, counted.written_bytes)),
            ]);
        }
        statistics
    }

    fn join(&mut self) -> Option<Statistics> {
        self.stop.store(true, Ordering::Release);
        Some(
            self.thread
                .take()?
                .join()
                .expect("a recorder does not panic"),
        )
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.join();
    }
}

fn follow(mut tracer: Tracer, stop: &AtomicBool) -> Statistics {
    let mut statistics = Statistics::new(Origin::Tracer);
    let start = crate::time::now();
    let add = |operation| statistics.add(&operation, start.elapsed().as_secs() as usize);
    // An error of the pipe ends the count; earlier events are kept.
    let _ = tracer.follow(stop, add);
    statistics.lost = tracer.lost();
    statistics
}

fn watch(device: &Device, stop: &AtomicBool) -> Statistics {
    let mut statistics = Statistics::new(Origin::Counters);
    let (start, mut before) = (
        crate::time::now(),
        Counters::read(device).unwrap_or_default(),
    );
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        if is_last || start.elapsed().as_secs() > statistics.seconds.len() as u64 {
            let now = Counters::read(device).unwrap_or(before);
            let counted = now.since(&before);
            before = now;
            statistics.seconds.push(BTreeMap::from([
                ("R".to_string(), counted.read_bytes),
                ("W".to_string(), counted.written_bytes),
            ]));
        }
        if is_last {
            return statistics;
        }
        crate::time::sleep(EVERY);
    }
}
