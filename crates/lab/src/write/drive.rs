//! The load. Several writers write portions for each sensor in turn, as fast as possible or at a
//! fixed rate.

use super::stores::{Portion, Store};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use seiner_random::SplitMixRng;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of different contents of portions. With so many, compression by the disk has no effect.
const CONTENTS: u64 = 1000;
/// Maximum bytes of memory for contents.
const CONTENTS_BYTES: u64 = 64 << 20;
/// Maximum number of points of the rate over time in a phase.
const POINTS: f64 = 60.0;
/// Sampling interval: one portion of this many is timed.
const TIMED: u64 = 16;
/// Maximum number of durations that a writer keeps.
const KEPT: usize = 1 << 20;

/// A store with writers. In each phase the writers continue where the phase before ended.
pub struct Drive<'a> {
    store: &'a dyn Store,
    writers: Vec<Writer>,
    contents: Vec<u8>,
    portion: u64,
}

/// Sensors of one writer, and the number of portions written so far.
struct Writer {
    first: u64,
    count: u64,
    done: AtomicU64,
}

/// Source of load on a store: threads of this process, or other processes.
pub trait WriteLoad {
    /// Runs a phase. It ends when `duration` has passed and the store has accepted `least` bytes, or
    /// when the store has accepted `most` bytes. `rate` limits the load, in bytes per second.
    ///
    /// # Errors
    /// The store fails, or the user stopped the run.
    fn run(
        &self,
        duration: Duration,
        least: u64,
        most: u64,
        rate: Option<f64>,
        interrupt: &Interrupt,
    ) -> Result<Phase>;
}

/// Measurements of a phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct Phase {
    /// Bytes of samples that the store accepted.
    pub bytes: u64,
    /// Duration of the phase.
    pub took: Duration,
    /// Rate over time: seconds since the start, and MB/s since the point before.
    pub rates: Vec<(f64, f64)>,
    /// 99th percentile of the time of a portion, ms.
    pub p99_ms: f64,
}

/// State that the writers of a phase share.
struct Shared<'a> {
    bytes: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<Error>>,
    rate: Option<f64>,
    start: Instant,
    interrupt: &'a Interrupt,
}

impl<'a> Drive<'a> {
    /// Divides `sensors` among `writers`, at most one writer per sensor.
    pub fn new(
        store: &'a dyn Store,
        sensors: u64,
        writers: u64,
        seed: u64,
        portion: u64,
    ) -> Drive<'a> {
        let writers = writers.min(sensors).max(1);
        let bound = |number: u64| u128::from(sensors) * u128::from(number) / u128::from(writers);
        let writer = |number: u64| {
            let first = bound(number) as u64;
            Writer {
                first,
                count: bound(number + 1) as u64 - first,
                done: AtomicU64::new(0),
            }
        };
        Drive::of(store, (0..writers).map(writer).collect(), seed, portion)
    }

    /// Creates one writer for `count` sensors, starting with `first`.
    pub fn part(
        store: &'a dyn Store,
        first: u64,
        count: u64,
        seed: u64,
        portion: u64,
    ) -> Drive<'a> {
        let writer = Writer {
            first,
            count,
            done: AtomicU64::new(0),
        };
        Drive::of(store, vec![writer], seed, portion)
    }

    fn of(store: &'a dyn Store, writers: Vec<Writer>, seed: u64, portion: u64) -> Drive<'a> {
        let count = CONTENTS.min(CONTENTS_BYTES / portion).max(2);
        let mut contents = vec![0; (count * portion) as usize];
        SplitMixRng::new(seed).fill(&mut contents);
        Drive {
            store,
            writers,
            contents,
            portion,
        }
    }

    fn work(&self, writer: &Writer, shared: &Shared<'_>) -> Vec<u32> {
        let mut times = Vec::new();
        let (mut taken, share) = (0, 1.0 / self.writers.len() as f64);
        for number in 0u64.. {
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            if let Some(rate) = shared.rate {
                wait_until(taken as f64 / (rate * share), shared);
            }
            let done = writer.done.load(Ordering::Relaxed);
            let place = done % writer.count;
            let count = self.store.stride().min(writer.count - place);
            // The content depends on the number of the call, so the next portion of a sensor
            // has other bytes.
            let content = number % (self.contents.len() as u64 / self.portion) * self.portion;
            let portion = Portion {
                first: writer.first + place,
                count,
                turn: done / writer.count,
                contents: &self.contents,
                content: content as usize,
            };
            let timed = number.is_multiple_of(TIMED).then(crate::time::now);
            match self.store.put(&portion) {
                Ok(bytes) => {
                    taken += bytes;
                    shared.bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                Err(error) => {
                    *shared
                        .failure
                        .lock()
                        .expect("no thread panics while it holds the failure") = Some(error);
                    shared.stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
            writer.done.fetch_add(count, Ordering::Relaxed);
            if let Some(before) = timed
                && times.len() < KEPT
            {
                times.push(before.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
            }
        }
        times
    }
}

impl WriteLoad for Drive<'_> {
    fn run(
        &self,
        duration: Duration,
        least: u64,
        most: u64,
        rate: Option<f64>,
        interrupt: &Interrupt,
    ) -> Result<Phase> {
        let shared = Shared {
            bytes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            rate,
            start: crate::time::now(),
            interrupt,
        };
        let (rates, mut times) = std::thread::scope(|scope| {
            let workers: Vec<_> = self
                .writers
                .iter()
                .map(|writer| scope.spawn(|| self.work(writer, &shared)))
                .collect();
            let rates = watch(&shared, duration, least, most);
            let times: Vec<u32> = workers
                .into_iter()
                .flat_map(|worker| worker.join().expect("a writer does not panic"))
                .collect();
            (rates, times)
        });
        let took = shared.start.elapsed();
        interrupt.check()?;
        if let Some(error) = shared
            .failure
            .into_inner()
            .expect("no thread panics while it holds the failure")
        {
            return Err(error);
        }
        times.sort_unstable();
        let p99_ns = times.get(times.len() * 99 / 100).copied().unwrap_or(0);
        Ok(Phase {
            bytes: shared.bytes.into_inner(),
            took,
            rates,
            p99_ms: f64::from(p99_ns) / 1e6,
        })
    }
}

/// Sleeps until `seconds` after the start of the phase, or until the phase stops.
fn wait_until(seconds: f64, shared: &Shared<'_>) {
    loop {
        let early = seconds - shared.start.elapsed().as_secs_f64();
        if early <= 0.0005 || shared.stop.load(Ordering::Relaxed) {
            return;
        }
        crate::time::sleep(Duration::from_secs_f64(early.min(0.05)));
    }
}

/// Samples the rate, and stops the writers at the end of the phase.
fn watch(shared: &Shared<'_>, duration: Duration, least: u64, most: u64) -> Vec<(f64, f64)> {
    let step = (duration.as_secs_f64() / POINTS).max(0.02);
    let (mut points, mut last, mut before) = (Vec::new(), 0.0, 0);
    // A phase ends after ten times its duration even if `least` was not reached.
    let patience = duration * 10;
    loop {
        crate::time::sleep(Duration::from_secs_f64(step.min(0.1)));
        let (now, bytes) = (shared.start.elapsed(), shared.bytes.load(Ordering::Relaxed));
        let seconds = now.as_secs_f64();
        if seconds - last >= step {
            points.push((seconds, (bytes - before) as f64 / (seconds - last) / 1e6));
            (last, before) = (seconds, bytes);
        }
        let is_over = (now >= duration && bytes >= least) || bytes >= most || now >= patience;
        if is_over || shared.interrupt.is_set() || shared.stop.load(Ordering::Relaxed) {
            shared.stop.store(true, Ordering::Relaxed);
            return points;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Store that counts the portions of each sensor.
    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<u64, u64>>);

    impl Store for Memory {
        fn put(&self, portion: &Portion<'_>) -> Result<u64> {
            let mut sensors = self.0.lock().unwrap();
            for sensor in portion.first..portion.first + portion.count {
                *sensors.entry(sensor).or_default() += 1;
            }
            crate::time::sleep(Duration::from_micros(20));
            Ok(portion.count * 100)
        }

        fn stride(&self) -> u64 {
            3
        }

        fn lap_bytes(&self) -> u64 {
            1000
        }
    }

    #[test]
    fn every_sensor_is_written() {
        let store = Memory::default();
        let drive = Drive::new(&store, 10, 3, 1, 64);
        // On a busy computer a writer may sleep through a whole run.
        for _ in 0..200 {
            let phase = drive
                .run(
                    Duration::from_millis(50),
                    5000,
                    u64::MAX,
                    None,
                    &Interrupt::default(),
                )
                .unwrap();
            assert!(phase.bytes >= 5000);
            if store.0.lock().unwrap().len() == 10 {
                break;
            }
        }
        let sensors = store.0.into_inner().unwrap();
        assert_eq!(
            sensors.keys().copied().collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_rate_limit_is_not_exceeded() {
        let store = Memory::default();
        let drive = Drive::new(&store, 10, 1, 1, 64);
        let rate = 100_000.0;
        let phase = drive
            .run(
                Duration::from_millis(400),
                0,
                u64::MAX,
                Some(rate),
                &Interrupt::default(),
            )
            .unwrap();
        let reached = phase.bytes as f64 / phase.took.as_secs_f64();
        assert!(reached < rate * 1.1, "{reached}");
        assert!(phase.bytes > 0);
    }

    #[test]
    fn an_error_of_the_store_ends_the_run() {
        struct Broken;
        impl Store for Broken {
            fn put(&self, _: &Portion<'_>) -> Result<u64> {
                crate::refuse("broken")
            }
            fn lap_bytes(&self) -> u64 {
                1
            }
        }
        let drive = Drive::new(&Broken, 10, 2, 1, 64);
        assert!(
            drive
                .run(
                    Duration::from_secs(9),
                    0,
                    u64::MAX,
                    None,
                    &Interrupt::default()
                )
                .is_err()
        );
    }
}
