//! Tables of frequencies: their bytes in the directory, and the shares that both sides compute from them.
//!
//! A table stores coarse counts, a few bits each. Encoder and decoder compute the same shares of 4096
//! from them with integer arithmetic.

use seiner_codec::DecodeError;
use seiner_codec::bits::{BitReader, BitWriter, bytes_for, low_mask, width};
use seiner_codec::reader::Reader;
use seiner_codec::varint::{put_u64, unzigzag, zigzag};

use crate::histogram::Histogram;
use crate::token::{COARSE, Division, FINE, TOKENS};

/// Bits of the sum of all shares: they sum to `1 << SHARE_BITS`.
pub(crate) const SHARE_BITS: u32 = 12;
/// Sum of all shares.
pub(crate) const SHARES: u32 = 1 << SHARE_BITS;
/// Largest number of tokens of a table.
pub(crate) const MOST_TOKENS: usize = 256;

/// First byte of a table without tokens.
const EMPTY: u8 = 0;
/// First byte of a table with one token, which takes no bits.
const CONSTANT: u8 = 1;
/// First byte of all other tables; plus the bits kept of a count, plus [`COARSE_FLAG`].
const COUNTED: u8 = 2;
const COARSE_FLAG: u8 = 4;
/// Largest number of bits that are kept of a count below its leading bit.
const MOST_KEPT: u8 = 3;
/// Largest width of a count in bits.
const MAX_WIDTH: i64 = 24;
/// Largest zigzag change, exclusive, of a count's width that is sent as a change.
const MAX_CHANGE: u32 = 4;
const WIDTH_BITS: u32 = 5;

/// Frequencies of the tokens of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Context that does not occur.
    Empty,
    /// Context in which each number has the same token.
    Constant(u16),
    /// Context with at least two tokens.
    Counted(Counts),
}

/// Coarse counts of at least two tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    coarse: bool,
    /// Bits kept of a count below its leading bit.
    kept: u8,
    /// Tokens in use in ascending order, with their coarse counts.
    entries: Vec<(u16, u32)>,
}

impl Table {
    /// Creates the table of a histogram.
    pub(crate) fn new(histogram: &Histogram) -> Table {
        let counts = histogram.counts();
        let used = counts.iter().filter(|count| **count > 0).count();
        if used > MOST_TOKENS {
            let mut coarse = [0; TOKENS];
            for (token, count) in counts.iter().enumerate() {
                coarse[COARSE.token(FINE.start(token).0).0] += count;
            }
            return Table::from_counts(&coarse, true);
        }
        Table::from_counts(counts, false)
    }

    fn from_counts(counts: &[u32; TOKENS], coarse: bool) -> Table {
        let used = || (0u16..).zip(counts).filter(|(_, count)| **count > 0);
        let largest = counts.iter().copied().max().unwrap_or(0);
        let shift = width(u64::from(largest)).saturating_sub(MAX_WIDTH as u32);
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        match (used().next(), used().nth(1)) {
            (None, _) => Table::Empty,
            (Some((token, _)), None) if !coarse => Table::Constant(token),
            _ => {
                let kept = kept_bits(total);
                let scaled = |count: u32| keep_top(count.max(1 << shift) >> shift, kept);
                Table::Counted(Counts {
                    coarse,
                    kept,
                    entries: used()
                        .map(|(token, &count)| (token, scaled(count)))
                        .collect(),
                })
            }
        }
    }

    /// Appends the table.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Table::Empty => out.push(EMPTY),
            Table::Constant(token) => {
                out.push(CONSTANT);
                put_u64(u64::from(*token), out);
            }
            Table::Counted(counts) => counts.put(out),
        }
    }

    /// Reads a table.
    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Table, DecodeError> {
        match reader.byte("a table's form")? {
            EMPTY => Ok(Table::Empty),
            CONSTANT => {
                let token = reader.length(TOKENS - 1, "a token exceeds all tokens")?;
                Ok(Table::Constant(token as u16))
            }
            form if form < COUNTED + 2 * COARSE_FLAG => {
                Counts::take(reader, form - COUNTED).map(Table::Counted)
            }
            found => Err(reader.unknown("a table", found)),
        }
    }
}

/// Returns the bits to keep of counts with this sum: more pay for themselves in larger bundles.
fn kept_bits(total: u64) -> u8 {
    match total {
        0..0x1000 => 1,
        0x1000..0x2_0000 => 2,
        _ => MOST_KEPT,
    }
}

/// Returns a count with only its leading bit and `kept` bits below.
fn keep_top(count: u32, kept: u8) -> u32 {
    let cut = cut_bits(count, kept);
    count >> cut << cut
}

/// Returns the number of bits of a count that are not kept.
fn cut_bits(count: u32, kept: u8) -> u32 {
    width(u64::from(count)).saturating_sub(1 + u32::from(kept))
}

impl Counts {
    /// Returns the division of the tokens.
    pub(crate) fn division(&self) -> Division {
        if self.coarse { COARSE } else { FINE }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let flag = if self.coarse { COARSE_FLAG } else { 0 };
        out.push(COUNTED + flag + self.kept);
        let (first, last) = (self.entries[0].0, self.entries[self.entries.len() - 1].0);
        put_u64(u64::from(first), out);
        put_u64(u64::from(last - first), out);
        let mut bits = BitWriter::new(out);
        let (mut next, mut before) = (first, 0);
        for &(token, count) in &self.entries {
            for _ in next..token {
                before = put_count(&mut bits, 0, before, self.kept);
            }
            before = put_count(&mut bits, count, before, self.kept);
            next = token + 1;
        }
        bits.finish();
    }

    fn take(reader: &mut Reader<'_>, form: u8) -> Result<Counts, DecodeError> {
        let (coarse, kept) = (form & COARSE_FLAG != 0, form & (COARSE_FLAG - 1));
        let division = if coarse { COARSE } else { FINE };
        let most = division.tokens() - 1;
        let first = reader.length(most, "a token exceeds all tokens")?;
        let last = first + reader.length(most - first, "a token exceeds all tokens")?;
        let mut entries = Vec::with_capacity(MOST_TOKENS.min(last - first + 1));
        let mut bits = BitReader::new(reader.rest());
        let mut before = 0i64;
        for token in first..=last {
            let change = bits.ones(MAX_CHANGE);
            let width = if change == MAX_CHANGE {
                bits.get(WIDTH_BITS) as i64
            } else {
                before + unzigzag(u64::from(change))
            };
            if !(0..=MAX_WIDTH).contains(&width) {
                return Err(reader.invalid("a token's count exceeds every bundle"));
            }
            before = width;
            if width > 0 {
                let below = width as u32 - 1;
                let sent = below.min(u32::from(kept));
                let low = bits.get(sent) as u32;
                entries.push((token as u16, (1 << sent | low) << (below - sent)));
            }
        }
        if entries.is_empty() || entries.len() > MOST_TOKENS {
            return Err(reader.invalid("a table has no tokens or more than 256"));
        }
        reader.take(bytes_for(bits.position()), "a table's counts")?;
        Ok(Counts {
            coarse,
            kept,
            entries,
        })
    }

    /// Computes the shares of the tokens, in ascending order; each is at least one.
    pub(crate) fn shares(&self) -> Vec<(u16, u32)> {
        let middle = |count: u32| {
            let cut = cut_bits(count, self.kept);
            u64::from(count) * 4 + ((1 << cut) - 1) * 2
        };
        let total: u64 = self.entries.iter().map(|&(_, count)| middle(count)).sum();
        // One division for all counts. No product overflows: a count is below 2^25.
        let per_count = (u64::from(SHARES) << 32) / total;
        let share = |count| (((middle(count) * per_count + (1 << 31)) >> 32) as u32).max(1);
        let mut shares: Vec<(u16, u32)> = self
            .entries
            .iter()
            .map(|&(token, count)| (token, share(count)))
            .collect();
        let mut sum: u32 = shares.iter().map(|(_, share)| share).sum();
        while sum != SHARES {
            let Some((_, largest)) = shares.iter_mut().max_by_key(|(_, share)| *share) else {
                break;
            };
            if sum < SHARES {
                *largest += SHARES - sum;
                break;
            }
            // Shares of 1 cannot be reduced. If the sum is too large, the largest share is above 1.
            let cut = (sum - SHARES).min((*largest / 4).max(1));
            *largest -= cut;
            sum -= cut;
        }
        shares
    }
}

/// Appends a coarse count. Returns its width.
fn put_count(bits: &mut BitWriter<'_>, count: u32, before: u32, kept: u8) -> u32 {
    let width = width(u64::from(count));
    let change = zigzag(i64::from(width) - i64::from(before));
    if change < u64::from(MAX_CHANGE) {
        bits.put(low_mask(change as u32), change as u32 + 1);
    } else {
        bits.put(low_mask(MAX_CHANGE), MAX_CHANGE);
        bits.put(u64::from(width), WIDTH_BITS);
    }
    let sent = width.saturating_sub(1).min(u32::from(kept));
    let cut = cut_bits(count, kept);
    bits.put(u64::from(count >> cut) & low_mask(sent), sent);
    width
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tables_round_trip_and_their_shares_sum_up(
            numbers in prop::collection::vec((0u32..64, any::<u64>()), 0..2000),
            repeats in 1u32..100_000,
        ) {
            let mut histogram = Histogram::default();
            for &(shift, number) in &numbers {
                histogram.add(number >> shift);
            }
            let mut common = Histogram::default();
            common.add(7);
            (0..repeats.min(30)).for_each(|_| histogram.merge(&common.clone()));
            let table = Table::new(&histogram);
            let mut bytes = Vec::new();
            table.put(&mut bytes);
            let mut reader = Reader::new(&bytes);
            let taken = Table::take(&mut reader);
            prop_assert_eq!(taken.as_ref(), Ok(&table));
            prop_assert!(reader.rest().is_empty());
            if let Table::Counted(counts) = table {
                let shares = counts.shares();
                prop_assert_eq!(shares.iter().map(|(_, share)| share).sum::<u32>(), SHARES);
                prop_assert!(shares.iter().all(|&(_, share)| share > 0));
            }
        }
    }
}
