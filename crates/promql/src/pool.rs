//! Work on many items by several threads, with the results in the order of the items.

use crate::error::Error;
use std::collections::BTreeMap;
use std::iter::Enumerate;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of threads of one query.
const MAX_THREADS: usize = 8;
/// Maximum number of items per thread whose results are not consumed.
const AHEAD: usize = 3;

/// Returns the number of threads of a query with much work.
pub fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS)
}

/// Calls `work` for each item on a number of threads, and `consume` for each result on the caller's thread, in the
/// order of the items. A few items per thread are in memory at one time. The first error ends the work.
///
/// With one thread, the caller's thread does the work.
pub fn ordered<T: Send, U: Send>(
    items: impl Iterator<Item = Result<T, Error>> + Send,
    threads: usize,
    work: impl Fn(T) -> Result<U, Error> + Sync,
    consume: &mut dyn FnMut(U) -> Result<(), Error>,
) -> Result<(), Error> {
    if threads < 2 {
        let mut items = items;
        return items.try_for_each(|item| consume(work(item?)?));
    }
    let (permit, permits) = channel();
    let (send_result, results) = channel();
    let queue = Mutex::new(Queue {
        permits,
        items: items.enumerate(),
    });
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (queue, work, send_result) = (&queue, &work, send_result.clone());
            scope.spawn(move || worker(queue, work, &send_result));
        }
        drop(send_result);
        for _ in 0..AHEAD * threads {
            allow(&permit);
        }
        in_order(&results, permit, consume)
    })
}

/// Items that no thread has taken.
struct Queue<I> {
    /// A permit for each item that may be taken.
    permits: Receiver<()>,
    items: Enumerate<I>,
}

/// Result of an item, with the number of the item.
type Numbered<U> = (usize, Result<U, Error>);

/// Works on items until there are no more, or the permits end.
fn worker<T, U>(
    queue: &Mutex<Queue<impl Iterator<Item = Result<T, Error>>>>,
    work: &(impl Fn(T) -> Result<U, Error> + Sync),
    results: &Sender<Numbered<U>>,
) {
    let _end = EndOnPanic(results);
    loop {
        let next = {
            let Ok(mut queue) = queue.lock() else {
                // The panic of another thread ends the query.
                return;
            };
            match queue.permits.recv() {
                Ok(()) => queue.items.next(),
                Err(_) => return,
            }
        };
        let Some((number, item)) = next else {
            return;
        };
        if results.send((number, item.and_then(work))).is_err() {
            return;
        }
    }
}

/// Guard of a thread: if the thread panics, an error ends the other threads, and the panic reaches the caller.
struct EndOnPanic<'a, U>(&'a Sender<Numbered<U>>);

impl<U> Drop for EndOnPanic<'_, U> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send((0, Err(Error::Canceled)));
        }
    }
}

/// Permits another item. Without threads that could take it, all items are taken.
fn allow(permit: &Sender<()>) {
    let _ = permit.send(());
}

/// Passes on results in the order of their numbers. At its end, `permit` is dropped, which ends the threads.
fn in_order<U>(
    results: &Receiver<Numbered<U>>,
    permit: Sender<()>,
    consume: &mut dyn FnMut(U) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    for (number, result) in results {
        early.insert(number, result?);
        while let Some(result) = early.remove(&next) {
            consume(result)?;
            allow(&permit);
            next += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn results_have_the_order_of_the_items() {
        for threads in [1, 2, 7] {
            let mut seen = Vec::new();
            let items = (0..1000).map(Ok);
            ordered(items, threads, |n: u64| Ok(n * 2), &mut |n| {
                seen.push(n);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, (0..1000).map(|n| n * 2).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn the_first_error_ends_the_work() {
        for threads in [1, 4] {
            let endless = (0_u64..).map(Ok);
            let fails = |n| match n {
                500 => Err(Error::execution("500")),
                n => Ok(n),
            };
            let error = ordered(endless, threads, fails, &mut |_| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "500");
            let endless = (0_u64..).map(Ok);
            let error = ordered(endless, threads, Ok, &mut |_| Err(Error::Canceled)).unwrap_err();
            assert!(matches!(error, Error::Canceled));
            let items = (0_u64..10).map(|n| if n == 5 { Err(Error::TimedOut) } else { Ok(n) });
            assert!(matches!(
                ordered(items, threads, Ok, &mut |_| Ok(())),
                Err(Error::TimedOut)
            ));
        }
    }

    #[test]
    fn few_results_wait_for_an_earlier_one() {
        let (begun, threads) = (AtomicUsize::new(0), 4);
        let work = |n: usize| {
            begun.fetch_add(1, Relaxed);
            if n == 0 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert!(begun.load(Relaxed) <= AHEAD * threads);
            }
            Ok(n)
        };
        ordered((0..1000).map(Ok), threads, work, &mut |_| Ok(())).unwrap();
        assert_eq!(begun.load(Relaxed), 1000);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_thread_reaches_the_caller() {
        let work = |n: usize| match n {
            17 => panic!("a test"),
            n => Ok(n),
        };
        let _ = ordered((0..1000).map(Ok), 4, work, &mut |_| Ok(()));
    }
}
