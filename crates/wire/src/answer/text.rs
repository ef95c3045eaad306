//! Numbers and texts in the notation of JSON and CSV, with buffered output.

use super::{Cells, TimeUnit};
use seiner_model::Column;
use std::io::{self, Write};

/// Number of bytes to buffer before a write.
const GATHERED: usize = 64 << 10;

/// A writer with a buffer of bytes not written yet.
#[derive(Debug)]
pub struct Gathering<W> {
    out: W,
    /// Bytes of the next write.
    pub bytes: Vec<u8>,
}

impl<W: Write> Gathering<W> {
    pub fn new(out: W) -> Gathering<W> {
        Gathering {
            out,
            bytes: Vec::with_capacity(GATHERED + GATHERED / 4),
        }
    }

    /// Writes the buffer out if it is full.
    #[inline]
    pub fn spill(&mut self) -> io::Result<()> {
        if self.bytes.len() >= GATHERED {
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Puts a comma before each element of an array except the first, and calls [`Gathering::spill`].
    #[inline]
    pub fn separate(&mut self, index: usize) -> io::Result<()> {
        if index > 0 {
            self.bytes.push(b',');
        }
        self.spill()
    }

    /// Writes all buffered bytes and returns the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.bytes)?;
        Ok(self.out)
    }
}

pub fn push_integer(bytes: &mut Vec<u8>, integer: impl itoa::Integer) {
    bytes.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
}

/// Appends the shortest decimal that parses to the same float. NaN and infinities are not numbers in JSON; they
/// are written as names enclosed in `quote`.
pub fn push_float<F: zmij::Float + Into<f64>>(bytes: &mut Vec<u8>, float: F, quote: &str) {
    let wide: f64 = float.into();
    if wide.is_finite() {
        bytes.extend_from_slice(zmij::Buffer::new().format_finite(float).as_bytes());
        return;
    }
    let name = match wide {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    bytes.extend([quote, name, quote].into_iter().flat_map(str::bytes));
}

/// Appends a time, exact in either unit.
pub fn push_time(bytes: &mut Vec<u8>, ns: i64, unit: TimeUnit) {
    match unit {
        TimeUnit::Ns => push_integer(bytes, ns),
        TimeUnit::Ms => push_milliseconds(bytes, ns),
    }
}

fn push_milliseconds(bytes: &mut Vec<u8>, ns: i64) {
    const NS: u64 = 1_000_000;
    if ns < 0 {
        bytes.push(b'-');
    }
    push_integer(bytes, ns.unsigned_abs() / NS);
    let fraction = ns.unsigned_abs() % NS;
    if fraction != 0 {
        // The leading one preserves the zeros after the decimal point.
        let digits = itoa::Buffer::new().format(NS + fraction).to_string();
        bytes.push(b'.');
        bytes.extend_from_slice(digits[1..].trim_end_matches('0').as_bytes());
    }
}

/// Appends a value of a column. `quote` is used as in [`push_float`].
pub fn push_cell(
    bytes: &mut Vec<u8>,
    cells: Cells<'_>,
    row: usize,
    quote: &str,
    push_text: impl Fn(&mut Vec<u8>, &str),
) {
    match cells {
        Cells::Values(column) => push_value(bytes, column, row, quote, push_text),
        Cells::Sums(_, sums) => push_integer(bytes, sums[row]),
    }
}

fn push_value(
    bytes: &mut Vec<u8>,
    column: &Column,
    row: usize,
    quote: &str,
    push_text: impl Fn(&mut Vec<u8>, &str),
) {
    match column {
        Column::F64(values) => push_float(bytes, values[row], quote),
        Column::F32(values) => push_float(bytes, values[row], quote),
        Column::I64(values) => push_integer(bytes, values[row]),
        Column::U64(values) => push_integer(bytes, values[row]),
        Column::Bool(values) => {
            bytes.extend_from_slice(if values[row] { b"true" } else { b"false" })
        }
        Column::Str(values) => push_text(bytes, values.get(row)),
    }
}
