//! Evaluation of functions of range vectors.

use super::{Evaluator, expected, interval, pass};
use crate::budget::{Hold, SAMPLE};
use crate::error::Error;
use crate::functions::window::WindowFunction;
use crate::functions::{over_time, relabel};
use crate::kind::Kind;
use crate::labels::{Labels, METRIC_NAME};
use crate::metric;
use crate::plan::{Node, Range, Selector, Subquery};
use crate::ranges::Ranges;
use crate::run::Run;
use crate::series::{ABSENT, Series, Sink, Steps, Values, is_absent};
use crate::unique::range_names_are_unique;
use seiner_model::Condition;
use std::sync::Arc;

impl Evaluator<'_> {
    /// Evaluates a function of the samples within a range.
    pub(super) fn window(
        &self,
        function: WindowFunction,
        arguments: &[Node],
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let mut scalars = Vec::new();
        let mut input = None;
        for argument in arguments {
            match argument {
                Node::Range(range) => input = Some(range),
                other => scalars.push(self.scalar(other, steps)?),
            }
        }
        let Some(range) = input else {
            return Err(expected(Kind::Range, &arguments[0]));
        };
        if let ("quantile_over_time", Some(q)) = (function.name, scalars.first())
            && let Some(bad) = q.iter().find(|q| !(0.0..=1.0).contains(*q))
        {
            self.notes.quantile_out_of_range(*bad);
        }
        let drops_name = !function.keeps_name();
        let collects = drops_name && !self.delayed_names && !range_names_are_unique(range);
        let mut all = Vec::new();
        self.each_window(
            function,
            Arc::new(scalars),
            range,
            steps,
            &mut |mut series| {
                self.note_gauge(function, &series.labels);
                if drops_name {
                    self.drop_name(&mut series);
                }
                match collects {
                    true => {
                        all.push(series);
                        Ok(())
                    }
                    false => sink(series),
                }
            },
        )?;
        relabel::check_unique(&all)?;
        pass(all, sink)
    }

    fn each_window(
        &self,
        function: WindowFunction,
        scalars: Arc<Vec<Values>>,
        range: &Range,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let create = |shift, length| {
            let values = Values::filled(&self.budget, steps.count, ABSENT)?;
            let hold = Hold::new(&self.budget, 0)?;
            let times = (steps, shift, length);
            Ok(Ranges::new(
                times,
                function.compute,
                scalars.clone(),
                hold,
                values,
            ))
        };
        match range {
            Range::Selector { selector, range } => {
                let picks = metric::picks(self.store, &selector.matchers)?;
                let interval = interval(selector, steps, *range);
                let create = || create(selector.shift, *range);
                self.reader().read(&picks, interval, &create, sink)
            }
            Range::Subquery(subquery) => {
                let inner = self.subquery_steps(subquery, steps)?;
                let Some(inner) = inner else { return Ok(()) };
                self.each(&subquery.node, inner, &mut |series| {
                    let _hold = Hold::new(&self.budget, SAMPLE * inner.count)?;
                    let (times, values) = samples(&series.values, inner);
                    let mut run = create(subquery.shift, subquery.range)?;
                    run.push(&times, &values)?;
                    let mut values = run.finish()?;
                    values.hold_labels(&series.labels)?;
                    match values.is_all_absent() {
                        true => Ok(()),
                        false => sink(Series { values, ..series }),
                    }
                })
            }
        }
    }

    /// Returns the steps of a subquery: multiples of its step, from the begin of the first range to the end of the
    /// last. `None` if there are none.
    pub fn subquery_steps(
        &self,
        subquery: &Subquery,
        steps: Steps,
    ) -> Result<Option<Steps>, Error> {
        let first = subquery
            .shift
            .apply(steps.start)
            .saturating_sub(subquery.range);
        let last = subquery.shift.apply(steps.end());
        let step = subquery.step;
        let start = first
            .div_euclid(step)
            .saturating_mul(step)
            .saturating_add(step);
        if start > last {
            return Ok(None);
        }
        let count = (last.saturating_sub(start) / step) as usize + 1;
        let limit = self.budget.limits().steps;
        if count > limit {
            return Err(Error::Limit(format!(
                "subquery has {count} steps, more than {limit} (limit max_steps); use a longer step or a shorter range"
            )));
        }
        Ok(Some(Steps { start, step, count }))
    }

    /// Adds a hint if a function of counters is applied to a metric without the usual ending of counters.
    fn note_gauge(&self, function: WindowFunction, labels: &Labels) {
        let name = labels.get(METRIC_NAME);
        let endings = ["_total", "_sum", "_count", "_bucket"];
        if function.expects_counter()
            && !name.is_empty()
            && !endings.iter().any(|ending| name.ends_with(ending))
        {
            self.notes.info(format!(
                "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {name:?}"
            ));
        }
    }

    pub(super) fn absent(
        &self,
        node: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let mut values = Values::filled(&self.budget, steps.count, 1.0)?;
        self.each(node, steps, &mut |series| {
            hide_present(&mut values, &series.values);
            Ok(())
        })?;
        let matchers = match node {
            Node::Selector(selector) => Some(selector),
            _ => None,
        };
        pass_absent(matchers, values, false, sink)
    }

    pub(super) fn absent_over_time(
        &self,
        node: &Node,
        steps: Steps,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let Node::Range(range) = node else {
            return Err(expected(Kind::Range, node));
        };
        let function = WindowFunction {
            name: "present_over_time",
            compute: over_time::present,
        };
        let mut values = Values::filled(&self.budget, steps.count, 1.0)?;
        self.each_window(function, Arc::default(), range, steps, &mut |series| {
            hide_present(&mut values, &series.values);
            Ok(())
        })?;
        let matchers = match range {
            Range::Selector { selector, .. } => Some(selector),
            Range::Subquery(_) => None,
        };
        pass_absent(matchers, values, true, sink)
    }
}

/// Returns the samples of step values.
pub fn samples(values: &[f64], steps: Steps) -> (Vec<i64>, Vec<f64>) {
    let present = values
        .iter()
        .enumerate()
        .filter(|(_, value)| !is_absent(**value));
    present.map(|(at, value)| (steps.time(at), *value)).unzip()
}

/// Removes values at the steps at which a series has one.
fn hide_present(values: &mut Values, series: &Values) {
    for (value, present) in values.iter_mut().zip(series.iter()) {
        if !is_absent(*present) {
            *value = ABSENT;
        }
    }
}

/// Passes on the result of `absent`: a series with the labels that the selector requires to be equal to a text.
fn pass_absent(
    selector: Option<&Selector>,
    values: Values,
    drop_name: bool,
    sink: &mut Sink<'_>,
) -> Result<(), Error> {
    if values.is_all_absent() {
        return Ok(());
    }
    let mut labels = Labels::new();
    let matchers = selector.map_or(&[][..], |selector| &selector.matchers);
    for (at, matcher) in matchers
        .iter()
        .enumerate()
        .filter(|(_, matcher)| &*matcher.label != METRIC_NAME)
    {
        let is_first = !matchers[..at].iter().any(|earlier| {
            earlier.label == matcher.label && matches!(earlier.condition, Condition::Is(_))
        });
        match &matcher.condition {
            Condition::Is(value) if is_first => labels.set(matcher.label.clone(), value.as_str()),
            _ => labels.remove(&matcher.label),
        }
    }
    sink(Series {
        labels,
        drop_name,
        values,
    })
}
