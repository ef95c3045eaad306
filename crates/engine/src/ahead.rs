//! Items that a thread computes some steps ahead of their use.
//!
//! The thread only computes. It uses no disk and no clock, and the items arrive in their order. What is done with them
//! has the same effects with and without the thread.

use std::sync::mpsc::sync_channel;
use std::thread::{self, Builder};

/// Number of items that wait for their use.
const WAITING: usize = 1;

/// Computes items in a thread with a name, and passes them to `take`. If the system starts no thread, they are computed
/// when they are used.
pub fn compute_ahead<T: Send, R>(
    thread: &str,
    mut items: impl Iterator<Item = T> + Send,
    take: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let done = thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        let items = &mut items;
        let send = move || {
            for item in items {
                // Without a receiver, the items are not used any more.
                if sender.send(item).is_err() {
                    return;
                }
            }
        };
        match Builder::new()
            .name(thread.to_string())
            .spawn_scoped(scope, send)
        {
            Ok(_) => Ok(take(&mut receiver.into_iter())),
            Err(_) => Err(take),
        }
    });
    done.unwrap_or_else(|take| take(&mut items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_arrive_in_order() {
        let found: Vec<u32> = compute_ahead("test", 0..1_000, |items| items.collect());
        assert!(found.into_iter().eq(0..1_000));
    }

    #[test]
    fn a_use_that_ends_early_ends_the_thread() {
        assert_eq!(compute_ahead("test", 0.., |items| items.nth(5)), Some(5));
    }
}
