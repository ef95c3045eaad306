//! Residuals as tokens and remainders. A token holds the magnitude of a number and is entropy-coded;
//! the bits below are packed raw.
//!
//! Small numbers are tokens without remainder. Compared with packing, tokens save fractions of a bit,
//! and an outlier does not widen its neighbours.

use crate::bits::{self, BitWriter, PADDING, bytes_for, width};
use crate::integers::middle;
use crate::reader::Reader;
use crate::varint::{put_i64, unzigzag, zigzag};
use crate::{DecodeError, Effort, ans, entropy};

/// Division of numbers into token and remainder.
#[derive(Clone, Copy)]
struct Division {
    /// Exponent: numbers below `1 << direct` are tokens without remainder.
    direct: u32,
    /// Number of bits below the leading bit that a token keeps.
    kept: u32,
}

/// Divisions by code, each with the largest width it is used for: up to that width it has at most 256
/// tokens.
const DIVISIONS: [(Division, u32); 4] = [
    (Division { direct: 8, kept: 0 }, 8),
    (Division { direct: 7, kept: 3 }, 23),
    (Division { direct: 5, kept: 3 }, 33),
    (Division { direct: 4, kept: 2 }, 64),
];

/// Number of residuals sampled to choose a base.
const PROBES: usize = 256;

/// Division whose tokens are the numbers themselves.
const ALONE: u8 = 0;

/// Header flag: numbers are zigzag around the base instead of upwards from it.
const CENTRED: u8 = 16;
/// Header flag: the tokens are compressed with zstd.
const REPEATS: u8 = 32;

impl Division {
    /// Returns the token of a number, and the number of bits that remain below it.
    #[inline(always)]
    fn token(self, number: u64) -> (u8, u32) {
        // Both cases are computed and one is picked, because a branch could not be predicted.
        let beyond = number >> self.direct != 0;
        let top = width(number | 1) - 1;
        let remainder = if beyond {
            top.wrapping_sub(self.kept)
        } else {
            0
        };
        let kept = (number >> remainder) as u32 & ((1 << self.kept) - 1);
        let token =
            (top.wrapping_sub(self.direct) << self.kept).wrapping_add((1 << self.direct) + kept);
        (if beyond { token as u8 } else { number as u8 }, remainder)
    }

    /// Returns, for each token, its smallest number and the number of remaining bits.
    const fn starts(self) -> [(u64, u32); 256] {
        let mut starts = [(0, 0); 256];
        let mut token = 0u32;
        while token < 256 {
            starts[token as usize] = match token.checked_sub(1 << self.direct) {
                None => (token as u64, 0),
                Some(beyond) => {
                    let top = self.direct + (beyond >> self.kept);
                    let kept = (beyond & ((1 << self.kept) - 1)) as u64;
                    let remainder = top - self.kept;
                    (1 << top | kept << remainder, remainder)
                }
            };
            token += 1;
        }
        starts
    }
}

/// Starts of the tokens of each division; all 256 are defined.
static STARTS: [[(u64, u32); 256]; 4] = [
    DIVISIONS[0].0.starts(),
    DIVISIONS[1].0.starts(),
    DIVISIONS[2].0.starts(),
    DIVISIONS[3].0.starts(),
];

/// Residuals as tokens, not yet entropy-coded.
pub(crate) struct TokenPlan {
    numbers: Vec<u64>,
    tokens: Vec<u8>,
    padded: Vec<u8>,
    base: i64,
    centred: bool,
    division: u8,
    remainder_bits: usize,
    counts: [u32; 256],
    ans: ans::Scratch,
}

impl Default for TokenPlan {
    fn default() -> TokenPlan {
        TokenPlan {
            numbers: Vec::new(),
            tokens: Vec::new(),
            padded: Vec::new(),
            base: 0,
            centred: false,
            division: 0,
            remainder_bits: 0,
            counts: [0; 256],
            ans: ans::Scratch::default(),
        }
    }
}

impl TokenPlan {
    /// Divides the residuals into tokens and remainders; returns the approximate encoded size in bytes.
    /// `bounds` are the smallest and the largest residual.
    pub(crate) fn prepare(&mut self, residuals: &[i64], bounds: (i64, i64)) -> usize {
        if (bounds.1.wrapping_sub(bounds.0) as u64) < 256 {
            self.take_alone(residuals, bounds.0);
        } else {
            self.divide_wide(residuals, bounds.0);
        }
        self.counts = [0; 256];
        self.tokens
            .iter()
            .for_each(|&token| self.counts[usize::from(token)] += 1);
        16 + entropy_bytes(&self.counts, self.tokens.len()) + bytes_for(self.remainder_bits)
    }

    /// Takes residuals within 8 bits of the smallest, which are tokens without remainder.
    fn take_alone(&mut self, residuals: &[i64], low: i64) {
        (self.base, self.centred, self.division) = (low, false, ALONE);
        self.remainder_bits = 0;
        self.tokens.clear();
        self.tokens
            .extend(residuals.iter().map(|value| value.wrapping_sub(low) as u8));
    }

    /// Divides residuals. Some residuals have remainders.
    fn divide_wide(&mut self, residuals: &[i64], low: i64) {
        self.choose_base(residuals, low);
        let widest = width(self.numbers.iter().fold(0, |all, number| all | number));
        let first = if residuals.len() < 1024 && widest > 8 {
            2
        } else {
            0
        };
        self.division = (first..DIVISIONS.len())
            .find(|&code| widest <= DIVISIONS[code].1)
            .expect("the last division takes any width") as u8;
        self.divide(DIVISIONS[usize::from(self.division)].0);
    }

    /// Chooses numbers from the smallest residual upwards or around the median, whichever are narrower.
    fn choose_base(&mut self, residuals: &[i64], low: i64) {
        let centre = middle(residuals.iter().copied());
        let probes = || residuals.iter().step_by(residuals.len() / PROBES + 1);
        let above: u32 = probes()
            .map(|&value| width(value.wrapping_sub(low) as u64))
            .sum();
        let around: u32 = probes()
            .map(|&value| width(zigzag(value.wrapping_sub(centre))))
            .sum();
        self.centred = around < above;
        self.base = if self.centred { centre } else { low };
        self.numbers.clear();
        let (base, centred) = (self.base, self.centred);
        self.numbers.extend(residuals.iter().map(|value| {
            let difference = value.wrapping_sub(base);
            if centred {
                zigzag(difference)
            } else {
                difference as u64
            }
        }));
    }

    fn divide(&mut self, division: Division) {
        self.tokens.clear();
        self.tokens.resize(self.numbers.len(), 0);
        let mut bits = 0;
        for (place, &number) in self.tokens.iter_mut().zip(&self.numbers) {
            let (token, remainder) = division.token(number);
            *place = token;
            bits += remainder;
        }
        self.remainder_bits = bits as usize;
    }

    /// Appends the prepared residuals. Returns false and appends nothing if they exceed `limit` bytes.
    pub(crate) fn encode(&mut self, effort: Effort, limit: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let flags = if self.centred { CENTRED } else { 0 };
        out.push(self.division | flags);
        put_i64(self.base, out);
        let section = out.len();
        self.ans.encode(&self.tokens, &self.counts, out);
        if effort == Effort::Best {
            self.try_repeats(start, section, out);
        }
        if self.remainder_bits > 0 {
            self.put_remainders(out);
        }
        if out.len() - start > limit {
            out.truncate(start);
            return false;
        }
        true
    }

    fn put_remainders(&self, out: &mut Vec<u8>) {
        let starts = &STARTS[usize::from(self.division)];
        let mut writer = BitWriter::new(out);
        for (&number, &token) in self.numbers.iter().zip(&self.tokens) {
            let (start, remainder) = starts[usize::from(token)];
            writer.put(number - start, remainder);
        }
        writer.finish();
    }

    /// Replaces the section of tokens by a zstd section, which uses repeats, if that is smaller.
    fn try_repeats(&self, start: usize, section: usize, out: &mut Vec<u8>) {
        let end = out.len();
        if entropy::encode(&self.tokens, Effort::Best, end - section - 1, out) {
            out.drain(section..end);
            out[start] |= REPEATS;
        }
    }
}

/// Returns the approximate bytes of an order-0 entropy coder, including its table.
fn entropy_bytes(counts: &[u32; 256], total: usize) -> usize {
    let log_total = (total as f32).log2();
    let (mut bits, mut used) = (0.0, 0);
    for &count in counts.iter().filter(|&&count| count > 0) {
        bits += count as f32 * (log_total - (count as f32).log2());
        used += 1;
    }
    (bits / 8.0) as usize + used / 2
}

/// Decodes into `residuals`.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    scratch: &mut TokenPlan,
    residuals: &mut [i64],
) -> Result<(), DecodeError> {
    let TokenPlan {
        tokens,
        ans,
        padded,
        ..
    } = scratch;
    let header = reader.byte("a division")?;
    let Some(starts) = STARTS.get(usize::from(header & !(CENTRED | REPEATS))) else {
        return Err(reader.invalid("no division has this code"));
    };
    let centred = header & CENTRED != 0;
    let base = reader.signed("a base")?;
    if header & REPEATS != 0 {
        entropy::decode(reader, tokens, residuals.len())?;
    } else {
        tokens.clear();
        tokens.resize(residuals.len(), 0);
        ans.decode(reader, tokens)?;
    }
    if header & !REPEATS == ALONE {
        for (residual, &token) in residuals.iter_mut().zip(tokens.iter()) {
            *residual = base.wrapping_add(i64::from(token));
        }
        return Ok(());
    }
    let remainder_bits = tokens
        .iter()
        .map(|&token| starts[usize::from(token)].1 as usize)
        .sum();
    let bytes = reader.take(bytes_for(remainder_bits), "the tokens' remainders")?;
    padded.clear();
    padded.extend_from_slice(bytes);
    padded.extend_from_slice(&[0; PADDING]);
    let mut position = 0;
    for (residual, &token) in residuals.iter_mut().zip(tokens.iter()) {
        let (start, remainder) = starts[usize::from(token)];
        let number = start + bits::get(padded, position, remainder);
        position += remainder as usize;
        *residual = base.wrapping_add(if centred {
            unzigzag(number)
        } else {
            number as i64
        });
    }
    Ok(())
}
