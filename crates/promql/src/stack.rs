//! Thread with a large stack, because expressions are nested.

use crate::error::Error;

/// Stack of the thread, bytes. The nesting of a query is limited so that it suffices.
const STACK_BYTES: usize = 32 << 20;

/// Runs work on a thread of its own.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("seiner-promql".to_string())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| Error::execution(format!("no thread for the query: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
