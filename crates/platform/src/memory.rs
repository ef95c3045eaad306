//! Limits of the memory that the allocator keeps after it was freed.
//!
//! The C library of Linux (glibc) keeps freed memory in arenas per thread, and does not return memory below a
//! block that is still in use. A program with a bound on its memory must limit both. On other platforms the
//! functions of this module do nothing.

/// Size in bytes from which an allocation gets its own mapping, which is unmapped when it is freed. Tables that
/// grow with the number of sources exceed this size; buffers of single requests and segments do not.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 4 << 20;
/// Number of free bytes at the end of an arena above which they are returned to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_FROM: i32 = 8 << 20;
/// Maximum number of arenas, shared by all threads. A thread cannot use memory that is free in an arena of
/// another thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// Limits the memory that the allocator keeps. Programs call this function once at start.
pub fn bound_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, ARENAS),
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, TRIM_FROM),
    ] {
        // SAFETY: `mallopt` sets one number. Other threads may allocate at the same time.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(parameter, value);
        }
    }
}

/// Returns all free pages of the allocator to the system. Takes some milliseconds per gigabyte, so call it
/// after much memory was freed.
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` takes the allocator's own locks and touches only free memory.
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
