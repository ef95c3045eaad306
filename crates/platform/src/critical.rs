//! Critical sections: code under a contended lock, in which no slow work is permitted.
//!
//! A thread [enters](Section::enter) a section while it holds such a lock. Slow work, such as a system call,
//! asserts that its thread is [outside](assert_outside) all sections. Sections and assertions cost nothing in
//! builds without debug assertions.

use std::marker::PhantomData;

#[cfg(debug_assertions)]
thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Guard: the current thread is in a critical section until the guard is dropped.
pub struct Section(PhantomData<*const ()>);

impl Section {
    /// Enters a section. Sections can be nested.
    #[inline]
    pub fn enter() -> Section {
        #[cfg(debug_assertions)]
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Section(PhantomData)
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Runs slow work inside a section. The caller guarantees that no thread waits for this thread during the
/// work.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(debug_assertions)]
    let _back = {
        struct Back(u32);
        impl Drop for Back {
            fn drop(&mut self) {
                DEPTH.with(|depth| depth.set(self.0));
            }
        }
        Back(DEPTH.with(|depth| depth.replace(0)))
    };
    work()
}

/// Asserts that the current thread is in no critical section, in debug builds. `what` names the work,
/// for the message.
#[inline]
#[track_caller]
pub fn assert_outside(what: &str) {
    #[cfg(debug_assertions)]
    DEPTH.with(|depth| {
        // A thread that panics has already printed a message.
        let inside = depth.get() > 0 && !std::thread::panicking();
        assert!(!inside, "{what} within a critical section");
    });
    let _ = what;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_work_is_detected_only_in_the_section_of_its_own_thread() {
        assert_outside("before");
        let (outer, inner) = (Section::enter(), Section::enter());
        drop(inner);
        let caught = std::panic::catch_unwind(|| assert_outside("a write"));
        assert_eq!(caught.is_err(), cfg!(debug_assertions));
        std::thread::spawn(|| assert_outside("another thread"))
            .join()
            .unwrap();
        aside(|| assert_outside("work that nobody waits for"));
        let caught = std::panic::catch_unwind(|| assert_outside("a write"));
        assert_eq!(caught.is_err(), cfg!(debug_assertions), "inside again");
        drop(outer);
        assert_outside("after");
    }
}
