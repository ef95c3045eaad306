//! Eight bytes at a time in a plain `u64`, the first byte lowest.
//!
//! Every search marks bytes by their highest bit. A borrow can mark bytes *above* a true
//! mark wrongly, never below it: only the lowest mark of a search counts.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The eight bytes from `at`; `None` where fewer are left.
#[inline(always)]
pub fn load(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
}

/// Marks the bytes below `limit`, which is at most 128.
#[inline(always)]
pub fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW * u64::from(limit)) & !word & HIGH
}

/// Marks the bytes equal to `byte`.
#[inline(always)]
pub fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (LOW * u64::from(byte)), 1)
}

/// Marks the bytes beyond ASCII.
#[inline(always)]
pub fn beyond_ascii(word: u64) -> u64 {
    word & HIGH
}

/// Where the lowest mark is: 0 to 7.
#[inline(always)]
pub fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Where the first byte up to the space character is; the length of the text if nowhere.
#[inline(always)]
pub fn control_or_space(text: &[u8]) -> usize {
    // Words, not a vector search: the processor foresees how many words a name has, and
    // reads on behind the name before it knows the name's end.
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

/// `0` to `9` as 0 to 9, all other bytes as more.
#[inline(always)]
fn values(word: u64) -> u64 {
    word ^ (LOW * u64::from(b'0'))
}

/// Marks the bytes that are more than 9.
#[inline(always)]
fn above_nine(values: u64) -> u64 {
    (values.wrapping_add(LOW * 0x76) | values) & HIGH
}

/// Whether words are digits all over.
#[inline(always)]
pub fn are_digits(words: [u64; 3]) -> bool {
    words
        .into_iter()
        .fold(0, |others, word| others | above_nine(values(word)))
        == 0
}

/// The number that the digits of a word stand for, which [`are_digits`].
#[inline(always)]
pub fn eight_digits(word: u64) -> u64 {
    joined(values(word))
}

/// The number that the last three digits of a word stand for, which [`are_digits`].
#[inline(always)]
pub fn last_three_digits(word: u64) -> u64 {
    joined(values(word) >> 40 << 40)
}

/// The number that the digits at the front of a word stand for, and how many they are, if any.
#[inline(always)]
pub fn digits(word: u64) -> Option<(u64, usize)> {
    let values = values(word);
    let len = above_nine(values).trailing_zeros() / 8;
    if len == 0 {
        return None;
    }
    // The digits move to the top, and the others out; the zeros below are leading zeros.
    Some((joined(values << (64 - 8 * len)), len as usize))
}

/// The number of eight bytes 0 to 9, the first one highest.
#[inline(always)]
fn joined(values: u64) -> u64 {
    // Neighbours are joined into pairs, then fours, then the eight.
    let pairs = values.wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(100 << 16 | 1) >> 16;
    (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul(10_000 << 32 | 1) >> 32
}
