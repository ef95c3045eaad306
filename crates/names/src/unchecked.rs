//! Switch that turns checksums off. Only for tests and fuzzing.

use std::cell::Cell;

thread_local! {
    static UNCHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread accepts wrong checksums.
pub fn is_unchecked() -> bool {
    UNCHECKED.get()
}

/// Sets whether this thread accepts wrong checksums.
pub fn set_unchecked(is_unchecked: bool) {
    UNCHECKED.set(is_unchecked);
}
