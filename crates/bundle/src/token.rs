//! Numbers as tokens and remainders. A token holds the magnitude of a number and is entropy-coded; the
//! bits below are packed raw.
//!
//! A token has a meaning of its own, not an index into a table, so that histograms of different sources
//! add up.

use seiner_codec::bits::width;

/// Division of numbers into token and remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Exponent: numbers below `1 << direct` are tokens without remainder.
    direct: u32,
    /// Number of bits below the leading bit that a token keeps.
    kept: u32,
}

/// Division of histograms, and of tables with at most 256 tokens in use.
pub(crate) const FINE: Division = Division { direct: 7, kept: 3 };
/// Division with at most 256 tokens, for all other tables. Each of its tokens is a union of fine ones.
pub(crate) const COARSE: Division = Division { direct: 4, kept: 2 };
/// Number of fine tokens.
pub(crate) const TOKENS: usize = FINE.tokens();

impl Division {
    /// Returns the number of tokens of 64-bit numbers.
    pub(crate) const fn tokens(self) -> usize {
        (1 << self.direct) + ((64 - self.direct as usize) << self.kept)
    }

    /// Returns the token of a number, and the number of bits that remain below it.
    #[inline(always)]
    pub(crate) fn token(self, number: u64) -> (usize, u32) {
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
        let token = if beyond { token } else { number as u32 };
        (token as usize, remainder)
    }

    /// Returns the smallest number of a token, and the number of bits that remain below it.
    pub(crate) fn start(self, token: usize) -> (u64, u32) {
        match (token as u32).checked_sub(1 << self.direct) {
            None => (token as u64, 0),
            Some(beyond) => {
                let top = self.direct + (beyond >> self.kept);
                let kept = u64::from(beyond & ((1 << self.kept) - 1));
                let remainder = top - self.kept;
                (1 << top | kept << remainder, remainder)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_starts_where_the_one_before_ends() {
        for division in [FINE, COARSE] {
            let mut next = 0u128;
            for token in 0..division.tokens() {
                let (start, remainder) = division.start(token);
                assert_eq!(u128::from(start), next);
                assert_eq!(division.token(start), (token, remainder));
                next += 1 << remainder;
                assert_eq!(division.token((next - 1) as u64), (token, remainder));
            }
            assert_eq!(next, 1 << 64);
        }
    }

    #[test]
    fn coarse_tokens_are_unions_of_fine_ones() {
        assert!(COARSE.tokens() <= 256);
        for token in 0..TOKENS {
            let (start, remainder) = FINE.start(token);
            let last = start + ((1 << remainder) - 1);
            assert_eq!(COARSE.token(start).0, COARSE.token(last).0);
        }
    }
}
