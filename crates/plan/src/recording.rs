//! Recording: rows of real sources, from which a plan learns how its samples compress.

use seiner_model::{Bitmap, Column, FieldType, Interval, Selector};
use seiner_store::{Error, IsOver, Piece, Query, Store};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of sources that a recording keeps.
const MOST_SOURCES: usize = 1024;
/// Approximate maximum number of samples that a recording keeps.
const MOST_SAMPLES: usize = 4_000_000;
/// Minimum number of rows from which a plan is made.
const LEAST_ROWS: u64 = 100;

/// Rows of real sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Description of the place of the rows, such as the name of a file.
    pub name: String,
    /// Sources, each with at least one row.
    pub sources: Vec<RecordedSource>,
    /// Number of sources at the origin. [`Recording::sources`] is a selection of them.
    pub all_sources: u64,
    /// Number of rows of the sources.
    pub rows: u64,
    /// Number of samples of the sources.
    pub samples: u64,
}

/// Rows of one source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSource {
    /// Times in ns, strictly ascending.
    pub times: Vec<i64>,
    /// Fields of the source.
    pub fields: Vec<RecordedField>,
}

/// Values of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedField {
    /// Name of the field.
    pub name: Arc<str>,
    /// Rows with a value.
    present: Bitmap,
    /// A value for each row. Rows without a value have a placeholder here.
    pub values: Column,
}

impl RecordedField {
    /// Returns true if the field has a value in a row.
    pub fn has(&self, row: usize) -> bool {
        self.present.get(row)
    }
}

impl RecordedSource {
    /// Returns the mean interval between two rows in ns, at least 1.
    pub fn mean_interval_ns(&self) -> i64 {
        let intervals = (self.times.len() as i64 - 1).max(1);
        (self.span_ns() / intervals).max(1)
    }

    /// Returns the names and types of the fields.
    fn layout(&self) -> Vec<(&str, FieldType)> {
        let fields = self.fields.iter();
        fields
            .map(|field| (&*field.name, field.values.field_type()))
            .collect()
    }

    fn span_ns(&self) -> i64 {
        match (self.times.first(), self.times.last()) {
            (Some(first), Some(last)) => last.saturating_sub(*first),
            _ => 0,
        }
    }

    /// Returns the mean interval of the rows in seconds; `None` for a single row.
    fn interval_s(&self) -> Option<f64> {
        let intervals = self.times.len().checked_sub(1).filter(|many| *many > 0)?;
        Some(self.span_ns() as f64 / 1e9 / intervals as f64)
    }

    /// Appends the rows of a piece. Returns the number of its samples.
    fn take(&mut self, piece: &Piece) -> u64 {
        if self.fields.is_empty() {
            let fields = piece.fields.iter().map(|(name, field_type)| RecordedField {
                name: name.clone(),
                present: Bitmap::new(),
                values: Column::new(*field_type),
            });
            self.fields = fields.collect();
        }
        self.times.extend(&piece.times);
        let mut samples = 0;
        for (field, column) in self.fields.iter_mut().zip(&piece.columns) {
            let mut next = 0;
            for row in 0..piece.times.len() {
                let value = column.as_ref().filter(|column| {
                    let present = column.present.as_ref();
                    present.is_none_or(|bits| bits.get(row))
                });
                field.present.push(value.is_some());
                match value {
                    Some(column) => {
                        field.values.push(column.values.get(next));
                        next += 1;
                    }
                    None => push_placeholder(&mut field.values),
                }
            }
            samples += next as u64;
        }
        samples
    }
}

fn push_placeholder(values: &mut Column) {
    match values {
        Column::F64(values) => values.push(0.0),
        Column::F32(values) => values.push(0.0),
        Column::I64(values) => values.push(0),
        Column::U64(values) => values.push(0),
        Column::Bool(values) => values.push(false),
        Column::Str(values) => values.push(""),
    }
}

impl Recording {
    /// Reads rows of a store: at most some thousand sources, spread over all, and some million samples. `name`
    /// describes the store.
    ///
    /// # Errors
    /// If the store cannot be read, or contains too few rows.
    pub fn read(
        name: &str,
        store: &dyn Store,
        is_over: Option<IsOver>,
    ) -> anyhow::Result<Recording> {
        let query = Query {
            selector: Selector::default(),
            fields: None,
            interval: Interval::ALL,
        };
        let mut reader = Reader::default();
        match store.parts(&query, 1, is_over.clone())? {
            Some(parts) => {
                let all = parts.sources();
                let many = all.min(MOST_SOURCES);
                for number in 0..many {
                    let at = number * all / many;
                    reader.limit = MOST_SAMPLES * (number + 1) / many;
                    reader.read(parts.scan(at..at + 1))?;
                }
                reader.all_sources = all as u64;
            }
            None => {
                reader.limit = MOST_SAMPLES;
                reader.read(store.scan(&query, is_over)?)?;
                reader.all_sources = store.status().sources;
            }
        }
        reader.end(name)
    }

    /// Returns the source and the row at a share of all rows, from 0 to below 1.
    pub fn place(&self, share: f64) -> (usize, usize) {
        let mut left = (share * self.rows as f64) as usize;
        for (number, source) in self.sources.iter().enumerate() {
            match left.checked_sub(source.times.len()) {
                Some(rest) => left = rest,
                None => return (number, left),
            }
        }
        (0, 0)
    }

    /// Returns the index of the next source with the same fields, of the first after the last. Without another such
    /// source, returns the given index.
    pub fn next_alike(&self, index: usize) -> usize {
        let layout = self.sources[index].layout();
        let others = (index + 1..self.sources.len()).chain(0..index);
        let mut alike = others.filter(|other| self.sources[*other].layout() == layout);
        alike.next().unwrap_or(index)
    }

    /// Returns the number of rows that a sensor plays before it repeats rows: those of the largest group of sources with
    /// the same fields.
    pub fn unrepeated_rows(&self) -> u64 {
        let mut groups: HashMap<Vec<(&str, FieldType)>, u64> = HashMap::new();
        for source in &self.sources {
            *groups.entry(source.layout()).or_default() += source.times.len() as u64;
        }
        groups.into_values().max().unwrap_or(0)
    }

    /// Returns the mean number of samples of a row.
    pub fn samples_per_row(&self) -> f64 {
        self.samples as f64 / self.rows as f64
    }

    /// Returns the mean interval between two rows of a source in seconds; `None` if no source has two rows. Sensors
    /// with this interval send as many rows per second as the recorded sources.
    pub fn interval_s(&self) -> Option<f64> {
        let intervals: Vec<f64> = self
            .sources
            .iter()
            .filter_map(RecordedSource::interval_s)
            .filter(|interval| *interval > 0.0)
            .collect();
        let per_s: f64 = intervals.iter().map(|interval| 1.0 / interval).sum();
        (per_s > 0.0).then(|| intervals.len() as f64 / per_s)
    }
}

/// Reader of pieces.
#[derive(Default)]
struct Reader {
    sources: Vec<RecordedSource>,
    all_sources: u64,
    rows: u64,
    samples: u64,
    /// Number of samples after which the present part of the store is left.
    limit: usize,
}

impl Reader {
    fn read(&mut self, pieces: impl Iterator<Item = Result<Piece, Error>>) -> anyhow::Result<()> {
        let mut last = None;
        for piece in pieces {
            let piece = match piece {
                // Damaged blocks teach nothing; the others do.
                Err(Error::Damage { .. }) => continue,
                piece => piece?,
            };
            if last != Some(piece.source) {
                last = Some(piece.source);
                self.sources.push(RecordedSource::default());
            }
            let source = self.sources.last_mut().expect("a source was added");
            self.samples += source.take(&piece);
            self.rows += piece.times.len() as u64;
            if self.samples as usize >= self.limit {
                break;
            }
        }
        Ok(())
    }

    fn end(self, name: &str) -> anyhow::Result<Recording> {
        anyhow::ensure!(
            self.rows >= LEAST_ROWS,
            "{name} has {} rows; a plan needs {LEAST_ROWS} or more",
            self.rows
        );
        Ok(Recording {
            name: name.to_string(),
            sources: self.sources,
            all_sources: self.all_sources,
            rows: self.rows,
            samples: self.samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Calibration;
    use crate::demand::Demand;
    use crate::forecast::{Choice, Forecast};
    use crate::load::SampleLoad;
    use crate::plan::StorePlan;
    use crate::trial::in_memory;
    use seiner_engine::{Durability, Engine, Options};
    use seiner_model::{Columns, FieldColumn, SourceKey};
    use seiner_platform::SystemClock;
    use seiner_platform::sim::SimDisk;
    use seiner_random::SplitMixRng;
    use seiner_store::MemoryStore;

    const SECOND: i64 = 1_000_000_000;

    fn column(present: Option<Vec<bool>>, values: Column) -> FieldColumn {
        let present = present.map(|bits| bits.into_iter().collect());
        FieldColumn { present, values }
    }

    fn append(store: &dyn Store, id: &str, fields: &[&str], columns: &Columns) {
        let source = store
            .register(&SourceKey::new("m", [("id", id)]).unwrap())
            .unwrap();
        let receipt = store.append_columns(source, fields, columns).unwrap();
        assert_eq!(receipt.rejected_total, 0);
    }

    /// Returns a store with three sources: 100 rows of a text and of every second integer, 200 rows of a float, and
    /// 50 rows of the same.
    fn store() -> MemoryStore {
        let store = MemoryStore::default();
        let mut texts = Column::Str(Default::default());
        (0..100).for_each(|row| texts.push(seiner_model::Value::Str(["on", "off"][row % 2])));
        let times = |rows: i64| (0..rows).map(|row| row * SECOND).collect();
        let columns = Columns {
            times: times(100),
            fields: vec![
                column(None, texts),
                column(
                    Some((0..100).map(|row| row % 2 == 0).collect()),
                    Column::I64((0..50).collect()),
                ),
            ],
        };
        append(&store, "a", &["state", "count"], &columns);
        for (id, rows) in [("b", 200), ("c", 50)] {
            let values = (0..rows).map(|row| row as f64 / 4.0).collect();
            let columns = Columns {
                times: times(rows),
                fields: vec![column(None, Column::F64(values))],
            };
            append(&store, id, &["level"], &columns);
        }
        store
    }

    #[test]
    fn a_recording_has_the_rows_of_all_sources() {
        let recording = Recording::read("it", &store(), None).unwrap();
        assert_eq!((recording.all_sources, recording.rows), (3, 350));
        assert_eq!(recording.samples, 150 + 250);
        assert_eq!(recording.interval_s(), Some(1.0));
        assert_eq!(recording.place(0.0), (0, 0));
        assert_eq!(recording.place(0.5), (1, 75));
        let [alone, long, short] = [0, 1, 2].map(|index| recording.next_alike(index));
        assert_eq!((alone, long, short), (0, 2, 1));
        assert_eq!(recording.unrepeated_rows(), 250);
        let counts = &recording.sources[0].fields;
        let counts = counts.iter().find(|field| &*field.name == "count").unwrap();
        assert!(counts.has(4) && !counts.has(5));
        assert_eq!(counts.values.get(4), seiner_model::Value::I64(2));
        let few = Recording::read("few", &MemoryStore::default(), None).unwrap_err();
        assert!(few.to_string().contains("few has 0 rows"), "{few}");
    }

    #[test]
    fn sensors_play_a_recording_and_go_on_with_a_source_like_theirs() {
        let recording = Arc::new(Recording::read("it", &store(), None).unwrap());
        let engine = in_memory(&SimDisk::new(1), Durability::Memory).unwrap();
        let mut demand = Demand::of_tests();
        demand.record(recording.clone());
        assert_eq!(demand.fields, 1);
        let mut load = SampleLoad::register(&engine, &demand, 7).unwrap();
        for _ in 0..400 {
            load.round(&engine).unwrap();
        }
        let status = engine.status();
        assert_eq!((status.rows_accepted, status.rows_rejected), (2800, 0));
        assert_eq!(status.overwritten_rows, 0, "times ascend");
        let played = Recording::read("played", &engine, None).unwrap();
        assert_eq!(played.rows, 2800);
        // The fourth sensor begins in the second source, and goes on with the third.
        let Column::F64(levels) = &played.sources[3].fields[0].values else {
            panic!("levels are floats");
        };
        assert_eq!(levels[..3], [12.5, 12.75, 13.0]);
        assert_eq!(levels[150..152], [0.0, 0.25]);
    }

    /// Noise of 14 bits, with fields that change at different rates.
    fn noisy(store: &dyn Store) {
        let mut rng = SplitMixRng::new(7);
        for id in 0..20 {
            let values = |rng: &mut SplitMixRng, bound: u64| {
                let values = (0..3000).map(|_| rng.below(bound) as f64 / 10.0);
                column(None, Column::F64(values.collect()))
            };
            let columns = Columns {
                times: (0..3000)
                    .map(|row| row * SECOND + rng.below(5_000_000) as i64)
                    .collect(),
                fields: vec![values(&mut rng, 1 << 14), values(&mut rng, 2 + id)],
            };
            append(store, &id.to_string(), &["noise", "level"], &columns);
        }
    }

    #[test]
    fn the_plan_of_a_recording_forecasts_the_bytes_of_its_samples() {
        let store = MemoryStore::default();
        noisy(&store);
        let recording = Arc::new(Recording::read("noise", &store, None).unwrap());
        let mut demand = Demand {
            sensors: 20.0,
            every_s: 1.0,
            disks: vec![crate::demand::Disk {
                free_bytes: 1e12,
                ..Default::default()
            }],
            ..Demand::of_tests()
        };
        demand.record(recording);
        let calibration = Calibration::make(&demand).unwrap();
        let plan = StorePlan::make(&demand, &calibration);
        assert!(plan.to_text().contains("as in noise"), "{}", plan.to_text());
        assert!(!plan.to_text().contains("--like"), "the samples are known");
        let forecast = Forecast::make(&demand, &calibration, &plan.choice);
        let measured = stored(&plan.choice);
        let ratio = forecast.disk_row / measured;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{forecast:?}, {measured} measured"
        );
    }

    /// Stores the noise with the settings of a plan. Returns the bytes of a row.
    fn stored(choice: &Choice) -> f64 {
        let options = Options {
            durability: Durability::Memory,
            ..crate::soak::options(choice, false)
        };
        let disk = Arc::new(SimDisk::new(2));
        let engine = Engine::open(disk, Arc::new(SystemClock::new()), options).unwrap();
        noisy(&engine);
        engine.flush().unwrap();
        engine.status().segment_bytes as f64 / engine.status().rows_accepted as f64
    }
}
