//! Answers of statements.

use crate::answer::Answer;
use crate::budget::{Budget, Limits};
use crate::context::Context;
use crate::database::Databases;
use crate::error::Error;
use crate::select::select;
use crate::show::show;
use crate::text::statement::Statement;
use seiner_store::{Stopper, Store};

/// Answers a statement. `now` is the value of `now()` in ns. A database that the statement names replaces the chosen one.
/// The statement ends when `stopper` gives a reason.
///
/// # Errors
/// If the statement has no meaning for the data, exceeds a limit, or the store fails.
pub fn run(
    store: &dyn Store,
    statement: &Statement,
    now: i64,
    databases: &Databases,
    limits: Limits,
    stopper: Stopper,
) -> Result<Answer, Error> {
    let databases = databases.with(statement.database());
    let context = Context::new(store, now, databases, Budget::new(limits, stopper));
    let tables = match statement {
        Statement::Select(query) => select(&context, query)?,
        Statement::Show(query) => show(&context, query)?,
        Statement::Create => Vec::new(),
    };
    // A query that the store ended early has no error of its own.
    context.budget.check()?;
    let zone = match statement {
        Statement::Select(query) => query.zone.clone(),
        _ => None,
    };
    Ok(Answer {
        tables,
        zone,
        warnings: context.into_warnings(),
    })
}
