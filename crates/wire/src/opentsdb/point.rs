//! Names, times and values of points.

use crate::Skipped;
use crate::line::{Arena, escape_measurement, escape_name, shown};
use crate::names::in_lines;
use seiner_model::{Batch, Cell, SourceKey, Value};

/// Name of the field of all rows.
const FIELD: &[u8] = b"value";

/// Least number that is a time in ms. Smaller ones are in seconds, as at OpenTSDB.
const LEAST_MS: i64 = 1 << 32;

/// Name of a source while its parts are read.
pub(super) struct Name(String);

impl Name {
    /// Begins the name of a source with its metric.
    pub fn new(metric: &str) -> Result<Name, Skipped> {
        if metric.is_empty() {
            return Err(Skipped::because("the metric is empty"));
        }
        let mut name = String::with_capacity(metric.len());
        escape_measurement(in_lines(metric)?, &mut name);
        Ok(Name(name))
    }

    /// Adds a tag.
    pub fn tag(&mut self, tag: &str, value: &str) -> Result<(), Skipped> {
        if tag.is_empty() || value.is_empty() {
            let text = format!("{tag}={value}");
            return Err(Skipped::because(format!(
                "{:?} is not a tag; write tag=value",
                shown(text.as_bytes())
            )));
        }
        self.0.push(',');
        escape_name(in_lines(tag)?, &mut self.0);
        self.0.push('=');
        escape_name(in_lines(value)?, &mut self.0);
        Ok(())
    }

    /// Appends a row of the source. The time and the value are written as numbers.
    pub fn push<'b>(
        self,
        time: &str,
        value: &str,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<(), Skipped> {
        if self.0.len() > SourceKey::MAX_BYTES {
            return Err(Skipped::because(format!(
                "the metric with its tags is longer than {} bytes",
                SourceKey::MAX_BYTES
            )));
        }
        let cell = Cell {
            field: FIELD,
            value: Value::F64(number(value)?),
        };
        batch.push(arena.keep(self.0.as_bytes()), nanoseconds(time)?, [cell]);
        Ok(())
    }
}

fn number(text: &str) -> Result<f64, Skipped> {
    let value: f64 = text.parse().map_err(|_| {
        Skipped::because(format!(
            "value {:?} is not a number",
            shown(text.as_bytes())
        ))
    })?;
    match value {
        value if value.is_nan() => Err(Skipped::NotANumber),
        value if value.is_infinite() => Err(Skipped::because(
            "the value is not finite; leave the sample out instead",
        )),
        value => Ok(value),
    }
}

/// Returns a time in ns. Up to 32 bits, a whole number is in seconds, otherwise in ms. A fraction is one of seconds.
fn nanoseconds(text: &str) -> Result<i64, Skipped> {
    let invalid = || {
        Skipped::because(format!(
            "time {:?} is not a positive number of seconds or milliseconds since 1970",
            shown(text.as_bytes())
        ))
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(invalid());
    }
    let whole: i64 = whole.parse().map_err(|_| invalid())?;
    let unit = match fraction.is_empty() && whole >= LEAST_MS {
        true => 1_000_000,
        false => 1_000_000_000,
    };
    let fraction = format!("{fraction:0<9}").parse().unwrap_or(0);
    let time = whole
        .checked_mul(unit)
        .and_then(|time| time.checked_add(fraction));
    match time {
        None => Err(Skipped::because(format!(
            "time {text} is after the year 2262; write it in seconds or milliseconds since 1970"
        ))),
        Some(0) => Err(invalid()),
        Some(time) => Ok(time),
    }
}
