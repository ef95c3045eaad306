//! Randomness that can be had again: a small generator (SplitMix64) and what the lab draws from it.

/// A sequence of pseudo-random numbers, the same for the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with a normal distribution: mean 0, deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Bytes that nothing compresses.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_generator() {
        let mut dice = Dice::new(1234567);
        assert_eq!(dice.word(), 6457827717110365317);
        assert_eq!(dice.word(), 3203168211198807973);
    }

    #[test]
    fn draws_stay_in_their_bounds() {
        let mut dice = Dice::new(7);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            assert!(dice.below(10) < 10);
            let unit = dice.unit();
            assert!((0.0..1.0).contains(&unit));
            sum += dice.normal();
        }
        assert!((sum / 10_000.0).abs() < 0.05);
        let mut bytes = [0; 13];
        dice.fill(&mut bytes);
        assert_ne!(bytes, [0; 13]);
    }
}
