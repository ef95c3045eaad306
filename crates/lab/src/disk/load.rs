//! A load on one file: a fixed number of requests in flight, of one size, sequential or random.

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use seiner_random::SplitMixRng;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Alignment that direct I/O needs, in the file and in memory, bytes.
const ALIGNMENT: usize = 4096;
/// Bytes per write while the file is laid out.
const LAYOUT: usize = 4 << 20;
/// Maximum number of points of the rate over time.
const POINTS: f64 = 60.0;
/// Maximum number of latencies that a thread keeps. Later latencies are discarded.
const KEPT: usize = 4 << 20;

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write followed by a sync, before the next request of the same thread.
    SyncedWrite,
}

/// Order of the requests in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// Ascending offsets. After the end of the file, the load starts again at the beginning.
    Sequential,
    /// Uniformly random.
    Random,
}

/// Parameters of a load.
#[derive(Clone, Debug)]
pub struct DiskLoad {
    /// Kind of request.
    pub access: Access,
    /// Order of the requests.
    pub order: RequestOrder,
    /// Bytes per request.
    pub bytes: u64,
    /// Number of requests in flight.
    pub depth: usize,
    /// Duration of the load.
    pub duration: Duration,
    /// Seed of random offsets and contents.
    pub seed: u64,
}

/// Measurements of a load.
#[derive(Debug)]
pub struct Measured {
    /// Number of requests.
    pub done: u64,
    /// Latency of each request, ns; at most 2^22 per thread.
    pub latencies_ns: Vec<u32>,
    /// Time from the first request to the end of the last, and of the sync after plain writes.
    pub took: Duration,
    /// Rate over time: seconds since the start, and MB/s since the point before.
    pub rates: Vec<(f64, f64)>,
}

/// File that is read and written.
pub struct TestFile {
    file: File,
    bytes: u64,
    /// Reason why requests use the page cache; `None` with direct I/O.
    pub is_cached_because: Option<String>,
}

/// Memory that starts at a multiple of [`ALIGNMENT`].
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let memory = vec![0; bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Aligned {
            memory,
            start,
            bytes,
        }
    }

    fn slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl TestFile {
    /// Makes a file full of incompressible bytes, so that later writes overwrite allocated blocks
    /// and reads return data.
    ///
    /// # Errors
    /// The file cannot be written, or the user stopped the run.
    pub fn create(path: &Path, bytes: u64, seed: u64, interrupt: &Interrupt) -> Result<TestFile> {
        let (file, is_cached_because) = open(path)?;
        let mut memory = Aligned::new(LAYOUT);
        let mut rng = SplitMixRng::new(seed);
        for offset in (0..bytes).step_by(LAYOUT) {
            interrupt.check()?;
            let count = (bytes - offset).min(LAYOUT as u64) as usize;
            rng.fill(&mut memory.slice()[..count]);
            file.write_all_at(&memory.slice()[..count], offset)
                .context("the test file was not laid out")?;
        }
        file.sync_all()?;
        Ok(TestFile {
            file,
            bytes,
            is_cached_because,
        })
    }

    /// Runs a load.
    ///
    /// # Errors
    /// A request fails, or the user stopped the run.
    pub fn run(&self, load: &DiskLoad, interrupt: &Interrupt) -> Result<Measured> {
        if self.is_cached_because.is_some() {
            // Drops the page cache of the file; otherwise reads would come from memory.
            self.file.sync_all()?;
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        }
        let slots = (self.bytes / load.bytes).max(1);
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = crate::time::now();
        let end = start + load.duration;
        let (rates, latencies) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..load.depth)
                .map(|number| {
                    let (next, done) = (&next, &done);
                    scope.spawn(move || self.work(load, number, slots, next, done, end, interrupt))
                })
                .collect();
            let rates = watch(&done, load, start, end, interrupt);
            let mut latencies = Vec::new();
            for worker in workers {
                latencies.append(&mut worker.join().expect("a worker does not panic")?);
            }
            Ok::<_, Error>((rates, latencies))
        })?;
        interrupt.check()?;
        if load.access == Access::Write {
            self.file.sync_data()?;
        }
        Ok(Measured {
            done: done.into_inner(),
            latencies_ns: latencies,
            took: start.elapsed(),
            rates,
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn work(
        &self,
        load: &DiskLoad,
        number: usize,
        slots: u64,
        next: &AtomicU64,
        done: &AtomicU64,
        end: Instant,
        interrupt: &Interrupt,
    ) -> Result<Vec<u32>> {
        let mut memory = Aligned::new(load.bytes as usize);
        let mut rng = SplitMixRng::new(load.seed ^ (number as u64 + 1) << 32);
        rng.fill(memory.slice());
        let mut latencies = Vec::new();
        loop {
            let before = crate::time::now();
            // Each thread sends at least one request, even if a busy machine starts it late.
            if (before >= end && !latencies.is_empty()) || interrupt.is_set() {
                return Ok(latencies);
            }
            let slot = match load.order {
                RequestOrder::Sequential => next.fetch_add(1, Ordering::Relaxed) % slots,
                RequestOrder::Random => rng.below(slots),
            };
            let offset = slot * load.bytes;
            match load.access {
                Access::Read => self.file.read_exact_at(memory.slice(), offset)?,
                Access::Write => self.file.write_all_at(memory.slice(), offset)?,
                Access::SyncedWrite => {
                    self.file.write_all_at(memory.slice(), offset)?;
                    self.file.sync_data()?;
                }
            }
            if latencies.len() < KEPT {
                latencies.push(before.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Opens the file with direct I/O, or through the page cache if the file system does not support
/// that.
fn open(path: &Path) -> Result<(File, Option<String>)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => Ok((file.into(), None)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            let file = rustix::fs::open(path, flags, mode).context("the test file was not made")?;
            Ok((
                file.into(),
                Some("this file system has no direct I/O".to_string()),
            ))
        }
        Err(error) => Err(anyhow::Error::from(error)
            .context("the test file was not made")
            .into()),
    }
}

/// Samples the rate until the workers' time is up.
fn watch(
    done: &AtomicU64,
    load: &DiskLoad,
    start: Instant,
    end: Instant,
    interrupt: &Interrupt,
) -> Vec<(f64, f64)> {
    let step = (load.duration.as_secs_f64() / POINTS).max(0.05);
    let (mut points, mut before, mut last) = (Vec::new(), 0, start);
    while crate::time::now() < end && !interrupt.is_set() {
        crate::time::sleep(
            Duration::from_secs_f64(step).min(end.saturating_duration_since(crate::time::now())),
        );
        let (now, count) = (crate::time::now(), done.load(Ordering::Relaxed));
        let passed = now.duration_since(last).as_secs_f64();
        if passed > step / 2.0 {
            let rate = (count - before) as f64 * load.bytes as f64 / passed / 1e6;
            points.push((now.duration_since(start).as_secs_f64(), rate));
            (before, last) = (count, now);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_runs_and_counts_its_requests() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let file =
            TestFile::create(&directory.path().join("file"), 1 << 20, 1, &interrupt).unwrap();
        for access in [Access::Read, Access::Write, Access::SyncedWrite] {
            for order in [RequestOrder::Sequential, RequestOrder::Random] {
                let load = DiskLoad {
                    access,
                    order,
                    bytes: 4096,
                    depth: 2,
                    duration: Duration::from_millis(60),
                    seed: 1,
                };
                let measured = file.run(&load, &interrupt).unwrap();
                assert!(measured.done > 0, "{access:?} {order:?}");
                assert_eq!(measured.done, measured.latencies_ns.len() as u64);
                assert!(measured.took >= load.duration);
            }
        }
        assert_eq!(
            std::fs::metadata(directory.path().join("file"))
                .unwrap()
                .len(),
            1 << 20
        );
    }

    #[test]
    fn an_interrupt_stops_the_creation_of_a_test_file() {
        let directory = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        interrupt.set();
        let made = TestFile::create(&directory.path().join("file"), 1 << 20, 1, &interrupt);
        assert!(matches!(made, Err(Error::Interrupted)));
    }

    #[test]
    fn memory_is_aligned() {
        let mut memory = Aligned::new(4096);
        assert_eq!(memory.slice().as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(memory.slice().len(), 4096);
    }
}
