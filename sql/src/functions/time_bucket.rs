//! `time_bucket('1m', time)`: the start of the bucket that contains a time. Buckets begin at multiples of their length
//! since 1970.

use super::duration_ns;
use crate::client::error;
use crate::columns::time_type;
use crate::pushdown::scalar_text;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimestampNanosecondType};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Function `time_bucket`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeBucket {
    signature: Signature,
}

impl TimeBucket {
    pub fn new() -> TimeBucket {
        TimeBucket {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [
                _,
                DataType::Timestamp(..) | DataType::Date32 | DataType::Null,
            ] => Ok(time_type()),
            _ => Err(error(
                "time_bucket: the second argument is not a time; write time_bucket('1m', time)",
            )),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let length = match &args.args[0] {
            ColumnarValue::Scalar(length) => scalar_text(length),
            ColumnarValue::Array(_) => None,
        };
        let length = length
            .ok_or_else(|| error("time_bucket: the first argument is not a text such as '1m'"))?;
        let length = duration_ns(&length)?;
        let times = cast(&args.args[1].to_array(args.number_rows)?, &time_type())?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        // A bucket that begins before the first time has no start that a time can hold.
        let starts = times.unary_opt::<_, TimestampNanosecondType>(|ns| {
            ns.div_euclid(length).checked_mul(length)
        });
        Ok(ColumnarValue::Array(Arc::new(
            starts.with_data_type(times.data_type().clone()),
        )))
    }
}
