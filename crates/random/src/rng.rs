//! Random numbers with the distributions that loads and simulations need.

use crate::source::{Source, SplitMix64, Xoshiro256PlusPlus};

/// Number of random bits of a floating-point number: its significand has no more.
const SIGNIFICAND_BITS: u32 = 53;

/// Random number generator. The same seed gives the same numbers on every platform.
#[derive(Clone, Debug)]
pub struct SeededRng<S> {
    source: S,
}

/// The usual generator (xoshiro256++).
pub type Rng = SeededRng<Xoshiro256PlusPlus>;

/// Generator with 8 bytes of state (SplitMix64), for generated loads. Committed results depend on its sequence.
pub type SplitMixRng = SeededRng<SplitMix64>;

impl<S: Source> SeededRng<S> {
    /// Creates a generator. Every seed is suitable, including zero.
    pub fn new(seed: u64) -> SeededRng<S> {
        SeededRng {
            source: S::new(seed),
        }
    }

    /// Creates an independent generator. Numbers drawn from it do not shift those of this generator.
    pub fn fork(&mut self) -> SeededRng<S> {
        SeededRng::new(self.next_u64())
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.source.next_u64()
    }

    /// Returns a number from 0 to `bound` − 1.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `hits` / `out_of`.
    pub fn chance(&mut self, hits: u64, out_of: u64) -> bool {
        self.below(out_of) < hits
    }

    /// Returns one of the items.
    ///
    /// # Panics
    /// If there are no items.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Puts the items into a random order. All orders have the same probability (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills a slice with random bytes, which cannot be compressed.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let bits = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&bits[..piece.len()]);
        }
    }

    /// Returns a uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.significand() as f64 / (1u64 << SIGNIFICAND_BITS) as f64
    }

    /// Returns a uniform number in (0, 1], whose logarithm is finite.
    pub fn positive_unit(&mut self) -> f64 {
        (self.significand() + 1) as f64 / (1u64 << SIGNIFICAND_BITS) as f64
    }

    /// Returns an exponential number with mean 1, such as the gap between independent events.
    pub fn exponential(&mut self) -> f64 {
        -self.positive_unit().ln()
    }

    /// Returns a normal number with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.positive_unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.positive_unit()).cos()
    }

    /// Returns a lognormal number with median 1, whose logarithm has the standard deviation `sigma`.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    fn significand(&mut self) -> u64 {
        self.next_u64() >> (u64::BITS - SIGNIFICAND_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(0);
        let mut seen = [0u32; 6];
        (0..6000).for_each(|_| seen[rng.below(6) as usize] += 1);
        assert!(
            seen.iter().all(|&count| (800..1200).contains(&count)),
            "{seen:?}"
        );
        assert!((0..1000).all(|_| (3..=4).contains(&rng.between(3, 4))));
        assert!(!rng.chance(0, 10) && rng.chance(10, 10));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&rng.unit())));
        assert!((0..1000).all(|_| rng.positive_unit() > 0.0));
    }

    #[test]
    fn distributions_have_their_mean_and_deviation() {
        let mut rng = SplitMixRng::new(7);
        let mut mean = |draw: fn(&mut SplitMixRng) -> f64| {
            let count = 20_000;
            (0..count).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(count)
        };
        assert!(mean(|rng| rng.normal()).abs() < 0.03);
        assert!((mean(|rng| rng.normal().powi(2)) - 1.0).abs() < 0.05);
        assert!((mean(|rng| rng.exponential()) - 1.0).abs() < 0.03);
        assert!((mean(|rng| rng.lognormal(0.5).ln().powi(2)) - 0.25).abs() < 0.02);
        assert!(mean(|rng| rng.lognormal(0.0)) == 1.0);
    }

    #[test]
    fn shuffles_keep_all_items_and_bytes_fill_odd_lengths() {
        let mut rng = Rng::new(1);
        let mut items: Vec<u32> = (0..100).collect();
        rng.shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<u32>>());
        let mut bytes = [0; 13];
        rng.fill(&mut bytes);
        assert_ne!(bytes[8..], [0; 5]);
    }
}
