//! Prefetching of cache lines.
//!
//! With a million sources, every row misses the cache. Fetching the lines of the next rows while a
//! row is appended is three times as fast (`bench/RESULTS.md`, embedded).

/// Starts fetching the cache line at the beginning of `target`. Has no other effect.
#[inline(always)]
pub fn prefetch<T: ?Sized>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no visible effect and accepts any address. SSE, which has the
        // instruction, is part of every x86-64.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}
