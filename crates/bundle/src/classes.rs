//! Classes of sources by their movement. Sources that move alike share a table.
//!
//! The octave of a source's mean movement is its first class. Neighbouring octaves are merged while that
//! saves bits: each class costs a table in the directory and a choice per source.

use crate::histogram::{Histogram, entropy};

/// Number of octaves of 64-bit numbers.
const OCTAVES: usize = 65;
/// Largest number of classes of a kind.
const MAX_CLASSES: usize = 16;

/// Numbers of one kind by octave.
pub(crate) struct Movement {
    octaves: Vec<Option<Octave>>,
}

#[derive(Clone, Default)]
struct Octave {
    numbers: Histogram,
    sources: u32,
}

/// Classes of a kind: the class of each octave, and the numbers of each class.
pub(crate) struct Classes {
    pub(crate) of_octave: [u8; OCTAVES],
    pub(crate) numbers: Vec<Histogram>,
}

impl Default for Movement {
    fn default() -> Movement {
        Movement {
            octaves: vec![None; OCTAVES],
        }
    }
}

impl Movement {
    /// Counts the numbers of a source.
    pub(crate) fn add(&mut self, octave: usize, numbers: &[i64]) {
        let octave = self.octaves[octave].get_or_insert_default();
        octave.sources += 1;
        for &number in numbers {
            octave.numbers.add(number as u64);
        }
    }

    /// Merges neighbouring octaves while that saves bits.
    pub(crate) fn classes(self) -> Classes {
        let mut of_octave = [0u8; OCTAVES];
        let mut groups: Vec<(usize, Octave, f32)> = Vec::new();
        for (last, octave) in self.octaves.into_iter().enumerate() {
            if let Some(octave) = octave {
                let bits = bits(&octave.numbers);
                groups.push((last, octave, bits));
            }
        }
        let joined = |left: &(usize, Octave, f32), right: &(usize, Octave, f32)| {
            let mut octave = left.1.clone();
            octave.numbers.merge(&right.1.numbers);
            octave.sources += right.1.sources;
            let bits = bits(&octave.numbers);
            let choice = entropy([left.1.sources, right.1.sources].into_iter());
            let saved = left.2 + right.2 + choice - bits;
            ((right.0, octave, bits), saved)
        };
        let mut pairs: Vec<_> = groups
            .windows(2)
            .map(|two| joined(&two[0], &two[1]))
            .collect();
        while let Some(best) = best_pair(&pairs, groups.len() > MAX_CLASSES) {
            let (merged, _) = pairs.remove(best);
            groups.remove(best);
            groups[best] = merged;
            if best > 0 {
                pairs[best - 1] = joined(&groups[best - 1], &groups[best]);
            }
            if best < pairs.len() {
                pairs[best] = joined(&groups[best], &groups[best + 1]);
            }
        }
        let mut numbers: Vec<Histogram> = Vec::new();
        let mut next = 0;
        for (last, octave, _) in groups {
            of_octave[next..=last].fill(numbers.len() as u8);
            next = last + 1;
            numbers.push(octave.numbers);
        }
        if numbers.is_empty() {
            numbers.push(Histogram::default());
        }
        Classes { of_octave, numbers }
    }
}

/// Returns the bits of numbers with their table.
fn bits(numbers: &Histogram) -> f32 {
    numbers.bits() + numbers.table_bits()
}

/// Returns the index of the pair that saves most, if it saves bits or must be merged.
fn best_pair<T>(pairs: &[(T, f32)], is_forced: bool) -> Option<usize> {
    let best = (0..pairs.len()).max_by(|&left, &right| pairs[left].1.total_cmp(&pairs[right].1));
    best.filter(|&best| is_forced || pairs[best].1 > 0.0)
}
