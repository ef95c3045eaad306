//! Reading: the rows of a query from bundles and from rows that are not handed over yet.
//!
//! The order matters, because rows move from ports to bundles while a query runs. A scan first asks the ports, then
//! reads the names, and then the bundles. A row that moves in between is found twice and counts once. The rows of this
//! port are read source by source. After a handover of this port, names and directories that were read before are read
//! again.

use crate::blocks::{BlockDamage, Blocks, BundleId};
use crate::columns::{extend, of_piece};
use crate::deletes::{self, Delete};
use crate::merge::{Part, merge};
use crate::names::{Names, add_field};
use crate::peers::Unflushed;
use seiner_engine::Engine;
use seiner_model::{SourceId, SourceKey};
use seiner_store::{Error, Query, SeriesData};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Source of a scan.
pub(crate) struct Wanted {
    /// Number for the caller.
    pub id: SourceId,
    /// Measurement and tags.
    pub key: Arc<SourceKey>,
    /// Source in the present engine of this port.
    pub local: Option<SourceId>,
}

/// Inputs of a scan, read in the order that the module's documentation requires.
pub(crate) struct Inputs<'a> {
    /// Sources, ascending.
    pub sources: Vec<Wanted>,
    /// Rows of other journals.
    pub unflushed: Vec<Unflushed>,
    /// Reader of bundles.
    pub blocks: Blocks,
    /// All deletes.
    pub deletes: Vec<Delete>,
    /// Returns the earliest time that is kept of a source.
    pub kept_from: KeptFrom<'a>,
    /// Errors that precede the first series.
    pub notes: Vec<Error>,
}

/// Function that returns the earliest time that is kept of a source, ns.
pub(crate) type KeptFrom<'a> = Box<dyn Fn(&SourceKey) -> i64 + Send + 'a>;

/// Rows of this port, which move into bundles at any time.
pub(crate) struct OwnRows<'a> {
    /// Name of the port.
    pub port: &'a str,
    /// Engine with the rows that are not handed over.
    pub engine: &'a Engine,
    /// Names.
    pub names: &'a Names,
    /// Number of handovers whose rows are stored, raised before the rows leave the engine.
    pub stored: &'a AtomicU64,
}

/// Series of a query, source by source.
pub(crate) struct ClusterScan<'a> {
    query: Query,
    own: OwnRows<'a>,
    sources: std::vec::IntoIter<Wanted>,
    /// Rows of other journals, by source.
    unflushed: HashMap<Arc<SourceKey>, Vec<Unflushed>>,
    blocks: Blocks,
    deletes: Vec<Delete>,
    /// Number of reads of directories before the marks of the deletes were read.
    deletes_of: Option<u64>,
    /// Returns the earliest time that is kept of a source.
    kept_from: KeptFrom<'a>,
    ready: VecDeque<Result<SeriesData, Error>>,
}

impl<'a> ClusterScan<'a> {
    /// Creates a scan of a query in this port's engine and in everything that was read elsewhere.
    pub fn new(query: Query, own: OwnRows<'a>, inputs: Inputs<'a>) -> ClusterScan<'a> {
        let Inputs {
            sources,
            unflushed,
            blocks,
            deletes,
            kept_from,
            notes,
        } = inputs;
        let mut by_key: HashMap<Arc<SourceKey>, Vec<Unflushed>> = HashMap::new();
        for rows in unflushed {
            by_key.entry(rows.key.clone()).or_default().push(rows);
        }
        ClusterScan {
            query,
            own,
            sources: sources.into_iter(),
            unflushed: by_key,
            blocks,
            deletes,
            deletes_of: None,
            kept_from,
            ready: notes.into_iter().map(Err).collect(),
        }
    }

    /// Reads one source.
    fn read(&mut self, wanted: &Wanted) -> Result<Vec<SeriesData>, Error> {
        // Stamp, port and order of the handover; then the rows, and the bundle's number.
        let mut parts = Vec::new();
        // Rows that have left the engine by now are in the names and directories that are read from now on.
        let local = wanted
            .local
            .map(|local| local_rows(self.own.engine, &self.query, local, &wanted.key));
        let mut local = local.transpose()?.flatten();
        let unapplied = self
            .deletes
            .iter()
            .filter(|delete| !delete.is_applied_by(self.own.port));
        let unapplied: Vec<&Delete> = unapplied.collect();
        local
            .iter_mut()
            .for_each(|rows| _ = deletes::hide(&unapplied, rows));
        self.blocks.refresh(self.own.stored.load(Ordering::SeqCst));
        let named = self.own.names.find(&wanted.key);
        let mut fields = named
            .as_ref()
            .map_or_else(BTreeMap::new, |named| named.fields.clone());
        for number in named.iter().flat_map(|named| &named.numbers) {
            for layer in self.blocks.layers(*number)? {
                let layout = layer.rows.layout.fields().iter();
                // A bundle may have fields that were registered after the names were read.
                for (name, field_type) in layout.clone() {
                    add_field(&mut fields, name.as_str().into(), *field_type);
                }
                let part = Part {
                    fields: layout.map(|(name, _)| name.as_str().into()).collect(),
                    rows: layer.rows.rows,
                };
                parts.push((layer.stamp, Some(layer.bundle), part));
            }
        }
        let others = self.unflushed.remove(&wanted.key).unwrap_or_default();
        for rows in others.into_iter().chain(local) {
            for (name, field_type) in &rows.fields {
                add_field(&mut fields, name.clone(), *field_type);
            }
            let names = rows.fields.into_iter().map(|(name, _)| name);
            let part = Part {
                fields: names.collect(),
                rows: rows.rows,
            };
            parts.push((rows.stamp, None, part));
        }
        if let Some(wanted) = &self.query.fields {
            fields.retain(|name, _| wanted.iter().any(|field| **field == **name));
        }
        // Rows without a bundle are later than bundles with the same stamp.
        parts.sort_by(|a, b| (a.0, a.1.is_none(), &a.1).cmp(&(b.0, b.1.is_none(), &b.1)));
        let bundles: Vec<Option<BundleId>> =
            parts.iter().map(|(_, bundle, _)| bundle.clone()).collect();
        self.refresh_deletes(&wanted.key, &bundles)?;
        let deletes = deletes::of(&self.deletes, &wanted.key);
        let is_hidden = |nth: usize, time: i64| {
            let bundle = bundles[nth].as_ref();
            bundle.is_some_and(|bundle| deletes.iter().any(|delete| delete.hides(bundle, time)))
        };
        let mut interval = self.query.interval;
        interval.start = interval.start.max((self.kept_from)(&wanted.key));
        let parts: Vec<Part> = parts.into_iter().map(|(_, _, part)| part).collect();
        Ok(merge(
            wanted.id,
            &wanted.key,
            &fields,
            &parts,
            interval,
            is_hidden,
        ))
    }
}

impl ClusterScan<'_> {
    /// Reads the marks of the deletes again, if directories have been read since, and one of the bundles is of a port
    /// that had not applied a delete before. The bundle may be later than the application.
    fn refresh_deletes(
        &mut self,
        key: &SourceKey,
        bundles: &[Option<BundleId>],
    ) -> Result<(), Error> {
        let reads = self.blocks.reads();
        let is_unapplied = |delete: &&Delete| {
            let mut ports = bundles.iter().flatten().map(|bundle| &bundle.port);
            ports.any(|port| !delete.is_applied_by(port))
        };
        if self.deletes_of == Some(reads)
            || !deletes::of(&self.deletes, key).iter().any(is_unapplied)
        {
            return Ok(());
        }
        let now = deletes::read(self.blocks.rows())?;
        for delete in &mut self.deletes {
            if let Some(now) = now.iter().find(|now| now.id == delete.id) {
                delete.marks.clone_from(&now.marks);
            }
        }
        self.deletes_of = Some(reads);
        Ok(())
    }
}

impl Iterator for ClusterScan<'_> {
    type Item = Result<SeriesData, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            let wanted = self.sources.next()?;
            let read = self.read(&wanted);
            self.ready.extend(
                self.blocks
                    .take_damage()
                    .into_iter()
                    .map(|damage| Err(damaged(damage))),
            );
            match read {
                Ok(series) => self.ready.extend(series.into_iter().map(Ok)),
                Err(error) => {
                    self.sources = Vec::new().into_iter();
                    self.ready.push_back(Err(error));
                }
            }
        }
    }
}

/// Reads the rows of a source in an engine.
pub(crate) fn local_rows(
    engine: &Engine,
    query: &Query,
    source: SourceId,
    key: &Arc<SourceKey>,
) -> Result<Option<Unflushed>, Error> {
    let mut found: Option<Unflushed> = None;
    for piece in engine.scan_before(vec![source], query, u64::MAX) {
        let (fields, rows) = of_piece(piece?);
        match &mut found {
            Some(found) => extend(&mut found.rows, rows),
            None => {
                found = Some(Unflushed {
                    key: key.clone(),
                    fields,
                    rows,
                    stamp: u64::MAX,
                });
            }
        }
    }
    Ok(found)
}

fn damaged(damage: BlockDamage) -> Error {
    Error::Damage {
        file: damage.place,
        offset: 0,
        what: damage.what,
    }
}
