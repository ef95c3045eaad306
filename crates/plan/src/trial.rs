//! Trials of the engine in memory. Each trial measures one cost.

use crate::buffer::{
    buffer_limit, first_row, left_behind, row_bound, slot, small_rows, state_slot,
};
use crate::demand::Demand;
use crate::load::SampleLoad;
use crate::processor::processor_s;
use seiner_engine::{Bundling, Durability, Engine, Options};
use seiner_platform::SystemClock;
use seiner_platform::sim::SimDisk;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Rows per block for which a trial is made. Blocks of at most 255 rows may be in bundles.
pub const ROWS: [u64; 7] = [1, 4, 16, 64, 255, 256, 1024];
/// Approximate number of values in each trial.
const TRIAL: u64 = 200_000;
/// Number of sources of a trial: enough that pages of memory and of footers are full.
const SOURCES: std::ops::RangeInclusive<u64> = 256..=8192;
/// Number of sources in the trial of the append rate: enough that they do not all fit into a cache.
const MANY: u64 = 20_000;
/// Maximum number of sources in the trial of a start. Successive rows of the journal belong to different sources, and
/// not all sources fit into a cache.
const STARTED: f64 = 32_768.0;
/// Number of rows in the journal of that trial, over all sources.
const REPLAYED: u64 = 786_432;
/// Bounds of the rows per source in that trial.
const REPLAYED_EACH: std::ops::RangeInclusive<u64> = 24..=2000;
/// Minimum time of reading the journal back, in seconds. Rows are added until a start takes that long, because short
/// times cannot be measured exactly.
const REPLAY_S: f64 = 0.15;
/// Maximum number of rows in the journal, over all sources, after rows were added.
const MOST_REPLAYED: u64 = 8 << 20;
/// Number of fields of a source up to which the numbers of sources above apply.
const USUAL_FIELDS: u64 = 4;
/// Blocks per source in the trial of the index.
const INDEXED: u64 = 16;
/// Number of starts. The fastest start counts, because other work of the machine only slows a start.
const STARTS: usize = 5;
/// Block size B in bytes of trials whose rows stay in buffers.
const BUFFERED_BYTES: u32 = 65_536;
/// Number of sources whose first block is filled to measure the bytes of a row.
const FILLED: u64 = 8;
/// Block size in bytes of that trial.
const FILLED_BYTES: u32 = 16_384;
/// Number of sources that fill blocks with recorded samples.
const RECORDED: u64 = 64;
/// Number of blocks that they fill on average.
const BLOCKS: u64 = 3;
/// Minimum number of blocks in a bundle that takes about as few bytes as a larger one.
const NEIGHBOURS: f64 = 8.0;
/// Maximum number of rows that they append.
const MOST_RECORDED: u64 = 400_000;
/// Number of sources in the trial of growing buffers.
const GROWN: u64 = 4096;
/// Minimum size in bytes of the slots in that trial.
const GROWN_SLOT: f64 = 256.0;
/// Minimum number of rows in such a slot.
const GROWN_ROWS: f64 = 64.0;
/// Number of sources in the trial of small blocks: their groups fill many pages of each size.
const CROWD: u64 = 32_768;
/// Number of times in that trial at which the memory is measured.
const CROWD_LOOKS: u64 = 6;
/// Maximum number of rows of a block.
pub const MOST_ROWS: f64 = 65_535.0;

/// Result of a trial with a fixed number of rows per block.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub rows: f64,
    /// Bytes of segments per row, footers left out.
    pub disk_row: f64,
    /// Bytes of journal per row.
    pub journal_row: f64,
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memory: 4 << 30,
        block_bytes: BUFFERED_BYTES,
        journal_bytes: 4 << 30,
        idle_seal: Duration::from_secs(86_400),
        ..Options::default()
    }
}

/// Opens an engine with options for trials on a disk in memory.
pub fn in_memory(disk: &SimDisk, durability: Durability) -> anyhow::Result<Engine> {
    open(disk, options(durability))
}

/// Opens an engine with blocks of a size on a new disk in memory.
fn with_blocks(
    block_bytes: u32,
    durability: Durability,
    bundles: Bundling,
) -> anyhow::Result<Engine> {
    let options = Options {
        block_bytes,
        bundles,
        ..options(durability)
    };
    open(&SimDisk::new(1), options)
}

/// Opens an engine without threads on a disk in memory.
pub fn open(disk: &SimDisk, options: Options) -> anyhow::Result<Engine> {
    let clock = Arc::new(SystemClock::new());
    Ok(Engine::open(Arc::new(disk.clone()), clock, options)?)
}

/// A demand to run trials for.
pub struct Subject<'a> {
    pub demand: &'a Demand,
    /// Function that returns true when the trials must end early.
    pub is_over: &'a dyn Fn() -> bool,
}

impl Deref for Subject<'_> {
    type Target = Demand;

    fn deref(&self) -> &Demand {
        self.demand
    }
}

impl<'a> Subject<'a> {
    /// Returns a demand whose trials nothing ends early.
    pub fn uninterrupted(demand: &'a Demand) -> Subject<'a> {
        Subject {
            demand,
            is_over: &|| false,
        }
    }
}

impl Subject<'_> {
    /// Returns an error if the trials must end early.
    fn go_on(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!(self.is_over)(), "planning was interrupted");
        Ok(())
    }

    /// Returns a smaller number of sources if each source has many fields. This limit bounds the memory and the time of
    /// a trial.
    fn few(&self, sources: u64) -> u64 {
        (sources * USUAL_FIELDS / self.fields.max(USUAL_FIELDS)).max(1)
    }
}

/// Source of samples for a trial. Returns an error if the trials must end early.
pub struct Feed<'a> {
    subject: &'a Subject<'a>,
    load: SampleLoad,
}

impl Feed<'_> {
    /// Appends a row of every sensor. Returns the number of rows.
    pub fn round(&mut self, engine: &Engine) -> anyhow::Result<u64> {
        self.subject.go_on()?;
        Ok(self.load.round(engine)?)
    }
}

/// Registers the sensors of a trial.
pub fn load<'a>(
    engine: &Engine,
    demand: &'a Subject<'a>,
    sources: u64,
) -> anyhow::Result<Feed<'a>> {
    demand.go_on()?;
    let load = SampleLoad::register(engine, demand, sources)?;
    Ok(Feed {
        subject: demand,
        load,
    })
}

/// Runs a trial with `rows` rows per block.
pub fn trial(demand: &Subject<'_>, rows: u64) -> anyhow::Result<Point> {
    let sources = (TRIAL / (rows * demand.fields)).clamp(*SOURCES.start(), *SOURCES.end());
    let sources = demand.few(sources);
    let engine = in_memory(
        &SimDisk::new(1),
        Durability::Interval(Duration::from_secs(60)),
    )?;
    let mut load = load(&engine, demand, sources)?;
    engine.commit()?;
    let before = engine.status();
    for _ in 0..rows {
        load.round(&engine)?;
    }
    engine.commit()?;
    let filled = engine.status();
    engine.flush()?;
    let flushed = engine.status();
    let all = (sources * rows) as f64;
    Ok(Point {
        rows: rows as f64,
        disk_row: flushed.block_bytes_sealed as f64 / all,
        journal_row: (filled.journal_written - before.journal_written) as f64 / all,
    })
}

/// Fills blocks of some sources and returns the bytes per row in the buffer.
pub fn row_bytes(demand: &Subject<'_>) -> anyhow::Result<f64> {
    let engine = with_blocks(FILLED_BYTES, Durability::Memory, Bundling::Never)?;
    let mut load = load(&engine, demand, FILLED)?;
    let mut rounds = 0.0;
    while engine.status().blocks_sealed < FILLED && rounds < MOST_ROWS {
        load.round(&engine)?;
        rounds += 1.0;
        // A store without threads seals full buffers in its steps.
        while engine.step()? {}
    }
    let status = engine.status();
    let rows = match status.blocks_sealed {
        0 => rounds,
        blocks => status.samples_sealed as f64 / demand.samples_per_row() / blocks as f64,
    };
    Ok(row_bytes_of(FILLED_BYTES, rows, demand.fields))
}

/// Returns the bytes per row in a buffer that is full after `rows` rows.
pub fn row_bytes_of(block_bytes: u32, rows: f64, fields: u64) -> f64 {
    let filled = buffer_limit(f64::from(block_bytes), fields) - row_bound(fields);
    (filled - first_row(fields)).max(1.0) / (rows - 1.0).max(1.0)
}

/// Fills blocks of a size with recorded samples, and encodes them as they would be in operation: in bundles if enough
/// blocks become full while one waits for others.
pub fn fill(demand: &Subject<'_>, block_bytes: u32) -> anyhow::Result<Point> {
    // A full buffer waits for others for an eighth of the idle time ([`Options::idle_seal`]).
    let rows = demand.sensors / demand.every_s * demand.idle_seal_s() / 8.0;
    if rows >= NEIGHBOURS {
        let point = fill_as(demand, block_bytes, Bundling::default())?;
        if rows >= NEIGHBOURS * point.rows {
            return Ok(point);
        }
    }
    fill_as(demand, block_bytes, Bundling::Never)
}

/// Fills blocks of a size with recorded samples. Sources fill their blocks after different numbers of rows, so the
/// result is a mean over blocks.
fn fill_as(demand: &Subject<'_>, block_bytes: u32, bundles: Bundling) -> anyhow::Result<Point> {
    let durability = Durability::Interval(Duration::from_secs(60));
    let engine = with_blocks(block_bytes, durability, bundles)?;
    let mut load = load(&engine, demand, RECORDED)?;
    engine.commit()?;
    let before = engine.status();
    let mut fed = 0;
    let mut after = engine.status();
    while after.blocks_sealed < BLOCKS * RECORDED && fed < MOST_RECORDED {
        fed += load.round(&engine)?;
        while engine.step()? {}
        after = engine.status();
    }
    engine.commit()?;
    let journal = engine.status().journal_written - before.journal_written;
    if after.blocks_sealed < RECORDED {
        // Blocks of this size hold more rows than the trial: these rows must do.
        engine.flush()?;
        after = engine.status();
    }
    let rows = after.samples_sealed as f64 / demand.samples_per_row();
    Ok(Point {
        rows: rows / after.blocks_sealed as f64,
        disk_row: after.block_bytes_sealed as f64 / rows,
        journal_row: journal as f64 / fed as f64,
    })
}

/// Fills buffers of many sources in turn. Returns the number of half-used pages, as a share of the possible number.
pub fn scatter(demand: &Subject<'_>, row_bytes: f64) -> anyhow::Result<f64> {
    let fields = demand.fields;
    let slot = slot(GROWN_SLOT.max(first_row(fields) + GROWN_ROWS * row_bytes + row_bound(fields)));
    // At this fill all buffers have moved to the slot, and none has left it.
    let filled = 0.9 * slot - first_row(fields) - row_bound(fields);
    let rounds = 2 + (filled / row_bytes).max(0.0) as u64;
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let mut load = load(&engine, demand, demand.few(GROWN))?;
    let empty = engine.status().buffer_bytes;
    for _ in 0..rounds {
        load.round(&engine)?;
    }
    let taken = (engine.status().buffer_bytes - empty) as f64 / demand.few(GROWN) as f64;
    let left = (taken - state_slot(fields)) / slot - 1.0;
    Ok((left / left_behind(slot)).clamp(0.0, 1.0))
}

/// Memory of blocks with few rows of one number, when memory is short.
#[derive(Clone, Copy, Debug)]
pub struct SmallBlocks {
    /// Bytes of the first row, with the head of the block and its part of what neighbours have in common.
    pub first: f64,
    /// Bytes of each other row.
    pub row: f64,
}

/// Fills small blocks, and fits a line to their memory. Returns `None` for sources of several numbers, which never have
/// such blocks.
pub fn small_blocks(demand: &Subject<'_>, row_bytes: f64) -> anyhow::Result<Option<SmallBlocks>> {
    if demand.fields != 1 {
        return Ok(None);
    }
    let options = Options {
        small_blocks: true,
        ..options(Durability::Memory)
    };
    let engine = open(&SimDisk::new(1), options)?;
    let mut load = load(&engine, demand, CROWD)?;
    // Sources with many changes fill a small block earlier than others.
    let most = 0.8 * small_rows(row_bytes);
    let each = (most as u64 / CROWD_LOOKS).max(1);
    let mut points = Vec::new();
    for look in 1..=CROWD_LOOKS {
        for _ in 0..each {
            load.round(&engine)?;
        }
        let bytes = engine.status().buffer_bytes as f64 / CROWD as f64;
        points.push(((look * each) as f64, bytes));
    }
    let (at_zero, row) = fitted_line(&points);
    Ok(Some(SmallBlocks {
        first: at_zero + row,
        row,
    }))
}

/// Returns the line with the least squares of errors: its value at 0, and its slope.
fn fitted_line(points: &[(f64, f64)]) -> (f64, f64) {
    let mean =
        |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let slope = mean(&|point| (point.0 - x) * (point.1 - y)) / mean(&|point| (point.0 - x).powi(2));
    (y - slope * x, slope)
}

/// Returns the rows per second of processor time, best of three, and the memory of a source in bytes.
pub fn rate(demand: &Subject<'_>) -> anyhow::Result<(f64, f64)> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let empty = engine.status();
    let many = demand.few(MANY);
    let mut load = load(&engine, demand, many)?;
    let registered = engine.status();
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let start = processor_s();
        let rows = load.round(&engine)?;
        best = best.max(rows as f64 / (processor_s() - start));
    }
    let source = (registered.memory_used - empty.memory_used) as f64 / many as f64;
    Ok((best, source))
}

/// Processor time of parts of a start, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Starts {
    /// Start of an empty store.
    pub empty_s: f64,
    /// Each row that is read back from the journal.
    pub replay_s: f64,
    /// Each block that begins in the journal, in addition to its rows.
    pub begin_s: f64,
    /// Each source.
    pub name_s: f64,
    /// Each block: reading and counting its index entry.
    pub entry_s: f64,
}

impl Starts {
    /// Measures starts of a store with at most as many sensors as the demand has. With `has_small`, rows go to small
    /// blocks as long as they fit.
    pub fn make(demand: &Subject<'_>, row_bytes: f64, has_small: bool) -> anyhow::Result<Starts> {
        let disk = SimDisk::new(1);
        let options = Options {
            small_blocks: has_small,
            ..options(Durability::Interval(Duration::from_secs(60)))
        };
        drop(open(&disk, options.clone())?);
        let (empty_s, mut engine) = start(&disk, &options)?;
        let sensors = demand.sensors.clamp(1.0, demand.few(STARTED as u64) as f64) as u64;
        let mut load = load(&engine, demand, sensors)?;
        let mut after = |rounds: u64, engine: Engine| -> anyhow::Result<(f64, Engine)> {
            for _ in 0..rounds {
                load.round(&engine)?;
            }
            engine.commit()?;
            drop(engine);
            demand.go_on()?;
            start(&disk, &options)
        };
        let (names, first_row);
        (names, engine) = after(0, engine)?;
        (first_row, engine) = after(1, engine)?;
        // Only rows that stay in buffers count: rows of sealed blocks are read back without being kept.
        let space = match has_small {
            true => 0.8 * small_rows(row_bytes),
            false => 0.8 * buffer_limit(BUFFERED_BYTES.into(), demand.fields) / row_bytes,
        };
        let most = (MOST_REPLAYED / sensors).min(space as u64);
        let mut rounds = (REPLAYED / sensors).clamp(*REPLAYED_EACH.start(), *REPLAYED_EACH.end());
        rounds = rounds.min(most.max(1));
        let (mut fed, mut rows) = (0, 0.0);
        while fed == 0 || (rows < REPLAY_S && 2 * fed < most) {
            (rows, engine) = after(rounds, engine)?;
            rows -= first_row;
            fed += rounds;
            rounds = fed;
        }
        engine.flush()?;
        for _ in 1..INDEXED {
            load.round(&engine)?;
            engine.flush()?;
        }
        drop(engine);
        let (blocks, _) = start(&disk, &options)?;
        let many = sensors as f64;
        let replay_s = (rows / fed as f64 / many).max(0.0);
        Ok(Starts {
            empty_s,
            replay_s,
            begin_s: ((first_row - names) / many - replay_s).max(0.0),
            name_s: ((names - empty_s) / many).max(0.0),
            entry_s: ((blocks - names) / (INDEXED as f64 * many)).max(0.0),
        })
    }
}

/// Starts a store after its last owner was dropped without closing it. Returns the processor time in seconds and the
/// engine.
fn start(disk: &SimDisk, options: &Options) -> anyhow::Result<(f64, Engine)> {
    quickest_start(|| {
        let began = processor_s();
        let engine = open(disk, options.clone())?;
        Ok((processor_s() - began, engine))
    })
}

/// Starts a store several times, each time in the state that the last drop left. Returns the processor time of the
/// fastest start in seconds, and the result of the last start.
pub fn quickest_start<T>(
    mut start: impl FnMut() -> anyhow::Result<(f64, T)>,
) -> anyhow::Result<(f64, T)> {
    let (mut quickest, mut last) = start()?;
    for _ in 1..STARTS {
        drop(last);
        let took_s;
        (took_s, last) = start()?;
        quickest = quickest.min(took_s);
    }
    Ok((quickest, last))
}

/// Returns the bytes of a segment without its blocks, per block.
pub fn footer_bytes(demand: &Subject<'_>) -> anyhow::Result<f64> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let mut load = load(&engine, demand, demand.few(*SOURCES.end()))?;
    load.round(&engine)?;
    engine.flush()?;
    let status = engine.status();
    Ok((status.segment_bytes - status.block_bytes_sealed) as f64 / status.blocks_sealed as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_with_the_tags_of_a_host_take_less_memory() {
        let source_bytes = |per_host| {
            let demand = Demand {
                per_host,
                ..Demand::of_tests()
            };
            rate(&Subject::uninterrupted(&demand)).unwrap().1
        };
        let (own, shared) = (source_bytes(1), source_bytes(100));
        assert!(shared < 0.7 * own, "{shared} and {own} bytes");
    }

    #[test]
    fn a_trial_has_fewer_sources_of_many_fields() {
        let of = |fields| {
            let demand = Demand {
                fields,
                ..Demand::of_tests()
            };
            Subject::uninterrupted(&demand).few(4096) * fields
        };
        assert_eq!((of(1), of(4), of(8)), (4096, 16384, 16384));
        assert!(of(1024) <= 16384 && of(1 << 40) > 0);
    }
}
