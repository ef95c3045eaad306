//! Random numbers that depend on the seed alone, on every machine.

/// SplitMix64 generator: small, and good enough for rates and gaps.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator; all its numbers follow from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a uniform number in (0, 1].
    pub fn even(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponential number with mean 1, such as the gap between independent events.
    pub fn exponential(&mut self) -> f64 {
        -self.even().ln()
    }

    /// Returns a normal number with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.even().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.even()).cos()
    }
}
