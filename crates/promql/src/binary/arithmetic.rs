//! Arithmetic and comparison of numbers.

use crate::plan::{Arithmetic, Comparison, Operator, Side};
use crate::series::{ABSENT, Values};

/// Computes an operator. Returns `None` if a comparison does not hold. A comparison that holds returns the left value.
pub fn evaluate(operator: Operator, left: f64, right: f64) -> Option<f64> {
    match operator {
        Operator::Arithmetic(operator) => Some(compute(operator, left, right)),
        Operator::Comparison(operator) => compare(operator, left, right).then_some(left),
        // Set operators have no numbers: `sets` computes them.
        Operator::Set(_) => None,
    }
}

/// Computes an operator with two scalars. A comparison returns 0 or 1.
pub fn of_scalars(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Comparison(operator) => f64::from(u8::from(compare(operator, left, right))),
        other => evaluate(other, left, right).unwrap_or(f64::NAN),
    }
}

/// Replaces the values of a series by those of an operator with a scalar on one side.
pub fn with_scalar(
    operator: Operator,
    returns_bool: bool,
    side: Side,
    scalar: &[f64],
    values: &mut Values,
) {
    for (value, &scalar) in values.iter_mut().zip(scalar) {
        if crate::series::is_absent(*value) {
            continue;
        }
        let result = match side {
            Side::Right => evaluate(operator, *value, scalar),
            // The result of a comparison is the value of the series, not the scalar.
            Side::Left => evaluate(operator, scalar, *value).map(|result| match operator {
                Operator::Comparison(_) => *value,
                _ => result,
            }),
        };
        *value = match returns_bool {
            true => f64::from(u8::from(result.is_some())),
            false => result.unwrap_or(ABSENT),
        };
    }
}

fn compute(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
        Arithmetic::Power => left.powf(right),
        Arithmetic::Atan2 => left.atan2(right),
    }
}

fn compare(operator: Comparison, left: f64, right: f64) -> bool {
    match operator {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Greater => left > right,
        Comparison::Less => left < right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::LessOrEqual => left <= right,
    }
}
