//! Units of the times at the ends of lines.

use std::fmt;
use std::str::FromStr;

/// Unit of the times at the ends of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Nanoseconds.
    #[default]
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    /// Minutes.
    M,
    /// Hours.
    H,
}

impl Precision {
    /// Returns the unit that a number suggests.
    pub(super) fn of(units: i64) -> Precision {
        match units.unsigned_abs() {
            0..5_000_000_000 => Precision::S,
            5_000_000_000..5_000_000_000_000 => Precision::Ms,
            5_000_000_000_000..5_000_000_000_000_000 => Precision::Us,
            _ => Precision::Ns,
        }
    }

    /// Returns the length of one unit in ns.
    pub fn ns(self) -> i64 {
        match self {
            Precision::Ns => 1,
            Precision::Us => 1_000,
            Precision::Ms => 1_000_000,
            Precision::S => 1_000_000_000,
            Precision::M => 60_000_000_000,
            Precision::H => 3_600_000_000_000,
        }
    }
}

/// Name of the unit: `ns`, `us`, `ms`, `s`, `m` or `h`.
impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Ns => "ns",
            Precision::Us => "us",
            Precision::Ms => "ms",
            Precision::S => "s",
            Precision::M => "m",
            Precision::H => "h",
        })
    }
}

/// Error for a text that is not a precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a precision; there are ns (or n), us (or u, µ, µs), ms, s, m and h")]
pub struct PrecisionError(String);

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Precision, PrecisionError> {
        match text {
            "n" | "ns" => Ok(Precision::Ns),
            // Two characters look the same: the micro sign and the Greek letter mu.
            "u" | "us" | "\u{b5}" | "\u{b5}s" | "\u{3bc}" | "\u{3bc}s" => Ok(Precision::Us),
            "ms" => Ok(Precision::Ms),
            "s" => Ok(Precision::S),
            "m" => Ok(Precision::M),
            "h" => Ok(Precision::H),
            _ => Err(PrecisionError(text.to_string())),
        }
    }
}
