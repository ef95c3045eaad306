//! Evaluation of the series of one source.

use crate::budget::{Budget, VALUE};
use crate::error::Error;
use crate::labels::{LabelTexts, Labels};
use crate::metric::Pick;
use crate::notes::Notes;
use crate::run::Run;
use crate::series::Values;
use seiner_model::{Column, FieldColumn, SourceId};
use seiner_store::{Piece, Results};
use std::borrow::Cow;

/// Labels of series with their values.
pub type Found = Vec<(Labels, Values)>;

/// Source with the evaluations of its fields.
pub struct Source<R> {
    /// Number of the source.
    pub number: SourceId,
    /// Labels and evaluations of the fields.
    runs: Vec<(Labels, R)>,
    /// Indices of these fields in the pieces.
    columns: Vec<usize>,
}

impl<R: Run> Source<R> {
    /// Creates the evaluations of the source of a piece.
    pub fn new(
        piece: &Piece,
        pick: &Pick,
        create: &(dyn Fn() -> Result<R, Error> + Sync),
        texts: &mut LabelTexts,
    ) -> Result<Source<R>, Error> {
        let (mut runs, mut columns) = (Vec::new(), Vec::new());
        for (at, (field, _)) in piece.fields.iter().enumerate() {
            let Some((_, metric)) = pick.fields.iter().find(|(known, _)| known == field) else {
                continue;
            };
            let labels = texts.labels(&piece.key, metric.clone());
            runs.push((labels, create()?));
            columns.push(at);
        }
        Ok(Source {
            number: piece.source,
            runs,
            columns,
        })
    }

    /// Returns the number of samples that a piece counts as.
    pub fn samples(&self, piece: &Piece) -> usize {
        piece.times.len() * self.columns.len().max(1)
    }

    /// Passes the rows of a piece to the evaluations.
    pub fn push(&mut self, piece: &Piece) -> Result<(), Error> {
        for ((_, run), column) in self.runs.iter_mut().zip(&self.columns) {
            if let Some(column) = &piece.columns[*column] {
                run.push(&times(&piece.times, column), &values(&column.values))?;
            }
        }
        Ok(())
    }

    /// Appends the series of the source.
    pub fn finish(self, found: &mut Found) -> Result<(), Error> {
        for (labels, run) in self.runs {
            let mut values = run.finish()?;
            values.hold_labels(&labels)?;
            found.push((labels, values));
        }
        Ok(())
    }
}

/// Returns the bytes of the rows of a piece.
pub fn bytes(piece: &Piece) -> usize {
    let columns = piece.columns.iter().flatten().count();
    piece.times.len() * (1 + columns) * VALUE
}

/// Returns the next piece. Damage becomes a warning: the other pieces are valid. An abandoned scan has ended.
pub fn next_piece(
    pieces: &mut Results<'_, Piece>,
    notes: &Notes,
    budget: &Budget,
) -> Result<Option<Piece>, Error> {
    loop {
        match pieces.next() {
            Some(Ok(piece)) => return Ok(Some(piece)),
            Some(Err(damage @ seiner_store::Error::Damage { .. })) => {
                notes.warning(damage.to_string())
            }
            Some(Err(seiner_store::Error::Abandoned)) => {
                budget.check()?;
                return Err(Error::Canceled);
            }
            Some(Err(error)) => return Err(error.into()),
            None => return Ok(None),
        }
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
