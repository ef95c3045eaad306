//! Aggregate `rate(value, time)`: increase of a counter per second. A value below its predecessor is a reset of the
//! counter to zero. The increase is the sum of the increases between neighbouring rows; the time is that between the
//! first and the last row. The result is NULL if there are fewer than two times.

use crate::client::error;
use crate::columns::time_type;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Aggregate `rate`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    signature: Signature,
}

impl Rate {
    pub fn new() -> Rate {
        Rate {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Rate {
    fn name(&self) -> &str {
        "rate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [value, DataType::Timestamp(..)] if value.is_numeric() => Ok(DataType::Float64),
            _ => Err(error(
                "rate: the arguments are not a number and a time; write rate(value, time)",
            )),
        }
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counter::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |part: &str, of: DataType| {
            let name = format!("{}[{part}]", args.name);
            Arc::new(Field::new_list(name, Field::new_list_field(of, true), true))
        };
        Ok(vec![
            list("times", DataType::Int64),
            list("values", DataType::Float64),
        ])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Rows so far: times in ns and values, 16 bytes each. They arrive in any order.
#[derive(Debug, Default)]
struct Counter {
    rows: Vec<(i64, f64)>,
}

impl Counter {
    fn add(&mut self, times: &ArrayRef, values: &ArrayRef) -> Result<()> {
        let (times, values) = (
            cast(times, &DataType::Int64)?,
            cast(values, &DataType::Float64)?,
        );
        let rows = times
            .as_primitive::<Int64Type>()
            .iter()
            .zip(values.as_primitive::<Float64Type>());
        self.rows.extend(
            rows.filter_map(|(time, value)| Some((time?, value.filter(|value| !value.is_nan())?))),
        );
        Ok(())
    }
}

impl Accumulator for Counter {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&cast(&values[1], &time_type())?, &values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(rate(&mut self.rows)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * size_of::<(i64, f64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let times: Vec<ScalarValue> = self
            .rows
            .iter()
            .map(|row| ScalarValue::Int64(Some(row.0)))
            .collect();
        let values: Vec<ScalarValue> = self
            .rows
            .iter()
            .map(|row| ScalarValue::Float64(Some(row.1)))
            .collect();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&times, &DataType::Int64)),
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0]
            .as_list::<i32>()
            .iter()
            .zip(states[1].as_list::<i32>().iter());
        for (times, values) in lists {
            if let (Some(times), Some(values)) = (times, values) {
                self.add(&times, &values)?;
            }
        }
        Ok(())
    }
}

/// Returns the increase per second.
fn rate(rows: &mut [(i64, f64)]) -> Option<f64> {
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (first, last) = (rows.first()?, rows.last()?);
    let seconds = (i128::from(last.0) - i128::from(first.0)) as f64 / 1e9;
    let increase = |pair: &[(i64, f64)]| {
        if pair[1].1 < pair[0].1 {
            pair[1].1
        } else {
            pair[1].1 - pair[0].1
        }
    };
    (seconds > 0.0).then(|| rows.windows(2).map(increase).sum::<f64>() / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_count_from_zero() {
        let second = 1_000_000_000;
        assert_eq!(
            rate(&mut [(0, 1.0), (4 * second, 3.0), (2 * second, 5.0)]),
            Some(7.0 / 4.0)
        );
        assert_eq!(rate(&mut [(0, 1.0)]), None);
        assert_eq!(rate(&mut [(0, 1.0), (0, 2.0)]), None);
        assert_eq!(rate(&mut []), None);
    }
}
