//! Rows of one number, a run of them at once: how most samples arrive where they come in columns.
//!
//! What they have in common is looked up once, and what goes to the journal is gathered in a run's
//! own arrays, so that the loop over rows neither grows nor counts anything else.

use super::NUMBER_BYTES;
use super::row::Coded;
use seiner_model::SourceId;

/// Rows of a run at most.
pub const ROWS: usize = 128;
/// How far ahead lines are fetched, in rows.
pub const LINES_AHEAD: usize = 24;
/// How far ahead the ends of buffers are fetched, in rows.
pub const ROWS_AHEAD: usize = 10;

/// Rows of one float: equally many of each.
#[derive(Clone, Copy)]
pub struct Floats<'a> {
    /// Whose they are; the same source may stand here more than once.
    pub sources: &'a [SourceId],
    /// Their times.
    pub times: &'a [i64],
    /// Their values.
    pub values: &'a [f64],
}

impl<'a> Floats<'a> {
    /// All but the first rows.
    pub fn from(self, row: usize) -> Floats<'a> {
        Floats {
            sources: &self.sources[row..],
            times: &self.times[row..],
            values: &self.values[row..],
        }
    }
}

/// Writes a row of one number and answers its length. What is behind it is overwritten: words are
/// written whole and cut by the next row.
#[inline(always)]
pub fn put_number(time: Coded, value: Coded, window: &mut [u8; NUMBER_BYTES]) -> usize {
    window[0] = codes(time, value);
    if time.bytes != 0 {
        window[1..9].copy_from_slice(&time.word.to_le_bytes());
    }
    window[1 + time.bytes..][..8].copy_from_slice(&value.word.to_le_bytes());
    1 + time.bytes + value.bytes
}

/// The codes of a row of one number.
#[inline(always)]
pub fn codes(time: Coded, value: Coded) -> u8 {
    time.code | value.code << 4
}

/// Bytes of payloads of a run at most, and room for the last word.
const PAYLOAD: usize = ROWS * 16 + 8;

/// A run's rows as they go to the journal: codes and payloads apart.
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
    /// Puts a row into its buffer and, behind so many bytes of payloads, among the run's. Answers how
    /// many bytes it takes in the buffer, and how many payloads have then. The run is what it was
    /// until [`Encoded::end`].
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

    /// Makes a run of what was put.
    pub fn end(&mut self, rows: usize, bytes: usize) {
        (self.rows, self.bytes) = (rows, bytes);
    }

    /// The rows' codes.
    pub fn codes(&self) -> &[u8] {
        &self.codes[..self.rows]
    }

    /// Their payloads.
    pub fn payload(&self) -> &[u8] {
        &self.payload[..self.bytes]
    }
}
