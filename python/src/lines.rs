//! Writes of line protocol.

use crate::append::{Outcome, ROWS_AT_ONCE};
use crate::failure::Failure;
use seiner_model::Batch;
use seiner_store::Store;
use seiner_wire::line::{Arena, LineNotation, LineParser, Precision};

/// Appends the lines of a text. Rejected lines are listed by their numbers, from 1.
pub fn write(
    store: &dyn Store,
    text: &[u8],
    precision: Precision,
    now: i64,
) -> Result<Outcome, Failure> {
    let mut parser = LineParser::new(precision);
    let mut outcome = Outcome::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (arena, mut batch, mut errors) = (Arena::new(), Batch::new(), Vec::new());
        let read = parser.parse(
            rest,
            true,
            now,
            ROWS_AT_ONCE,
            &arena,
            &mut batch,
            &mut errors,
        );
        outcome.rejected_total += errors.len();
        for error in errors {
            outcome.reject(error.line, error.reason.to_string());
        }
        let receipt = store.append(&LineNotation, &batch)?;
        outcome.add(&receipt, |row| parser.line_of_row(row));
        rest = &rest[read..];
    }
    outcome.rejected.sort_by_key(|(line, _)| *line);
    Ok(outcome)
}
