//! Aggregate `interpolate(value, time, at)`: the value at a time, on the line between the rows before and after it. The
//! result is NULL before the first row and after the last row. Rows in which the value or the time is NULL do not count.

use crate::client::error;
use crate::columns::time_type;
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, TimestampNanosecondType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Aggregate `interpolate`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Interpolate {
    signature: Signature,
}

impl Interpolate {
    pub fn new() -> Interpolate {
        Interpolate {
            signature: Signature::any(3, Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Interpolate {
    fn name(&self) -> &str {
        "interpolate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [value, DataType::Timestamp(..), at]
                if value.is_numeric()
                    && (at.is_string()
                        || at.is_null()
                        || matches!(at, DataType::Timestamp(..))) =>
            {
                Ok(DataType::Float64)
            }
            _ => Err(error(
                "interpolate: the arguments are not a number and two times; write interpolate(value, time, at)",
            )),
        }
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Neighbours::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: DataType| {
            Arc::new(Field::new(format!("{}[{part}]", args.name), of, true))
        };
        Ok(vec![
            field("at", time_type()),
            field("time before", time_type()),
            field("value before", DataType::Float64),
            field("time after", time_type()),
            field("value after", DataType::Float64),
        ])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Rows next to a time, as times in ns and values. A row at this time is both.
#[derive(Debug, Default)]
struct Neighbours {
    at: Option<i64>,
    before: Option<(i64, f64)>,
    after: Option<(i64, f64)>,
}

impl Neighbours {
    fn add(&mut self, values: &ArrayRef, times: &ArrayRef, ats: &ArrayRef) -> Result<()> {
        let values = cast(values, &DataType::Float64)?;
        let (times, ats) = (cast(times, &time_type())?, cast(ats, &time_type())?);
        let values = values.as_primitive::<Float64Type>().iter();
        let times = times.as_primitive::<TimestampNanosecondType>().iter();
        let ats = ats.as_primitive::<TimestampNanosecondType>().iter();
        for ((value, time), at) in values.zip(times).zip(ats) {
            let Some(at) = at else { continue };
            if *self.at.get_or_insert(at) != at {
                return Err(error(
                    "interpolate: the third argument has several values in a group; add it to GROUP BY",
                ));
            }
            if let (Some(time), Some(value)) = (time, value.filter(|value| !value.is_nan())) {
                self.add_row(at, time, value);
            }
        }
        Ok(())
    }

    fn add_row(&mut self, at: i64, time: i64, value: f64) {
        // Of several rows at one time, the largest value counts, in any order of the rows.
        let is_nearer = |kept: &Option<(i64, f64)>| {
            kept.is_none_or(|(kept_time, kept)| {
                let (distance, kept_distance) = (time.abs_diff(at), kept_time.abs_diff(at));
                distance < kept_distance || (distance == kept_distance && value > kept)
            })
        };
        if time <= at && is_nearer(&self.before) {
            self.before = Some((time, value));
        }
        if time >= at && is_nearer(&self.after) {
            self.after = Some((time, value));
        }
    }

    fn value(&self) -> Option<f64> {
        let (at, before, after) = (self.at?, self.before?, self.after?);
        let length = after.0.abs_diff(before.0);
        if length == 0 {
            return Some(before.1);
        }
        let share = at.abs_diff(before.0) as f64 / length as f64;
        Some(before.1 + (after.1 - before.1) * share)
    }
}

impl Accumulator for Neighbours {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], &values[1], &values[2])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.value()))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let time = |ns| ScalarValue::TimestampNanosecond(ns, Some("UTC".into()));
        let row = |row: Option<(i64, f64)>| (row.map(|row| row.0), row.map(|row| row.1));
        let (before, after) = (row(self.before), row(self.after));
        Ok(vec![
            time(self.at),
            time(before.0),
            ScalarValue::Float64(before.1),
            time(after.0),
            ScalarValue::Float64(after.1),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(&states[2], &states[1], &states[0])?;
        self.add(&states[4], &states[3], &states[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_on_the_line_between_neighbours() {
        let rows = [(0, 1.0), (i64::MAX, 9.0), (10, 3.0), (20, 13.0), (20, 5.0)];
        for (at, expected) in [
            (-1, None),
            (0, Some(1.0)),
            (5, Some(2.0)),
            (12, Some(5.0)),
            (20, Some(13.0)),
        ] {
            // The order of the rows does not matter, and neither does their division into parts.
            for start in 0..rows.len() {
                let mut parts = [Neighbours::default(), Neighbours::default()];
                for place in 0..rows.len() {
                    let (time, value) = rows[(start + place) % rows.len()];
                    parts[place % 2].at = Some(at);
                    parts[place % 2].add_row(at, time, value);
                }
                let [mut whole, mut part] = parts;
                let state: Vec<_> = part
                    .state()
                    .unwrap()
                    .iter()
                    .map(|state| state.to_array().unwrap())
                    .collect();
                whole.merge_batch(&state).unwrap();
                assert_eq!(whole.value(), expected, "{at}");
            }
        }
    }
}
