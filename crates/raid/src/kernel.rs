//! Sums and products over many bytes at once.
//!
//! The loops are plain Rust over slices, built several times over for ever wider registers; the widest that the processor
//! has is chosen at run time.

use crate::galois::{OVERFLOW, double};

/// Bytes of every strip that are treated before the next: both syndromes and some strips fit the first cache.
const PIECE: usize = 2048;

/// What the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    fn here() -> Width {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                return Width::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Width::Avx2;
            }
        }
        Width::Plain
    }
}

/// Builds a loop for every width, and a function that calls the one for this processor.
macro_rules! for_every_width {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*), $kernel:ident) => {
        $(#[$doc])*
        pub fn $name($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            mod wide {
                #[target_feature(enable = "avx2")]
                pub fn avx2($($argument: $type),*) {
                    super::$kernel($($argument),*);
                }
                #[target_feature(enable = "avx512f,avx512bw")]
                pub fn avx512($($argument: $type),*) {
                    super::$kernel($($argument),*);
                }
            }
            match Width::here() {
                Width::Plain => $kernel($($argument),*),
                // SAFETY: the processor was just seen to have what the function was built for, and that is all it wants.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                Width::Avx2 => unsafe { wide::avx2($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code)]
                Width::Avx512 => unsafe { wide::avx512($($argument),*) },
            }
        }
    };
}

for_every_width!(
    /// Both syndromes of strips of equal length: P their sum, Q the sum of each times the power of 2 of its place.
    pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]),
    pq_any
);
for_every_width!(
    /// Adds `other` to `sum`.
    add(sum: &mut [u8], other: &[u8]),
    add_any
);
for_every_width!(
    /// Adds `factor` times `other` to `sum`.
    add_scaled(sum: &mut [u8], factor: u8, other: &[u8]),
    add_scaled_any
);

/// Horner's rule from the last strip to the first, two strips at a time, so that syndromes are loaded and stored half as
/// often as data; a piece of all strips at a time, so that they stay in the first cache.
#[inline(always)]
fn pq_any(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    let length = p.len();
    assert!(q.len() == length && data.iter().all(|strip| strip.len() == length));
    for start in (0..length).step_by(PIECE) {
        let piece = start..length.min(start + PIECE);
        let (p, q) = (&mut p[piece.clone()], &mut q[piece.clone()]);
        let (odd, pairs) = data.split_at(data.len() % 2);
        p.fill(0);
        q.fill(0);
        for pair in pairs.chunks_exact(2).rev() {
            add_two(p, q, &pair[0][piece.clone()], &pair[1][piece.clone()]);
        }
        for strip in odd {
            add_one(p, q, &strip[piece.clone()]);
        }
    }
}

/// Two steps of Horner's rule.
#[inline(always)]
fn add_two(p: &mut [u8], q: &mut [u8], lower: &[u8], upper: &[u8]) {
    for (((p, q), lower), upper) in p.iter_mut().zip(q).zip(lower).zip(upper) {
        *p ^= lower ^ upper;
        *q = double(double(*q) ^ upper) ^ lower;
    }
}

/// One step of Horner's rule.
#[inline(always)]
fn add_one(p: &mut [u8], q: &mut [u8], strip: &[u8]) {
    for ((p, q), byte) in p.iter_mut().zip(q).zip(strip) {
        *p ^= byte;
        *q = double(*q) ^ byte;
    }
}

#[inline(always)]
fn add_any(sum: &mut [u8], other: &[u8]) {
    assert_eq!(sum.len(), other.len());
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum ^= other;
    }
}

/// Horner's rule over the bits of the factor: no tables, so that any width of register does.
#[inline(always)]
fn add_scaled_any(sum: &mut [u8], factor: u8, other: &[u8]) {
    assert_eq!(sum.len(), other.len());
    let masks: [u8; 8] = std::array::from_fn(|bit| if factor >> bit & 1 == 1 { 0xff } else { 0 });
    for (sum, &other) in sum.iter_mut().zip(other) {
        let mut product = 0u8;
        for mask in masks.iter().rev() {
            let overflow = if product >= 0x80 { OVERFLOW } else { 0 };
            product = product.wrapping_add(product) ^ overflow ^ (other & mask);
        }
        *sum ^= product;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::galois::{coefficient, multiply};
    use seiner_platform::sim::SimRng;

    fn strips(rng: &mut SimRng, count: usize, length: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| (0..length).map(|_| rng.next_u64() as u8).collect())
            .collect()
    }

    #[test]
    fn syndromes_are_those_of_the_tables_for_every_number_of_strips_and_odd_lengths() {
        let mut rng = SimRng::new(1);
        for count in 1..=20 {
            for length in [1, 63, 64, 65, 1000, 4096] {
                let data = strips(&mut rng, count, length);
                let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                let (mut p, mut q) = (vec![1; length], vec![2; length]);
                pq(&slices, &mut p, &mut q);
                for at in 0..length {
                    let sum = data.iter().fold(0, |sum, strip| sum ^ strip[at]);
                    let weighted = data.iter().enumerate().fold(0, |sum, (column, strip)| {
                        sum ^ multiply(coefficient(column), strip[at])
                    });
                    assert_eq!(
                        (p[at], q[at]),
                        (sum, weighted),
                        "{count} strips of {length}, byte {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_factor_scales_as_the_tables_do() {
        let mut rng = SimRng::new(2);
        let data = strips(&mut rng, 2, 300);
        for factor in 0..=255 {
            let mut sum = data[0].clone();
            add_scaled(&mut sum, factor, &data[1]);
            let expected: Vec<u8> = (0..300)
                .map(|at| data[0][at] ^ multiply(factor, data[1][at]))
                .collect();
            assert_eq!(sum, expected, "factor {factor}");
        }
        let mut sum = data[0].clone();
        add(&mut sum, &data[1]);
        assert!((0..300).all(|at| sum[at] == data[0][at] ^ data[1][at]));
    }
}
