//! Times within JSON payloads.

use crate::line::Precision;
use seiner_model::{parse_date, plausible_unit};

/// Reading of times: their unit, and the rejection of times in 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeForm {
    /// Unit of numbers; `None` for the unit that places a number between 1990 and 2100.
    pub unit: Option<Precision>,
    /// True if numbers are rejected that a missing or wrong unit moves to 1970.
    pub refuse_1970: bool,
}

impl TimeForm {
    /// Returns the ns since 1970 of a whole number.
    pub fn of_integer(self, number: i64) -> Result<i64, String> {
        let ns = self.unit_ns(number)?;
        number.checked_mul(ns).ok_or_else(|| outside(&number))
    }

    /// Returns the ns since 1970 of a number with a fraction. The fraction of a second is rounded to µs, which a float
    /// can represent.
    pub fn of_float(self, number: f64) -> Result<i64, String> {
        let whole = number.trunc();
        if whole.abs() >= i64::MAX as f64 {
            return Err(outside(&number));
        }
        let ns = self.unit_ns(whole as i64)?;
        let step = ns.min(1_000_000);
        let fraction = ((number - whole) * step as f64).round() as i64 * (ns / step);
        let time = (whole as i64).checked_mul(ns);
        time.and_then(|time| time.checked_add(fraction))
            .ok_or_else(|| outside(&number))
    }

    /// Returns the ns since 1970 of a text: a date of RFC 3339, or a number.
    pub fn of_text(self, text: &str) -> Result<i64, String> {
        if let Some(time) = parse_date(text) {
            return Ok(time);
        }
        match (text.parse(), text.parse::<f64>()) {
            (Ok(number), _) => self.of_integer(number),
            (_, Ok(number)) if number.is_finite() => self.of_float(number),
            _ => Err(format!(
                "the time {:?} is neither a number nor a date such as 2026-11-21T08:00:00Z",
                crate::line::shown(text.as_bytes())
            )),
        }
    }

    /// Returns the length of the unit of a number in ns.
    fn unit_ns(self, number: i64) -> Result<i64, String> {
        let plausible = plausible_unit(number);
        match (self.unit, plausible) {
            (None, Some((_, ns))) => Ok(ns),
            (None, None) => Err(format!(
                "the time {number} is between 1990 and 2100 in no unit; set time_unit if it is right"
            )),
            (Some(unit), Some((meant, ns))) if self.refuse_1970 && ns > unit.ns() => Err(format!(
                "the time {number} in {unit} is in 1970; set time_unit to {meant} if {meant} are meant, or allow_1970"
            )),
            (Some(unit), _) => Ok(unit.ns()),
        }
    }
}

fn outside(number: &impl std::fmt::Display) -> String {
    format!("the time {number} is outside of the years 1677 to 2262; check time_unit")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: TimeForm = TimeForm {
        unit: None,
        refuse_1970: true,
    };

    fn of(unit: Precision) -> TimeForm {
        TimeForm {
            unit: Some(unit),
            ..AUTO
        }
    }

    #[test]
    fn units_are_found_or_given() {
        let second = 1_700_000_000_000_000_000;
        assert_eq!(AUTO.of_integer(1_700_000_000), Ok(second));
        assert_eq!(AUTO.of_integer(1_700_000_000_000), Ok(second));
        assert_eq!(AUTO.of_float(1_700_000_000.25), Ok(second + 250_000_000));
        assert_eq!(AUTO.of_float(1_700_000_000_000.5), Ok(second + 500_000));
        assert_eq!(AUTO.of_text("2023-11-14T22:13:20Z"), Ok(second));
        assert_eq!(AUTO.of_text("1700000000.123"), Ok(second + 123_000_000));
        assert_eq!(of(Precision::S).of_integer(-1), Ok(-1_000_000_000));
        assert_eq!(of(Precision::M).of_float(1.5), Ok(90_000_000_000));
        assert_eq!(of(Precision::Ns).of_integer(5), Ok(5));
    }

    #[test]
    fn bad_times_are_rejected_with_a_remedy() {
        for error in [
            AUTO.of_integer(5).unwrap_err(),
            of(Precision::S).of_integer(i64::MAX).unwrap_err(),
            of(Precision::S).of_float(1e300).unwrap_err(),
            of(Precision::Ms).of_integer(1_700_000_000).unwrap_err(),
        ] {
            assert!(error.contains("time_unit"), "{error}");
        }
        assert!(AUTO.of_text("yesterday").unwrap_err().contains("2026-"));
        assert!(AUTO.of_text("nan").is_err());
    }
}
