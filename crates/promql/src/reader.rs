//! Reading of series from the store, source by source.

use crate::budget::{Budget, Hold, SERIES, VALUE};
use crate::error::Error;
use crate::labels::{Labels, METRIC_NAME};
use crate::metric::{Pick, ambiguous};
use crate::notes::Notes;
use crate::pool;
use crate::run::Run;
use crate::series::{Series, Sink, Values};
use seiner_model::{Column, FieldColumn, Interval};
use seiner_store::{IsOver, Piece, Query, Results, Stopper, Store};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of a source in memory, after which its evaluation begins.
const SOURCE_BYTES: usize = 4 << 20;
/// Bytes of one item of work for a thread.
const BATCH_BYTES: usize = 512 << 10;
/// Share of the bytes that a query may hold, as another bound of a source and of an item. About two items per thread
/// are in memory, which leaves most of the bytes to the results.
const SHARE: usize = 64;
/// Maximum number of sources of one item of work.
const BATCH_SOURCES: usize = 64;

/// Store, and the budget of the query that reads it.
pub struct Reader<'s> {
    /// Store.
    pub store: &'s dyn Store,
    /// Budget.
    pub budget: &'s Arc<Budget>,
    /// Notes of the query.
    pub notes: &'s Notes,
}

impl Reader<'_> {
    /// Evaluates each series of the picks in an interval, and passes on those with values.
    pub fn read<R: Run>(
        &self,
        picks: &[Pick],
        interval: Interval,
        create: &(dyn Fn() -> Result<R, Error> + Sync),
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let metric = ambiguous(picks);
        let mut seen = HashSet::new();
        let mut hold = Hold::new(self.budget, picks.iter().map(Pick::bytes).sum())?;
        let mut unique = |series: Series| {
            if let Some(metric) = &metric
                && series.labels.get(METRIC_NAME) == &**metric
            {
                hold.grow(SERIES + series.labels.bytes())?;
                if seen.insert(series.labels.clone()) {
                    return sink(series);
                }
                return Err(Error::execution(format!(
                    "two fields are the metric {metric:?} with the labels {}; rename one of them",
                    series.labels
                )));
            }
            sink(series)
        };
        for pick in picks {
            self.budget.check()?;
            self.read_pick(pick, interval, create, &mut unique)?;
        }
        Ok(())
    }

    fn read_pick<R: Run>(
        &self,
        pick: &Pick,
        interval: Interval,
        create: &(dyn Fn() -> Result<R, Error> + Sync),
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let query = Query {
            selector: pick.selector.clone(),
            fields: Some(
                pick.fields
                    .iter()
                    .map(|(field, _)| field.to_string())
                    .collect(),
            ),
            interval,
        };
        let pieces = self
            .store
            .scan(&query, self.budget.stopper().map(is_over))?;
        let mut batches = Batches {
            pieces: Some(pieces),
            next: None,
            notes: self.notes,
            budget: self.budget,
            pick,
            create,
        };
        let mut consume = |found: Vec<(Labels, Values)>| {
            found.into_iter().try_for_each(|(labels, values)| {
                let is_visible = !values.is_all_absent();
                let series = Series {
                    labels,
                    drop_name: false,
                    values,
                };
                if is_visible { sink(series) } else { Ok(()) }
            })
        };
        let Some(first) = batches.next() else {
            return self.budget.check();
        };
        // A single batch is not worth threads.
        let work = |batch: Vec<Source<R>>| finish(batch, self.budget);
        match batches.next() {
            None => consume(work(first?)?)?,
            Some(second) => pool::ordered(
                [first, second].into_iter().chain(batches),
                work,
                &mut consume,
            )?,
        }
        self.budget.check()
    }
}

fn is_over(stopper: Stopper) -> IsOver {
    Arc::new(move || stopper().is_some())
}

/// Evaluates the rest of the sources of a batch.
fn finish<R: Run>(batch: Vec<Source<R>>, budget: &Budget) -> Result<Vec<(Labels, Values)>, Error> {
    let mut found = Vec::new();
    for mut source in batch {
        budget.check()?;
        source.push()?;
        for (labels, run) in source.runs {
            let mut values = run.finish()?;
            values.hold_labels(&labels)?;
            found.push((labels, values));
        }
    }
    Ok(found)
}

/// Source with the evaluations of its fields, and rows that they have not received.
struct Source<R> {
    /// Labels and evaluations of the fields.
    runs: Vec<(Labels, R)>,
    /// Indices of these fields in the pieces.
    columns: Vec<usize>,
    pieces: Vec<Piece>,
    bytes: usize,
    /// Account of the pieces.
    hold: Hold,
}

impl<R: Run> Source<R> {
    fn new(
        piece: &Piece,
        pick: &Pick,
        create: &(dyn Fn() -> Result<R, Error> + Sync),
        hold: Hold,
    ) -> Result<Source<R>, Error> {
        let (mut runs, mut columns) = (Vec::new(), Vec::new());
        for (at, (field, _)) in piece.fields.iter().enumerate() {
            let Some((_, metric)) = pick.fields.iter().find(|(known, _)| known == field) else {
                continue;
            };
            let tags = piece.key.tags().iter();
            let mut labels: Labels = tags
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            labels.set(METRIC_NAME, metric.clone());
            runs.push((labels, create()?));
            columns.push(at);
        }
        Ok(Source {
            runs,
            columns,
            pieces: Vec::new(),
            bytes: 0,
            hold,
        })
    }

    /// Passes the rows in memory to the evaluations.
    fn push(&mut self) -> Result<(), Error> {
        for piece in self.pieces.drain(..) {
            for ((_, run), column) in self.runs.iter_mut().zip(&self.columns) {
                if let Some(column) = &piece.columns[*column] {
                    run.push(&times(&piece.times, column), &values(&column.values))?;
                }
            }
        }
        self.hold.shrink(self.bytes);
        self.bytes = 0;
        Ok(())
    }
}

/// Returns the times of the rows that have a value.
fn times<'a>(times: &'a [i64], column: &FieldColumn) -> Cow<'a, [i64]> {
    match &column.present {
        None => Cow::Borrowed(times),
        Some(bits) => {
            let rows = times.iter().zip(bits.iter()).filter(|(_, has)| *has);
            rows.map(|(time, _)| *time).collect()
        }
    }
}

/// Returns values as floats. Booleans are 0 and 1.
fn values(column: &Column) -> Cow<'_, [f64]> {
    match column {
        Column::F64(values) => Cow::Borrowed(values),
        Column::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
        Column::I64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::U64(values) => values.iter().map(|value| *value as f64).collect(),
        Column::Bool(values) => values
            .iter()
            .map(|value| f64::from(u8::from(*value)))
            .collect(),
        Column::Str(values) => vec![f64::NAN; values.len()].into(),
    }
}

/// Iterator that groups pieces to sources, and sources to batches. It evaluates the rows of large sources itself.
struct Batches<'q, R> {
    pieces: Option<Results<'q, Piece>>,
    /// First piece of the next source.
    next: Option<Piece>,
    notes: &'q Notes,
    budget: &'q Arc<Budget>,
    pick: &'q Pick,
    create: &'q (dyn Fn() -> Result<R, Error> + Sync),
}

impl<R: Run> Iterator for Batches<'_, R> {
    type Item = Result<Vec<Source<R>>, Error>;

    fn next(&mut self) -> Option<Result<Vec<Source<R>>, Error>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_SOURCES && bytes < self.at_most(BATCH_BYTES) {
            match self.source() {
                Ok(Some(source)) => {
                    bytes += source.bytes;
                    batch.push(source);
                }
                Ok(None) => break,
                Err(error) => {
                    self.pieces = None;
                    return Some(Err(error));
                }
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }
}

impl<R: Run> Batches<'_, R> {
    /// Returns a number of bytes, or less if the query may hold few bytes.
    fn at_most(&self, bytes: usize) -> usize {
        bytes.min(self.budget.limits().bytes / SHARE)
    }

    /// Returns the next source.
    fn source(&mut self) -> Result<Option<Source<R>>, Error> {
        let first = match self.next.take() {
            Some(piece) => piece,
            None => match self.piece()? {
                Some(piece) => piece,
                None => return Ok(None),
            },
        };
        let number = first.source;
        let mut source = Source::new(&first, self.pick, self.create, Hold::new(self.budget, 0)?)?;
        let mut piece = Some(first);
        while let Some(current) = piece {
            if current.source != number {
                self.next = Some(current);
                break;
            }
            self.budget
                .read(current.times.len() * source.columns.len().max(1))?;
            let columns = current.columns.iter().flatten().count();
            let bytes = current.times.len() * (1 + columns) * VALUE;
            source.hold.grow(bytes)?;
            source.bytes += bytes;
            source.pieces.push(current);
            if source.bytes >= self.at_most(SOURCE_BYTES) {
                source.push()?;
            }
            piece = self.piece()?;
        }
        Ok(Some(source))
    }

    /// Returns the next piece. Damage becomes a warning: the other pieces are valid.
    fn piece(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            match self.pieces.as_mut().and_then(Iterator::next) {
                Some(Ok(piece)) => return Ok(Some(piece)),
                Some(Err(damage @ seiner_store::Error::Damage { .. })) => {
                    self.notes.warning(damage.to_string())
                }
                Some(Err(seiner_store::Error::Abandoned)) => {
                    self.pieces = None;
                    self.budget.check()?;
                    return Err(Error::Canceled);
                }
                Some(Err(error)) => return Err(error.into()),
                None => {
                    self.pieces = None;
                    return Ok(None);
                }
            }
        }
    }
}
