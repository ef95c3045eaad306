//! Reading of series from the store, source by source.
//!
//! The threads of a query scan and evaluate different sources. The series of all threads are passed on by one thread, in
//! the order of the sources: the same series in the same order, however many threads there are. A sum of floats is
//! therefore the same, bit for bit.

use crate::batches::Batches;
use crate::budget::{Budget, Hold, SERIES};
use crate::divided::Divided;
use crate::error::Error;
use crate::labels::METRIC_NAME;
use crate::metric::{Pick, ambiguous};
use crate::notes::Notes;
use crate::run::Run;
use crate::series::{Series, Sink};
use crate::source::Found;
use seiner_model::Interval;
use seiner_store::{IsOver, Query, Stopper, Store};
use std::collections::HashSet;
use std::sync::Arc;

/// Minimum number of sources per thread that are divided among threads. A store reads fewer sources on several threads
/// itself, if they are large.
const SOURCES_PER_THREAD: usize = 2;

/// Store, and the budget of the query that reads it.
pub struct Reader<'s> {
    /// Store.
    pub store: &'s dyn Store,
    /// Budget.
    pub budget: &'s Arc<Budget>,
    /// Notes of the query.
    pub notes: &'s Notes,
    /// Maximum number of threads.
    pub threads: usize,
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
        let is_over = || self.budget.stopper().map(is_over);
        let mut consume = |found: Found| {
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
        let parts = self.store.parts(&query, self.threads, is_over())?;
        let parts = parts.filter(|parts| parts.sources() >= SOURCES_PER_THREAD * self.threads);
        match parts {
            Some(parts) => Divided {
                parts: &*parts,
                notes: self.notes,
                budget: self.budget,
                pick,
                create,
            }
            .read(self.threads, &mut consume)?,
            None => {
                let pieces = self.store.scan(&query, is_over())?;
                let batches = Batches::new(pieces, self.notes, self.budget, pick, create);
                batches.read(self.threads, &mut consume)?;
            }
        }
        self.budget.check()
    }
}

fn is_over(stopper: Stopper) -> IsOver {
    Arc::new(move || stopper().is_some())
}
