//! Row encoding of buffers and of the journal: rows are encoded as they arrive.
//!
//! A row consists of *codes* and *payload*. The codes are nibbles: first the code of the time, then
//! one code per column of the block's layout. The payload stores the bytes that the codes announce,
//! in the same order. A row is relative to the previous row of the same block: times as delta of
//! delta, numbers as deltas, and decimal floats as deltas of their mantissas. The first row of a
//! block is absolute, so a block can be read without its predecessors. `docs/format/row.md`
//! contains the table of codes.

use seiner_model::{Cell, FieldType, Value};

/// Time code: first row of a block; the time follows in 8 bytes.
pub const START: u8 = 9;
/// Value code: the bits follow in 8 bytes.
pub const RAW: u8 = 9;
/// Value code: a new decimal scale and mantissa follow.
const SCALE: u8 = 10;
/// Value code: the text equals the previous text.
const TEXT_SAME: u8 = 11;
/// Value code: a text follows, preceded by its length in 2 bytes.
const TEXT: u8 = 12;
/// Value code: the row has no value for the column.
const MISSING: u8 = 13;

/// Mantissas stay below 2^53, where every integer is a double.
const MANTISSA_LIMIT: f64 = 9_007_199_254_740_992.0;

/// Rounding constant for magnitudes below 2^51: adding and then subtracting it rounds a number to
/// an integer. After the addition, the integer is in the lowest bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Powers of ten from 10^0 to 10^18. All are exact as doubles, and 10^18 has more digits than a
/// mantissa.
pub const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// State of a column: the base of the next delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnState {
    /// Previous mantissa or integer, or the position of the previous text in the block.
    pub previous: u64,
    /// Decimal scale of the mantissas.
    pub scale: u8,
    /// Set if no decimal was found for the last value. Later values are then tried only at `scale`.
    /// Only the encoder uses this flag.
    pub hopeless: bool,
}

/// State of the time column: the base of the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeState {
    /// Previous time.
    pub last: i64,
    /// Distance of the previous time from the time before it.
    pub delta: i64,
}

impl TimeState {
    /// Returns whether `time` is as far from the previous time as the previous time is from its
    /// predecessor.
    #[inline(always)]
    pub fn is_kept_by(&self, time: i64) -> bool {
        time.wrapping_sub(self.last) == self.delta
    }
}

/// Encoded row.
#[derive(Default)]
pub struct Row {
    /// Codes as nibbles, low nibble first.
    pub codes: Vec<u8>,
    /// Payload: the bytes that the codes announce.
    pub payload: Vec<u8>,
}

/// Returns the bytes of the codes of a row with this number of columns.
#[inline]
pub fn codes_bytes(columns: usize) -> usize {
    (columns + 2) / 2
}

/// Returns the maximum bytes of a row without its texts.
#[inline]
pub fn row_bound(columns: usize) -> usize {
    codes_bytes(columns) + 8 + columns * 10
}

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Decodes a zigzag value.
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends the payload of a code. Writing eight bytes and truncating is cheaper than copying a
/// length that is known only at run time.
#[inline(always)]
pub fn put_word(coded: Coded, out: &mut Vec<u8>) {
    let len = out.len();
    out.extend_from_slice(&coded.word.to_le_bytes());
    out.truncate(len + coded.bytes);
}

/// Code and payload of a value: the payload is the low `bytes` bytes of `word`.
#[derive(Clone, Copy)]
pub struct Coded {
    /// Code of the value.
    pub code: u8,
    /// Payload, little endian.
    pub word: u64,
    /// Length of the payload in bytes.
    pub bytes: usize,
}

impl Coded {
    /// Encoding of a number that equals the expected number: no payload.
    pub const NOTHING: Coded = Coded {
        code: 0,
        word: 0,
        bytes: 0,
    };

    #[inline(always)]
    fn delta(delta: i64) -> Coded {
        let word = zigzag(delta);
        // Nearly all numbers are this short, and comparing is cheaper than counting zeros.
        let bytes = if word < 1 << 16 {
            usize::from(word > 0) + usize::from(word > 0xff)
        } else {
            (71 - word.leading_zeros() as usize) / 8
        };
        Coded {
            code: bytes as u8,
            word,
            bytes,
        }
    }

    #[inline(always)]
    fn whole(code: u8, word: u64) -> Coded {
        Coded {
            code,
            word,
            bytes: 8,
        }
    }
}

/// Encodes a time that follows `state`, or that begins a block.
#[inline(always)]
pub fn code_time(time: i64, state: &mut TimeState, first: bool) -> Coded {
    if first {
        *state = TimeState {
            last: time,
            delta: 0,
        };
        return Coded::whole(START, time as u64);
    }
    let delta = time.wrapping_sub(state.last);
    let change = delta.wrapping_sub(state.delta);
    *state = TimeState { last: time, delta };
    Coded::delta(change)
}

/// Encodes an integer that follows `state`. Booleans are 0 and 1.
#[inline(always)]
pub fn code_integer(value: u64, state: &mut ColumnState) -> Coded {
    let delta = value.wrapping_sub(state.previous) as i64;
    state.previous = value;
    Coded::delta(delta)
}

/// Encodes a 64-bit float that follows `state`.
#[inline(always)]
pub fn code_f64(value: f64, state: &mut ColumnState) -> Coded {
    code_float(value, value.to_bits(), state, |mantissa, power| {
        (mantissa / power).to_bits()
    })
}

/// Encodes a 32-bit float that follows `state`.
#[inline(always)]
pub fn code_f32(value: f32, state: &mut ColumnState) -> Coded {
    code_float(
        f64::from(value),
        u64::from(value.to_bits()),
        state,
        |mantissa, power| u64::from(((mantissa / power) as f32).to_bits()),
    )
}

/// Converts a float to a decimal if the decimal restores the same bits. `bits_of` computes the bits
/// from mantissa and power of ten in the same way as a reader.
#[inline(always)]
fn code_float(
    value: f64,
    bits: u64,
    state: &mut ColumnState,
    bits_of: impl Fn(f64, f64) -> u64,
) -> Coded {
    match near_mantissa(value, bits, state.scale, &bits_of) {
        Some(mantissa) => code_integer(mantissa as u64, state),
        None => rescale(value, bits, state, bits_of),
    }
}

/// Encodes the usual float that follows `state`: its mantissa is not large, and the scale stays the
/// same.
#[inline(always)]
pub fn code_near_f64(value: f64, state: &mut ColumnState) -> Option<Coded> {
    let bits_of = |mantissa: f64, power: f64| (mantissa / power).to_bits();
    let mantissa = near_mantissa(value, value.to_bits(), state.scale, bits_of)?;
    Some(code_integer(mantissa as u64, state))
}

/// Returns the same result as [`mantissa`] for mantissas below 2^51, in fewer instructions.
#[inline(always)]
fn near_mantissa(
    value: f64,
    bits: u64,
    scale: u8,
    bits_of: impl Fn(f64, f64) -> u64,
) -> Option<i64> {
    let power = POWERS[scale as usize];
    let shifted = value * power + ROUNDER;
    // Sums of the same exponent as ROUNDER are integers; NaN and larger values have another one.
    let near = shifted.to_bits() >> 52 == ROUNDER.to_bits() >> 52;
    (near && bits_of(shifted - ROUNDER, power) == bits)
        .then(|| shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i64)
}

#[cold]
fn rescale(
    value: f64,
    bits: u64,
    state: &mut ColumnState,
    bits_of: impl Fn(f64, f64) -> u64,
) -> Coded {
    if let Some(mantissa) = mantissa(value, bits, state.scale, &bits_of) {
        return code_integer(mantissa as u64, state);
    }
    if !state.hopeless {
        for scale in 0..POWERS.len() as u8 {
            if let Some(mantissa) = mantissa(value, bits, scale, &bits_of) {
                *state = ColumnState {
                    previous: mantissa as u64,
                    scale,
                    hopeless: false,
                };
                let plain = Coded::delta(mantissa);
                let word = u64::from(scale) | (plain.bytes as u64) << 5 | plain.word << 8;
                return Coded {
                    code: SCALE,
                    word,
                    bytes: 1 + plain.bytes,
                };
            }
        }
        // NaN, the infinities and -0.0 do not predict the values that follow.
        state.hopeless = value.is_finite() && value != 0.0;
    }
    Coded::whole(RAW, bits)
}

impl Row {
    /// Begins a row with its time.
    #[inline]
    pub fn begin(&mut self, time: i64, state: &mut TimeState, first: bool) {
        self.codes.clear();
        self.payload.clear();
        let coded = code_time(time, state, first);
        self.codes.push(coded.code);
        put_word(coded, &mut self.payload);
    }

    #[inline]
    fn code(&mut self, column: usize, code: u8) {
        if column & 1 == 0 {
            let last = self.codes.len() - 1;
            self.codes[last] |= code << 4;
        } else {
            self.codes.push(code);
        }
    }

    /// Adds the value of the next column.
    #[inline]
    pub fn value(
        &mut self,
        column: usize,
        value: Value<'_>,
        state: &mut ColumnState,
        text: TextPlace<'_>,
    ) {
        let coded = match value {
            Value::F64(value) => code_f64(value, state),
            Value::F32(value) => code_f32(value, state),
            Value::I64(value) => code_integer(value as u64, state),
            Value::U64(value) => code_integer(value, state),
            Value::Bool(value) => code_integer(u64::from(value), state),
            Value::Str(value) => {
                let code = self.text(value, state, text);
                return self.code(column, code);
            }
        };
        put_word(coded, &mut self.payload);
        self.code(column, coded.code);
    }

    /// Adds a gap: the next column has no value in this row.
    #[inline]
    pub fn missing(&mut self, column: usize) {
        self.code(column, MISSING);
    }

    fn text(&mut self, value: &str, state: &mut ColumnState, place: TextPlace<'_>) -> u8 {
        let bytes = value.as_bytes();
        // `previous` is the position plus one, so that 0 means no text.
        if state.previous != 0 {
            let at = state.previous as usize - 1;
            let len = u16::from_le_bytes([place.block[at], place.block[at + 1]]) as usize;
            if len == bytes.len() && &place.block[at + 2..at + 2 + len] == bytes {
                return TEXT_SAME;
            }
        }
        state.previous = (place.payload_at + self.payload.len() + 1) as u64;
        let len = u16::try_from(bytes.len()).expect("longer texts were rejected");
        self.payload.extend_from_slice(&len.to_le_bytes());
        self.payload.extend_from_slice(bytes);
        TEXT
    }
}

/// Position of the texts of a row: the texts already in the block, and the start of this row's
/// payload.
#[derive(Clone, Copy)]
pub struct TextPlace<'a> {
    /// Rows of the block so far.
    pub block: &'a [u8],
    /// Offset of the payload of the row in the block.
    pub payload_at: usize,
}

#[inline]
fn mantissa(value: f64, bits: u64, scale: u8, bits_of: impl Fn(f64, f64) -> u64) -> Option<i64> {
    let power = POWERS[scale as usize];
    let scaled = value * power;
    if scaled.is_nan() || scaled.abs() >= MANTISSA_LIMIT {
        return None;
    }
    let whole = (scaled + 0.5f64.copysign(scaled)) as i64;
    (bits_of(whole as f64, power) == bits).then_some(whole)
}

/// Reader of rows. [`Row`] wrote the bytes, or a journal record with a valid checksum contained
/// them. Every length is checked nevertheless.
pub struct Reader<'a> {
    /// Bytes of the rows.
    pub bytes: &'a [u8],
    /// Offset of the next read.
    pub at: usize,
}

/// Error: the bytes are not rows as [`Row`] writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.bytes.get(self.at..self.at + len).ok_or(Malformed)?;
        self.at += len;
        Ok(bytes)
    }

    fn short(&mut self, len: u8) -> Result<u64, Malformed> {
        let mut word = [0; 8];
        word[..len as usize].copy_from_slice(self.take(len as usize)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Reads the time that a code announces.
    pub fn time(&mut self, code: u8, state: &mut TimeState) -> Result<(), Malformed> {
        match code {
            0..=8 => {
                let change = unzigzag(self.short(code)?);
                state.delta = state.delta.wrapping_add(change);
                state.last = state.last.wrapping_add(state.delta);
            }
            START => {
                *state = TimeState {
                    last: self.short(8)? as i64,
                    delta: 0,
                }
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    /// Reads the bits of the next value. Returns `None` for a gap, and the position of a text.
    pub fn value(
        &mut self,
        code: u8,
        field_type: FieldType,
        state: &mut ColumnState,
    ) -> Result<Option<u64>, Malformed> {
        if code == MISSING {
            return Ok(None);
        }
        match field_type {
            FieldType::Str => self.text(code, state).map(Some),
            FieldType::F64 | FieldType::F32 if code >= RAW => {
                self.scaled(code, field_type, state).map(Some)
            }
            _ if code <= 8 => {
                let delta = unzigzag(self.short(code)?);
                state.previous = state.previous.wrapping_add(delta as u64);
                Ok(Some(bits_of(state, field_type)))
            }
            _ => Err(Malformed),
        }
    }

    fn scaled(
        &mut self,
        code: u8,
        field_type: FieldType,
        state: &mut ColumnState,
    ) -> Result<u64, Malformed> {
        match code {
            RAW => self.short(8),
            SCALE => {
                let head = self.take(1)?[0];
                state.scale = head & 31;
                if state.scale as usize >= POWERS.len() {
                    return Err(Malformed);
                }
                state.previous = unzigzag(self.short(head >> 5)?) as u64;
                Ok(bits_of(state, field_type))
            }
            _ => Err(Malformed),
        }
    }

    fn text(&mut self, code: u8, state: &mut ColumnState) -> Result<u64, Malformed> {
        match code {
            TEXT_SAME if state.previous != 0 => Ok(state.previous),
            TEXT => {
                state.previous = self.at as u64 + 1;
                let len = self.short(2)? as usize;
                std::str::from_utf8(self.take(len)?).map_err(|_| Malformed)?;
                Ok(state.previous)
            }
            _ => Err(Malformed),
        }
    }
}

pub(super) fn bits_of(state: &ColumnState, field_type: FieldType) -> u64 {
    let decimal = || state.previous as i64 as f64 / POWERS[state.scale as usize];
    match field_type {
        FieldType::F64 => decimal().to_bits(),
        FieldType::F32 => u64::from((decimal() as f32).to_bits()),
        _ => state.previous,
    }
}

#[inline]
pub(super) fn nibble(codes: &[u8], index: usize) -> u8 {
    codes[index / 2] >> (4 * (index & 1)) & 15
}

/// Returns the payload length of a number from its code and the byte that follows. Returns `None` for other codes, and if
/// that byte is needed and missing.
#[inline]
pub fn number_bytes(code: u8, first: Option<&u8>) -> Option<usize> {
    match code {
        0..=8 => Some(usize::from(code)),
        RAW => Some(8),
        SCALE => Some(1 + usize::from(first? >> 5)),
        _ => None,
    }
}

/// Returns the payload length of a row from its codes and the bytes that follow, for readers that
/// skip the values.
pub fn payload_bytes(codes: &[u8], columns: usize, bytes: &[u8]) -> Result<usize, Malformed> {
    let time = nibble(codes, 0);
    let mut at = if time == START { 8 } else { time as usize };
    if time > START {
        return Err(Malformed);
    }
    for column in 0..columns {
        at += match nibble(codes, column + 1) {
            TEXT_SAME | MISSING => 0,
            TEXT => {
                let len = bytes.get(at..at + 2).ok_or(Malformed)?;
                2 + u16::from_le_bytes([len[0], len[1]]) as usize
            }
            code => number_bytes(code, bytes.get(at)).ok_or(Malformed)?,
        };
    }
    if at > bytes.len() {
        Err(Malformed)
    } else {
        Ok(at)
    }
}

/// Returns whether a row with these codes begins a block.
pub fn is_start(codes: &[u8]) -> bool {
    codes.first().is_some_and(|codes| codes & 15 == START)
}

/// Computes the states after a row, so that a replay can continue to append after the end of the
/// journal. `block` contains the rows so far including this row, which begins at `at`.
pub fn follow(
    block: &[u8],
    at: usize,
    types: &[FieldType],
    time: &mut TimeState,
    states: &mut [ColumnState],
) -> Result<(), Malformed> {
    let mut reader = Reader { bytes: block, at };
    let codes = reader.take(codes_bytes(types.len()))?;
    reader.time(nibble(codes, 0), time)?;
    for (column, &field_type) in types.iter().enumerate() {
        let value = reader.value(nibble(codes, column + 1), field_type, &mut states[column])?;
        // A row without any value is malformed.
        if value.is_none() && types.len() == 1 {
            return Err(Malformed);
        }
    }
    Ok(())
}

/// Returns the low `bytes` bytes, at most eight, of `window` from `at` on.
#[inline(always)]
fn window_word(window: &[u8; 16], at: usize, bytes: usize) -> u64 {
    let word = u64::from_le_bytes(window[at..at + 8].try_into().expect("eight bytes"));
    if bytes == 0 {
        0
    } else {
        word & u64::MAX >> (64 - 8 * bytes)
    }
}

/// Applies a time code of `bytes` bytes to the state.
#[inline(always)]
pub fn follow_time(time: &mut TimeState, window: &[u8; 16], bytes: usize) {
    time.delta = time
        .delta
        .wrapping_add(unzigzag(window_word(window, 0, bytes)));
    time.last = time.last.wrapping_add(time.delta);
}

/// Returns the number that follows `previous` by a delta of `bytes` bytes from `at` on.
#[inline(always)]
pub fn follow_number(previous: u64, window: &[u8; 16], at: usize, bytes: usize) -> u64 {
    previous.wrapping_add(unzigzag(window_word(window, at, bytes)) as u64)
}

/// Returns the bytes that the texts of a row add to [`row_bound`].
pub fn text_bytes(cells: &[Cell<'_>]) -> usize {
    cells
        .iter()
        .map(|cell| {
            if let Value::Str(text) = cell.value {
                text.len()
            } else {
                0
            }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_its_only_value_is_rejected_before_it_is_buffered() {
        let mut bytes = vec![START | MISSING << 4];
        bytes.extend_from_slice(&[0; 8]);
        let (mut time, mut states) = (TimeState::default(), [ColumnState::default()]);
        for field_type in [FieldType::F64, FieldType::Str] {
            let followed = follow(&bytes, 0, &[field_type], &mut time, &mut states);
            assert_eq!(followed, Err(Malformed));
        }
    }
}
