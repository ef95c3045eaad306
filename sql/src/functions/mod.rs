//! Functions that SQL itself does not have.

mod first_last;
mod interpolate;
mod rate;
mod time_bucket;

use crate::client::error;
use datafusion::error::Result;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::SessionContext;

/// Adds all functions to a session.
pub fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(time_bucket::TimeBucket::new()));
    context.register_udaf(AggregateUDF::from(first_last::FirstLast::first()));
    context.register_udaf(AggregateUDF::from(first_last::FirstLast::last()));
    context.register_udaf(AggregateUDF::from(rate::Rate::new()));
    context.register_udaf(AggregateUDF::from(interpolate::Interpolate::new()));
}

/// Parses a duration such as `90s` or `1h30m` into ns. Units: ns, us, ms, s, m, h, d, w.
///
/// # Errors
/// If the text is no duration, or the duration is 0 or longer than 292 years.
pub fn duration_ns(text: &str) -> Result<i64> {
    let wrong = || {
        error(format!(
            "duration {text:?} is not a number and a unit (ns, us, ms, s, m, h, d, w), such as 1h30m"
        ))
    };
    let (mut total, mut rest) = (0_i64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let ns: i64 = match &rest[..unit] {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "w" => 604_800_000_000_000,
            _ => return Err(wrong()),
        };
        rest = &rest[unit..];
        total = number
            .checked_mul(ns)
            .and_then(|ns| total.checked_add(ns))
            .ok_or_else(wrong)?;
    }
    if total == 0 { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration_ns("1h30m").unwrap(), 5_400_000_000_000);
        assert_eq!(duration_ns("5ns").unwrap(), 5);
        for wrong in [
            "",
            "5",
            "m",
            "1x",
            "0s",
            "1.5h",
            "-1s",
            "300000d",
            "99999999999999999999s",
        ] {
            assert!(duration_ns(wrong).is_err(), "{wrong}");
        }
    }
}
