//! Evaluation of a plan, at all steps of a query.
//!
//! Series are passed on one by one where an expression permits it, so that an aggregation of many series keeps only
//! its groups in memory.

mod calls;
mod scalar;
mod windows;

pub use windows::samples;

use crate::aggregate::choose::Chooser;
use crate::aggregate::{Grouping, Reducer, count_values, quantiles};
use crate::binary;
use crate::budget::Budget;
use crate::error::Error;
use crate::instant::Instant;
use crate::kind::Kind;
use crate::metric;
use crate::notes::Notes;
use crate::plan::{Aggregate, Aggregator, Binary, Node, Operator, Selector, Set, Side};
use crate::reader::Reader;
use crate::series::{ABSENT, Series, Sink, Steps, Values, join_equal};
use crate::unique::names_are_unique;
use seiner_model::Interval;
use seiner_store::Store;
use std::sync::Arc;

/// Evaluator of one query.
pub struct Evaluator<'s> {
    /// Store.
    pub store: &'s dyn Store,
    /// Budget of the query.
    pub budget: Arc<Budget>,
    /// Warnings and hints.
    pub notes: Notes,
    /// Steps of the query.
    pub query: Steps,
    /// Maximum age of the samples of an instant selector, ns.
    pub lookback: i64,
    /// True if names of metrics are dropped at the end of the query instead of by each function.
    pub delayed_names: bool,
    /// Maximum number of threads that read and evaluate series.
    pub threads: usize,
}

impl Evaluator<'_> {
    /// Evaluates a vector, and returns all series.
    pub fn vector(&self, node: &Node, steps: Steps) -> Result<Vec<Series>, Error> {
        let mut all = Vec::new();
        self.each(node, steps, &mut |series| {
            all.push(series);
            Ok(())
        })?;
        Ok(all)
    }

    /// Evaluates a vector, and passes on series by series. No series has no value at all.
    pub fn each(&self, node: &Node, steps: Steps, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.budget.check()?;
        match node {
            Node::Selector(selector) => self.select(selector, steps, false, sink),
            Node::Negate(inner) => self.map(
                inner,
                steps,
                true,
                &|values| values.map(|value| -value),
                sink,
            ),
            Node::Call(function, arguments) => self.call(*function, arguments, steps, sink),
            Node::Binary(binary) => self.binary(binary, steps, sink),
            Node::Aggregate(aggregate) => pass(self.aggregate(aggregate, steps)?, sink),
            Node::Number(_) | Node::Text(_) | Node::Range(_) => Err(expected(Kind::Vector, node)),
        }
    }

    /// Passes on the series of a node with changed values. If names are dropped, equal labels are an error.
    fn map(
        &self,
        node: &Node,
        steps: Steps,
        drops_name: bool,
        change: &dyn Fn(&mut Values),
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let mut all = Vec::new();
        let collects = drops_name && !self.delayed_names && !names_are_unique(node);
        self.each(node, steps, &mut |mut series| {
            change(&mut series.values);
            if drops_name {
                self.drop_name(&mut series);
            }
            match collects {
                _ if series.values.is_all_absent() => Ok(()),
                true => {
                    all.push(series);
                    Ok(())
                }
                false => sink(series),
            }
        })?;
        pass(join_equal(all)?, sink)
    }

    fn drop_name(&self, series: &mut Series) {
        series.drop_name = true;
        if !self.delayed_names {
            series.labels.remove_metadata();
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            store: self.store,
            budget: &self.budget,
            notes: &self.notes,
            threads: self.threads,
        }
    }

    fn select(
        &self,
        selector: &Selector,
        steps: Steps,
        of_times: bool,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let picks = metric::picks(self.store, &selector.matchers)?;
        let create = || {
            Ok(Instant {
                steps,
                shift: selector.shift,
                lookback: self.lookback,
                of_times,
                latest: None,
                usual: 0,
                next: 0,
                values: Values::filled(&self.budget, steps.count, ABSENT)?,
            })
        };
        let interval = interval(selector, steps, self.lookback);
        self.reader().read(&picks, interval, &create, sink)
    }

    fn binary(&self, binary: &Binary, steps: Steps, sink: &mut Sink<'_>) -> Result<(), Error> {
        let drops_name = binary.returns_bool || matches!(binary.operator, Operator::Arithmetic(_));
        let with_scalar = |side, node: &Node, scalar: Values, sink: &mut Sink<'_>| {
            let change = |values: &mut Values| {
                binary::with_scalar(binary.operator, binary.returns_bool, side, &scalar, values)
            };
            self.map(node, steps, drops_name, &change, sink)
        };
        match (binary.left.kind(), binary.right.kind()) {
            (Kind::Scalar, _) => with_scalar(
                Side::Left,
                &binary.right,
                self.scalar(&binary.left, steps)?,
                sink,
            ),
            (_, Kind::Scalar) => with_scalar(
                Side::Right,
                &binary.left,
                self.scalar(&binary.right, steps)?,
                sink,
            ),
            _ => {
                let (left, right) = (
                    self.vector(&binary.left, steps)?,
                    self.vector(&binary.right, steps)?,
                );
                let results = match binary.operator {
                    Operator::Set(operator) => {
                        let results =
                            binary::sets(&self.budget, operator, &binary.matching, left, right)?;
                        match operator {
                            Set::Or if !self.delayed_names => join_equal(results)?,
                            _ => results,
                        }
                    }
                    _ => binary::vectors(
                        &self.budget,
                        steps,
                        binary,
                        self.delayed_names,
                        &left,
                        &right,
                    )?,
                };
                pass(results, sink)
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate, steps: Steps) -> Result<Vec<Series>, Error> {
        let operator = aggregate.operator;
        let grouping = Grouping::new(aggregate.without, &aggregate.labels);
        let parameter = match &aggregate.parameter {
            Some(node) if node.kind() == Kind::Scalar => Some(self.scalar(node, steps)?),
            _ => None,
        };
        match (operator, &parameter, &aggregate.parameter) {
            (Aggregator::CountValues, _, Some(Node::Text(label))) => {
                let mut labels = aggregate.labels.clone();
                if !aggregate.without {
                    labels.push(label.as_str().into());
                }
                let grouping = Grouping::new(aggregate.without, &labels);
                let input = self.vector(&aggregate.input, steps)?;
                count_values(&self.budget, steps, (label, grouping), &input)
            }
            (Aggregator::Quantile, Some(q), _) => {
                let input = self.vector(&aggregate.input, steps)?;
                quantiles(&self.budget, &self.notes, steps, (q, grouping), input)
            }
            (_, Some(parameter), _) => {
                let rule = (operator, &parameter[..], grouping);
                let mut chooser = Chooser::new(&self.notes, steps, rule);
                self.each(&aggregate.input, steps, &mut |series| chooser.add(series))?;
                chooser.finish()
            }
            _ => {
                let mut reducer = Reducer::new(&self.budget, steps, operator, grouping);
                self.each(&aggregate.input, steps, &mut |series| reducer.add(&series))?;
                reducer.finish()
            }
        }
    }
}

/// Returns the interval of the samples that a selector reads, with a range or lookback of `length` ns.
fn interval(selector: &Selector, steps: Steps, length: i64) -> Interval {
    let first = selector.shift.apply(steps.start);
    let last = selector.shift.apply(steps.end());
    Interval::new(first.saturating_sub(length).saturating_add(1), last)
}

fn pass(series: Vec<Series>, sink: &mut Sink<'_>) -> Result<(), Error> {
    series.into_iter().try_for_each(sink)
}

fn expected(kind: Kind, node: &Node) -> Error {
    Error::invalid(format!(
        "expected type {}, got {}",
        kind.name(),
        node.kind().name()
    ))
}
