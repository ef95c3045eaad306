//! Trials of the engine in memory, on a small scale, with samples of a kind: bytes on disk by rows per block, bytes
//! of journal, memory and processor time.

use crate::buffer::{
    LINE, are_few, buffer_limit, first_row, left_behind, row_bound, row_slot, small_rows,
    state_slot,
};
use crate::demand::Demand;
use crate::trial::{
    MOST_ROWS, Point, ROWS, SmallBlocks, Starts, Subject, fill, footer_bytes, rate, row_bytes,
    row_bytes_of, scatter, small_blocks, trial,
};

/// Block sizes in bytes for which recorded samples are tried: those among which a plan chooses.
const BLOCK_BYTES: [u32; 5] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];

/// Measured costs of samples of one kind in the engine.
#[derive(Clone, Debug)]
pub struct Calibration {
    points: Vec<Point>,
    /// Block sizes in bytes, ascending, with the rows of full blocks of recorded samples. Empty for generated samples.
    full: Vec<(f64, f64)>,
    /// Encoded bytes of a row in a buffer, except for the first row.
    pub row_bytes: f64,
    /// The same for a row of generated samples.
    generated_row: f64,
    /// Spread of the moments at which buffers of one age double. 0: all buffers double at the same row. 1: a page stays
    /// in use until the last of its buffers has moved.
    pub scatter: f64,
    /// Memory of blocks with few rows of one number while memory is short. `None` for sources of several numbers.
    pub small: Option<SmallBlocks>,
    /// Bytes of footer per block.
    pub footer_bytes: f64,
    /// Memory in bytes of a source without rows: names and look-up.
    pub source_bytes: f64,
    /// Rows that one processor appends per second.
    pub rows_per_s: f64,
    /// Processor time of a start.
    pub starts: Starts,
    /// The same with small blocks, which are slower to fill. `None` if there are none.
    pub small_starts: Option<Starts>,
}

impl Calibration {
    /// Runs the trials, which takes a second or two in an optimised program.
    ///
    /// # Errors
    /// Errors of the engine in memory. Such an error is a bug.
    pub fn make(demand: &Demand) -> anyhow::Result<Calibration> {
        Calibration::make_until(demand, &|| false)
    }

    /// Runs the trials, and ends early if `is_over` returns true. Calls `is_over` every few milliseconds.
    ///
    /// # Errors
    /// As for [`Calibration::make`], and if `is_over` returned true before the end.
    pub fn make_until(demand: &Demand, is_over: &dyn Fn() -> bool) -> anyhow::Result<Calibration> {
        let generated = demand.generated();
        let demand = &Subject { demand, is_over };
        // Times and memory hardly depend on the values, so they are measured with generated samples.
        let costs = &Subject {
            demand: &generated,
            is_over,
        };
        let full = full_blocks(demand)?;
        // Trials of as many rows as full blocks have would be less exact.
        let least = full
            .iter()
            .map(|(_, point)| point.rows)
            .fold(f64::INFINITY, f64::min);
        let mut points = ROWS
            .iter()
            .filter(|rows| (**rows as f64) < least)
            .map(|rows| trial(demand, *rows))
            .collect::<anyhow::Result<Vec<_>>>()?;
        points = full
            .iter()
            .fold(points, |points, (_, full)| joined(points, *full));
        let (rows_per_s, source_bytes) = rate(costs)?;
        let generated_row = row_bytes(costs)?;
        let own_row = full.last().map_or(generated_row, |(block_bytes, point)| {
            row_bytes_of(*block_bytes, point.rows, demand.fields)
        });
        let small = small_blocks(demand, own_row)?;
        Ok(Calibration {
            points,
            full: full
                .iter()
                .map(|(block_bytes, point)| (f64::from(*block_bytes), point.rows))
                .collect(),
            row_bytes: own_row,
            generated_row,
            scatter: scatter(costs, generated_row)?,
            small,
            footer_bytes: footer_bytes(costs)?,
            source_bytes,
            rows_per_s,
            starts: Starts::make(costs, generated_row, false)?,
            small_starts: small
                .map(|_| Starts::make(costs, generated_row, true))
                .transpose()?,
        })
    }

    /// Repeats the trial of a start for another number of sensors, because few sensors fit into a cache and are read
    /// back faster.
    ///
    /// # Errors
    /// As for [`Calibration::make`].
    pub fn resized(&self, demand: &Demand) -> anyhow::Result<Calibration> {
        let generated = demand.generated();
        let subject = Subject::uninterrupted(&generated);
        let starts = |has_small| Starts::make(&subject, self.generated_row, has_small);
        Ok(Calibration {
            starts: starts(false)?,
            small_starts: self.small_starts.map(|_| starts(true)).transpose()?,
            ..self.clone()
        })
    }

    /// Returns the calibration for rows that take some more bytes on disk, in the journal and in buffers. A negative
    /// number stands for fewer bytes; at least a fifth of the bytes stays.
    pub fn with_extra(&self, row_bytes: f64) -> Calibration {
        const LEAST: f64 = 0.2;
        let more = |bytes: f64| (bytes + row_bytes).max(bytes * LEAST);
        let points = self.points.iter().map(|point| Point {
            rows: point.rows,
            disk_row: more(point.disk_row),
            journal_row: more(point.journal_row),
        });
        Calibration {
            points: points.collect(),
            row_bytes: more(self.row_bytes),
            small: self.small.map(|small| SmallBlocks {
                row: more(small.row),
                ..small
            }),
            ..self.clone()
        }
    }

    /// Returns the bytes of a block of `rows` rows. `of` returns the bytes of a row in a trial. A block has a constant part
    /// and a part per row, so the size of the block is linear between two trials; the size of the row is not.
    fn block(&self, rows: f64, of: impl Fn(&Point) -> f64) -> f64 {
        if let [only] = &self.points[..] {
            // Blocks of all sizes have one row.
            return of(only) * rows;
        }
        let at = self
            .points
            .partition_point(|point| point.rows < rows)
            .clamp(1, self.points.len() - 1);
        let (low, high) = (&self.points[at - 1], &self.points[at]);
        let (small, large) = (of(low) * low.rows, of(high) * high.rows);
        let block = small + (large - small) * (rows - low.rows) / (high.rows - low.rows);
        block.max(0.0)
    }

    /// Returns the bytes of segments per row in blocks of `rows` rows, footers included.
    pub fn disk_row(&self, rows: f64) -> f64 {
        (self.block(rows, |point| point.disk_row) + self.footer_bytes) / rows
    }

    /// Returns the bytes of journal per row. The first row of a block costs more than the others.
    pub fn journal_row(&self, rows: f64) -> f64 {
        self.block(rows, |point| point.journal_row) / rows
    }

    /// Returns the rows of a block that is sealed because its buffer is full: one more row of the largest size would
    /// not fit.
    pub fn rows_of(&self, block_bytes: f64, fields: u64) -> f64 {
        let space = buffer_limit(block_bytes, fields) - first_row(fields) - row_bound(fields);
        let rows = match self.full.iter().find(|(bytes, _)| *bytes >= block_bytes) {
            Some((_, rows)) => *rows,
            None => 2.0 + space / self.row_bytes,
        };
        rows.clamp(1.0, MOST_ROWS)
    }

    /// Returns the memory of a buffer with `rows` rows in bytes, by the engine's rule: when a row arrives, the slot
    /// must have space for one more row of the largest size. The smallest such slot is used. The line and the state of
    /// the fields are apart.
    pub fn buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        LINE + row_slot(rows, fields, self.row_bytes) + state_slot(fields)
    }

    /// Like [`Calibration::buffer_bytes`], with the partly used pages that buffers of one age leave behind when they
    /// double.
    pub fn held_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let slot = row_slot(rows, fields, self.row_bytes);
        LINE + slot * (1.0 + self.scatter * left_behind(slot)) + state_slot(fields)
    }

    /// Like [`Calibration::buffer_bytes`], as the mean over the filling of buffers that are sealed at `rows` rows
    /// because memory is short.
    pub fn mean_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let parts = 32;
        let small = self.small.filter(|_| are_few(rows, self.row_bytes));
        let filled = |part: u32| {
            let rows = (rows * (f64::from(part) + 0.5) / f64::from(parts)).max(1.0);
            match small.filter(|_| rows <= small_rows(self.row_bytes)) {
                Some(small) => small.first + (rows - 1.0) * small.row,
                None => self.buffer_bytes(rows, fields),
            }
        };
        (0..parts).map(filled).sum::<f64>() / f64::from(parts)
    }
}

/// Runs the trials of full blocks of recorded samples, by block size; none for generated samples.
fn full_blocks(demand: &Subject<'_>) -> anyhow::Result<Vec<(u32, Point)>> {
    let Some(recording) = &demand.recording else {
        return Ok(Vec::new());
    };
    let unrepeated = recording.unrepeated_rows();
    let mut without_repeats = None;
    let mut full = Vec::new();
    for block_bytes in BLOCK_BYTES {
        let mut point = fill(demand, block_bytes)?;
        if point.rows > unrepeated as f64 {
            // Repeated rows would compress too well.
            let tried = match without_repeats {
                Some(tried) => tried,
                None => *without_repeats.insert(trial(demand, unrepeated)?),
            };
            point.disk_row = tried.disk_row;
        }
        full.push((block_bytes, point));
    }
    Ok(full)
}

/// Adds a trial of full blocks to trials of fewer rows, and leaves out trials of as many rows.
fn joined(points: Vec<Point>, full: Point) -> Vec<Point> {
    let mut points: Vec<Point> = points
        .into_iter()
        .filter(|point| point.rows < full.rows)
        .collect();
    points.push(full);
    points
}

#[cfg(test)]
impl Calibration {
    /// Returns round figures.
    pub fn of_tests() -> Calibration {
        Calibration::of_points(&[1.0])
    }

    fn of_points(rows: &[f64]) -> Calibration {
        let point = |&rows: &f64| Point {
            rows,
            disk_row: 10.0,
            journal_row: 5.0,
        };
        Calibration {
            points: rows.iter().map(point).collect(),
            full: Vec::new(),
            row_bytes: 8.0,
            generated_row: 8.0,
            scatter: 0.0,
            small: None,
            footer_bytes: 0.0,
            source_bytes: 100.0,
            rows_per_s: 1e6,
            starts: Starts {
                empty_s: 1e-3,
                replay_s: 1e-6,
                begin_s: 1e-6,
                name_s: 1e-6,
                entry_s: 1e-7,
            },
            small_starts: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Values;
    use crate::trial::{in_memory, load};
    use seiner_engine::Durability;
    use seiner_platform::sim::SimDisk;

    #[test]
    fn blocks_of_one_row_have_one_size() {
        assert_eq!(Calibration::of_points(&[1.0]).disk_row(1.0), 10.0);
    }

    #[test]
    fn a_cancelled_calibration_ends_at_once() {
        let asked = std::cell::Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let error = Calibration::make_until(&Demand::of_tests(), &is_over).unwrap_err();
        assert_eq!(asked.get(), 4);
        assert!(error.to_string().contains("interrupted"), "{error}");
    }

    #[test]
    fn memory_of_buffers_matches_the_engine() {
        for (fields, values) in [(1, Values::Counters), (4, Values::Floats)] {
            let demand = Demand {
                fields,
                values,
                ..Demand::of_tests()
            };
            let subject = Subject::uninterrupted(&demand);
            let row_bytes = row_bytes(&subject).unwrap();
            let calibration = Calibration {
                row_bytes,
                scatter: scatter(&subject, row_bytes).unwrap(),
                ..Calibration::of_points(&[])
            };
            for rows in [1, 40, 80] {
                // Enough sensors that single pages do not matter.
                const SENSORS: u64 = 8192;
                let engine = in_memory(&SimDisk::new(1), Durability::Memory).unwrap();
                let mut load = load(&engine, &subject, SENSORS).unwrap();
                let empty = engine.status().buffer_bytes;
                for _ in 0..rows {
                    load.round(&engine).unwrap();
                }
                let taken = (engine.status().buffer_bytes - empty) as f64 / SENSORS as f64;
                let forecast = calibration.held_buffer_bytes(rows as f64, fields);
                let ratio = forecast / taken;
                assert!(
                    (0.85..1.15).contains(&ratio),
                    "{fields} fields, {rows} rows: {forecast} bytes forecast, {taken} taken"
                );
            }
        }
    }
}
