//! Runs: rows of one number, encoded many at a time. Most samples that arrive in columns take this
//! path.
//!
//! Values shared by all rows of a run are looked up once. The journal bytes are collected in the
//! arrays of the run, so the loop over rows neither grows nor counts anything else.

use super::number::NUMBER_BYTES;
use super::row::Coded;
use seiner_model::SourceId;

/// Maximum rows of a run.
pub const ROWS: usize = 128;
/// Prefetch distance of lines, in rows.
pub const LINES_AHEAD: usize = 24;
/// Prefetch distance of the ends of buffers, in rows.
pub const ROWS_AHEAD: usize = 10;

/// Rows of one float, as three slices of equal length.
#[derive(Clone, Copy)]
pub struct Floats<'a> {
    /// Sources of the rows. A source may occur more than once.
    pub sources: &'a [SourceId],
    /// Times of the rows.
    pub times: &'a [i64],
    /// Values of the rows.
    pub values: &'a [f64],
}

impl<'a> Floats<'a> {
    /// Returns the rows from `row` on.
    pub fn from(self, row: usize) -> Floats<'a> {
        Floats {
            sources: &self.sources[row..],
            times: &self.times[row..],
            values: &self.values[row..],
        }
    }
}

/// Writes a row of one number and returns its length. Overwrites bytes after the row: whole words
/// are written, and the next row truncates them.
#[inline(always)]
pub fn put_number(time: Coded, value: Coded, window: &mut [u8; NUMBER_BYTES]) -> usize {
    window[0] = codes(time, value);
    if time.bytes != 0 {
        window[1..9].copy_from_slice(&time.word.to_le_bytes());
    }
    window[1 + time.bytes..][..8].copy_from_slice(&value.word.to_le_bytes());
    1 + time.bytes + value.bytes
}

/// Returns the codes of a row of one number.
#[inline(always)]
pub fn codes(time: Coded, value: Coded) -> u8 {
    time.code | value.code << 4
}

/// Maximum bytes of the payloads of a run, with space for the last word.
const PAYLOAD: usize = ROWS * 16 + 8;

/// Rows of a run in their journal encoding: codes and payloads separate.
pub struct Encoded {
    codes: [u8; ROWS],
    payload: [u8; PAYLOAD],
    rows: usize,
    bytes: usize,
}

impl Default for Encoded {
    fn default() -> Encoded {
        Encoded {
            codes: [0; ROWS],
            payload: [0; PAYLOAD],
            rows: 0,
            bytes: 0,
        }
    }
}

impl Encoded {
    /// Writes a row into its buffer, and also into the run after `bytes` bytes of payloads. Returns
    /// the bytes of the row in the buffer, and the new length of the payloads. The run stays
    /// unchanged until [`Encoded::end`].
    #[inline(always)]
    pub fn put(
        &mut self,
        row: usize,
        mut bytes: usize,
        time: Coded,
        value: Coded,
        window: &mut [u8; NUMBER_BYTES],
    ) -> (usize, usize) {
        self.codes[row] = codes(time, value);
        if time.bytes != 0 {
            self.payload[bytes..bytes + 8].copy_from_slice(&time.word.to_le_bytes());
            bytes += time.bytes;
        }
        self.payload[bytes..bytes + 8].copy_from_slice(&value.word.to_le_bytes());
        (put_number(time, value, window), bytes + value.bytes)
    }

    /// Completes the run: the first `rows` rows and `bytes` bytes of payloads become its contents.
    pub fn end(&mut self, rows: usize, bytes: usize) {
        (self.rows, self.bytes) = (rows, bytes);
    }

    /// Returns the codes of the rows.
    pub fn codes(&self) -> &[u8] {
        &self.codes[..self.rows]
    }

    /// Returns the payloads of the rows.
    pub fn payload(&self) -> &[u8] {
        &self.payload[..self.bytes]
    }
}
