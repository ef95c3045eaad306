//! Reproducible pseudo-random numbers (SplitMix64), with the distributions that the lab needs.

/// Sequence of pseudo-random numbers. The same seed gives the same sequence on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns the next number, uniform over u64.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a uniform number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number with the standard normal distribution: mean 0, standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Fills a slice with bytes that no compression shortens.
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
