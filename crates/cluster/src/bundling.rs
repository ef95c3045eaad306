//! Bundling: the rows of an engine's sources become bundles of a shelf, one or more for each period.

use crate::blocks::{BundleId, Cell, ClassTables, Directories, Place, Stamped, put};
use crate::classes::ClusterClass;
use crate::columns::{Fields, divide, extend, of_piece, pick, without_empty};
use crate::failure::HandoverError;
use crate::placement::{Placed, Registrar};
use crate::rows::Rows;
use crate::shelves::Grid;
use seiner_bundle::{BundleWriter, Layout};
use seiner_model::{Columns, Interval, Selector};
use seiner_store::{Error, Query};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Bytes at which a bundle is finished. Encoding at most this much at a time keeps its scratch memory in the cache.
const BUNDLE: usize = 1 << 20;
/// Bytes of unfinished bundles of all periods together, at which the largest is finished.
const UNFINISHED: usize = 8 << 20;

/// Place and stamp of the bundles of a shelf.
pub(crate) struct Destination<'a> {
    /// Distributed store.
    pub rows: &'a dyn Rows,
    /// Retention class.
    pub class: &'a ClusterClass,
    /// Number of the grid.
    pub grid_number: u16,
    /// Grid.
    pub grid: Grid,
    /// Shelf.
    pub shelf: u32,
    /// Port that writes the bundles.
    pub port: &'a str,
    /// Number of the handover.
    pub handover: u64,
    /// Stamp of the rows.
    pub stamp: u64,
    /// Wall time, ns.
    pub now: i64,
}

/// Figures of written bundles.
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

/// Rows of an engine to read.
pub(crate) struct Rest<'a> {
    /// Engine, with the places of its sources.
    pub of: Registrar<'a>,
    /// Sources of one shelf, by ascending numbers.
    pub sources: &'a [Placed],
    /// Interval of times.
    pub interval: Interval,
    /// End of the rows: rows that were accepted later are not read.
    pub cut: u64,
}

/// Rows of one source, by period.
type SourceRows = BTreeMap<i64, (Fields, Columns)>;

/// Unfinished bundles of a shelf, by period.
pub(crate) struct Shelf<'a> {
    to: Destination<'a>,
    nth: u32,
    writers: BTreeMap<i64, BundleWriter>,
    layouts: BTreeMap<Layout, Arc<Layout>>,
    /// Layout of the latest source: neighbours often have the same fields.
    latest: (Fields, Arc<Layout>),
    directories: Directories,
}

impl<'a> Shelf<'a> {
    /// Creates a shelf without bundles.
    pub fn new(to: Destination<'a>) -> Shelf<'a> {
        Shelf {
            to,
            nth: 0,
            writers: BTreeMap::new(),
            layouts: BTreeMap::new(),
            latest: (Fields::new(), Arc::new(Layout::new::<&str>([]))),
            directories: Directories::default(),
        }
    }

    /// Adds the rows of an engine, source by source. `damaged` decides about a block that cannot be read: an error ends
    /// the reading.
    ///
    /// # Errors
    /// If the distributed store or the engine fails.
    pub fn read(
        &mut self,
        from: &Rest<'_>,
        report: &mut Report,
        damaged: &mut dyn FnMut(Error) -> Result<(), Error>,
    ) -> Result<(), HandoverError> {
        let ids = from.sources.iter().map(|source| source.id).collect();
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: from.interval,
        };
        let mut sources = from.sources.iter().peekable();
        let mut rows = SourceRows::new();
        for piece in from.of.engine.scan_before(ids, &query, from.cut) {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error @ Error::Damage { .. }) => {
                    damaged(error)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            while let Some(done) = sources.next_if(|source| source.id != piece.source) {
                self.add(done, &from.of, std::mem::take(&mut rows), report)?;
            }
            let key = piece.key.clone();
            let (fields, piece) = of_piece(piece);
            if let Some(source) = sources.peek() {
                from.of.register_fields(**source, &key, &fields)?;
            }
            for (period, part) in by_period(piece, &self.to.grid) {
                match rows.entry(period) {
                    Entry::Vacant(place) => drop(place.insert((fields.clone(), part))),
                    Entry::Occupied(mut before) => extend(&mut before.get_mut().1, part),
                }
            }
        }
        match sources.next() {
            Some(last) => self.add(last, &from.of, rows, report),
            None => Ok(()),
        }
    }

    /// Adds the rows of a source.
    fn add(
        &mut self,
        source: &Placed,
        of: &Registrar<'_>,
        rows: SourceRows,
        report: &mut Report,
    ) -> Result<(), HandoverError> {
        for (period, (fields, rows)) in rows {
            let (fields, rows) = without_empty(fields, rows);
            let layout = self.layout(fields);
            for (nth, part) in divide(rows).iter().enumerate() {
                if nth > 0 {
                    // The same source cannot follow in the same bundle.
                    self.finish_one(period, report)?;
                }
                let writer = self.writers.entry(period);
                let writer = writer.or_insert_with(|| BundleWriter::new(Default::default()));
                writer
                    .push(u64::from(source.place.number), &layout, part)
                    .map_err(|error| Error::Query(format!("{}: {error}", of.name_of(source.id))))?;
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
    fn layout(&mut self, fields: Fields) -> Arc<Layout> {
        if fields != self.latest.0 {
            let layout = Layout::new(fields.iter().map(|(name, kind)| (name.to_string(), *kind)));
            let shared = self.layouts.entry(layout.clone());
            let shared = shared.or_insert_with(|| Arc::new(layout)).clone();
            self.latest = (fields, shared);
        }
        self.latest.1.clone()
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
        let of = &self.to;
        let cell = Cell {
            grid: of.grid_number,
            shelf: of.shelf,
            period,
        };
        let class = of.class;
        let times = of.grid.times(period);
        let (is_late, life) = class.life(times, of.now);
        let samples = writer.samples();
        let bundle = writer.finish();
        if life.is_some_and(|life| life.is_zero()) {
            report.expired_samples += samples;
            return Ok(());
        }
        let tables = ClassTables::of(class, is_late);
        let place = Place {
            tables: &tables,
            cell,
            id: BundleId {
                port: of.port.to_string(),
                handover: of.handover,
                nth: self.nth,
            },
            life,
        };
        report.samples += samples;
        report.bundles += 1;
        report.bytes += (bundle.data.len() + bundle.directory.len()) as u64;
        let stamped = Stamped {
            stamp: of.stamp,
            bundle,
        };
        put(
            of.rows,
            &place,
            &stamped,
            class.write,
            &mut self.directories,
        )?;
        self.nth += 1;
        Ok(())
    }

    /// Finishes all bundles, and returns their directories, which are not written yet.
    ///
    /// # Errors
    /// If too few replicas answer.
    pub fn finish(mut self, report: &mut Report) -> Result<Directories, HandoverError> {
        while let Some((&period, _)) = self.writers.first_key_value() {
            self.finish_one(period, report)?;
        }
        Ok(self.directories)
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
