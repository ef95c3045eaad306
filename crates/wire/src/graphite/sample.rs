//! Values and times of samples.

use super::name::source_name;
use crate::Skipped;
use crate::line::Arena;
use crate::sample::{self, finite};
use seiner_model::Batch;

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// Appends a sample. `time` is in seconds since 1970; −1 is `now`, which is in ns.
pub(super) fn push<'b>(
    path: &'b [u8],
    value: f64,
    time: Option<f64>,
    now: i64,
    arena: &'b Arena,
    batch: &mut Batch<'b>,
) -> Result<(), Skipped> {
    let name = source_name(path, arena)?;
    let value = finite(value)?;
    let time = match time {
        None | Some(-1.0) => now,
        Some(seconds) => nanoseconds(seconds)?,
    };
    sample::push(name, time, value, batch);
    Ok(())
}

/// Returns a time in ns. Whole seconds are exact.
fn nanoseconds(seconds: f64) -> Result<i64, Skipped> {
    let whole = seconds.floor();
    // Beyond this bound, the product does not fit; NaN is beyond every bound.
    let fits = whole.abs() < 9_223_372_036.0;
    if !fits {
        return Err(Skipped::because(format!(
            "time {seconds} is outside the years 1677 to 2262; write it in seconds since 1970"
        )));
    }
    let fraction = ((seconds - whole) * SECOND).round();
    Ok(whole as i64 * SECOND as i64 + fraction as i64)
}
