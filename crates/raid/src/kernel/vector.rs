//! Vector registers by instruction set, and loops over them.
//!
//! The functions here are `unsafe` for two reasons. A [`Vector`] may be used only on a processor with its
//! instructions, which the callers in the parent module check. [`Vector::load`] and [`Vector::store`] need
//! memory for a whole register, which the loops below ensure.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256,
    _mm256_broadcastsi128_si256, _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::galois::{OVERFLOW, double};

/// A register full of bytes. Each byte is an element of the field.
pub trait Vector: Copy {
    /// Number of bytes of a register.
    const BYTES: usize;
    /// Prepared factor of a multiplication.
    type Factor;

    /// Loads a register from memory, aligned or not.
    ///
    /// # Safety
    /// The processor has the instructions, and `from` points to [`Vector::BYTES`] bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// Stores the register to memory, aligned or not.
    ///
    /// # Safety
    /// As for `load`.
    unsafe fn store(self, to: *mut u8);
    /// Returns the sum.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns the double of each byte.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn double(self) -> Self;
    /// Prepares a factor.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn factor(factor: u8) -> Self::Factor;
    /// Returns the product of each byte with a factor.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn times(self, factor: &Self::Factor) -> Self;
}

/// A register of AVX-512 with GFNI.
#[derive(Clone, Copy)]
pub struct Wide(__m512i);

/// Returns the multiplication by a factor as a bit matrix in GFNI's layout: the row for bit 7 of the product is
/// in the lowest byte. (GFNI's multiplication instruction uses another polynomial.)
const fn matrix(factor: u8) -> u64 {
    let mut rows = [0u8; 8];
    let (mut product, mut bit) = (factor, 0);
    while bit < 8 {
        // The product with bit `bit` alone is a column.
        let mut row = 0;
        while row < 8 {
            rows[7 - row] |= (product >> row & 1) << bit;
            row += 1;
        }
        product = double(product);
        bit += 1;
    }
    u64::from_le_bytes(rows)
}

impl Vector for Wide {
    const BYTES: usize = 64;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Wide {
        // SAFETY: guaranteed by the caller.
        Wide(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Wide) -> Wide {
        // SAFETY: guaranteed by the caller.
        Wide(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Wide {
        // SAFETY: guaranteed by the caller.
        unsafe { self.times(&Wide::factor(2)) }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_set1_epi64(matrix(factor).cast_signed()) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: &__m512i) -> Wide {
        // SAFETY: guaranteed by the caller.
        Wide(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, *factor) })
    }
}

/// A register of AVX2.
#[derive(Clone, Copy)]
pub struct Half(__m256i);

/// Returns the products of a factor with the sixteen values of a half byte, lower or upper.
fn products(factor: u8, upper: bool) -> [u8; 16] {
    std::array::from_fn(|value| {
        let value = if upper { value << 4 } else { value };
        (0..8).rev().fold(0, |sum, bit| {
            double(sum) ^ if value >> bit & 1 == 1 { factor } else { 0 }
        })
    })
}

impl Vector for Half {
    const BYTES: usize = 32;
    /// Products of the lower and upper halves of a byte.
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Half {
        // SAFETY: guaranteed by the caller.
        Half(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Half) -> Half {
        // SAFETY: guaranteed by the caller.
        Half(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double(self) -> Half {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let overflows = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let overflow = _mm256_and_si256(overflows, _mm256_set1_epi8(OVERFLOW.cast_signed()));
            Half(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), overflow))
        }
    }

    #[inline(always)]
    unsafe fn factor(factor: u8) -> (__m256i, __m256i) {
        let (lower, upper) = (products(factor, false), products(factor, true));
        // SAFETY: both arrays have 16 bytes; the caller guarantees the rest.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(lower.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(upper.as_ptr().cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn times(self, (lower, upper): &(__m256i, __m256i)) -> Half {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let low = _mm256_and_si256(self.0, mask);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            Half(_mm256_xor_si256(
                _mm256_shuffle_epi8(*lower, low),
                _mm256_shuffle_epi8(*upper, high),
            ))
        }
    }
}

/// Number of registers processed together. Both syndromes of all of them stay in registers, and their doublings
/// do not depend on one another.
const TOGETHER: usize = 4;

/// Computes both syndromes by Horner's rule from the last strip to the first, for as many bytes as fill
/// registers. Returns the number of these bytes.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub unsafe fn pq<V: Vector>(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> usize {
    let length = p.len();
    assert!(q.len() == length && data.iter().all(|strip| strip.len() == length));
    let Some((last, rest)) = data.split_last() else {
        return 0;
    };
    let mut at = 0;
    while at + TOGETHER * V::BYTES <= length {
        // SAFETY: all slices have the same length, and contain the registers processed together from `at` on.
        unsafe { pq_at::<V, TOGETHER>(last, rest, p, q, at) };
        at += TOGETHER * V::BYTES;
    }
    while at + V::BYTES <= length {
        // SAFETY: as above, for one register.
        unsafe { pq_at::<V, 1>(last, rest, p, q, at) };
        at += V::BYTES;
    }
    at
}

/// Computes both syndromes of `N` registers from byte `at` on.
///
/// # Safety
/// All slices have `N` times [`Vector::BYTES`] bytes from `at` on, and the processor has the instructions of
/// `V`.
#[inline(always)]
unsafe fn pq_at<V: Vector, const N: usize>(
    last: &[u8],
    rest: &[&[u8]],
    p: &mut [u8],
    q: &mut [u8],
    at: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let load = |strip: &[u8], n: usize| V::load(strip.as_ptr().add(at + n * V::BYTES));
        let mut sums: [V; N] = std::array::from_fn(|n| load(last, n));
        let mut weighted = sums;
        for strip in rest.iter().rev() {
            for n in 0..N {
                let bytes = load(strip, n);
                sums[n] = sums[n].add(bytes);
                weighted[n] = weighted[n].double().add(bytes);
            }
        }
        for n in 0..N {
            sums[n].store(p.as_mut_ptr().add(at + n * V::BYTES));
            weighted[n].store(q.as_mut_ptr().add(at + n * V::BYTES));
        }
    }
}

/// Adds `factor` times `other` to `sum`, for as many bytes as fill registers. Returns the number of these
/// bytes.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub unsafe fn add_scaled<V: Vector>(sum: &mut [u8], factor: u8, other: &[u8]) -> usize {
    assert_eq!(sum.len(), other.len());
    // SAFETY: guaranteed by the caller.
    let factor = unsafe { V::factor(factor) };
    let mut at = 0;
    while at + V::BYTES <= sum.len() {
        // SAFETY: both slices have the same length, and contain a register from `at` on.
        unsafe {
            let product = V::load(other.as_ptr().add(at)).times(&factor);
            let to = sum.as_mut_ptr().add(at);
            V::load(to).add(product).store(to);
        }
        at += V::BYTES;
    }
    at
}
