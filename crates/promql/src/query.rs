//! Queries: evaluation of a text at one time or at many times.

use crate::answer::{Answer, Data, Raw};
use crate::budget::{Budget, Hold, Limits, SAMPLE};
use crate::error::Error;
use crate::evaluator::{Evaluator, samples};
use crate::functions::relabel::check_unique;
use crate::kind::Kind;
use crate::metric;
use crate::notes::Notes;
use crate::parse::{Context, parse};
use crate::plan::Matcher;
use crate::plan::{Node, Range};
use crate::pool::threads;
use crate::raw::collect;
use crate::reader::Reader;
use crate::series::{Series, Steps, is_absent};
use crate::stack::on_large_stack;
use seiner_model::Interval;
use seiner_store::{Stopper, Store};
use std::sync::Arc;

/// Options of queries.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum age of the samples of an instant selector, exclusive, ns.
    pub lookback: i64,
    /// Step of subqueries without one, ns.
    pub default_step: i64,
    /// True if names of metrics are dropped at the end of the query, as with Prometheus' feature
    /// `promql-delayed-name-removal`.
    pub delayed_names: bool,
    /// Maximum number of threads that read and evaluate series. The answer does not depend on the number.
    pub threads: usize,
    /// Limits.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lookback: 300_000_000_000,
            default_step: 60_000_000_000,
            delayed_names: false,
            threads: threads(),
            limits: Limits::default(),
        }
    }
}

/// Evaluates a query at one time, in ns.
///
/// # Errors
/// If the query is invalid, exceeds a limit or is ended by `stopper`, or the store fails.
pub fn instant(
    store: &dyn Store,
    text: &str,
    time: i64,
    options: &Options,
    stopper: Option<Stopper>,
) -> Result<Answer, Error> {
    on_large_stack(|| {
        let evaluation = Evaluation::new(store, text, Steps::one(time), options, stopper)?;
        let data = evaluation.instant()?;
        Ok(evaluation.answer(data))
    })
}

/// Evaluates a query at the steps, whose last is not after `end`.
///
/// # Errors
/// As [`instant`].
pub fn range(
    store: &dyn Store,
    text: &str,
    (start, end, step): (i64, i64, i64),
    options: &Options,
    stopper: Option<Stopper>,
) -> Result<Answer, Error> {
    if step < 1 {
        return Err(Error::invalid(
            "zero or negative query resolution step widths are not accepted. Try a positive integer",
        ));
    }
    if end < start {
        return Err(Error::invalid(
            "end timestamp must not be before start time",
        ));
    }
    let count = (i128::from(end) - i128::from(start)) / i128::from(step) + 1;
    if count > options.limits.steps as i128 {
        let limit = options.limits.steps;
        return Err(Error::Limit(format!(
            "query has {count} steps, more than {limit} (limit max_steps)"
        )));
    }
    let steps = Steps {
        start,
        step,
        count: count as usize,
    };
    on_large_stack(|| {
        let mut evaluation = Evaluation::new(store, text, steps, options, stopper)?;
        evaluation.end = end;
        let data = evaluation.range()?;
        Ok(evaluation.answer(data))
    })
}

/// Returns the samples of the selected series in an interval, sorted by their labels, with stale markers. Returns
/// warnings as well.
///
/// # Errors
/// As [`instant`].
pub fn samples_of(
    store: &dyn Store,
    matchers: &[Matcher],
    interval: Interval,
    limits: &Limits,
    stopper: Option<Stopper>,
) -> Result<(Vec<Raw>, Vec<String>), Error> {
    let budget = Arc::new(Budget::new(limits.clone(), stopper));
    let notes = Notes::default();
    let reader = Reader {
        store,
        budget: &budget,
        notes: &notes,
        threads: threads(),
    };
    let picks = metric::picks(store, matchers)?;
    let mut found = collect(&reader, &picks, interval, true)?;
    found.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok((found, notes.take().0))
}

struct Evaluation<'s> {
    evaluator: Evaluator<'s>,
    node: Node,
    steps: Steps,
    end: i64,
}

impl<'s> Evaluation<'s> {
    fn new(
        store: &'s dyn Store,
        text: &str,
        steps: Steps,
        options: &Options,
        stopper: Option<Stopper>,
    ) -> Result<Evaluation<'s>, Error> {
        let context = Context {
            start: steps.start,
            end: steps.end(),
            step: steps.step,
            default_step: options.default_step,
        };
        let node = parse(text, context)?;
        let evaluator = Evaluator {
            store,
            budget: Arc::new(Budget::new(options.limits.clone(), stopper)),
            notes: Notes::default(),
            query: steps,
            lookback: options.lookback,
            delayed_names: options.delayed_names,
            threads: options.threads,
        };
        Ok(Evaluation {
            evaluator,
            node,
            steps,
            end: steps.end(),
        })
    }

    fn answer(&self, data: Data) -> Answer {
        let (warnings, infos) = self.evaluator.notes.take();
        Answer {
            data,
            warnings,
            infos,
        }
    }

    fn instant(&self) -> Result<Data, Error> {
        let time = self.steps.start;
        match (self.node.kind(), &self.node) {
            (Kind::Scalar, node) => Ok(Data::Scalar(
                time,
                self.evaluator.scalar(node, self.steps)?[0],
            )),
            (Kind::Text, Node::Text(text)) => Ok(Data::Text(time, text.clone())),
            (_, Node::Range(range)) => Ok(Data::Samples(self.samples(range)?)),
            (_, node) => {
                let series = self.finish(self.evaluator.vector(node, self.steps)?)?;
                self.check_points(series.len())?;
                let values = series
                    .into_iter()
                    .map(|series| (series.labels, series.values[0]));
                Ok(Data::Vector(time, values.collect()))
            }
        }
    }

    fn range(&self) -> Result<Data, Error> {
        let series = match self.node.kind() {
            Kind::Scalar => vec![Series {
                labels: Default::default(),
                drop_name: false,
                values: self.evaluator.scalar(&self.node, self.steps)?,
            }],
            Kind::Vector => self.evaluator.vector(&self.node, self.steps)?,
            other => {
                return Err(Error::invalid(format!(
                    "invalid expression type \"{}\" for range query, must be Scalar or instant Vector",
                    other.name()
                )));
            }
        };
        let mut series = self.finish(series)?;
        let points = series.iter().map(|series| {
            series
                .values
                .iter()
                .filter(|value| !is_absent(**value))
                .count()
        });
        self.check_points(points.sum())?;
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(Data::Matrix(self.steps, series))
    }

    /// Drops the names that had to be kept until the end.
    fn finish(&self, mut series: Vec<Series>) -> Result<Vec<Series>, Error> {
        if self.evaluator.delayed_names {
            for one in series.iter_mut().filter(|one| one.drop_name) {
                one.labels.remove_metadata();
            }
            check_unique(&series)?;
        }
        Ok(series)
    }

    fn check_points(&self, points: usize) -> Result<(), Error> {
        let limit = self.evaluator.budget.limits().points;
        match points > limit {
            true => Err(Error::Limit(format!(
                "the answer has {points} points, more than {limit} (limit max_points); use a longer step or fewer series"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the samples of a range vector.
    fn samples(&self, range: &Range) -> Result<Vec<Raw>, Error> {
        let budget = &self.evaluator.budget;
        let mut found: Vec<Raw> = Vec::new();
        match range {
            Range::Subquery(subquery) => {
                let Some(inner) = self.evaluator.subquery_steps(subquery, self.steps)? else {
                    return Ok(found);
                };
                let series = self.finish(self.evaluator.vector(&subquery.node, inner)?)?;
                let samples_of_all = SAMPLE * inner.count * series.len();
                let _hold = Hold::new(budget, samples_of_all)?;
                found.extend(series.into_iter().map(|series| {
                    let (times, values) = samples(&series.values, inner);
                    Raw {
                        labels: series.labels,
                        times,
                        values,
                    }
                }));
            }
            Range::Selector { selector, range } => {
                let picks = metric::picks(self.evaluator.store, &selector.matchers)?;
                let end = selector.shift.apply(self.end);
                let interval = Interval::new(end.saturating_sub(*range).saturating_add(1), end);
                let reader = Reader {
                    store: self.evaluator.store,
                    budget,
                    notes: &self.evaluator.notes,
                    threads: self.evaluator.threads,
                };
                found = collect(&reader, &picks, interval, false)?;
            }
        }
        found.retain(|raw| !raw.times.is_empty());
        self.check_points(found.iter().map(|raw| raw.times.len()).sum())?;
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }
}
