//! Pieces: the columns of one source, some rows at a time.

use crate::answer::SeriesData;
use crate::error::Error;
use seiner_model::{Bitmap, Column, FieldColumn, FieldType, SourceId, SourceKey};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of rows of a piece.
pub const PIECE_ROWS: usize = 8192;

/// Rows of one source, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Number of the source.
    pub source: SourceId,
    /// Measurement and tags of the source.
    pub key: Arc<SourceKey>,
    /// Names and types of the fields, the same for all pieces of a source in one scan.
    pub fields: Arc<[(Arc<str>, FieldType)]>,
    /// Times of the rows in ns, at least one and at most [`PIECE_ROWS`], strictly ascending over all pieces of
    /// the source.
    pub times: Vec<i64>,
    /// Column of each field. `None` if no row of the piece has a value.
    pub columns: Vec<Option<FieldColumn>>,
}

impl Piece {
    /// Returns the samples of each field that has any.
    pub fn into_series(self) -> impl Iterator<Item = SeriesData> {
        let Piece {
            source,
            key,
            fields,
            times,
            columns,
        } = self;
        columns
            .into_iter()
            .enumerate()
            .filter_map(move |(at, column)| {
                let FieldColumn { present, values } = column?;
                let times = match present {
                    None => times.clone(),
                    Some(bits) => {
                        let rows = times.iter().zip(bits.iter());
                        rows.filter(|(_, has)| *has)
                            .map(|(time, _)| *time)
                            .collect()
                    }
                };
                Some(SeriesData {
                    source,
                    key: key.clone(),
                    field: fields[at].0.clone(),
                    times,
                    values,
                })
            })
    }

    /// Returns the pieces of the series of one source.
    ///
    /// # Panics
    /// If the series belong to several sources.
    pub fn of_series(series: Vec<SeriesData>) -> Pieces {
        let all: BTreeSet<i64> = series
            .iter()
            .flat_map(|series| series.times.iter().copied())
            .collect();
        let source = series
            .first()
            .map(|series| (series.source, series.key.clone()));
        assert!(
            series
                .iter()
                .all(|other| Some(other.source) == source.as_ref().map(|source| source.0)),
            "the series belong to one source"
        );
        let fields = series
            .iter()
            .map(|series| (series.field.clone(), series.values.field_type()));
        Pieces {
            source,
            fields: fields.collect(),
            times: all.into_iter().collect(),
            at: 0,
            next: vec![0; series.len()],
            series,
        }
    }
}

/// Pieces of one source, in the order of their times.
pub struct Pieces {
    source: Option<(SourceId, Arc<SourceKey>)>,
    fields: Arc<[(Arc<str>, FieldType)]>,
    /// Times of all rows.
    times: Vec<i64>,
    /// Index of the next row.
    at: usize,
    series: Vec<SeriesData>,
    /// Index of the next sample of each series.
    next: Vec<usize>,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let end = self.times.len().min(self.at + PIECE_ROWS);
        let times = self.times[self.at..end].to_vec();
        let (source, key) = self.source.clone().filter(|_| !times.is_empty())?;
        self.at = end;
        let columns = self.series.iter().zip(&mut self.next);
        let columns = columns.map(|(series, next)| column(series, next, &times));
        Some(Piece {
            source,
            key,
            fields: self.fields.clone(),
            columns: columns.collect(),
            times,
        })
    }
}

/// Returns the samples of a series at the given times, searching from index `next`.
fn column(series: &SeriesData, next: &mut usize, times: &[i64]) -> Option<FieldColumn> {
    let mut values = Column::new(series.values.field_type());
    let mut present = Bitmap::new();
    for time in times {
        let has = series.times.get(*next) == Some(time);
        if has {
            values.push(series.values.get(*next));
            *next += 1;
        }
        present.push(has);
    }
    let whole = values.len() == times.len();
    (!values.is_empty()).then_some(FieldColumn {
        present: (!whole).then_some(present),
        values,
    })
}

/// Iterator that divides series, ordered by source, into pieces. An error comes before the pieces
/// of its source.
pub struct Cut<I> {
    series: I,
    source: Vec<SeriesData>,
    pieces: Option<Pieces>,
    /// First series of the next source, or an error before it.
    ready: VecDeque<Result<SeriesData, Error>>,
}

impl<I: Iterator<Item = Result<SeriesData, Error>>> Cut<I> {
    /// Divides `series` into pieces.
    pub fn new(series: I) -> Cut<I> {
        Cut {
            series,
            source: Vec::new(),
            pieces: None,
            ready: VecDeque::new(),
        }
    }
}

impl<I: Iterator<Item = Result<SeriesData, Error>>> Iterator for Cut<I> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Result<Piece, Error>> {
        loop {
            if let Some(piece) = self.pieces.as_mut().and_then(Iterator::next) {
                return Some(Ok(piece));
            }
            self.pieces = None;
            match self.ready.pop_front().or_else(|| self.series.next()) {
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(series))
                    if self
                        .source
                        .first()
                        .is_none_or(|first| first.source == series.source) =>
                {
                    self.source.push(series);
                }
                next => {
                    if self.source.is_empty() {
                        return None;
                    }
                    self.ready.extend(next);
                    self.pieces = Some(Piece::of_series(std::mem::take(&mut self.source)));
                }
            }
        }
    }
}

/// Joins the pieces of each source to its series, field by field.
pub(crate) struct Join<I> {
    pieces: I,
    source: Option<SourceId>,
    series: Vec<SeriesData>,
    ready: VecDeque<Result<SeriesData, Error>>,
}

impl<I: Iterator<Item = Result<Piece, Error>>> Join<I> {
    pub fn new(pieces: I) -> Join<I> {
        Join {
            pieces,
            source: None,
            series: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    fn add(&mut self, piece: Piece) {
        self.source = Some(piece.source);
        for new in piece.into_series() {
            let known = self.series.iter_mut();
            match known.into_iter().find(|series| series.field == new.field) {
                Some(series) => {
                    series.times.extend(&new.times);
                    for at in 0..new.values.len() {
                        series.values.push(new.values.get(at));
                    }
                }
                None => self.series.push(new),
            }
        }
    }
}

impl<I: Iterator<Item = Result<Piece, Error>>> Iterator for Join<I> {
    type Item = Result<SeriesData, Error>;

    fn next(&mut self) -> Option<Result<SeriesData, Error>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            match self.pieces.next() {
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(piece)) => {
                    if self.source.is_some_and(|source| source != piece.source) {
                        self.ready.extend(self.series.drain(..).map(Ok));
                    }
                    self.add(piece);
                }
                None if self.series.is_empty() => return None,
                None => self.ready.extend(self.series.drain(..).map(Ok)),
            }
        }
    }
}
