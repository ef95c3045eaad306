//! Scan: the columns of a query's sources, in pieces of bounded size.

use crate::core::Core;
use crate::error::Error;
use crate::query::damages::Damages;
use crate::query::parallel::Ordered;
use crate::query::rows::{Rows, merge};
use crate::query::source::{Source, SourceReader};
use crate::query::sweep::{Bounds, HEAVY_BYTES, Sweep};
use seiner_model::{FieldColumn, FieldType, Interval, SourceId, SourceKey};
use seiner_store::IsOver;
use std::collections::VecDeque;
use std::sync::Arc;

/// Encoded bytes of the sources that a helper decodes at a time: some milliseconds of work.
const SOURCES_BYTES: u64 = 256 << 10;
/// Maximum number of sources that a helper decodes at a time.
const SOURCES: usize = 256;

/// Part of the rows of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Source of the rows.
    pub source: SourceId,
    /// Measurement and tags of the source.
    pub key: Arc<SourceKey>,
    /// Times in ns since 1970, at least one. They ascend strictly over all pieces of the source.
    pub times: Vec<i64>,
    /// Wanted fields of the source, the same in all its pieces.
    pub fields: Vec<PieceField>,
}

/// Field in a [`Piece`].
#[derive(Clone, Debug, PartialEq)]
pub struct PieceField {
    /// Name of the field.
    pub name: Arc<str>,
    /// Type of the values.
    pub field_type: FieldType,
    /// Values, with the rows that have one. `None` if no row of the piece has a value.
    pub column: Option<FieldColumn>,
}

/// Rows of a query, source by source, in pieces. [`Engine::scan`](crate::Engine::scan) returns it.
pub struct Scan<'a> {
    reader: SourceReader<'a>,
    bounds: Bounds,
    groups: Ordered<Vec<Result<Prepared, Error>>>,
    ready: VecDeque<Result<Prepared, Error>>,
    /// Current source and its pieces.
    current: Option<Pieces<'a>>,
}

/// Source, with its rows if they fit into a piece.
struct Prepared {
    source: Arc<Source>,
    rows: Option<Rows>,
    damages: Damages,
}

/// Source of a [`Scan`] at one moment. Each reading returns the same rows.
pub struct SourceScan<'a> {
    engine: &'a Core,
    prepared: Prepared,
    bounds: Bounds,
}

/// Pieces of one source.
pub struct Pieces<'a> {
    engine: &'a Core,
    source: Arc<Source>,
    wanted: Vec<bool>,
    ready: VecDeque<Result<Rows, Error>>,
    rows: Option<SourceRows>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(reader: SourceReader<'a>, bounds: Bounds) -> Scan<'a> {
        Scan {
            reader,
            bounds,
            groups: Ordered::new(bounds.threads),
            ready: VecDeque::new(),
            current: None,
        }
    }

    /// Ends the iterator early when `is_over` returns true: without another item, or with
    /// [`Error::Abandoned`].
    pub fn until(mut self, is_over: IsOver) -> Self {
        self.reader.is_over = Some(is_over);
        self
    }

    /// Sets the number of threads that read and decode.
    pub fn threads(mut self, threads: usize) -> Self {
        self.bounds.threads = threads.max(1);
        self.groups = Ordered::new(self.bounds.threads);
        self
    }

    /// Sets the bytes for rows that wait to be merged, instead of a share of the store's memory.
    /// Pieces have about a quarter of these bytes.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.bounds = Bounds::by(bytes, self.bounds.threads);
        self
    }

    /// Returns the next source, which may have no rows. The rest of a source that was begun as
    /// pieces is omitted.
    pub fn next_source(&mut self) -> Option<Result<SourceScan<'a>, Error>> {
        self.current = None;
        if self.reader.is_over() {
            // Rows that were read ahead are not wanted either.
            self.ready.clear();
            self.groups = Ordered::new(self.bounds.threads);
            return None;
        }
        if self.ready.is_empty() {
            match self.bounds.threads {
                0 | 1 => {
                    let source = self.reader.next_source()?;
                    let bounds = self.bounds;
                    let prepared = source.and_then(|source| prepare(source, bounds));
                    self.ready.push_back(prepared);
                }
                _ => {
                    self.look_ahead();
                    self.ready.extend(self.groups.take()?);
                }
            }
        }
        let prepared = self.ready.pop_front()?;
        if matches!(prepared, Err(Error::Abandoned)) {
            self.reader.stop();
            self.ready.clear();
            self.groups = Ordered::new(self.bounds.threads);
        }
        Some(prepared.map(|prepared| SourceScan {
            engine: self.reader.engine,
            prepared,
            bounds: self.bounds,
        }))
    }

    /// Begins work on sources until enough work is ahead.
    fn look_ahead(&mut self) {
        let share = self.bounds.share();
        while self.groups.len() < self.bounds.groups() {
            let mut group: Vec<Result<Source, Error>> = Vec::new();
            let (mut bytes, mut decoded) = (0, 0);
            while group.is_empty()
                || bytes < SOURCES_BYTES && decoded < share && group.len() < SOURCES
            {
                let Some(source) = self.reader.next_source() else {
                    break;
                };
                if let Ok(source) = &source {
                    bytes += source.own.encoded_bytes();
                    decoded += decoded_bytes(source);
                }
                group.push(source);
            }
            if group.is_empty() {
                return;
            }
            let bounds = self.bounds;
            let work = move || {
                let mut found = Vec::with_capacity(group.len());
                for source in group {
                    let prepared = source.and_then(|source| prepare(source, bounds));
                    let is_over = matches!(prepared, Err(Error::Abandoned));
                    found.push(prepared);
                    if is_over {
                        break;
                    }
                }
                found
            };
            match bytes {
                ..SOURCES_BYTES if self.groups.len() == 0 => {
                    self.groups.push(work());
                    return;
                }
                _ => self.groups.begin(work),
            }
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Iterator::next) {
                return Some(piece);
            }
            match self.next_source()? {
                Ok(source) => self.current = Some(source.into_pieces()),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Returns the maximum bytes of the rows of a source. The bytes of texts are estimated.
fn decoded_bytes(source: &Source) -> usize {
    let columns = source.own.wanted_columns().count();
    source.rows_at_most() as usize * (columns + 1) * 8 + source.own.encoded_bytes() as usize
}

/// Reads a source if it fits into a piece.
fn prepare(mut source: Source, bounds: Bounds) -> Result<Prepared, Error> {
    let damages = std::mem::take(&mut source.damages);
    let fits = decoded_bytes(&source) <= bounds.piece_bytes
        && source.rows_at_most() <= bounds.piece_rows as u64
        && source.own.encoded_bytes() < HEAVY_BYTES;
    let source = Arc::new(source);
    let mut prepared = Prepared {
        rows: None,
        damages,
        source,
    };
    if fits {
        let source = prepared.source.clone();
        prepared.rows = Some(match source.single_run() {
            Some(rows) => rows,
            None => {
                let wanted = source.own.wanted.to_vec();
                let mut rows = SourceRows::new(source, wanted, bounds.alone());
                let all = rows.all()?;
                prepared.damages.extend(rows.damages);
                all
            }
        });
    }
    Ok(prepared)
}

impl<'a> SourceScan<'a> {
    /// Returns the number of the source.
    pub fn source(&self) -> SourceId {
        self.prepared.source.own.source
    }

    /// Returns the measurement and the tags of the source.
    pub fn key(&self) -> &Arc<SourceKey> {
        &self.prepared.source.own.key
    }

    /// Returns the wanted fields.
    pub fn fields(&self) -> Vec<(Arc<str>, FieldType)> {
        let own = &self.prepared.source.own;
        let columns = own.wanted_columns();
        columns
            .map(|column| (own.names()[column].clone(), own.types()[column]))
            .collect()
    }

    /// Returns whether all rows are one piece that is already in memory.
    pub fn is_small(&self) -> bool {
        self.prepared.rows.is_some()
    }

    /// Returns the pieces with all wanted fields.
    pub fn into_pieces(self) -> Pieces<'a> {
        let Prepared {
            source,
            rows,
            damages,
        } = self.prepared;
        let wanted = source.own.wanted.to_vec();
        let mut ready: VecDeque<_> = damages.report(self.engine).map(Err).collect();
        let is_small = rows.is_some();
        ready.extend(rows.filter(|rows| !rows.times.is_empty()).map(Ok));
        let rows =
            (!is_small).then(|| SourceRows::new(source.clone(), wanted.clone(), self.bounds));
        Pieces {
            engine: self.engine,
            source,
            wanted,
            ready,
            rows,
        }
    }

    /// Returns damage, the source and all its rows.
    pub(super) fn into_rows(self) -> Result<(Vec<Error>, Arc<Source>, Rows), Error> {
        let Prepared {
            source,
            rows,
            mut damages,
        } = self.prepared;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let wanted = source.own.wanted.to_vec();
                let mut all = SourceRows::new(source.clone(), wanted, self.bounds);
                let rows = all.all()?;
                damages.extend(all.damages);
                rows
            }
        };
        Ok((damages.report(self.engine).collect(), source, rows))
    }

    /// Returns pieces with one of the wanted fields, and only the rows that have it. Only the
    /// column of this field is decoded.
    ///
    /// Damage of footers is not among the items. [`SourceScan::take_damage`] returns it.
    pub fn pieces_of(&self, field: &str) -> Pieces<'a> {
        let own = &self.prepared.source.own;
        let column = own.column_of(field).filter(|column| own.wanted[*column]);
        let columns = 0..own.types().len();
        let wanted: Vec<bool> = columns.map(|other| Some(other) == column).collect();
        let source = self.prepared.source.clone();
        let rows = column.map(|_| SourceRows::new(source.clone(), wanted.clone(), self.bounds));
        Pieces {
            engine: self.engine,
            source,
            wanted,
            ready: VecDeque::new(),
            rows,
        }
    }

    /// Returns the damage that was found before the rows were read.
    pub fn take_damage(&mut self) -> impl Iterator<Item = Error> + use<> {
        std::mem::take(&mut self.prepared.damages).report(self.engine)
    }
}

impl Pieces<'_> {
    fn piece(&self, rows: Rows) -> Piece {
        let own = &self.source.own;
        let Rows { times, fields } = rows;
        let columns = fields.into_iter().enumerate();
        let columns = columns.filter(|(column, _)| self.wanted[*column]);
        let fields = columns.map(|(column, field)| PieceField {
            name: own.names()[column].clone(),
            field_type: own.types()[column],
            column: field,
        });
        Piece {
            source: own.source,
            key: own.key.clone(),
            fields: fields.collect(),
            times,
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.ready.pop_front() {
                Some(Ok(rows)) => {
                    let rows = rows.with_values();
                    if !rows.times.is_empty() {
                        return Some(Ok(self.piece(rows)));
                    }
                    continue;
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {}
            }
            let rows = self.rows.as_mut()?;
            let next = rows.piece();
            let damages = std::mem::take(&mut rows.damages);
            self.ready.extend(damages.report(self.engine).map(Err));
            match next {
                Ok(Some(rows)) => self.ready.push_back(Ok(rows)),
                Ok(None) => self.rows = None,
                Err(error) => {
                    self.rows = None;
                    self.ready.push_back(Err(error));
                }
            }
        }
    }
}

/// Rows of a source, section by section, with stand-ins for expired samples.
struct SourceRows {
    source: Arc<Source>,
    wanted: Vec<bool>,
    bounds: Bounds,
    /// Start of the next section.
    from: Option<i64>,
    sweep: Option<Sweep>,
    damages: Damages,
}

impl SourceRows {
    fn new(source: Arc<Source>, wanted: Vec<bool>, bounds: Bounds) -> SourceRows {
        SourceRows {
            from: Some(source.interval.start),
            source,
            wanted,
            bounds,
            sweep: None,
            damages: Damages::default(),
        }
    }

    /// Begins the next section.
    fn begin(&mut self) -> Result<Option<Sweep>, Error> {
        let section: Option<Interval> = self.from.and_then(|from| self.source.section(from));
        let Some(section) = section else {
            return Ok(None);
        };
        self.from = section.end.checked_add(1);
        let levels = self.source.levels_in(section, &mut self.damages)?;
        let own = &self.source.own;
        let mut given = own.open_rows(&self.wanted);
        if levels.iter().any(|level| !level.rows.is_empty()) {
            given.push(self.source.stand_ins(&levels, &self.wanted));
        }
        let wanted = self.wanted.clone();
        Ok(Some(Sweep::new(own, section, wanted, given, self.bounds)))
    }

    /// Returns the next rows, approximately as many as the bounds allow.
    fn piece(&mut self) -> Result<Option<Rows>, Error> {
        loop {
            if self.sweep.is_none() {
                self.sweep = self.begin()?;
            }
            let Some(sweep) = &mut self.sweep else {
                return Ok(None);
            };
            let rows = sweep.piece();
            self.damages.extend(std::mem::take(&mut sweep.damages));
            match rows? {
                Some(rows) => return Ok(Some(rows)),
                None => self.sweep = None,
            }
        }
    }

    /// Returns all rows.
    fn all(&mut self) -> Result<Rows, Error> {
        let mut parts = Vec::new();
        while let Some(mut sweep) = self.begin()? {
            let rows = sweep.all();
            self.damages.extend(std::mem::take(&mut sweep.damages));
            parts.push(rows?);
        }
        Ok(merge(parts, self.source.own.types()))
    }
}
