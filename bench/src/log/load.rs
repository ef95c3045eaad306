//! Stores that are overwritten continuously, on real files with a clock of their own.
//!
//! Time advances with each row, independent of the machine, and the background work of a store runs
//! between batches. So the bytes that are written, dropped and merged depend only on the load, and
//! counts of bytes are exact. Seconds are those of the program's work, and those that writers
//! were made to wait.

use crate::process::Usage;
use anyhow::{Context, Result};
use seiner_engine::{
    Class, Classes, Durability, Engine, Error, Keep, LogStatus, MergePolicy, Options, Status,
};
use seiner_model::{Column, Columns, FieldColumn, SourceId, SourceKey, Strings};
use seiner_platform::sim::SimClock;
use seiner_platform::{Clock, Directory, SystemClock};
use seiner_random::SplitMixRng;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of segments in a budget: 4,000 sources of 50 blocks at V = 0.8 in segments of 400 blocks.
const SEGMENTS: u64 = 625;
/// Number of rows in a batch of floats (many sources) and in a batch of texts (one source).
const BATCH: usize = 1024;
const TEXTS: usize = 4;
/// Number of random characters from which texts are cut.
const SIGNS: usize = 8 << 20;
/// Number of rows of all sources per second of the store's clock.
const ROWS_A_SECOND: u64 = 100_000;
/// Number of rows per source from which the bytes per row in a block are measured.
const PROBE_ROWS: usize = 1500;
/// Approximate share of the budget in open segments. Overwritten rows are not dead until these
/// segments are on disk.
const OPEN: f64 = 0.015;
/// Time between rows of a store with threads, ns. The store takes longer per row, so no row is in
/// the future.
pub const STEP: i64 = 200;

/// Lifetime of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lives {
    /// Every source keeps the same number of latest rows. Rates are lognormal with this σ.
    Rings { sigma: f64 },
    /// All sources have the same rate. `classes` classes; each keeps its rows `ratio` times as long
    /// as the class before.
    Ages { classes: u32, ratio: f64 },
}

/// Store and its load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Budget of the store, C.
    pub budget: u64,
    /// Live share of the budget, V.
    pub v: f64,
    pub lives: Lives,
    pub sources: u32,
    /// Block size, B.
    pub block_bytes: u32,
    /// Segment size, R.
    pub segment_bytes: u64,
    pub lanes: u32,
    /// Fill at which merging begins, Um.
    pub merge_from: f64,
    pub policy: MergePolicy,
    /// Maximum bytes written to improve reads per byte stored.
    pub extra_writes: f64,
    pub values: Values,
}

/// Values of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Floats that do not compress: a row takes some 10 bytes in a block.
    Floats,
    /// Floats from 1 to 2 with 52 random bits. Stores that keep floats as decimals of one
    /// scale need no fewer bits for them than stores that keep the bits of floats.
    Fractions,
    /// Texts of this many random characters that do not compress, like pictures: many bytes for
    /// little processor time.
    Texts(u32),
}

impl Values {
    /// Number of rows in a batch.
    fn batch(self) -> usize {
        match self {
            Values::Floats | Values::Fractions => BATCH,
            Values::Texts(_) => TEXTS,
        }
    }

    /// Number of rows per source from which the bytes per row are measured.
    fn probe_rows(self, block_bytes: u32) -> usize {
        match self {
            Values::Floats | Values::Fractions => PROBE_ROWS.max(block_bytes as usize / 2),
            Values::Texts(bytes) => 5 * (block_bytes / bytes) as usize,
        }
    }
}

/// Returns the number of lanes of a policy. The papers' policies write one log, so they get the
/// fewest lanes that the engine accepts.
fn lanes_of(policy: MergePolicy) -> u32 {
    match policy {
        MergePolicy::Patient => 32,
        _ => 2,
    }
}

impl Load {
    /// Returns the workload of the design's simulation on a budget: rings of 50 blocks, and
    /// `SEGMENTS` segments.
    pub fn rings(budget: u64, v: f64, sigma: f64, policy: MergePolicy) -> Load {
        let block_bytes: u32 = 4096;
        Load {
            budget,
            v,
            lives: Lives::Rings { sigma },
            sources: (budget as f64 * v / (50.0 * f64::from(block_bytes))).max(16.0) as u32,
            block_bytes,
            segment_bytes: (budget / SEGMENTS).max(64 << 10),
            lanes: lanes_of(policy),
            merge_from: 0.95,
            policy,
            extra_writes: Options::default().extra_writes,
            values: Values::Floats,
        }
    }

    /// Returns the same load with another block size and equally many blocks per ring.
    pub fn with_blocks(self, block_bytes: u32) -> Load {
        let sources =
            f64::from(self.sources) * f64::from(self.block_bytes) / f64::from(block_bytes);
        Load {
            sources: (sources as u32).max(16),
            block_bytes,
            ..self
        }
    }

    /// Returns a load of sources with one or more lifetimes.
    pub fn ages(budget: u64, v: f64, classes: u32, ratio: f64, policy: MergePolicy) -> Load {
        Load {
            lives: Lives::Ages { classes, ratio },
            ..Load::rings(budget, v, 0.0, policy)
        }
    }

    fn options(&self, classes: Classes) -> Options {
        Options {
            durability: Durability::Memory,
            memory: 64 << 20,
            block_bytes: self.block_bytes,
            segment_bytes: self.segment_bytes,
            disk: Some(self.budget),
            merge_from: self.merge_from,
            policy: self.policy,
            extra_writes: self.extra_writes,
            lanes: self.lanes,
            idle_seal: Duration::from_secs(1 << 30),
            classes,
            ..Options::default()
        }
    }

    /// Returns the retention rules that keep V of the budget alive, for the measured bytes per row.
    fn classes(&self, measured: Measured) -> Result<Classes> {
        let live_rows = self.budget as f64 * (self.v - OPEN) / measured.row_bytes;
        let class = |name: String, sources: String, keep: Keep| Class {
            name,
            sources,
            keep,
            ..Class::forever()
        };
        let list = match self.lives {
            Lives::Rings { .. } => {
                // A ring may contain an additional block; on average, half of one.
                let rows = live_rows / f64::from(self.sources) - measured.block_rows / 2.0;
                vec![class(
                    "ring".into(),
                    String::new(),
                    Keep {
                        rows: Some(rows.max(1.0) as u64),
                        ..Keep::default()
                    },
                )]
            }
            Lives::Ages { classes, ratio } => {
                let lives = (0..classes).map(|class| ratio.powi(class as i32));
                let sum: f64 = lives.clone().sum();
                let all_s = live_rows / (ROWS_A_SECOND as f64 / f64::from(classes));
                lives
                    .enumerate()
                    .map(|(number, life)| {
                        let age = Some(Duration::from_secs_f64((all_s * life / sum).max(1.0)));
                        class(
                            format!("c{number}"),
                            format!("m{number}"),
                            Keep {
                                age,
                                ..Keep::default()
                            },
                        )
                    })
                    .collect()
            }
        };
        Ok(Classes::new(list)?)
    }

    fn class_count(&self) -> u32 {
        match self.lives {
            Lives::Rings { .. } => 1,
            Lives::Ages { classes, .. } => classes,
        }
    }
}

/// Counts of one interval of a load.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Stretch {
    pub rows: u64,
    /// Bytes of sealed blocks: the bytes stored.
    pub stored: u64,
    /// Bytes of blocks that merges rewrote.
    pub merged: u64,
    /// Bytes written to segments, indexes included.
    pub segments_written: u64,
    /// Bytes that the process caused to be written, counted by the kernel.
    pub kernel_written: u64,
    /// Seconds of work.
    pub work_s: f64,
    /// Seconds that writers were made to wait.
    pub wait_s: f64,
    pub segments_dropped: u64,
    pub segments_merged: u64,
    /// Mean D of the merged segments; `None` if none was merged.
    pub mean_d: Option<f64>,
}

impl Stretch {
    /// Adds the counts of the next interval.
    pub fn add(&mut self, next: &Stretch) {
        let merges = |one: &Stretch| one.mean_d.map_or(0, |_| one.segments_merged);
        let (before, now) = (merges(self), merges(next));
        let d = |one: &Stretch, merges: u64| one.mean_d.unwrap_or(0.0) * merges as f64;
        let sum = d(self, before) + d(next, now);
        self.mean_d = (before + now > 0).then(|| sum / (before + now) as f64);
        self.rows += next.rows;
        self.stored += next.stored;
        self.merged += next.merged;
        self.segments_written += next.segments_written;
        self.kernel_written += next.kernel_written;
        self.work_s += next.work_s;
        self.wait_s += next.wait_s;
        self.segments_dropped += next.segments_dropped;
        self.segments_merged += next.segments_merged;
    }

    /// Returns the bytes written per byte stored, by the engine's count of blocks alone.
    pub fn blocks_written(&self) -> f64 {
        (self.stored + self.merged) as f64 / self.stored.max(1) as f64
    }

    /// Returns the bytes written per byte stored, with everything written to segments.
    pub fn engine_written(&self) -> f64 {
        self.segments_written as f64 / self.stored.max(1) as f64
    }

    /// Returns the bytes written per byte stored, by the kernel's count.
    pub fn device_written(&self) -> f64 {
        self.kernel_written as f64 / self.stored.max(1) as f64
    }

    /// Returns the megabytes stored per second, waits included.
    pub fn rate(&self) -> f64 {
        self.stored as f64 / (self.work_s + self.wait_s).max(1e-9) / 1e6
    }
}

/// Store under load on a simulated clock.
pub struct Running {
    pub load: Load,
    engine: Engine,
    clock: SimClock,
    /// Time between rows, ns.
    step: i64,
    /// Time of the next row.
    time: i64,
    feed: Feed,
    decided: i64,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Opens an empty store in a new folder under `output`.
    pub fn start(load: &Load, output: &Path) -> Result<Running> {
        let measured = measure(load, 1_000_000_000 / ROWS_A_SECOND as i64)?;
        Running::open(load, load.options(load.classes(measured)?), output)
    }

    fn open(load: &Load, options: Options, output: &Path) -> Result<Running> {
        let folder = tempfile::tempdir_in(output)?;
        let clock = SimClock::new(0);
        let disk = Directory::open(folder.path())?;
        let engine = Engine::open(Arc::new(disk), Arc::new(clock.clone()), options)?;
        let feed = Feed::new(load, &engine)?;
        Ok(Running {
            load: load.clone(),
            time: clock.now(),
            engine,
            clock,
            step: 1_000_000_000 / ROWS_A_SECOND as i64,
            feed,
            decided: i64::MIN,
            _folder: folder,
        })
    }

    /// Feeds the store until `bytes` more bytes are stored.
    pub fn feed(&mut self, bytes: u64) -> Result<Stretch> {
        let before = self.engine.status();
        let written = Usage::own()?.written;
        let (began, clock) = (Instant::now(), self.clock.monotonic());
        let mut rows = 0;
        let mut last = before.clone();
        while last.block_bytes_sealed - before.block_bytes_sealed < bytes {
            for _ in 0..16 {
                rows += self.batch()? as u64;
            }
            last = self.engine.status();
        }
        let passed = self.clock.monotonic() - clock;
        let own = rows * 1_000_000_000 / ROWS_A_SECOND;
        let mut stretch = difference(&before, &last);
        stretch.rows = rows;
        stretch.kernel_written = Usage::own()?.written - written;
        stretch.work_s = began.elapsed().as_secs_f64();
        stretch.wait_s = passed.saturating_sub(own) as f64 / 1e9;
        stretch.mean_d = self.mean_d();
        Ok(stretch)
    }

    /// Feeds a batch. Returns the number of rows.
    fn batch(&mut self) -> Result<usize> {
        let rows = self.load.values.batch();
        let span = rows as i64 * self.step;
        // Rows that are kept by count arrive evenly, independent of the time that a writer waits.
        // Gaps in their times would add bytes per row, and longer waits would raise the live bytes.
        let time = match self.load.lives {
            Lives::Rings { .. } => self.time,
            Lives::Ages { .. } => self.clock.now(),
        };
        self.time += span;
        self.clock.advance(span as u64);
        match self.feed.batch(&self.engine, time, self.step) {
            Ok(()) => {}
            Err(error @ Error::Full { .. }) => {
                return Err(error).with_context(|| format!("{:?}", self.load));
            }
            Err(error) => return Err(error.into()),
        }
        while self.engine.step()? {}
        Ok(rows)
    }

    /// Returns the mean D of the segments merged since the last call, as far as the engine
    /// remembers them.
    fn mean_d(&mut self) -> Option<f64> {
        let records = self.engine.decisions();
        let new = records.iter().filter(|record| record.at > self.decided);
        let victims: Vec<f64> = new
            .flat_map(|record| record.decision.merge.iter().map(|victim| victim.dead_share))
            .collect();
        self.decided = records.last().map_or(self.decided, |record| record.at);
        (!victims.is_empty()).then(|| victims.iter().sum::<f64>() / victims.len() as f64)
    }

    pub fn log(&self) -> LogStatus {
        self.engine.log()
    }
}

/// Store with its threads, on the system's clock. Rows are fed at full speed.
pub struct Served {
    engine: Arc<Engine>,
    /// Time of the next row.
    time: i64,
    feed: Feed,
    measured: Measured,
    folder: tempfile::TempDir,
}

impl Served {
    /// Opens an empty store in a new folder under `output`. The rings are those of `budget`, which
    /// may differ from the store's own budget. `journal`: bytes of the journal, with interval
    /// durability.
    pub fn start(load: &Load, budget: u64, journal: Option<u64>, output: &Path) -> Result<Served> {
        let live = Load {
            budget,
            ..load.clone()
        };
        let measured = measure(&live, STEP)?;
        let mut options = load.options(live.classes(measured)?);
        if let Some(bytes) = journal {
            options.durability = Durability::Interval(Duration::from_millis(100));
            options.journal_bytes = bytes;
        }
        let folder = tempfile::tempdir_in(output)?;
        let engine = Engine::open_directory(folder.path(), options)?;
        let feed = Feed::new(load, &engine)?;
        Ok(Served {
            engine,
            time: SystemClock::new().now(),
            feed,
            measured,
            folder,
        })
    }

    /// Feeds rows at full speed until `bytes` more bytes are stored.
    pub fn feed(&mut self, bytes: u64) -> Result<()> {
        self.feed_within(Duration::MAX, bytes).map(drop)
    }

    /// Feeds rows at full speed for at most `patience`, because a store may slow its writers.
    /// Returns the bytes stored per second.
    pub fn feed_within(&mut self, patience: Duration, bytes: u64) -> Result<f64> {
        let began = Instant::now();
        let before = self.status().block_bytes_sealed;
        loop {
            // Each query of the stored bytes examines all segments.
            for _ in 0..256 {
                self.batch()?;
                if began.elapsed() > patience {
                    break;
                }
            }
            let stored = self.status().block_bytes_sealed - before;
            if stored >= bytes || began.elapsed() > patience {
                return Ok(stored as f64 / began.elapsed().as_secs_f64());
            }
        }
    }

    /// Appends a batch of rows.
    pub fn batch(&mut self) -> Result<()> {
        self.feed.batch(&self.engine, self.time, STEP)?;
        self.time += self.feed.stream.values.batch() as i64 * STEP;
        Ok(())
    }

    pub fn log(&self) -> LogStatus {
        self.engine.log()
    }

    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Returns the measured bytes per row in blocks.
    pub fn row_bytes(&self) -> f64 {
        self.measured.row_bytes
    }

    /// Returns the folder of the store's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The folder is removed next, so the threads must stop writing to it.
        if let Err(error) = self.engine.close() {
            eprintln!("closing the store: {error}");
        }
    }
}

/// Source of rows for a store.
struct Feed {
    ids: Vec<SourceId>,
    stream: Stream,
}

impl Feed {
    /// Registers the sources of a load.
    fn new(load: &Load, engine: &Engine) -> Result<Feed> {
        let classes = load.class_count();
        let ids = (0..load.sources)
            .map(|n| {
                let measurement = format!("m{}", n % classes);
                let key = SourceKey::new(measurement.as_str(), [("n", n.to_string())])?;
                Ok(engine.register(&key)?)
            })
            .collect::<Result<Vec<SourceId>>>()?;
        let stream = Stream::new(load);
        Ok(Feed { ids, stream })
    }

    /// Appends a batch: the first row at `time` ns, each further row `step` ns later.
    fn batch(&mut self, engine: &Engine, time: i64, step: i64) -> Result<(), Error> {
        let times = (0..self.stream.values.batch() as i64).map(|row| time + row * step);
        let times: Vec<i64> = times.collect();
        match self.stream.values {
            Values::Floats | Values::Fractions => {
                let (sources, values) = self.stream.floats();
                let sources: Vec<SourceId> = sources.into_iter().map(|at| self.ids[at]).collect();
                engine.append_samples("value", &sources, &times, &values)?;
            }
            Values::Texts(bytes) => {
                let source = self.ids[self.stream.source()];
                let fields = vec![self.stream.texts(bytes as usize)];
                engine.append_columns(source, &["value"], &Columns { times, fields })?;
            }
        }
        Ok(())
    }
}

/// Rows of a load in order; the same for every store.
pub struct Stream {
    draw: Alias,
    rng: SplitMixRng,
    values: Values,
    /// Random characters, if rows are texts.
    signs: String,
}

impl Stream {
    /// Starts at the first row.
    pub fn new(load: &Load) -> Stream {
        let mut rng = SplitMixRng::new(0x5e1e_0001);
        let sigma = match load.lives {
            Lives::Rings { sigma } => sigma,
            Lives::Ages { .. } => 0.0,
        };
        let rates: Vec<f64> = (0..load.sources).map(|_| rng.lognormal(sigma)).collect();
        let signs = match load.values {
            Values::Floats | Values::Fractions => String::new(),
            Values::Texts(_) => signs(&mut rng),
        };
        Stream {
            draw: Alias::new(&rates),
            rng,
            values: load.values,
            signs,
        }
    }

    /// Returns the number of the next row's source.
    fn source(&mut self) -> usize {
        let bits = self.rng.next_u64();
        self.draw.pick(bits, &mut self.rng)
    }

    /// Returns the sources and values of a batch. The values do not compress.
    pub fn floats(&mut self) -> (Vec<usize>, Vec<f64>) {
        let mut sources = Vec::with_capacity(BATCH);
        let mut values = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            sources.push(self.source());
            let bits = self.rng.next_u64();
            values.push(f64::from_bits(match self.values {
                Values::Fractions => 1.0f64.to_bits() | bits >> 12,
                _ => bits >> 2,
            }));
        }
        (sources, values)
    }

    fn texts(&mut self, bytes: usize) -> FieldColumn {
        let from = self.rng.next_u64() as usize % (SIGNS - TEXTS * bytes);
        let texts = &self.signs[from..from + TEXTS * bytes];
        let ends = (1..=TEXTS).map(|text| (text * bytes) as u32);
        FieldColumn {
            present: None,
            values: Column::Str(Strings {
                ends: ends.collect(),
                bytes: texts.into(),
            }),
        }
    }
}

/// Returns the 128 ASCII characters in random order, repeatedly, so that all have the same
/// frequency.
fn signs(rng: &mut SplitMixRng) -> String {
    let mut order: Vec<u8> = (0..128).collect();
    let mut signs = String::with_capacity(SIGNS);
    while signs.len() < SIGNS {
        rng.shuffle(&mut order);
        signs.extend(order.iter().map(|&sign| char::from(sign)));
    }
    signs
}

fn difference(before: &Status, after: &Status) -> Stretch {
    Stretch {
        stored: after.block_bytes_sealed - before.block_bytes_sealed,
        merged: after.merge_written - before.merge_written,
        segments_written: after.segment_written - before.segment_written,
        segments_dropped: after.segments_dropped - before.segments_dropped,
        segments_merged: after.segments_merged - before.segments_merged,
        ..Stretch::default()
    }
}

/// Sizes of rows in blocks.
#[derive(Clone, Copy, Debug)]
struct Measured {
    row_bytes: f64,
    block_rows: f64,
}

/// Measures the size of rows in blocks if all sources have the same rate. Live rows contain as many
/// of fast sources as of slow ones.
fn measure(load: &Load, step: i64) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let probe = Load {
        lives: match load.lives {
            Lives::Rings { .. } => Lives::Rings { sigma: 0.0 },
            ages => ages,
        },
        budget: 1 << 40,
        ..load.clone()
    };
    let mut running = Running::open(&probe, probe.options(Classes::default()), folder.path())?;
    running.step = step;
    let rows = probe.values.probe_rows(probe.block_bytes) * probe.sources as usize;
    for _ in 0..rows / probe.values.batch() {
        running.batch()?;
    }
    let status = running.engine.status();
    let sealed = status.samples_sealed.max(1) as f64;
    Ok(Measured {
        row_bytes: status.block_bytes_sealed as f64 / sealed,
        block_rows: sealed / status.blocks_sealed.max(1) as f64,
    })
}

/// Samples sources in proportion to their rates, in constant time (Walker's alias method).
pub struct Alias {
    share: Vec<f64>,
    other: Vec<u32>,
}

impl Alias {
    pub fn new(rates: &[f64]) -> Alias {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let mut share: Vec<f64> = rates.iter().map(|rate| rate / mean).collect();
        let mut other: Vec<u32> = (0..rates.len() as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..rates.len() as u32).partition(|&at| share[at as usize] < 1.0);
        while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
            other[low as usize] = high;
            share[high as usize] -= 1.0 - share[low as usize];
            if share[high as usize] < 1.0 {
                small.extend(large.pop());
            }
        }
        Alias { share, other }
    }

    pub fn pick(&self, bits: u64, rng: &mut SplitMixRng) -> usize {
        let at = ((u128::from(bits) * self.share.len() as u128) >> 64) as usize;
        match rng.unit() < self.share[at] {
            true => at,
            false => self.other[at] as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_drawn_as_often_as_their_rates_say() {
        let (alias, mut rng) = (Alias::new(&[1.0, 2.0, 5.0]), SplitMixRng::new(1));
        let mut counts = [0u32; 3];
        for _ in 0..80_000 {
            let bits = rng.next_u64();
            counts[alias.pick(bits, &mut rng)] += 1;
        }
        for (count, expected) in counts.iter().zip([10_000u32, 20_000, 50_000]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }

    #[test]
    fn a_store_under_load_keeps_about_the_live_share_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let load = Load::rings(16 << 20, 0.6, 0.5, MergePolicy::default());
        let mut running = Running::start(&load, folder.path()).unwrap();
        let stretch = running.feed(40 << 20).unwrap();
        let v = running.log().fill.v();
        assert!((0.5..0.7).contains(&v), "{v}");
        assert!(
            stretch.segments_dropped > 0 && stretch.kernel_written > 0,
            "{stretch:?}"
        );
    }
}
