//! Work on many items by several threads, with the results in the order of the items.

use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// Maximum number of threads of one query.
const MAX_THREADS: usize = 8;

/// Calls `work` for each item on several threads, and `consume` for each result on the caller's thread, in the order
/// of the items. A few items per thread are in memory at one time. The first error ends the work.
pub fn ordered<T: Send, U: Send>(
    mut items: impl Iterator<Item = Result<T, Error>> + Send,
    work: impl Fn(T) -> Result<U, Error> + Sync,
    consume: &mut dyn FnMut(U) -> Result<(), Error>,
) -> Result<(), Error> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS);
    let (send_item, receive_item) = sync_channel::<(usize, T)>(threads);
    let (send_result, receive_result) = sync_channel::<(usize, Result<U, Error>)>(threads);
    // Only the workers own it: when they end, the thread of the items ends as well.
    let receive_item = Arc::new(Mutex::new(receive_item));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (work, receive_item, send_result) =
                (&work, receive_item.clone(), send_result.clone());
            scope.spawn(move || worker(&receive_item, work, &send_result));
        }
        drop(receive_item);
        scope.spawn(move || {
            for (number, item) in items.by_ref().enumerate() {
                let sent = match item {
                    Ok(item) => send_item.send((number, item)).is_ok(),
                    Err(error) => {
                        // If the receiver has gone, another error was first.
                        let _ = send_result.send((number, Err(error)));
                        false
                    }
                };
                if !sent {
                    break;
                }
            }
        });
        // Dropped at the end of this block, so that an error ends the other threads.
        in_order(receive_result, consume)
    })
}

fn worker<T, U>(
    items: &Mutex<Receiver<(usize, T)>>,
    work: &(impl Fn(T) -> Result<U, Error> + Sync),
    results: &SyncSender<(usize, Result<U, Error>)>,
) {
    loop {
        let item = items
            .lock()
            .expect("no thread panics while it waits")
            .recv();
        let Ok((number, item)) = item else {
            return;
        };
        if results.send((number, work(item))).is_err() {
            return;
        }
    }
}

/// Passes on results in the order of their numbers.
fn in_order<U>(
    results: Receiver<(usize, Result<U, Error>)>,
    consume: &mut dyn FnMut(U) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (number, result) in results {
        early.insert(number, result?);
        while let Some(result) = early.remove(&next) {
            consume(result)?;
            next += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let mut seen = Vec::new();
        let items = (0..1000).map(Ok);
        ordered(items, |n: u64| Ok(n * 2), &mut |n| {
            seen.push(n);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, (0..1000).map(|n| n * 2).collect::<Vec<u64>>());
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let endless = (0_u64..).map(Ok);
        let fails = |n| match n {
            500 => Err(Error::execution("500")),
            n => Ok(n),
        };
        let error = ordered(endless, fails, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "500");
        let error = ordered((0_u64..).map(Ok), Ok, &mut |_| Err(Error::Canceled)).unwrap_err();
        assert!(matches!(error, Error::Canceled));
        let items = (0_u64..10).map(|n| if n == 5 { Err(Error::TimedOut) } else { Ok(n) });
        assert!(matches!(
            ordered(items, Ok, &mut |_| Ok(())),
            Err(Error::TimedOut)
        ));
    }
}
