//! Export: the samples of a cluster move into a new data directory of a single server.
//!
//! The times are divided where periods with bundles begin and end. Interval by interval, all samples are read as a query
//! reads them, appended to an engine, and committed. A file in the directory then states the next interval. An export
//! that ended early continues there: the samples that it appended later are deleted first, so each sample is stored
//! once.

use crate::blocks::periods_of;
use crate::progress::{Progress, Watch, share};
use crate::store::ClusterStore;
use seiner_engine::Engine;
use seiner_model::{Columns, Interval, Selector, SourceKey};
use seiner_platform::Disk;
use seiner_store::{Error, Piece, Query, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;

/// Name of the file with the state of an export.
const FILE: &str = "export";
/// Name under which that file is written. A crash may leave it behind.
const NEXT: &str = "export.next";

/// State of an export, and its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Keyspace of the samples.
    pub keyspace: String,
    /// First time that is not exported, ns. `None` at the beginning.
    pub next: Option<i64>,
    /// Samples.
    pub samples: u64,
    /// Rows that the directory did not accept: most of them were older than their class keeps.
    pub rejected: u64,
    /// Parts of the cluster's data that could not be read.
    pub damages: u64,
    /// True if everything is exported.
    pub is_complete: bool,
}

impl Export {
    /// Reads the state of an export in a directory, or begins one if the directory is empty.
    ///
    /// # Errors
    /// [`Error::Options`] if the directory has other contents.
    pub fn open(disk: &dyn Disk, keyspace: &str) -> Result<Export, Error> {
        let wrong = |text: &str| Err(Error::Options(text.to_string()));
        let found = read(disk).map_err(|error| failed("reading", error))?;
        let names = disk.list();
        let names = names.map_err(|error| failed("listing the directory of", error))?;
        match found {
            Some(export) if export.keyspace != keyspace => {
                wrong("the directory has an export of another keyspace; name another directory")
            }
            Some(export) => Ok(export),
            None if names.iter().any(|name| name != NEXT) => {
                wrong("the directory is not empty; name a new one for an export")
            }
            None => {
                let export = Export {
                    keyspace: keyspace.to_string(),
                    ..Export::default()
                };
                export.write(disk)?;
                Ok(export)
            }
        }
    }

    /// Exports the samples of a cluster to an engine on the same disk. If the function fails, call it again with the
    /// state that [`Export::open`] returns.
    ///
    /// # Errors
    /// If the cluster cannot be read, or the disk fails.
    pub fn run(
        &mut self,
        store: &ClusterStore,
        engine: &Engine,
        disk: &dyn Disk,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        if self.is_complete {
            return Ok(());
        }
        let first = self.next.unwrap_or(i64::MIN);
        if !engine.sources(&Selector::all())?.is_empty() {
            // Samples of an interval that was not finished.
            engine.delete(&Selector::all(), Interval::new(first, i64::MAX))?;
        }
        let cuts = cuts(store)?;
        let whole = cuts.first().zip(cuts.last());
        let whole = whole.map_or(Interval::ALL, |(a, b)| Interval::new(*a, *b));
        let starts = std::iter::once(first).chain(cuts.range(first..).copied());
        let starts: BTreeSet<i64> = starts.collect();
        let mut starts = starts.into_iter().peekable();
        while let Some(start) = starts.next() {
            let end = starts.peek().map_or(i64::MAX, |next| next - 1);
            self.interval(store, engine, Interval::new(start, end), watch)?;
            engine.commit()?;
            self.next = starts.peek().copied();
            self.is_complete = self.next.is_none();
            self.write(disk)?;
            let share = share(whole, end);
            let samples = self.samples;
            watch(Progress::Moved { share, samples });
        }
        Ok(())
    }

    /// Exports the samples of an interval.
    fn interval(
        &mut self,
        store: &ClusterStore,
        engine: &Engine,
        interval: Interval,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let query = Query {
            selector: Selector::all(),
            fields: None,
            interval,
        };
        let mut known: Option<(SourceKey, _)> = None;
        for piece in store.scan(&query, None)? {
            let piece = match piece {
                Ok(piece) => piece,
                Err(Error::Damage { file, what, .. }) => {
                    self.damages += 1;
                    watch(Progress::Damaged(format!("{file}: {what}")));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let source = match &known {
                Some((key, source)) if *key == *piece.key => *source,
                _ => engine.register(&piece.key)?,
            };
            known = Some(((*piece.key).clone(), source));
            let (fields, columns) = columns(piece);
            let fields: Vec<&str> = fields.iter().map(|field| &**field).collect();
            let receipt = engine.append_columns(source, &fields, &columns)?;
            self.samples += receipt.samples as u64;
            self.rejected += receipt.rejected_total as u64;
        }
        Ok(())
    }

    /// Writes the state.
    fn write(&self, disk: &dyn Disk) -> Result<(), Error> {
        let text = serde_json::to_vec(self).expect("a state consists of numbers and texts");
        let write = || {
            let file = disk.create(NEXT)?;
            file.write_at(0, &text)?;
            file.sync()?;
            disk.rename(NEXT, FILE)?;
            disk.sync_names()
        };
        write().map_err(|error| failed("writing", error))
    }
}

/// Returns the times that divide the samples: beginnings of periods with bundles, and of the times after them.
fn cuts(store: &ClusterStore) -> Result<BTreeSet<i64>, Error> {
    let port = &store.port;
    let grids = port.grids.refresh(&*port.around.rows)?;
    let mut cuts = BTreeSet::new();
    for table in store.tables() {
        for (number, grid) in grids.iter().enumerate() {
            for shelf in 0..grid.shelves {
                for period in periods_of(&*port.around.rows, &table, number as u16, shelf)? {
                    let times = grid.times(period);
                    cuts.insert(times.start);
                    cuts.extend(times.end.checked_add(1));
                }
            }
        }
    }
    Ok(cuts)
}

/// Returns the fields that have values, and the rows of a piece.
fn columns(piece: Piece) -> (Vec<std::sync::Arc<str>>, Columns) {
    let fields = piece.fields.iter().zip(piece.columns);
    let fields = fields.filter_map(|((name, _), column)| Some((name.clone(), column?)));
    let (names, fields) = fields.unzip();
    let columns = Columns {
        times: piece.times,
        fields,
    };
    (names, columns)
}

fn read(disk: &dyn Disk) -> io::Result<Option<Export>> {
    let file = match disk.open(FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

fn failed(action: &str, error: io::Error) -> Error {
    Error::Io {
        context: format!("{action} the state of the export"),
        error,
    }
}
