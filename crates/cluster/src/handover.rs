//! Handover: the rows of an engine become bundles in the distributed store.
//!
//! 1. The engine ends its open blocks. All rows accepted before are below the *cut*.
//! 2. Class by class and shelf by shelf, the rows below the cut are read by source and written as bundles.
//! 3. The engine expires the rows below the cut, and the copies of the journal files that held them are removed.
//!
//! A crash between these steps loses nothing: the rows are handed over again, and equal samples count once.

use crate::blocks::{BundleId, Cell, ClassTables, Place, Stamped, put};
use crate::classes::Classes;
use crate::columns::{Fields, divide, extend, of_piece, pick, without_empty};
use crate::locks::locked;
use crate::names::{Names, Wanted};
use crate::places::{Places, SourcePlace};
use crate::rows::{Rows, RowsError};
use crate::shelves::Grid;
use seiner_bundle::{BundleWriter, Layout};
use seiner_engine::Engine;
use seiner_model::{Columns, Interval, Selector, SourceId, SourceKey};
use seiner_store::{Error, Query};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes at which a bundle is finished. Encoding at most this much at a time keeps its scratch memory in the cache.
const BUNDLE: usize = 1 << 20;
/// Bytes of unfinished bundles of all periods together, at which the largest is finished.
const UNFINISHED: usize = 8 << 20;

/// Failure of a handover. It is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    /// The distributed store failed.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl From<HandoverError> for Error {
    fn from(error: HandoverError) -> Error {
        match error {
            HandoverError::Rows(error) => error.into(),
            HandoverError::Engine(error) => error,
        }
    }
}

/// Everything that a handover needs.
pub(crate) struct Handover<'a> {
    /// Engine whose rows are handed over.
    pub engine: &'a Engine,
    /// Distributed store.
    pub rows: &'a dyn Rows,
    /// Names in the distributed store.
    pub names: &'a Names,
    /// Retention classes.
    pub classes: &'a Classes,
    /// Number of the present grid.
    pub grid_number: u16,
    /// Present grid.
    pub grid: Grid,
    /// Name of this port.
    pub port: &'a str,
    /// Number of the next handover. A shelf gets its number before its rows are read.
    pub next: &'a AtomicU64,
    /// Stamp of the rows.
    pub stamp: u64,
    /// Wall time, ns.
    pub now: i64,
    /// Places of the engine's sources, as far as they are known.
    pub places: &'a Mutex<Places>,
}

/// Figures of a handover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Samples.
    pub samples: u64,
    /// Bundles.
    pub bundles: u64,
    /// Bytes of directories and data.
    pub bytes: u64,
    /// Samples that were already too old for their class, which are not stored.
    pub expired_samples: u64,
}

/// Source of the engine with its place in the distributed store.
pub(crate) struct Placed {
    id: SourceId,
    place: SourcePlace,
}

/// Rows of one source, by period.
type SourceRows = BTreeMap<i64, (Fields, Columns)>;

impl Handover<'_> {
    /// Hands over the rows below a cut. The caller releases the cut afterwards.
    ///
    /// # Errors
    /// If the distributed store or the engine fails. Some rows may have been handed over; doing it again is safe.
    pub fn run(&self, cut: u64) -> Result<Report, HandoverError> {
        let mut report = Report::default();
        for ((class, shelf), mut sources) in self.placed()? {
            sources.sort_by_key(|source| source.place.number);
            self.shelf(class, shelf, sources, cut, &mut report)?;
        }
        Ok(report)
    }

    /// Returns all sources by class and shelf. New sources are registered.
    fn placed(&self) -> Result<BTreeMap<(usize, u32), Vec<Placed>>, HandoverError> {
        let all = self.engine.sources(&Selector::all());
        let mut new = all.clone();
        {
            let places = locked(self.places);
            new.retain(|source| places.get(*source).is_none());
        }
        self.register(new)?;
        let places = locked(self.places);
        let mut placed: BTreeMap<(usize, u32), Vec<Placed>> = BTreeMap::new();
        for id in all {
            let place = places.get(id).expect("all sources are registered");
            let shelf = self.grid.shelf(place.number);
            let shelf = placed.entry((place.class as usize, shelf)).or_default();
            shelf.push(Placed { id, place });
        }
        Ok(placed)
    }

    /// Registers sources of the engine with their fields, and remembers their places.
    ///
    /// # Errors
    /// If too few replicas answer, or the disk fails.
    pub fn register(&self, sources: Vec<SourceId>) -> Result<(), HandoverError> {
        if sources.is_empty() {
            return Ok(());
        }
        // No row has this time, so that the scan returns the names and fields of all sources without decoding rows.
        let nothing = Query {
            interval: Interval::new(i64::MAX, i64::MAX),
            ..everything()
        };
        let mut found: Vec<(SourceId, Arc<SourceKey>, Fields)> = Vec::new();
        let mut scan = self.engine.scan_before(sources, &nothing, u64::MAX);
        while let Some(source) = scan.next_source() {
            let source = source?;
            found.push((source.source(), source.key().clone(), source.fields()));
        }
        let wanted = found.iter().map(|(_, key, fields)| (key, &fields[..]));
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let numbers = self.names.register(&wanted)?;
        let mut places = locked(self.places);
        for ((id, key, fields), number) in found.iter().zip(numbers) {
            let place = SourcePlace {
                number,
                class: self.classes.class_of(key) as u32,
                fields: fields.len() as u32,
            };
            places.set(*id, place);
        }
        Ok(())
    }

    /// Registers the fields of a source if it has more than before.
    fn register_fields(
        &self,
        source: &mut Placed,
        key: &Arc<SourceKey>,
        fields: &Fields,
    ) -> Result<(), HandoverError> {
        if fields.len() as u32 > source.place.fields {
            self.names.register(&[(key, &fields[..])])?;
            source.place.fields = fields.len() as u32;
            locked(self.places).set(source.id, source.place);
        }
        Ok(())
    }

    /// Returns the name of a source, for messages.
    fn name_of(&self, source: &Placed) -> String {
        let key = self.engine.source_key(source.id);
        key.map_or_else(|| format!("source {}", source.id.0), |key| key.to_string())
    }

    /// Hands over the rows of one shelf.
    fn shelf(
        &self,
        class: usize,
        shelf: u32,
        sources: Vec<Placed>,
        cut: u64,
        report: &mut Report,
    ) -> Result<(), HandoverError> {
        // The number exists before the rows are read, so that a delete knows whether it affected these rows.
        let handover = self.next.fetch_add(1, Ordering::SeqCst);
        let mut shelf = Shelf {
            of: self,
            class,
            shelf,
            handover,
            nth: 0,
            writers: BTreeMap::new(),
            layouts: BTreeMap::new(),
        };
        let ids = sources.iter().map(|source| source.id).collect();
        let mut sources = sources.into_iter().peekable();
        let mut rows = SourceRows::new();
        for piece in self.engine.scan_before(ids, &everything(), cut) {
            let piece = piece?;
            while sources
                .peek()
                .is_some_and(|source| source.id != piece.source)
            {
                let done = sources.next().expect("it was peeked");
                shelf.add(&done, std::mem::take(&mut rows), report)?;
            }
            let key = piece.key.clone();
            let (fields, piece) = of_piece(piece);
            if let Some(source) = sources.peek_mut() {
                self.register_fields(source, &key, &fields)?;
            }
            for (period, part) in by_period(piece, &self.grid) {
                match rows.entry(period) {
                    Entry::Vacant(place) => drop(place.insert((fields.clone(), part))),
                    Entry::Occupied(mut before) => extend(&mut before.get_mut().1, part),
                }
            }
        }
        if let Some(last) = sources.next() {
            shelf.add(&last, rows, report)?;
        }
        shelf.finish(report)
    }
}

/// Returns a query of all rows.
fn everything() -> Query {
    Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    }
}

/// Divides rows by the periods of their times, which ascend.
fn by_period(rows: Columns, grid: &Grid) -> Vec<(i64, Columns)> {
    let mut parts = Vec::new();
    let mut from = 0;
    while from < rows.times.len() {
        let period = grid.period(rows.times[from]);
        let end = grid.times(period).end;
        let to = from + rows.times[from..].partition_point(|&time| time <= end);
        if from == 0 && to == rows.times.len() {
            return vec![(period, rows)];
        }
        let kept: Vec<usize> = (from..to).collect();
        parts.push((period, pick(&rows, &kept)));
        from = to;
    }
    parts
}

/// Unfinished bundles of a shelf, by period.
struct Shelf<'a> {
    of: &'a Handover<'a>,
    class: usize,
    shelf: u32,
    handover: u64,
    nth: u32,
    writers: BTreeMap<i64, BundleWriter>,
    layouts: BTreeMap<Layout, Arc<Layout>>,
}

impl Shelf<'_> {
    /// Adds the rows of a source.
    fn add(
        &mut self,
        source: &Placed,
        rows: SourceRows,
        report: &mut Report,
    ) -> Result<(), HandoverError> {
        let of = self.of;
        for (period, (fields, rows)) in rows {
            let (fields, rows) = without_empty(fields, rows);
            let layout = self.layout(&fields);
            for (nth, part) in divide(&rows).iter().enumerate() {
                if nth > 0 {
                    // The same source cannot follow in the same bundle.
                    self.finish_one(period, report)?;
                }
                let writer = self.writers.entry(period);
                let writer = writer.or_insert_with(|| BundleWriter::new(Default::default()));
                writer
                    .push(u64::from(source.place.number), &layout, part)
                    .map_err(|error| Error::Query(format!("{}: {error}", of.name_of(source))))?;
                if writer.estimated_bytes() >= BUNDLE {
                    self.finish_one(period, report)?;
                }
            }
        }
        while self.unfinished() > UNFINISHED {
            let largest = self
                .writers
                .iter()
                .max_by_key(|(_, writer)| writer.estimated_bytes());
            let period = *largest.expect("unfinished bundles have bytes").0;
            self.finish_one(period, report)?;
        }
        Ok(())
    }

    fn unfinished(&self) -> usize {
        self.writers
            .values()
            .map(BundleWriter::estimated_bytes)
            .sum()
    }

    /// Returns the layout of fields, which equal layouts share.
    fn layout(&mut self, fields: &Fields) -> Arc<Layout> {
        let layout = Layout::new(fields.iter().map(|(name, kind)| (name.to_string(), *kind)));
        let shared = self.layouts.entry(layout.clone());
        shared.or_insert_with(|| Arc::new(layout)).clone()
    }

    /// Finishes the bundle of a period.
    fn finish_one(&mut self, period: i64, report: &mut Report) -> Result<(), HandoverError> {
        let Some(mut writer) = self
            .writers
            .remove(&period)
            .filter(|writer| !writer.is_empty())
        else {
            return Ok(());
        };
        let of = self.of;
        let cell = Cell {
            grid: of.grid_number,
            shelf: self.shelf,
            period,
        };
        let class = of.classes.at(self.class);
        let times = of.grid.times(period);
        let (is_late, life) = class.life(times, of.now);
        let samples = writer.samples();
        let bundle = writer.finish();
        if life.is_some_and(|life| life.is_zero()) {
            report.expired_samples += samples;
            return Ok(());
        }
        let tables = ClassTables::of(&class.name, is_late);
        let place = Place {
            tables: &tables,
            cell,
            id: BundleId {
                port: of.port.to_string(),
                handover: self.handover,
                nth: self.nth,
            },
            life,
        };
        self.nth += 1;
        report.samples += samples;
        report.bundles += 1;
        report.bytes += (bundle.data.len() + bundle.directory.len()) as u64;
        let stamped = Stamped {
            stamp: of.stamp,
            bundle,
        };
        Ok(put(of.rows, &place, &stamped, class.level)?)
    }

    /// Finishes all bundles.
    fn finish(mut self, report: &mut Report) -> Result<(), HandoverError> {
        while let Some((&period, _)) = self.writers.first_key_value() {
            self.finish_one(period, report)?;
        }
        Ok(())
    }
}
