//! Evaluation of scalars.

use super::{Evaluator, expected};
use crate::binary;
use crate::error::Error;
use crate::functions::Function;
use crate::kind::Kind;
use crate::numbers::seconds;
use crate::plan::Node;
use crate::series::{ABSENT, Steps, Values, is_absent};

impl Evaluator<'_> {
    /// Evaluates a scalar.
    pub fn scalar(&self, node: &Node, steps: Steps) -> Result<Values, Error> {
        let constant = |value| Values::filled(&self.budget, steps.count, value);
        match node {
            Node::Number(number) => constant(*number),
            Node::Negate(inner) => {
                let mut values = self.scalar(inner, steps)?;
                values.iter_mut().for_each(|value| *value = -*value);
                Ok(values)
            }
            Node::Binary(binary) => {
                let mut values = self.scalar(&binary.left, steps)?;
                let right = self.scalar(&binary.right, steps)?;
                for (value, right) in values.iter_mut().zip(right.iter()) {
                    *value = binary::of_scalars(binary.operator, *value, *right);
                }
                Ok(values)
            }
            Node::Call(function, arguments) => match function {
                Function::Pi => constant(std::f64::consts::PI),
                Function::QueryStart => constant(seconds(self.query.start)),
                Function::QueryEnd => constant(seconds(self.query.end())),
                Function::QueryRange => {
                    constant(seconds(self.query.end().saturating_sub(self.query.start)))
                }
                Function::QueryStep => constant(seconds(self.query.step)),
                Function::Scalar => self.only_value(&arguments[0], steps),
                _ => {
                    let mut values = constant(0.0)?;
                    for (at, value) in values.iter_mut().enumerate() {
                        *value = seconds(steps.time(at));
                    }
                    Ok(values)
                }
            },
            _ => Err(expected(Kind::Scalar, node)),
        }
    }

    /// Returns the value of a vector with one series; NaN for any other number of series.
    fn only_value(&self, node: &Node, steps: Steps) -> Result<Values, Error> {
        let mut values = Values::filled(&self.budget, steps.count, ABSENT)?;
        let mut several = vec![false; steps.count];
        self.each(node, steps, &mut |series| {
            for (at, new) in series
                .values
                .iter()
                .enumerate()
                .filter(|(_, new)| !is_absent(**new))
            {
                several[at] |= !is_absent(values[at]);
                values[at] = *new;
            }
            Ok(())
        })?;
        for (value, several) in values.iter_mut().zip(several) {
            if several || is_absent(*value) {
                *value = f64::NAN;
            }
        }
        Ok(values)
    }
}
