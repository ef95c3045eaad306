//! Points: their names, times and values.

use crate::Skipped;
use crate::line::{Arena, shown};
use crate::sample::{self, Name, finite, number};
use seiner_model::{Batch, SourceKey};

/// Least number that is a time in ms. Smaller ones are in seconds, as at OpenTSDB.
const LEAST_MS: i64 = 1 << 32;

/// Point whose tags are read one by one.
pub(super) struct Point(Name);

impl Point {
    /// Begins a point with its metric.
    pub fn new(metric: &str) -> Result<Point, Skipped> {
        match metric {
            "" => Err(Skipped::because("the metric is empty")),
            metric => Ok(Point(Name::new(metric)?)),
        }
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
        self.0.tag(tag, value)
    }

    /// Appends the row. The time and the value are written as numbers.
    pub fn push<'b>(
        self,
        time: &str,
        value: &str,
        arena: &'b Arena,
        batch: &mut Batch<'b>,
    ) -> Result<(), Skipped> {
        let name = self.0.as_bytes();
        if name.len() > SourceKey::MAX_BYTES {
            return Err(Skipped::because(format!(
                "the metric with its tags is longer than {} bytes",
                SourceKey::MAX_BYTES
            )));
        }
        let value = finite(number("value", value.as_bytes())?)?;
        sample::push(arena.keep(name), nanoseconds(time)?, value, batch);
        Ok(())
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
