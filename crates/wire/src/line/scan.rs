//! Searches in eight bytes at a time in a `u64`, with the first byte lowest.
//!
//! A search marks each byte that it finds by the byte's highest bit. A borrow can produce wrong marks *above* a
//! true mark, never below it. Therefore only the lowest mark of a search is valid.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Loads eight bytes from `at`. Returns `None` if fewer are left.
#[inline(always)]
pub fn load(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
}

/// Marks the bytes below `limit`, which must be at most 128.
#[inline(always)]
pub fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW * u64::from(limit)) & !word & HIGH
}

/// Marks the bytes equal to `byte`.
#[inline(always)]
pub fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (LOW * u64::from(byte)), 1)
}

/// Marks the bytes outside ASCII.
#[inline(always)]
pub fn beyond_ascii(word: u64) -> u64 {
    word & HIGH
}

/// Returns the index of the lowest mark, 0 to 7 (8 if there is no mark).
#[inline(always)]
pub fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Returns the index of the first byte up to and including the space character, or the length of the text if
/// there is none.
#[inline(always)]
pub fn control_or_space(text: &[u8]) -> usize {
    // A loop over words is faster here than a vector search: the processor predicts how many words a name has,
    // and continues behind the name before the end of the name is known.
    let (words, rest) = text.as_chunks();
    let mut at = 0;
    for word in words {
        let found = below(u64::from_le_bytes(*word), b' ' + 1);
        if found != 0 {
            return at + first(found);
        }
        at += 8;
    }
    at + rest
        .iter()
        .position(|byte| *byte <= b' ')
        .unwrap_or(rest.len())
}

/// Maps the digits `0` to `9` to 0 to 9, and all other bytes to larger values.
#[inline(always)]
fn values(word: u64) -> u64 {
    word ^ (LOW * u64::from(b'0'))
}

/// Marks the bytes greater than 9.
#[inline(always)]
fn above_nine(values: u64) -> u64 {
    (values.wrapping_add(LOW * 0x76) | values) & HIGH
}

/// Returns whether all bytes of the words are digits.
#[inline(always)]
pub fn are_digits(words: [u64; 3]) -> bool {
    words
        .into_iter()
        .fold(0, |others, word| others | above_nine(values(word)))
        == 0
}

/// Returns the value of the eight digits of a word. The word must pass [`are_digits`].
#[inline(always)]
pub fn eight_digits(word: u64) -> u64 {
    joined(values(word))
}

/// Returns the value of the last three digits of a word. The word must pass [`are_digits`].
#[inline(always)]
pub fn last_three_digits(word: u64) -> u64 {
    joined(values(word) >> 40 << 40)
}

/// Returns the value and the number of the digits at the front of a word; `None` if the word starts with
/// another byte.
#[inline(always)]
pub fn digits(word: u64) -> Option<(u64, usize)> {
    let values = values(word);
    let len = above_nine(values).trailing_zeros() / 8;
    if len == 0 {
        return None;
    }
    // The shift moves the digits to the top and all other bytes out. The zeros below act as leading zeros.
    Some((joined(values << (64 - 8 * len)), len as usize))
}

/// Returns the value of eight bytes 0 to 9, most significant digit first.
#[inline(always)]
fn joined(values: u64) -> u64 {
    // Joins neighbours into pairs, then fours, then all eight.
    let pairs = values.wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(100 << 16 | 1) >> 16;
    (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul(10_000 << 32 | 1) >> 32
}
