//! Aggregates `first(value, time)` and `last(value, time)`: the value with the earliest or latest time. Rows in which the
//! value or the time is NULL do not count.

use crate::client::error;
use crate::columns::time_type;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimestampNanosecondType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Aggregate `first` or `last`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FirstLast {
    signature: Signature,
    is_last: bool,
}

impl FirstLast {
    pub fn first() -> FirstLast {
        FirstLast {
            signature: Signature::any(2, Volatility::Immutable),
            is_last: false,
        }
    }

    pub fn last() -> FirstLast {
        FirstLast {
            is_last: true,
            ..FirstLast::first()
        }
    }
}

impl AggregateUDFImpl for FirstLast {
    fn name(&self) -> &str {
        if self.is_last { "last" } else { "first" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [value, DataType::Timestamp(..)] => Ok(value.clone()),
            _ => Err(error(format!(
                "{0}: the second argument is not a time; write {0}(value, time)",
                self.name()
            ))),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_type())?;
        Ok(Box::new(Extreme {
            time: None,
            value,
            is_last: self.is_last,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(
                format!("{}[value]", args.name),
                args.return_type().clone(),
                true,
            )),
            Arc::new(Field::new(
                format!("{}[time]", args.name),
                time_type(),
                true,
            )),
        ])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Value with the earliest or latest time so far.
#[derive(Debug)]
struct Extreme {
    time: Option<i64>,
    value: ScalarValue,
    is_last: bool,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let times = cast(&values[1], &time_type())?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let mut found = None;
        for (at, time) in times.iter().enumerate() {
            let Some(time) = time.filter(|_| values[0].is_valid(at)) else {
                continue;
            };
            let is_better = self.time.is_none_or(|best| {
                if self.is_last {
                    time >= best
                } else {
                    time < best
                }
            });
            if is_better {
                (self.time, found) = (Some(time), Some(at));
            }
        }
        if let Some(at) = found {
            self.value = ScalarValue::try_from_array(&values[0], at)?;
            // The value would keep the memory of its whole batch otherwise.
            self.value.compact();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            self.value.clone(),
            ScalarValue::TimestampNanosecond(self.time, Some("UTC".into())),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
