//! Import: the samples of a server's data directory move into the distributed store.
//!
//! 1. The first attempt stores the retention classes if there are none, and a *record* of the import.
//! 2. The sources are registered.
//! 3. Period by period, class by class and shelf by shelf, rows are read by source and written as bundles. The record
//!    counts the finished shelves.
//!
//! A later attempt continues where the record ends. The attempt before may have written bundles beyond its record, in
//! the period of the record. The later attempt writes these samples again under its own number, and then removes the
//! bundles of earlier attempts from the same shelf and period. So each sample is stored once.
//!
//! All bundles have the lowest stamp: samples that the cluster has received itself replace imported ones.

pub(crate) mod record;

use crate::blocks::{BundleId, Cell, ClassTables, remove_earlier};
use crate::bundling::{Destination, Report, Rest, Shelf};
use crate::classes::{self, Classes};
use crate::deletes::{self, Mark};
use crate::names::Names;
use crate::placement::{Placement, Registrar};
use crate::progress::{Progress, Watch, share};
use crate::rows::Rows;
use crate::shelves::{Grid, Grids};
use crate::tables::base_tables;
use record::Record;
use seiner_engine::Engine;
use seiner_model::{Interval, Selector};
use seiner_platform::Clock;
use seiner_store::{Class, DEFAULT, Error, Keep, Query};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Stamp of all imported samples: lower than those of ports.
const STAMP: u64 = 0;
/// Time after which the record is written again.
const RECORDED: Duration = Duration::from_secs(1);

/// Settings of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Grid of a new cluster. An existing cluster has its own.
    pub grid: Grid,
    /// True to import a directory from its beginning, although it was imported before.
    pub again: bool,
}

/// Figures of an import, those of earlier attempts included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Sources of each class, in the order of the classes.
    pub classes: Vec<(String, u64)>,
    /// Samples in bundles.
    pub samples: u64,
    /// Bundles.
    pub bundles: u64,
    /// Bytes of bundles, once for all replicas.
    pub bytes: u64,
    /// Samples that were too old for their class, and were left out.
    pub expired: u64,
    /// Damaged parts of the directory, which were left out.
    pub damages: u64,
    /// True if an earlier attempt had imported everything.
    pub was_complete: bool,
}

/// Imports the samples of an engine that was opened for reading.
///
/// # Errors
/// [`Error::Options`] if the engine has rules that a cluster does not keep, or has changed since an earlier attempt. If
/// too few replicas answer or the disk fails, call the function again: it continues.
pub fn import(
    rows: &Arc<dyn Rows>,
    clock: &dyn Clock,
    engine: &Engine,
    options: &ImportOptions,
    watch: &mut Watch<'_>,
) -> Result<ImportReport, Error> {
    let given = given_classes(engine)?;
    rows.create(&base_tables())?;
    let classes = match classes::are_stored(&**rows)? {
        true => Classes::open(&**rows, None)?,
        false => Classes::open(&**rows, Some(&given))?,
    };
    let tables = classes.all().iter();
    let tables = tables.flat_map(ClassTables::specs);
    rows.create(&tables.collect::<Vec<_>>())?;
    let grids = Grids::open(&**rows, options.grid)?.known();
    let (record, was_complete) = begin(&**rows, engine, grids.len() as u16 - 1, options.again)?;
    let port = port(engine);
    // Each attempt has a log of names of its own. Two processes never append to the same log.
    let names = Names::new(rows.clone(), &format!("{port}-{}", record.attempt));
    names.refresh()?;
    let grid = grids[usize::from(record.grid)];
    let of = Registrar {
        engine,
        names: &names,
        classes: &classes,
        places: &Mutex::default(),
    };
    let placement = of.placement(&grid)?;
    let mut import = Import {
        rows: &**rows,
        clock,
        of,
        grid,
        port,
        placement,
        resumed: record.period,
        stored: record.clone(),
        record,
        recorded: clock.monotonic(),
    };
    if !was_complete {
        import.run(watch)?;
    }
    Ok(import.report(was_complete))
}

/// Returns the name under which the bundles of a directory are stored.
fn port(engine: &Engine) -> String {
    format!("import-{:016x}", engine.identity())
}

/// Returns the classes of an engine that a cluster would store.
fn given_classes(engine: &Engine) -> Result<Vec<Class>, Error> {
    let options = engine.options();
    let classes = options.classes.named().iter();
    let is_plain = |class: &&Class| class.name == DEFAULT && class.keep == Keep::default();
    let classes: Vec<Class> = classes.filter(|class| !is_plain(class)).cloned().collect();
    classes::check(&classes).map_err(|error| {
        Error::Options(format!(
            "the directory cannot be imported: {error}. Start a server on the directory with the other rules once"
        ))
    })?;
    Ok(classes)
}

/// Begins an attempt. Returns its record, and true if an earlier attempt has imported everything.
fn begin(
    rows: &dyn Rows,
    engine: &Engine,
    grid: u16,
    again: bool,
) -> Result<(Record, bool), Error> {
    let directory = engine.identity();
    let contents = contents(engine);
    let before = record::read(rows, directory)?;
    let next = match &before {
        None => {
            // Deletes that are stored now are older than the import. Later ones hide imported samples.
            let mark = Mark {
                journal: 0,
                handover: 0,
            };
            for delete in deletes::read(rows)? {
                deletes::mark(rows, &delete.id, &port(engine), mark)?;
            }
            Record {
                contents,
                grid,
                attempt: 1,
                ..Record::default()
            }
        }
        Some(before) if before.contents != contents && !again => {
            return Err(Error::Options(
                "the directory has changed since its import began; import it from its beginning by --again, which \
                 replaces the samples that were imported"
                    .to_string(),
            ));
        }
        Some(before) if before.is_complete && !again => return Ok((before.clone(), true)),
        Some(before) => before.next(contents, again),
    };
    record::write(rows, directory, before.as_ref(), &next)?;
    Ok((next, false))
}

/// Returns a fingerprint of the contents of a directory.
fn contents(engine: &Engine) -> u64 {
    let mut hash = fold(0, engine.status().buffered_rows);
    for segment in engine.segments() {
        for number in [segment.number, segment.rows, segment.bytes] {
            hash = fold(hash, number);
        }
    }
    hash
}

/// Adds a number to a fingerprint (FNV-1a, by words).
fn fold(hash: u64, number: u64) -> u64 {
    (hash ^ number)
        .wrapping_mul(0x0100_0000_01b3)
        .rotate_left(23)
}

/// Attempt of an import.
struct Import<'a> {
    rows: &'a dyn Rows,
    clock: &'a dyn Clock,
    of: Registrar<'a>,
    grid: Grid,
    port: String,
    placement: Placement,
    /// Period that an earlier attempt has begun.
    resumed: Option<i64>,
    /// Present state.
    record: Record,
    /// State as it is stored.
    stored: Record,
    /// Monotonic time at which the state was stored, ns.
    recorded: u64,
}

impl Import<'_> {
    /// Imports the periods that are not finished.
    fn run(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        let placement = self.fingerprint();
        if self.record.placement != placement {
            // The finished shelves of the period may have had other sources.
            (self.record.placement, self.record.shelves) = (placement, 0);
        }
        let from = self.record.period;
        let mut from = from.map_or(i64::MIN, |period| self.grid.times(period).start);
        let mut whole = None;
        while let Some(rest) = self.rest(from) {
            let whole = *whole.get_or_insert(rest);
            // The periods up to an empty one. Only the search for the next samples looks at all blocks.
            let mut period = self.grid.period(rest.start);
            loop {
                let is_empty = self.period(period, whole, watch)?;
                let end = self.grid.times(period).end;
                if end >= rest.end {
                    return self.complete();
                }
                from = end + 1;
                period += 1;
                if is_empty {
                    break;
                }
            }
        }
        self.complete()
    }

    /// Returns the interval of the samples from a time on.
    fn rest(&self, from: i64) -> Option<Interval> {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval: Interval::new(from, i64::MAX),
        };
        self.of.engine.time_range(&query, usize::MAX)
    }

    /// Imports a period. Returns true if it has no samples.
    fn period(
        &mut self,
        period: i64,
        whole: Interval,
        watch: &mut Watch<'_>,
    ) -> Result<bool, Error> {
        if self.record.period != Some(period) {
            (self.record.period, self.record.shelves) = (Some(period), 0);
            // An attempt writes bundles in the period of its record only.
            self.save(true)?;
        }
        let cells = self.of.classes.all().len() as u32 * self.grid.shelves;
        let mut is_empty = true;
        for cell in self.record.shelves..cells {
            let (class, shelf) = (cell / self.grid.shelves, cell % self.grid.shelves);
            let report = self.cell(class as usize, shelf, period, watch)?;
            is_empty &= report == Report::default();
            self.count(&report);
            self.record.shelves = cell + 1;
            self.save(false)?;
            watch(Progress::Moved {
                share: share(whole, self.grid.times(period).end),
                samples: self.record.samples,
            });
        }
        Ok(is_empty)
    }

    /// Imports a shelf of a class in a period.
    fn cell(
        &mut self,
        class: usize,
        shelf: u32,
        period: i64,
        watch: &mut Watch<'_>,
    ) -> Result<Report, Error> {
        let mut report = Report::default();
        let class_number = class;
        let class = self.of.classes.at(class);
        if let Some(sources) = self.placement.get(&(class_number, shelf)) {
            let mut bundles = Shelf::new(Destination {
                rows: self.rows,
                class,
                grid_number: self.record.grid,
                grid: self.grid,
                shelf,
                port: &self.port,
                handover: self.record.attempt,
                stamp: STAMP,
                now: self.clock.now(),
            });
            let rest = Rest {
                of: self.of,
                sources,
                interval: self.grid.times(period),
                cut: u64::MAX,
            };
            let damages = &mut self.record.damages;
            bundles.read(&rest, &mut report, &mut |damage| {
                *damages += 1;
                watch(Progress::Damaged(damage.to_string()));
                Ok(())
            })?;
            bundles.finish(&mut report)?.write(self.rows)?;
        }
        if self.record.replaces || self.resumed == Some(period) {
            let cell = Cell {
                grid: self.record.grid,
                shelf,
                period,
            };
            let first = BundleId {
                port: self.port.clone(),
                handover: self.record.attempt,
                nth: 0,
            };
            for tables in ClassTables::both(class) {
                remove_earlier(self.rows, &tables, cell, &first, class.write)?;
            }
        }
        Ok(report)
    }

    /// Returns a fingerprint of the numbers of all sources.
    fn fingerprint(&self) -> u64 {
        let sources = self.placement.values().flatten();
        sources.fold(0, |hash, source| {
            fold(
                fold(hash, u64::from(source.id.0)),
                u64::from(source.place.number),
            )
        })
    }

    fn count(&mut self, report: &Report) {
        self.record.samples += report.samples;
        self.record.bundles += report.bundles;
        self.record.bytes += report.bytes;
        self.record.expired += report.expired_samples;
    }

    fn complete(&mut self) -> Result<(), Error> {
        self.record.is_complete = true;
        self.save(true)
    }

    /// Stores the state, unless it was stored a moment ago.
    fn save(&mut self, at_once: bool) -> Result<(), Error> {
        let now = self.clock.monotonic();
        if at_once || now.saturating_sub(self.recorded) >= RECORDED.as_nanos() as u64 {
            let directory = self.of.engine.identity();
            record::write(self.rows, directory, Some(&self.stored), &self.record)?;
            self.stored = self.record.clone();
            self.recorded = now;
        }
        Ok(())
    }

    fn report(&self, was_complete: bool) -> ImportReport {
        let classes = self.of.classes.all().iter().enumerate();
        let classes = classes.map(|(number, class)| {
            let of = self.placement.iter().filter(|((of, _), _)| *of == number);
            let sources: usize = of.map(|(_, sources)| sources.len()).sum();
            (class.name.clone(), sources as u64)
        });
        ImportReport {
            classes: classes.collect(),
            samples: self.record.samples,
            bundles: self.record.bundles,
            bytes: self.record.bytes,
            expired: self.record.expired,
            damages: self.record.damages,
            was_complete,
        }
    }
}
