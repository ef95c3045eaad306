//! Trials of the engine in memory, on a small scale, with samples of a kind: bytes on disk by rows per block, bytes
//! of journal, memory and processor time.

use crate::buffer::{buffer_limit, first_row, left_behind, row_bound, row_slot, state_slot};
use crate::demand::Demand;
use crate::trial::{
    MOST_ROWS, Point, ROWS, Starts, Subject, footer_bytes, rate, row_bytes, scatter, trial,
};

/// Measured costs of samples of one kind in the engine.
#[derive(Clone, Debug)]
pub struct Calibration {
    points: Vec<Point>,
    /// Encoded bytes of a row in a buffer, except for the first row.
    pub row_bytes: f64,
    /// Spread of the moments at which buffers of one age double. 0: all buffers double at the same row. 1: a page stays
    /// in use until the last of its buffers has moved.
    pub scatter: f64,
    /// Bytes of footer per block.
    pub footer_bytes: f64,
    /// Memory in bytes of a source without rows: names and look-up.
    pub source_bytes: f64,
    /// Rows that one processor appends per second.
    pub rows_per_s: f64,
    /// Processor time of the start of an empty store, in seconds.
    pub empty_s: f64,
    /// Processor time of a start per row that is read back from the journal, in seconds.
    pub replay_s: f64,
    /// Processor time of a start per block that begins in the journal, in addition to its rows, in seconds.
    pub begin_s: f64,
    /// Processor time of a start per source, in seconds.
    pub name_s: f64,
    /// Processor time of a start per block, in seconds: reading and counting its index entry.
    pub entry_s: f64,
    /// True if the bytes on disk were corrected with the measured sizes of a store's own blocks.
    pub is_measured: bool,
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
        let demand = &Subject { demand, is_over };
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

    /// Repeats the trial of a start for another number of sensors, because few sensors fit into a cache and are read
    /// back faster.
    ///
    /// # Errors
    /// As for [`Calibration::make`].
    pub fn resized(&self, demand: &Demand) -> anyhow::Result<Calibration> {
        let is_over = &|| false;
        let demand = &Subject { demand, is_over };
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

    /// Scales the trials to measured blocks, which take `block_row` bytes per row with `rows` rows per block. The
    /// same factor applies to blocks of all sizes and to rows in buffers.
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

    /// Returns the bytes of segments per row in blocks of `rows` rows, footers included.
    pub fn disk_row(&self, rows: f64) -> f64 {
        // A block has a constant part and a part per row. So the size of the block is linear between two trials; the
        // size of the row is not.
        let at = self
            .points
            .partition_point(|point| point.rows < rows)
            .clamp(1, self.points.len() - 1);
        let (low, high) = (&self.points[at - 1], &self.points[at]);
        let (small, large) = (low.disk_row * low.rows, high.disk_row * high.rows);
        let block = small + (large - small) * (rows - low.rows) / (high.rows - low.rows);
        (block.max(0.0) + self.footer_bytes) / rows
    }

    /// Returns the bytes of journal per row. The first row of a block costs more than the others.
    pub fn journal_row(&self, rows: f64) -> f64 {
        self.between(rows, |point| point.journal_row)
    }

    /// Returns the rows of a block that is sealed because its buffer is full: one more row of the largest size would
    /// not fit.
    pub fn rows_of(&self, block_bytes: f64, fields: u64) -> f64 {
        let space = buffer_limit(block_bytes, fields) - first_row(fields) - row_bound(fields);
        (2.0 + space / self.row_bytes).clamp(1.0, MOST_ROWS)
    }

    /// Returns the memory of a buffer with `rows` rows in bytes, by the engine's rule: when a row arrives, the slot
    /// must have space for one more row of the largest size. The smallest such slot is used. The state of the fields
    /// has a separate slot.
    pub fn buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        row_slot(rows, fields, self.row_bytes) + state_slot(fields)
    }

    /// Like [`Calibration::buffer_bytes`], with the partly used pages that buffers of one age leave behind when they
    /// double.
    pub fn held_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let slot = row_slot(rows, fields, self.row_bytes);
        slot * (1.0 + self.scatter * left_behind(slot)) + state_slot(fields)
    }

    /// Like [`Calibration::buffer_bytes`], as the mean over the filling of buffers that are sealed at `rows` rows.
    pub fn mean_buffer_bytes(&self, rows: f64, fields: u64) -> f64 {
        let parts = 32;
        let filled = |part: u32| {
            let rows = rows * (f64::from(part) + 0.5) / f64::from(parts);
            self.buffer_bytes(rows.max(1.0), fields)
        };
        (0..parts).map(filled).sum::<f64>() / f64::from(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::{Clockwork, Values};
    use crate::observed::Observed;
    use crate::trial::{in_memory, load};
    use seiner_engine::Durability;
    use seiner_platform::sim::SimDisk;

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
    fn blocks_of_the_store_correct_the_calibration() {
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
    fn a_cancelled_calibration_ends_at_once() {
        let asked = std::cell::Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let error = Calibration::make_until(&one_field(), &is_over).unwrap_err();
        assert_eq!(asked.get(), 4);
        assert!(error.to_string().contains("interrupted"), "{error}");
    }

    #[test]
    fn memory_of_buffers_matches_the_engine() {
        for (fields, values) in [(1, Values::Counters), (4, Values::Floats)] {
            let demand = Demand {
                fields,
                values,
                ..one_field()
            };
            let subject = Subject {
                demand: &demand,
                is_over: &|| false,
            };
            let row_bytes = row_bytes(&subject).unwrap();
            let calibration = Calibration {
                row_bytes,
                scatter: scatter(&subject, row_bytes).unwrap(),
                ..of_points(&[])
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
