//! Sources of random bits.

/// Source of random bits.
pub trait Source: Clone {
    /// Creates a source. Every seed is suitable, including zero.
    fn new(seed: u64) -> Self;

    /// Returns the next 64 bits.
    fn next_u64(&mut self) -> u64;
}

/// SplitMix64 by Steele, Lea and Flood: 8 bytes of state, a period of 2^64.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl Source for SplitMix64 {
    fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// xoshiro256++ by Blackman and Vigna: 32 bytes of state from SplitMix64, a period of 2^256 − 1.
#[derive(Clone, Debug)]
pub struct Xoshiro256PlusPlus([u64; 4]);

impl Source for Xoshiro256PlusPlus {
    fn new(seed: u64) -> Xoshiro256PlusPlus {
        let mut seeds = SplitMix64::new(seed);
        Xoshiro256PlusPlus(std::array::from_fn(|_| seeds.next_u64()))
    }

    fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_those_of_the_published_generators() {
        let mut small = SplitMix64::new(1234567);
        assert_eq!(small.next_u64(), 6457827717110365317);
        assert_eq!(small.next_u64(), 3203168211198807973);
        let mut large = Xoshiro256PlusPlus([1, 2, 3, 4]);
        assert_eq!(large.next_u64(), 41943041);
        assert_eq!(large.next_u64(), 58720359);
    }
}
