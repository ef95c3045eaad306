//! Evaluation of functions of instant vectors.

use super::{Evaluator, pass};
use crate::error::Error;
use crate::functions::{Function, elementwise, histogram, order, relabel};
use crate::labels::Labels;
use crate::numbers::seconds;
use crate::plan::Node;
use crate::series::{ABSENT, Series, Sink, Steps, Values, is_absent, join_equal};

impl Evaluator<'_> {
    pub(super) fn call(
        &self,
        function: Function,
        arguments: &[Node],
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let scalar = |at: usize| self.scalar(&arguments[at], steps);
        match function {
            Function::Map(function) => self.map(
                &arguments[0],
                steps,
                true,
                &|values| values.map(function),
                sink,
            ),
            Function::Date(function) => self.dates(function, arguments.first(), steps, sink),
            Function::Round => {
                let nearest = match arguments.len() {
                    1 => Values::filled(&self.budget, steps.count, 1.0)?,
                    _ => scalar(1)?,
                };
                let change = |values: &mut Values| {
                    zip(values, |at, value| elementwise::round(value, nearest[at]))
                };
                self.map(&arguments[0], steps, true, &change, sink)
            }
            Function::Clamp => self.clamp(&arguments[0], scalar(1)?, scalar(2)?, steps, sink),
            Function::ClampMin => {
                let max = Values::filled(&self.budget, steps.count, f64::INFINITY)?;
                self.clamp(&arguments[0], scalar(1)?, max, steps, sink)
            }
            Function::ClampMax => {
                let min = Values::filled(&self.budget, steps.count, f64::NEG_INFINITY)?;
                self.clamp(&arguments[0], min, scalar(1)?, steps, sink)
            }
            Function::Timestamp => self.timestamps(&arguments[0], steps, sink),
            Function::Window(function) => self.window(function, arguments, steps, sink),
            Function::Absent => self.absent(&arguments[0], steps, sink),
            Function::AbsentOverTime => self.absent_over_time(&arguments[0], steps, sink),
            Function::Vector => sink(Series {
                labels: Labels::new(),
                drop_name: false,
                values: scalar(0)?,
            }),
            // Computes the argument as well, because it may contain an error.
            Function::NativeHistogram => self.each(&arguments[0], steps, &mut |_| Ok(())),
            _ => pass(self.whole(function, arguments, steps)?, sink),
        }
    }

    /// Evaluates functions that need all series at once.
    fn whole(
        &self,
        function: Function,
        arguments: &[Node],
        steps: Steps,
    ) -> Result<Vec<Series>, Error> {
        match function {
            Function::HistogramQuantile => {
                let q = self.scalar(&arguments[0], steps)?;
                let input = self.vector(&arguments[1], steps)?;
                let results = histogram::quantiles(&self.budget, &self.notes, steps, &q, input)?;
                join_equal(results)
            }
            Function::HistogramFraction => {
                let (lower, upper) = (
                    self.scalar(&arguments[0], steps)?,
                    self.scalar(&arguments[1], steps)?,
                );
                let input = self.vector(&arguments[2], steps)?;
                let results = histogram::fractions(
                    &self.budget,
                    &self.notes,
                    steps,
                    (&lower, &upper),
                    input,
                )?;
                join_equal(results)
            }
            _ => {
                let mut series = self.vector(&arguments[0], steps)?;
                let texts = texts(&arguments[1..]);
                match (function, texts.as_slice()) {
                    (Function::LabelReplace, [target, replacement, source, pattern]) => {
                        relabel::replace(&mut series, target, replacement, source, pattern)?;
                    }
                    (Function::LabelJoin, [target, separator, sources @ ..]) => {
                        relabel::join(&mut series, target, separator, sources)?;
                    }
                    (Function::Sort { descending }, _) if steps.count == 1 => {
                        order::by_value(&mut series, descending);
                    }
                    (Function::SortByLabel { descending }, names) => {
                        order::by_label(&mut series, names, descending)
                    }
                    _ => {}
                }
                Ok(series)
            }
        }
    }

    fn clamp(
        &self,
        node: &Node,
        min: Values,
        max: Values,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let change = |values: &mut Values| {
            zip(values, |at, value| match max[at] < min[at] {
                true => ABSENT,
                false => elementwise::clamp(value, min[at], max[at]),
            });
        };
        self.map(node, steps, true, &change, sink)
    }

    fn dates(
        &self,
        function: fn(i64) -> f64,
        argument: Option<&Node>,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        if let Some(node) = argument {
            return self.map(
                node,
                steps,
                true,
                &|values| values.map(|value| function(value as i64)),
                sink,
            );
        }
        let mut values = Values::filled(&self.budget, steps.count, 0.0)?;
        for (at, value) in values.iter_mut().enumerate() {
            *value = function(steps.time(at).div_euclid(1_000_000_000));
        }
        sink(Series {
            labels: Labels::new(),
            drop_name: false,
            values,
        })
    }

    /// Evaluates `timestamp`: the times of samples if the argument is a selector, otherwise the times of the steps.
    fn timestamps(&self, node: &Node, steps: Steps, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Node::Selector(selector) = node else {
            let change = |values: &mut Values| zip(values, |at, _| seconds(steps.time(at)));
            return self.map(node, steps, true, &change, sink);
        };
        let mut all = Vec::new();
        self.select(selector, steps, true, &mut |mut series| {
            self.drop_name(&mut series);
            all.push(series);
            Ok(())
        })?;
        let joined = if self.delayed_names {
            all
        } else {
            join_equal(all)?
        };
        pass(joined, sink)
    }
}

/// Replaces each value that is present by a function of its step and value.
fn zip(values: &mut Values, change: impl Fn(usize, f64) -> f64) {
    for (at, value) in values.iter_mut().enumerate() {
        if !is_absent(*value) {
            *value = change(at, *value);
        }
    }
}

fn texts(nodes: &[Node]) -> Vec<String> {
    let texts = nodes.iter().filter_map(|node| match node {
        Node::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}
