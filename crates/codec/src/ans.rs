//! Entropy coding of bytes by frequency with an asymmetric numeral system (rANS), which spends
//! fractions of a bit.
//!
//! This coder is used instead of zstd's because a block's section is short. The frequencies are sent as
//! coarse counts of a few bits each; encoder and decoder compute the same shares from them. Four
//! interleaved states keep a processor busy. Short sections use one state, which takes less space.

use crate::DecodeError;
use crate::bits::{BitReader, BitWriter, bytes_for, low_mask, width};
use crate::reader::Reader;
use crate::varint::put_u64;

/// Bits of the sum of all shares: they sum to `1 << SHARE_BITS`.
const SHARE_BITS: u32 = 12;
const SHARES: u32 = 1 << SHARE_BITS;
/// Lower bound of a state. Two bytes at a time move out of or into a state.
const FLOOR: u32 = 1 << 16;
/// Section length in bytes from which on four states are used.
const MANY: usize = 256;
/// Bits of a count that are sent below its leading bit. A share that is off by a fifth costs less than
/// one more bit per count.
const COUNT_BITS: u32 = 1;
/// Largest zigzag change, exclusive, of a count's width that is sent as a change; a larger change is
/// sent as the width itself.
const MAX_CHANGE: u32 = 4;
const WIDTH_BITS: u32 = 5;

/// Returns a count with only its leading bits kept, as it is sent.
fn coarse(count: u32) -> u32 {
    let cut = width(u64::from(count)).saturating_sub(1 + COUNT_BITS);
    count >> cut << cut
}

/// Computes the shares of the bytes from their coarse counts; each byte that occurs has at least one.
fn shares(counts: &[u32; 256]) -> [u32; 256] {
    let total: u64 = counts.iter().map(|&count| middle(count)).sum();
    // One division for all counts. Every count is below 2^32 / 256, so nothing overflows.
    let per_count = (u64::from(SHARES) << 32) / total;
    let mut shares = [0; 256];
    for (share, &count) in shares
        .iter_mut()
        .zip(counts)
        .filter(|(_, count)| **count > 0)
    {
        *share = ((middle(count) * per_count + (1 << 31)) >> 32).max(1) as u32;
    }
    let mut sum: u32 = shares.iter().sum();
    while sum != SHARES {
        let largest = shares.iter_mut().max().expect("256 shares");
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

/// Returns four times the middle of the counts that have the coarse count `coarse`.
fn middle(coarse: u32) -> u64 {
    let cut = width(u64::from(coarse)).saturating_sub(1 + COUNT_BITS);
    u64::from(coarse) * 4 + ((1 << cut) - 1) * 2
}

/// Appends the coarse counts.
fn put_counts(counts: &[u32; 256], out: &mut Vec<u8>) {
    let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    out.extend_from_slice(&[first as u8, last as u8]);
    let mut writer = BitWriter::new(out);
    let mut before = 0;
    for &count in &counts[first..=last] {
        let width = width(u64::from(count));
        let change = crate::varint::zigzag(i64::from(width) - i64::from(before)) as u32;
        if change < MAX_CHANGE {
            writer.put(low_mask(change), change + 1);
        } else {
            writer.put(low_mask(MAX_CHANGE), MAX_CHANGE);
            writer.put(u64::from(width), WIDTH_BITS);
        }
        let sent = width.saturating_sub(1).min(COUNT_BITS);
        let cut = width.saturating_sub(1 + COUNT_BITS);
        writer.put(u64::from(count >> cut) & low_mask(sent), sent);
        before = width;
    }
    writer.finish();
}

/// Reads the coarse counts. Fails if all are zero.
fn take_counts(reader: &mut Reader<'_>) -> Result<[u32; 256], DecodeError> {
    let first = usize::from(reader.byte("the first token")?);
    let last = usize::from(reader.byte("the last token")?);
    let mut counts = [0u32; 256];
    let mut bits = BitReader::new(reader.rest());
    let mut before = 0i64;
    for count in counts.get_mut(first..=last).unwrap_or_default() {
        let change = bits.ones(MAX_CHANGE);
        let width = if change == MAX_CHANGE {
            bits.get(WIDTH_BITS) as i64
        } else {
            before + crate::varint::unzigzag(u64::from(change))
        };
        if !(0..=21).contains(&width) {
            return Err(reader.invalid("a token's count exceeds every column"));
        }
        let sent = (width as u32).saturating_sub(1).min(COUNT_BITS);
        let low = bits.get(sent) as u32;
        if width > 0 {
            *count = (1 << sent | low) << (width as u32 - 1 - sent);
        }
        before = width;
    }
    reader.take(bytes_for(bits.position()), "the tokens' counts")?;
    if counts.iter().all(|&count| count == 0) {
        return Err(reader.invalid("no token occurs"));
    }
    Ok(counts)
}

/// Precomputed values for the encoding of one byte.
#[repr(align(32))]
#[derive(Clone, Copy, Default)]
struct Step {
    /// 2^64 divided by the share: a multiplication replaces the division. Exact for 32-bit states.
    reciprocal: u64,
    /// Largest state that encodes the byte directly; a state above it first emits its low half.
    most: u32,
    /// Sum of the other shares.
    others: u32,
    /// Start of the byte's share; for a share of 1, whose reciprocal does not fit, plus `others`.
    start: u32,
}

impl Step {
    fn new(share: u32, start: u32) -> Step {
        let others = SHARES - share;
        let (reciprocal, correction) = match share {
            1 => (u64::MAX, others),
            _ => (u64::MAX / u64::from(share) + 1, 0),
        };
        Step {
            reciprocal,
            most: ((u64::from(share) << (32 - SHARE_BITS)) - 1) as u32,
            others,
            start: start + correction,
        }
    }
}

fn steps(shares: &[u32; 256]) -> [Step; 256] {
    let mut start = 0;
    std::array::from_fn(|byte| match shares[byte] {
        0 => Step::default(),
        share => {
            start += share;
            Step::new(share, start - share)
        }
    })
}

/// Buffers that are reused between calls.
#[derive(Default)]
pub(crate) struct Scratch {
    words: Vec<u16>,
    slots: Vec<u32>,
}

impl Scratch {
    /// Appends the encoded bytes. `counts` are their frequencies; there must be at least one byte.
    pub(crate) fn encode(&mut self, bytes: &[u8], counts: &[u32; 256], out: &mut Vec<u8>) {
        let counts = counts.map(coarse);
        put_counts(&counts, out);
        let steps = steps(&shares(&counts));
        if bytes.len() < MANY {
            self.encode_states::<1>(bytes, &steps, out);
        } else {
            self.encode_states::<4>(bytes, &steps, out);
        }
    }

    /// Encodes from the last byte to the first, so that decoding runs forwards.
    fn encode_states<const N: usize>(
        &mut self,
        bytes: &[u8],
        steps: &[Step; 256],
        out: &mut Vec<u8>,
    ) {
        self.words.clear();
        self.words.resize(bytes.len(), 0);
        let mut free = self.words.len();
        let mut states = [FLOOR; N];
        let (rounds, rest) = bytes.as_chunks::<N>();
        let mut push = |state: &mut u32, byte: u8| {
            let step = &steps[usize::from(byte)];
            let full = *state > step.most;
            // The next word overwrites this one unless `free` moves.
            self.words[free - 1] = *state as u16;
            free -= usize::from(full);
            let held = if full { *state >> 16 } else { *state };
            let quotient = ((u128::from(step.reciprocal) * u128::from(held)) >> 64) as u32;
            *state = held + quotient * step.others + step.start;
        };
        for (state, &byte) in states.iter_mut().zip(rest).rev() {
            push(state, byte);
        }
        for round in rounds.iter().rev() {
            for (state, &byte) in states.iter_mut().zip(round).rev() {
                push(state, byte);
            }
        }
        states
            .iter()
            .for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        let words = &self.words[free..];
        put_u64(words.len() as u64, out);
        words
            .iter()
            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// Decodes a section into `bytes`, whose length is the number of encoded bytes.
    pub(crate) fn decode(
        &mut self,
        reader: &mut Reader<'_>,
        bytes: &mut [u8],
    ) -> Result<(), DecodeError> {
        let shares = shares(&take_counts(reader)?);
        self.slots.resize(SHARES as usize, 0);
        let mut free = self.slots.as_mut_slice();
        for (byte, &share) in (0u32..).zip(&shares).filter(|(_, share)| **share > 0) {
            let (taken, rest) = free.split_at_mut(share as usize);
            // Each slot packs the byte, its share − 1 and the position within the share.
            let slot = byte << 24 | (share - 1) << 12;
            (0u32..)
                .zip(taken)
                .for_each(|(place, taken)| *taken = slot | place);
            free = rest;
        }
        if bytes.len() < MANY {
            self.decode_states::<1>(reader, bytes)
        } else {
            self.decode_states::<4>(reader, bytes)
        }
    }

    fn decode_states<const N: usize>(
        &self,
        reader: &mut Reader<'_>,
        bytes: &mut [u8],
    ) -> Result<(), DecodeError> {
        let mut states = [0u32; N];
        for (state, bytes) in states
            .iter_mut()
            .zip(reader.take(4 * N, "the tokens' states")?.as_chunks().0)
        {
            *state = u32::from_le_bytes(*bytes);
        }
        let length = reader.length(bytes.len(), "more words than tokens")?;
        let (words, _) = reader
            .take(2 * length, "the tokens' words")?
            .as_chunks::<2>();
        let slots: &[u32; SHARES as usize] = self
            .slots
            .as_slice()
            .try_into()
            .map_err(|_| reader.invalid("shares do not sum up"))?;
        let mut read = 0;
        let mut pop = |state: &mut u32| {
            let slot = slots[(*state & (SHARES - 1)) as usize];
            // Cannot overflow: the share is at most the sum of all shares.
            let next = ((slot >> 12 & 0xfff) + 1) * (*state >> SHARE_BITS) + (slot & 0xfff);
            let word = u32::from(u16::from_le_bytes(
                words.get(read).copied().unwrap_or_default(),
            ));
            let low = next < FLOOR;
            read += usize::from(low);
            *state = if low { next << 16 | word } else { next };
            (slot >> 24) as u8
        };
        let (rounds, rest) = bytes.as_chunks_mut::<N>();
        for round in rounds {
            for (byte, state) in round.iter_mut().zip(&mut states) {
                *byte = pop(state);
            }
        }
        for (byte, state) in rest.iter_mut().zip(&mut states) {
            *byte = pop(state);
        }
        if read != words.len() || states != [FLOOR; N] {
            return Err(reader.invalid("the tokens do not end where they began"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trips(bytes: &[u8]) {
        let mut counts = [0; 256];
        bytes
            .iter()
            .for_each(|&byte| counts[usize::from(byte)] += 1);
        let mut out = Vec::new();
        Scratch::default().encode(bytes, &counts, &mut out);
        let mut decoded = vec![0; bytes.len()];
        let mut reader = Reader::new(&out);
        assert_eq!(Scratch::default().decode(&mut reader, &mut decoded), Ok(()));
        assert_eq!(decoded, bytes);
        assert!(reader.rest().is_empty());
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..3000),
            prop::collection::vec(0u8..3, 1..600),
            prop::collection::vec(prop::bool::weighted(0.001).prop_map(u8::from), 1..6000),
            (any::<u8>(), 1usize..5000).prop_map(|(byte, length)| vec![byte; length]),
        ]) {
            round_trips(&bytes);
        }
    }

    #[test]
    fn a_common_byte_costs_a_fraction_of_a_bit() {
        let bytes: Vec<u8> = (0..4096).map(|index| u8::from(index % 64 == 0)).collect();
        let mut out = Vec::new();
        let mut counts = [0; 256];
        (counts[0], counts[1]) = (4032, 64);
        Scratch::default().encode(&bytes, &counts, &mut out);
        assert!(out.len() < 4096 / 64 + 32, "{} bytes", out.len());
    }

    #[test]
    fn many_rare_bytes_keep_a_share() {
        let mut counts = [1; 256];
        counts[7] = 1 << 20;
        let shares = shares(&counts.map(coarse));
        assert_eq!(shares.iter().sum::<u32>(), SHARES);
        assert!(shares.iter().all(|&share| share > 0));
    }
}
