//! Sums and products over many bytes at once.
//!
//! The loops of [`vector`] are compiled for AVX-512 with GFNI and for AVX2. The widest variant that the
//! processor supports is chosen at run time. Remaining bytes, and other processors, use plain Rust.

#[cfg(target_arch = "x86_64")]
mod vector;

use crate::galois::{OVERFLOW, double};

/// Instruction set of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    /// Returns the widest instruction set of this processor.
    fn here() -> Width {
        *Width::all()
            .last()
            .expect("every processor has the plain width")
    }

    /// Returns all instruction sets of this processor, from narrow to wide.
    fn all() -> &'static [Width] {
        #[cfg(target_arch = "x86_64")]
        {
            let has_avx2 = is_x86_feature_detected!("avx2");
            let has_avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni");
            match (has_avx2, has_avx512) {
                (true, true) => return &[Width::Plain, Width::Avx2, Width::Avx512],
                (true, false) => return &[Width::Plain, Width::Avx2],
                _ => {}
            }
        }
        &[Width::Plain]
    }

    fn pq(self, data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
        let done = match self {
            Width::Plain => 0,
            // SAFETY: `all` has checked that the processor supports it.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Width::Avx2 => unsafe { avx2::pq(data, p, q) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Width::Avx512 => unsafe { avx512::pq(data, p, q) },
        };
        pq_plain(data, p, q, done);
    }

    fn add_scaled(self, sum: &mut [u8], factor: u8, other: &[u8]) {
        let done = match self {
            Width::Plain => 0,
            // SAFETY: `all` has checked that the processor supports it.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Width::Avx2 => unsafe { avx2::add_scaled(sum, factor, other) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Width::Avx512 => unsafe { avx512::add_scaled(sum, factor, other) },
        };
        add_scaled_plain(&mut sum[done..], factor, &other[done..]);
    }
}

/// Compiles the loops for one type of register.
#[cfg(target_arch = "x86_64")]
macro_rules! built_for {
    ($name:ident, $features:literal, $register:ident) => {
        #[allow(unsafe_code)]
        mod $name {
            use super::vector::{self, $register};

            #[target_feature(enable = $features)]
            pub fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
                // SAFETY: the caller has checked that the processor has the instructions.
                unsafe { vector::pq::<$register>(data, p, q) }
            }

            #[target_feature(enable = $features)]
            pub fn add_scaled(sum: &mut [u8], factor: u8, other: &[u8]) -> usize {
                // SAFETY: as above.
                unsafe { vector::add_scaled::<$register>(sum, factor, other) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
built_for!(avx2, "avx2", Half);
#[cfg(target_arch = "x86_64")]
built_for!(avx512, "avx512f,gfni", Wide);

/// Computes both syndromes of strips of equal length: P is their sum, Q the sum of each strip times 2 to the
/// power of its index.
pub fn pq(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    Width::here().pq(data, p, q);
}

/// Adds `factor` times `other` to `sum`.
pub fn add_scaled(sum: &mut [u8], factor: u8, other: &[u8]) {
    Width::here().add_scaled(sum, factor, other);
}

/// Adds `other` to `sum`.
pub fn add(sum: &mut [u8], other: &[u8]) {
    assert_eq!(sum.len(), other.len());
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum ^= other;
    }
}

/// Computes both syndromes from byte `from` on, by Horner's rule from the last strip to the first.
fn pq_plain(data: &[&[u8]], p: &mut [u8], q: &mut [u8], from: usize) {
    let length = p.len();
    assert!(q.len() == length && data.iter().all(|strip| strip.len() == length));
    let (p, q) = (&mut p[from..], &mut q[from..]);
    p.fill(0);
    q.fill(0);
    for strip in data.iter().rev() {
        for ((p, q), byte) in p.iter_mut().zip(&mut *q).zip(&strip[from..]) {
            *p ^= byte;
            *q = double(*q) ^ byte;
        }
    }
}

/// Uses Horner's rule over the bits of the factor, without tables, so that the compiler can vectorise the loop.
fn add_scaled_plain(sum: &mut [u8], factor: u8, other: &[u8]) {
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
    use seiner_platform::sim::Rng;

    fn strips(rng: &mut Rng, count: usize, length: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| (0..length).map(|_| rng.next_u64() as u8).collect())
            .collect()
    }

    #[test]
    fn syndromes_are_those_of_the_tables_for_every_number_of_strips_and_odd_lengths() {
        let mut rng = Rng::new(1);
        for count in 1..=20 {
            for length in [1, 63, 64, 65, 1000, 4096] {
                let data = strips(&mut rng, count, length);
                let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                for width in Width::all() {
                    let (mut p, mut q) = (vec![1; length], vec![2; length]);
                    width.pq(&slices, &mut p, &mut q);
                    check(&data, &p, &q, *width);
                }
            }
        }
    }

    fn check(data: &[Vec<u8>], p: &[u8], q: &[u8], width: Width) {
        for at in 0..p.len() {
            let sum = data.iter().fold(0, |sum, strip| sum ^ strip[at]);
            let weighted = data.iter().enumerate().fold(0, |sum, (column, strip)| {
                sum ^ multiply(coefficient(column), strip[at])
            });
            let (count, length) = (data.len(), p.len());
            assert_eq!(
                (p[at], q[at]),
                (sum, weighted),
                "{count} strips of {length}, byte {at}, {width:?}"
            );
        }
    }

    /// The program `golden/raid/syndromes.c` wrote the expected syndromes.
    #[test]
    fn syndromes_are_those_of_isa_l() {
        let mut golden = include_bytes!("../../../golden/raid/syndromes.bin").as_slice();
        let mut state = 1u64;
        for (count, length) in [(3, 64), (4, 512), (5, 96), (16, 256), (40, 320)] {
            let mut byte = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            let strips: Vec<Vec<u8>> = (0..count)
                .map(|_| (0..length).map(|_| byte()).collect())
                .collect();
            let slices: Vec<&[u8]> = strips.iter().map(Vec::as_slice).collect();
            let (expected, rest) = golden.split_at(2 * length);
            golden = rest;
            for width in Width::all() {
                let (mut p, mut q) = (vec![0; length], vec![0; length]);
                width.pq(&slices, &mut p, &mut q);
                assert_eq!([p, q].concat(), expected, "{count} strips, {width:?}");
            }
        }
        assert!(golden.is_empty());
    }

    #[test]
    fn every_factor_scales_as_the_tables_do() {
        let mut rng = Rng::new(2);
        let data = strips(&mut rng, 2, 300);
        for factor in 0..=255 {
            let expected: Vec<u8> = (0..300)
                .map(|at| data[0][at] ^ multiply(factor, data[1][at]))
                .collect();
            for width in Width::all() {
                let mut sum = data[0].clone();
                width.add_scaled(&mut sum, factor, &data[1]);
                assert_eq!(sum, expected, "factor {factor}, {width:?}");
            }
        }
        let mut sum = data[0].clone();
        add(&mut sum, &data[1]);
        assert!((0..300).all(|at| sum[at] == data[0][at] ^ data[1][at]));
    }
}
