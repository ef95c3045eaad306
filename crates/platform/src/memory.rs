//! The allocator's own habits: what it keeps of memory that was given back to it.
//!
//! The C library of Linux keeps freed memory in an arena a thread, and never gives back what lies
//! below something that is still in use. A program that promises a bound on its memory cannot leave
//! that as it is. Elsewhere nothing is done.

/// Bytes from which an allocation is mapped on its own, and given back when it is freed: tables that
/// grow with the number of sources, and no buffer that comes and goes with a request or a segment.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 4 << 20;
/// Free bytes at the end of an arena that are given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_FROM: i32 = 8 << 20;
/// Arenas that threads share: what is free in one is of no use to a thread of another.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// Bounds what the allocator keeps. For a program to call when it starts.
pub fn bound_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, TRIM_FROM),
    ] {
        // SAFETY: it sets a number, whatever the other threads allocate meanwhile.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(parameter, value);
        }
    }
}

/// Gives pages of memory that are free back to the system, wherever they lie: takes some milliseconds a
/// gigabyte, for when much was freed.
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes the allocator's own locks, and touches only what nobody has.
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
