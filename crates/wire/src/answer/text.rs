//! Numbers and texts as JSON and CSV write them, gathered before they go out.

use super::{Cells, TimeUnit};
use seiner_model::Column;
use std::io::{self, Write};

/// How many bytes are gathered before they go out.
const GATHERED: usize = 64 << 10;

/// A writer with the bytes that it has not been given yet.
#[derive(Debug)]
pub struct Gathering<W> {
    out: W,
    /// What goes out next.
    pub bytes: Vec<u8>,
}

impl<W: Write> Gathering<W> {
    pub fn new(out: W) -> Gathering<W> {
        Gathering {
            out,
            bytes: Vec::with_capacity(GATHERED + GATHERED / 4),
        }
    }

    /// Lets the bytes out if there are many.
    #[inline]
    pub fn spill(&mut self) -> io::Result<()> {
        if self.bytes.len() >= GATHERED {
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    /// A comma before all elements of an array but the first, and a look at [`Gathering::spill`].
    #[inline]
    pub fn separate(&mut self, index: usize) -> io::Result<()> {
        if index > 0 {
            self.bytes.push(b',');
        }
        self.spill()
    }

    /// Lets all bytes out.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.bytes)?;
        Ok(self.out)
    }
}

pub fn push_integer(bytes: &mut Vec<u8>, integer: impl itoa::Integer) {
    bytes.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
}

/// The shortest decimal that reads back as the same float; `quote` stands around what is no
/// number in JSON.
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

/// A time, exact in either unit.
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
        // The leading one keeps the zeros behind the point.
        let digits = itoa::Buffer::new().format(NS + fraction).to_string();
        bytes.push(b'.');
        bytes.extend_from_slice(digits[1..].trim_end_matches('0').as_bytes());
    }
}

/// A value of a column; `quote` as for [`push_float`].
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
