//! What the engine does with samples of a kind, tried out in memory on a small scale: bytes on disk by
//! the rows of a block, bytes of journal, memory, processor time.

use crate::demand::{Clockwork, Demand, Values};
use crate::load::Load;
use crate::processor::processor_s;
use seiner_engine::{Durability, Engine, Options};
use seiner_platform::SystemClock;
use seiner_platform::sim::SimDisk;
use std::sync::Arc;
use std::time::Duration;

/// Rows of a block that are tried.
const ROWS: [u64; 6] = [1, 4, 16, 64, 256, 1024];
/// Values put into each trial, about.
const TRIAL: u64 = 200_000;
/// Sources of a trial: enough that the pages of memory and of footers are full.
const SOURCES: std::ops::RangeInclusive<u64> = 256..=8192;
/// Sources of the trial of the rate: enough that they do not all fit into a cache.
const MANY: u64 = 20_000;
/// Sources of the trial of a start, at the most: a row that is read back goes to another source than the
/// one before, and not all fit into a cache. And rows in the journal, of all and of each.
const STARTED: f64 = 32_768.0;
const REPLAYED: u64 = 786_432;
const REPLAYED_EACH: std::ops::RangeInclusive<u64> = 24..=2000;
/// More are added until reading them back takes so long, s, or they are so many: short times are measured badly.
const REPLAY_S: f64 = 0.15;
const MOST_REPLAYED: u64 = 8 << 20;
/// Blocks of a source in the trial of the index.
const INDEXED: u64 = 16;
/// Starts of which the quickest counts: whatever else the machine does makes them slower only.
const STARTS: usize = 5;
/// B of trials whose rows stay in buffers.
const BUFFERED_BYTES: u32 = 65_536;
/// Sources whose first block is filled to learn what a row takes, and the bytes of that block.
const FILLED: u64 = 8;
const FILLED_BYTES: u32 = 16_384;
/// No block has more rows.
const MOST_ROWS: f64 = 65_535.0;
/// A buffer is a slot of memory that doubles when it is full, from one cache line on. Slots of a size share pages.
const SMALLEST_SLOT: f64 = 64.0;
const PAGE: f64 = 65_536.0;
/// Sources of the trial of growing buffers, and the least size of their slots then.
const GROWN: u64 = 4096;
const GROWN_SLOT: f64 = 256.0;
/// Rows that such a slot holds at the least.
const GROWN_ROWS: f64 = 64.0;
/// What is remembered of the second and each later field between two rows, bytes.
const STATE_BYTES: f64 = 10.0;

/// What the engine does with samples of a kind.
#[derive(Clone, Debug)]
pub struct Calibration {
    points: Vec<Point>,
    /// Encoded bytes of a row in a buffer, but for the first.
    pub row_bytes: f64,
    /// How far buffers of one age grow apart: 0 if all double at the same row, 1 if the pages they leave stay in
    /// use until the last has left.
    pub scatter: f64,
    /// Bytes of a footer for a block.
    pub footer_bytes: f64,
    /// Memory of a source without rows, bytes: names and look-up.
    pub source_bytes: f64,
    /// Rows a second that one processor appends.
    pub rows_per_s: f64,
    /// Processor time of a start of an empty store, s.
    pub empty_s: f64,
    /// Processor time of a start for a row that it reads back from the journal, s.
    pub replay_s: f64,
    /// The same for a block that begins there, beside its rows, s.
    pub begin_s: f64,
    /// Processor time of a start for a source, s.
    pub name_s: f64,
    /// Processor time of a start for a block: its place in the index is read and counted, s.
    pub entry_s: f64,
    /// Whether bytes on disk were corrected by what a store's own blocks take.
    pub is_measured: bool,
}

/// A trial with so many rows a block.
#[derive(Clone, Copy, Debug)]
struct Point {
    rows: f64,
    disk_row: f64,
    journal_row: f64,
}

impl Calibration {
    /// Tries it out; takes a second or two of an optimised program.
    ///
    /// # Errors
    /// When the engine fails in memory: a fault of ours.
    pub fn make(demand: &Demand) -> anyhow::Result<Calibration> {
        let points = ROWS
            .iter()
            .map(|rows| trial(demand, *rows))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (rows_per_s, source_bytes) = rate(demand)?;
        let row_bytes = row_bytes(demand)?;
        let starts = Starts::make(demand, row_bytes)?;
        Ok(Calibration {
            points,
            row_bytes,
            scatter: scatter(demand, row_bytes)?,
            footer_bytes: footer_bytes(demand)?,
            source_bytes,
            rows_per_s,
            empty_s: starts.empty_s,
            replay_s: starts.replay_s,
            begin_s: starts.begin_s,
            name_s: starts.name_s,
            entry_s: starts.entry_s,
            is_measured: false,
        })
    }

    /// The same for a store of another size: few sensors fit into a cache, and are read back the sooner.
    ///
    /// # Errors
    /// As [`Calibration::make`].
    pub fn resized(&self, demand: &Demand) -> anyhow::Result<Calibration> {
        let starts = Starts::make(demand, self.row_bytes)?;
        Ok(Calibration {
            empty_s: starts.empty_s,
            replay_s: starts.replay_s,
            begin_s: starts.begin_s,
            name_s: starts.name_s,
            entry_s: starts.entry_s,
            ..self.clone()
        })
    }

    /// Takes what blocks of so many rows really take for a row, bytes: all blocks are scaled alike, and
    /// so is what a row takes in a buffer.
    pub fn measured(&mut self, rows: f64, block_row: f64) {
        let tried = self.disk_row(rows) - self.footer_bytes / rows;
        let factor = block_row / tried.max(f64::MIN_POSITIVE);
        for point in &mut self.points {
            point.disk_row *= factor;
        }
        self.row_bytes *= factor;
        self.is_measured = true;
    }

    fn between(&self, rows: f64, of: impl Fn(&Point) -> f64) -> f64 {
        let at = self.points.partition_point(|point| point.rows < rows);
        match at {
            0 => of(&self.points[0]),
            at if at == self.points.len() => of(&self.points[at - 1]),
            at => {
                let (low, high) = (&self.points[at - 1], &self.points[at]);
                let share = (rows / low.rows).ln() / (high.rows / low.rows).ln();
                of(low) + share * (of(high) - of(low))
            }
        }
    }

    /// Bytes of segments for a row, in blocks of so many rows, footers included.
    pub fn disk_row(&self, rows: f64) -> f64 {
        // A block is a part that every block has, and a part for each row: between two trials it is
        // the block, not the row, that is linear.
        let at = self
            .points
            .partition_point(|point| point.rows < rows)
            .clamp(1, self.points.len() - 1);
        let (low, high) = (&self.points[at - 1], &self.points[at]);
        let (small, large) = (low.disk_row * low.rows, high.disk_row * high.rows);
        let block = small + (large - small) * (rows - low.rows) / (high.rows - low.rows);
        (block.max(0.0) + self.footer_bytes) / rows
    }

    /// Bytes of journal for a row: the first of a block costs more than the others.
    pub fn journal_row(&self, rows: f64) -> f64 {
        self.between(rows, |point| point.journal_row)
    }

    /// Rows of a block that is sealed when its buffer is full: when one more row of the worst kind would
    /// not fit.
    pub fn rows_of(&self, block_bytes: f64, fields: u64) -> f64 {
        let room = buffer_limit(block_bytes, fields) - first_row(fields) - row_bound(fields);
        (2.0 + room / self.row_bytes).clamp(1.0, MOST_ROWS)
    }

    /// Memory of a buffer with so many rows, bytes: the engine's own rule. Rows have the smallest slot
    /// that held one more row of the worst kind when the last came; fields have one for what is
    /// remembered of them.
    pub fn buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        row_slot(rows, fields, self.row_bytes) + state_slot(fields)
    }

    /// The same with the pages that buffers of one age leave half used when they double, and keep.
    pub fn held_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let slot = row_slot(rows, fields, self.row_bytes);
        slot * (1.0 + self.scatter * left_behind(slot)) + state_slot(fields)
    }

    /// The same, mean over the filling of buffers that are sealed at so many rows.
    pub fn mean_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let parts = 32;
        let filled = |part: u32| {
            let rows = rows * (f64::from(part) + 0.5) / f64::from(parts);
            self.buffer_bytes(rows.max(1.0), fields)
        };
        (0..parts).map(filled).sum::<f64>() / f64::from(parts)
    }
}

/// The slot that holds so many bytes.
fn slot(bytes: f64) -> f64 {
    SMALLEST_SLOT * (bytes / SMALLEST_SLOT).log2().ceil().max(0.0).exp2()
}

/// The slot of a buffer with so many rows.
fn row_slot(rows: f64, fields: u64, row_bytes: f64) -> f64 {
    let before = match rows {
        rows if rows <= 1.0 => 0.0,
        _ => first_row(fields) + (rows - 2.0).max(0.0) * row_bytes,
    };
    slot(before + row_bound(fields))
}

/// The slot for what is remembered of fields.
fn state_slot(fields: u64) -> f64 {
    match fields {
        1 => 0.0,
        _ => slot((fields - 1) as f64 * STATE_BYTES),
    }
}

/// What buffers that move to slots of this size one by one, in no order, leave in pages of half the size at the most,
/// as a share of the new slots. When a share f has moved, a page of m slots is still in use with probability
/// 1 − fᵐ: together f + (1 − fᵐ)/2, which is greatest where fᵐ⁻¹ = 2/m.
fn left_behind(slot: f64) -> f64 {
    let slots = 2.0 * PAGE / slot;
    if slot <= SMALLEST_SLOT || slots <= 2.0 {
        return 0.0;
    }
    let moved = (2.0 / slots).powf(1.0 / (slots - 1.0));
    moved + (1.0 - moved.powf(slots)) / 2.0 - 1.0
}

/// Bytes of the codes of a row: a nibble for the time and for each field.
fn codes(fields: u64) -> f64 {
    ((fields + 2) / 2) as f64
}

/// Bytes of the first row of a buffer, which stands there in full: a time and the values.
fn first_row(fields: u64) -> f64 {
    codes(fields) + 8.0 * (1 + fields) as f64
}

/// The most that a row of numbers takes; a buffer keeps so much free.
fn row_bound(fields: u64) -> f64 {
    codes(fields) + 8.0 + 10.0 * fields as f64
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

fn in_memory(disk: &SimDisk, durability: Durability) -> anyhow::Result<Engine> {
    Ok(Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock::new()),
        options(durability),
    )?)
}

fn load(engine: &Engine, demand: &Demand, sources: u64) -> anyhow::Result<Load> {
    Load::register(
        engine,
        sources,
        demand.fields,
        demand.every_s,
        demand.values,
        demand.clockwork,
    )
}

fn trial(demand: &Demand, rows: u64) -> anyhow::Result<Point> {
    let sources = (TRIAL / (rows * demand.fields)).clamp(*SOURCES.start(), *SOURCES.end());
    let engine = in_memory(
        &SimDisk::new(1),
        Durability::Interval(Duration::from_secs(60)),
    )?;
    let mut load = load(&engine, demand, sources)?;
    let before = engine.status();
    for _ in 0..rows {
        load.round(&engine)?;
    }
    engine.commit()?;
    let filled = engine.status();
    engine.settle()?;
    let settled = engine.status();
    let all = (sources * rows) as f64;
    Ok(Point {
        rows: rows as f64,
        disk_row: settled.block_bytes_sealed as f64 / all,
        journal_row: (filled.journal_written - before.journal_written) as f64 / all,
    })
}

/// Fills blocks of some sources: what rows take there over how many there are.
fn row_bytes(demand: &Demand) -> anyhow::Result<f64> {
    let options = Options {
        block_bytes: FILLED_BYTES,
        ..options(Durability::Memory)
    };
    let engine = Engine::open(
        Arc::new(SimDisk::new(1)),
        Arc::new(SystemClock::new()),
        options,
    )?;
    let mut load = load(&engine, demand, FILLED)?;
    let mut rounds = 0.0;
    while engine.status().blocks_sealed < FILLED && rounds < MOST_ROWS {
        load.round(&engine)?;
        rounds += 1.0;
    }
    let status = engine.status();
    let rows = match status.blocks_sealed {
        0 => rounds,
        blocks => status.samples_sealed as f64 / demand.fields as f64 / blocks as f64,
    };
    let fields = demand.fields;
    let filled = buffer_limit(f64::from(FILLED_BYTES), fields) - row_bound(fields);
    Ok((filled - first_row(fields)).max(1.0) / (rows - 1.0).max(1.0))
}

/// Fills buffers of many sources side by side: what of the pages they might leave behind they do.
fn scatter(demand: &Demand, row_bytes: f64) -> anyhow::Result<f64> {
    let fields = demand.fields;
    let slot = slot(GROWN_SLOT.max(first_row(fields) + GROWN_ROWS * row_bytes + row_bound(fields)));
    // All have moved to the slot, and none has left it.
    let filled = 0.9 * slot - first_row(fields) - row_bound(fields);
    let rounds = 2 + (filled / row_bytes).max(0.0) as u64;
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let mut load = load(&engine, demand, GROWN)?;
    let empty = engine.status().buffer_bytes;
    for _ in 0..rounds {
        load.round(&engine)?;
    }
    let taken = (engine.status().buffer_bytes - empty) as f64 / GROWN as f64;
    let left = (taken - state_slot(fields)) / slot - 1.0;
    Ok((left / left_behind(slot)).clamp(0.0, 1.0))
}

/// Bytes at which a source's buffer is sealed: B for every four fields.
pub fn buffer_limit(block_bytes: f64, fields: u64) -> f64 {
    (block_bytes * (fields / 4).max(1) as f64).min(f64::from(256u32 << 10))
}

/// Rows a second of processor time, best of three; and the memory of a source.
fn rate(demand: &Demand) -> anyhow::Result<(f64, f64)> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let empty = engine.status();
    let mut load = load(&engine, demand, MANY)?;
    let registered = engine.status();
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let start = processor_s();
        let rows = load.round(&engine)?;
        best = best.max(rows as f64 / (processor_s() - start));
    }
    let source = (registered.memory_used - empty.memory_used) as f64 / MANY as f64;
    Ok((best, source))
}

/// What a start takes, tried out.
struct Starts {
    empty_s: f64,
    replay_s: f64,
    begin_s: f64,
    name_s: f64,
    entry_s: f64,
}

impl Starts {
    fn make(demand: &Demand, row_bytes: f64) -> anyhow::Result<Starts> {
        let disk = SimDisk::new(1);
        let durability = Durability::Interval(Duration::from_secs(60));
        drop(in_memory(&disk, durability)?);
        let (empty_s, mut engine) = start(&disk, durability)?;
        let sensors = demand.sensors.clamp(1.0, STARTED) as u64;
        let mut load = load(&engine, demand, sensors)?;
        let mut after = |rounds: u64, engine: Engine| -> anyhow::Result<(f64, Engine)> {
            for _ in 0..rounds {
                load.round(&engine)?;
            }
            engine.commit()?;
            drop(engine);
            start(&disk, durability)
        };
        let (names, first_row);
        (names, engine) = after(0, engine)?;
        (first_row, engine) = after(1, engine)?;
        // Rows that stay in buffers: those of sealed blocks are read back without being kept.
        let room = 0.8 * buffer_limit(BUFFERED_BYTES.into(), demand.fields) / row_bytes;
        let most = (MOST_REPLAYED / sensors).min(room as u64);
        let mut rounds = (REPLAYED / sensors).clamp(*REPLAYED_EACH.start(), *REPLAYED_EACH.end());
        let (mut fed, mut rows) = (0, 0.0);
        while fed == 0 || (rows < REPLAY_S && 2 * fed < most) {
            (rows, engine) = after(rounds, engine)?;
            rows -= first_row;
            fed += rounds;
            rounds = fed;
        }
        engine.settle()?;
        for _ in 1..INDEXED {
            load.round(&engine)?;
            engine.settle()?;
        }
        drop(engine);
        let (blocks, _) = start(&disk, durability)?;
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

/// Starts a store as if its last owner had been killed: processor time, and the last one.
fn start(disk: &SimDisk, durability: Durability) -> anyhow::Result<(f64, Engine)> {
    quickest_start(|| {
        let began = processor_s();
        let engine = in_memory(disk, durability)?;
        Ok((processor_s() - began, engine))
    })
}

/// Starts a store a few times, each time as the last one left it when it was dropped; answers the processor time of
/// the quickest start, s, and the last one.
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

/// What a segment has beside its blocks, for each of them.
fn footer_bytes(demand: &Demand) -> anyhow::Result<f64> {
    let engine = in_memory(&SimDisk::new(1), Durability::Memory)?;
    let mut load = load(&engine, demand, *SOURCES.end())?;
    load.round(&engine)?;
    engine.settle()?;
    let status = engine.status();
    Ok((status.segment_bytes - status.block_bytes_sealed) as f64 / status.blocks_sealed as f64)
}

/// The kinds of samples in words.
pub fn in_words(values: Values, clockwork: Clockwork) -> String {
    let values = match values {
        Values::Decimals => "decimals that change a little",
        Values::Counters => "rising whole numbers",
        Values::Floats => "floats with all digits",
    };
    let clockwork = match clockwork {
        Clockwork::Regular => "at regular times",
        Clockwork::Jittered => "some milliseconds early or late",
    };
    format!("{values}, {clockwork}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::Observed;

    fn of_points(rows: &[f64]) -> Calibration {
        let point = |&rows: &f64| Point {
            rows,
            disk_row: 10.0,
            journal_row: 5.0,
        };
        Calibration {
            points: rows.iter().map(point).collect(),
            row_bytes: 8.0,
            scatter: 0.0,
            footer_bytes: 0.0,
            source_bytes: 100.0,
            rows_per_s: 1e6,
            empty_s: 1e-3,
            replay_s: 1e-6,
            begin_s: 1e-6,
            name_s: 1e-6,
            entry_s: 1e-7,
            is_measured: false,
        }
    }

    fn one_field() -> Demand {
        Demand {
            sensors: 1000.0,
            every_s: 10.0,
            fields: 1,
            lifetimes: crate::demand::Lifetime::of_all(86_400.0),
            values: Values::Decimals,
            clockwork: Clockwork::Regular,
            ram: 1e9,
            processors: 1.0,
            is_synced: false,
            disks: Vec::new(),
            budget: None,
            tbw: None,
            raid: None,
        }
    }

    #[test]
    fn a_stores_own_blocks_correct_what_was_tried() {
        let mut calibration = of_points(&[1.0, 100.0]);
        let mut observed = Observed {
            sources: 10.0,
            series: 20.0,
            rows_per_s: 1.0,
            samples_sealed: 200.0 * 50.0 * 2.0,
            blocks_sealed: 50.0,
            block_bytes_sealed: 200.0 * 50.0 * 20.0,
        };
        observed.correct(&mut calibration);
        assert!(!calibration.is_measured, "50 blocks are too few");
        observed.samples_sealed *= 4.0;
        observed.blocks_sealed *= 4.0;
        observed.block_bytes_sealed *= 4.0;
        observed.correct(&mut calibration);
        assert!(calibration.is_measured);
        assert!((calibration.disk_row(200.0) - 20.0).abs() < 1e-9);
        assert!((calibration.row_bytes - 16.0).abs() < 1e-9);
    }

    #[test]
    fn memory_of_buffers_is_what_the_engine_takes() {
        for (fields, values) in [(1, Values::Counters), (4, Values::Floats)] {
            let demand = Demand {
                fields,
                values,
                ..one_field()
            };
            let row_bytes = row_bytes(&demand).unwrap();
            let calibration = Calibration {
                row_bytes,
                scatter: scatter(&demand, row_bytes).unwrap(),
                ..of_points(&[])
            };
            for rows in [1, 40, 80] {
                // So many that single pages do not count.
                const SENSORS: u64 = 8192;
                let engine = in_memory(&SimDisk::new(1), Durability::Memory).unwrap();
                let mut load = load(&engine, &demand, SENSORS).unwrap();
                let empty = engine.status().buffer_bytes;
                for _ in 0..rows {
                    load.round(&engine).unwrap();
                }
                let taken = (engine.status().buffer_bytes - empty) as f64 / SENSORS as f64;
                let foretold = calibration.held_buffer_bytes(rows as f64, fields);
                let ratio = foretold / taken;
                assert!(
                    (0.85..1.15).contains(&ratio),
                    "{fields} fields, {rows} rows: {foretold} bytes foretold, {taken} taken"
                );
            }
        }
    }
}
