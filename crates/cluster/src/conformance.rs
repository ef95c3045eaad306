//! Tests that hold for every distributed store. Each implementation runs [`rows`] on a store of its own.
//!
//! The functions panic if a store violates the documentation of [`Rows`]. Lives of rows are not tested here: not every
//! store has a clock that a test can wait for.

use crate::rows::{Level, MAX_VALUE, Range, Row, Rows, RowsError, Swap, TableSpec};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

/// Table of rows that are written and removed.
const ROWS: &str = "conformance_rows";
/// Table of rows that are written conditionally.
const SWAPS: &str = "conformance_swaps";
/// Threads of a race.
const RACERS: usize = 8;
/// Increments of each thread that counts.
const INCREMENTS: u32 = 3;
/// Rows of one call.
const MANY: u32 = 10_000;

/// Runs all tests on a store without the tables `conformance_rows` and `conformance_swaps`, and leaves these tables
/// behind.
///
/// # Panics
/// If the store does not conform.
pub fn rows(store: &dyn Rows) {
    creates_tables(store);
    refuses_what_cannot_succeed(store);
    for level in [Level::One, Level::Quorum] {
        later_rows_replace_earlier_ones(store, level);
    }
    finds_ranges(store);
    reads_the_rows_of_every_page(store);
    keeps_empty_keys_and_values(store);
    keeps_large_values(store);
    removes_rows_and_partitions(store);
    writes_many_rows_in_one_call(store);
    lists_partitions(store);
    swaps_on_the_expected_value_only(store);
    a_race_has_one_winner(store);
    counts_without_losses(store);
}

fn table(name: &str) -> TableSpec {
    TableSpec::lasting(name)
}

fn row(partition: &[u8], key: &[u8], value: &[u8]) -> Row {
    Row {
        table: Arc::from(ROWS),
        partition: partition.to_vec(),
        key: key.to_vec(),
        value: value.to_vec(),
        life: None,
    }
}

fn write(store: &dyn Rows, rows: Vec<Row>) {
    let written = store.write(rows, Level::Quorum);
    written.expect("a healthy store accepts rows");
}

fn read(store: &dyn Rows, partition: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let value = store.read(ROWS, partition, key, Level::Quorum);
    value.expect("a healthy store returns rows")
}

/// Returns the rows of a partition from `from` to `to`, at most `limit`. Their keys alone must be the same.
fn range(
    store: &dyn Rows,
    partition: &[u8],
    from: &[u8],
    to: Option<&[u8]>,
    limit: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let range = Range {
        table: ROWS,
        partition,
        from,
        to,
        limit,
    };
    let rows = store.range(&range, Level::Quorum);
    let rows = rows.expect("a healthy store returns rows");
    let keys = store.keys(&range, Level::Quorum);
    let keys = keys.expect("a healthy store returns keys");
    assert!(
        keys.iter().eq(rows.iter().map(|(key, _)| key)),
        "the keys alone are those of the rows: {keys:?}"
    );
    rows
}

/// Returns the keys of a range as texts.
fn keys(
    store: &dyn Rows,
    partition: &[u8],
    from: &[u8],
    to: Option<&[u8]>,
    limit: usize,
) -> Vec<String> {
    let rows = range(store, partition, from, to, limit).into_iter();
    rows.map(|(key, _)| String::from_utf8_lossy(&key).into_owned())
        .collect()
}

fn creates_tables(store: &dyn Rows) {
    let specs = [table(SWAPS), table(ROWS)];
    store
        .create(&specs)
        .expect("a healthy store creates tables");
    store.create(&specs).expect("existing tables are no error");
    let tables = store.tables().expect("a healthy store lists tables");
    let mut sorted = tables.clone();
    sorted.sort();
    assert_eq!(tables, sorted, "tables are sorted");
    for name in [ROWS, SWAPS] {
        assert!(tables.iter().any(|table| table == name), "{tables:?}");
    }
}

fn refuses_what_cannot_succeed(store: &dyn Rows) {
    let missing = "conformance_missing";
    let read = store.read(missing, b"p", b"k", Level::Quorum);
    assert!(matches!(read, Err(RowsError::Rejected(_))), "{read:?}");
    let mut lost = row(b"p", b"k", b"v");
    lost.table = Arc::from(missing);
    let written = store.write(vec![lost], Level::Quorum);
    assert!(
        matches!(written, Err(RowsError::Rejected(_))),
        "{written:?}"
    );
    let large = row(b"p", b"large", &vec![0; MAX_VALUE + 1]);
    let written = store.write(vec![large], Level::Quorum);
    assert!(
        matches!(written, Err(RowsError::Rejected(_))),
        "{written:?}"
    );
    assert_eq!(self::read(store, b"p", b"large"), None);
}

fn later_rows_replace_earlier_ones(store: &dyn Rows, level: Level) {
    store
        .write(Vec::new(), level)
        .expect("no rows are no error");
    for value in 0..20_u8 {
        let rows = vec![row(b"replace", b"k", &[value])];
        store
            .write(rows, level)
            .expect("a healthy store accepts rows");
        if level == Level::Quorum {
            assert_eq!(read(store, b"replace", b"k"), Some(vec![value]));
        }
    }
    assert_eq!(read(store, b"replace", b"other"), None);
    assert_eq!(read(store, b"other", b"k"), None);
}

fn finds_ranges(store: &dyn Rows) {
    let names = ["b", "ba", "c", "a", "b\0", "\u{7f}"];
    let rows = names.map(|key| row(b"range", key.as_bytes(), key.as_bytes()));
    write(store, rows.to_vec());
    write(store, vec![row(b"rangf", b"b", b"other partition")]);
    let keys = |from: &[u8], to, limit| keys(store, b"range", from, to, limit);
    let all = ["a", "b", "b\0", "ba", "c", "\u{7f}"];
    assert_eq!(keys(b"", None, 100), all);
    assert_eq!(keys(b"", None, usize::MAX), all);
    assert_eq!(keys(b"b", None, 100), all[1..]);
    assert_eq!(keys(b"b\0", Some(b"c"), 100), all[2..4]);
    assert_eq!(keys(b"", Some(b"b"), 100), all[..1]);
    assert_eq!(keys(b"a", Some(b"\xff"), 2), all[..2]);
    assert_eq!(keys(b"aa", Some(b"aa"), 100), [""; 0]);
    assert_eq!(keys(b"c", Some(b"a"), 100), [""; 0]);
    assert_eq!(keys(b"", Some(b""), 100), [""; 0]);
    assert_eq!(keys(b"", None, 0), [""; 0]);
    assert_eq!(keys(b"\xff", None, 100), [""; 0]);
    assert_eq!(range(store, b"nothing", b"", None, 100), []);
    let found = range(store, b"range", b"", None, 1);
    assert_eq!(found, [(b"a".to_vec(), b"a".to_vec())]);
}

fn reads_the_rows_of_every_page(store: &dyn Rows) {
    let rows = (0..3000_u32).map(|number| row(b"pages", &number.to_be_bytes(), &[7; 10]));
    write(store, rows.collect());
    let found = range(store, b"pages", b"", None, usize::MAX);
    let expected = (0..3000_u32).map(|number| (number.to_be_bytes().to_vec(), vec![7; 10]));
    assert!(found.into_iter().eq(expected));
    for limit in [1, 7, 8, 9, 500, 2999, 3001] {
        let from = 1_u32.to_be_bytes();
        let found = range(store, b"pages", &from, None, limit);
        assert_eq!(found.len(), limit.min(2999));
        assert_eq!(found[0].0, from);
    }
}

fn keeps_empty_keys_and_values(store: &dyn Rows) {
    write(
        store,
        vec![row(b"empty", b"", b"value"), row(b"empty", b"key", b"")],
    );
    assert_eq!(read(store, b"empty", b""), Some(b"value".to_vec()));
    assert_eq!(read(store, b"empty", b"key"), Some(Vec::new()));
    assert_eq!(keys(store, b"empty", b"", None, 9), ["", "key"]);
    let removed = store.remove(ROWS, b"empty", Some(b""), Level::Quorum);
    removed.expect("a healthy store removes rows");
    assert_eq!(keys(store, b"empty", b"", None, 9), ["key"]);
}

fn keeps_large_values(store: &dyn Rows) {
    let value = |number: u8, bytes: usize| -> Vec<u8> {
        (0..bytes)
            .map(|place| (place / 251) as u8 ^ number)
            .collect()
    };
    let rows = (0..5).map(|number| row(b"large", &[number], &value(number, 1 << 20)));
    write(store, rows.collect());
    write(store, vec![row(b"large", &[5], &value(5, MAX_VALUE))]);
    assert!(read(store, b"large", &[3]) == Some(value(3, 1 << 20)));
    assert!(read(store, b"large", &[5]) == Some(value(5, MAX_VALUE)));
    let found = range(store, b"large", &[1], Some(&[5]), 9).into_iter();
    assert!(found.eq((1..5).map(|number| (vec![number], value(number, 1 << 20)))));
}

fn removes_rows_and_partitions(store: &dyn Rows) {
    let all = || {
        ["a", "b", "c"]
            .map(|key| row(b"remove", key.as_bytes(), b"v"))
            .to_vec()
    };
    write(store, all());
    let remove = |key| {
        let removed = store.remove(ROWS, b"remove", key, Level::Quorum);
        removed.expect("a healthy store removes rows");
    };
    remove(Some(b"b"));
    remove(Some(b"missing"));
    assert_eq!(read(store, b"remove", b"b"), None);
    assert_eq!(keys(store, b"remove", b"", None, 9), ["a", "c"]);
    remove(None);
    assert_eq!(keys(store, b"remove", b"", None, 9), [""; 0]);
    write(store, all());
    assert_eq!(keys(store, b"remove", b"", None, 9), ["a", "b", "c"]);
    remove(None);
}

fn writes_many_rows_in_one_call(store: &dyn Rows) {
    let partition = |number: u32| [b'm', (number % 10) as u8];
    let value = |number: u32| [number.to_be_bytes(), [9; 4]].concat();
    let rows =
        (0..MANY).map(|number| row(&partition(number), &number.to_be_bytes(), &value(number)));
    write(store, rows.collect());
    for first in 0..10 {
        let found = range(store, &partition(first), b"", None, usize::MAX).into_iter();
        let numbers = (first..MANY).step_by(10);
        let expected = numbers.map(|number| (number.to_be_bytes().to_vec(), value(number)));
        assert!(found.eq(expected), "partition {first}");
    }
}

fn lists_partitions(store: &dyn Rows) {
    let found = store
        .partitions(ROWS)
        .expect("a healthy store lists partitions");
    let set: BTreeSet<Vec<u8>> = found.iter().cloned().collect();
    assert_eq!(set.len(), found.len(), "each partition occurs once");
    let expected = ["replace", "range", "rangf", "pages", "empty", "large"];
    let expected = expected.map(|name| name.as_bytes().to_vec()).into_iter();
    let expected = expected.chain((0..10).map(|number| vec![b'm', number]));
    assert_eq!(set, expected.collect());
}

fn swap(store: &dyn Rows, key: &[u8], expected: Option<&[u8]>, value: &[u8]) -> Swap {
    let swap = store.swap(SWAPS, b"p", key, expected, value);
    swap.expect("a healthy store swaps")
}

fn swaps_on_the_expected_value_only(store: &dyn Rows) {
    let found = |value: &[u8]| Swap::Found(Some(value.to_vec()));
    assert_eq!(swap(store, b"s", Some(b"a"), b"b"), Swap::Found(None));
    assert_eq!(swap(store, b"s", None, b"a"), Swap::Done);
    assert_eq!(swap(store, b"s", None, b"b"), found(b"a"));
    assert_eq!(swap(store, b"s", Some(b"b"), b"c"), found(b"a"));
    assert_eq!(swap(store, b"s", Some(b"a"), b""), Swap::Done);
    assert_eq!(swap(store, b"s", None, b"c"), found(b""));
    assert_eq!(swap(store, b"s", Some(b""), b"c"), Swap::Done);
    let value = store.read(SWAPS, b"p", b"s", Level::Quorum);
    assert_eq!(value, Ok(Some(b"c".to_vec())));
}

/// Swaps, and repeats the swap while answers are lost: `value` is unique, so a row with this value was written by this
/// call. Counts lost answers.
fn swap_surely(
    store: &dyn Rows,
    key: &[u8],
    expected: Option<&[u8]>,
    value: &[u8],
    lost: &AtomicU32,
) -> Swap {
    loop {
        match store.swap(SWAPS, b"p", key, expected, value) {
            Ok(Swap::Found(Some(found))) if found == value => return Swap::Done,
            Ok(swap) => return swap,
            Err(RowsError::Unavailable(_)) => drop(lost.fetch_add(1, Ordering::SeqCst)),
            Err(error) => panic!("a healthy store swaps: {error}"),
        }
    }
}

fn a_race_has_one_winner(store: &dyn Rows) {
    let mut expected: Option<Vec<u8>> = None;
    for round in 0..3_u8 {
        let (winners, lost) = (AtomicUsize::new(0), AtomicU32::new(0));
        let race = |racer: u8| {
            let value = [round, racer];
            match swap_surely(store, b"race", expected.as_deref(), &value, &lost) {
                Swap::Done => drop(winners.fetch_add(1, Ordering::SeqCst)),
                Swap::Found(found) => assert_ne!(found, expected, "a loser finds another value"),
            }
        };
        thread::scope(|threads| {
            for racer in 0..RACERS as u8 {
                threads.spawn(move || race(racer));
            }
        });
        assert_eq!(winners.load(Ordering::SeqCst), 1, "round {round}");
        let value = store.read(SWAPS, b"p", b"race", Level::Quorum);
        expected = value.expect("a healthy store returns rows");
        assert_eq!(expected.as_ref().map(|value| value[0]), Some(round));
    }
}

fn counts_without_losses(store: &dyn Rows) {
    let lost = AtomicU32::new(0);
    let value = |count: u32, racer: u8| [&count.to_be_bytes()[..], &[racer]].concat();
    let count = |racer: u8| {
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..INCREMENTS {
            loop {
                let before = last.as_ref().map_or(0, |value| {
                    let (count, _) = value.split_first_chunk().expect("4 bytes and the racer");
                    u32::from_be_bytes(*count)
                });
                let next = value(before + 1, racer);
                match swap_surely(store, b"count", last.as_deref(), &next, &lost) {
                    Swap::Done => {
                        last = Some(next);
                        break;
                    }
                    Swap::Found(found) => last = found,
                }
            }
        }
    };
    thread::scope(|threads| {
        for racer in 0..4 {
            threads.spawn(move || count(racer));
        }
    });
    let found = store.read(SWAPS, b"p", b"count", Level::Quorum);
    let found = found.expect("a healthy store returns rows");
    let found = found.expect("the row exists");
    let (found, _) = found.split_first_chunk().expect("4 bytes and the racer");
    let found = u32::from_be_bytes(*found);
    // A swap whose answer was lost may have been done before another thread counted on.
    let most = 4 * INCREMENTS + lost.load(Ordering::SeqCst);
    assert!((4 * INCREMENTS..=most).contains(&found), "{found}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryRows;

    #[test]
    fn rows_in_memory_conform() {
        rows(&MemoryRows::new());
    }

    /// Store that forgets the condition of a swap.
    struct Careless(MemoryRows);

    impl Rows for Careless {
        fn create(&self, tables: &[TableSpec]) -> Result<(), RowsError> {
            self.0.create(tables)
        }

        fn tables(&self) -> Result<Vec<String>, RowsError> {
            self.0.tables()
        }

        fn write(&self, rows: Vec<Row>, level: Level) -> Result<(), RowsError> {
            self.0.write(rows, level)
        }

        fn read(
            &self,
            table: &str,
            partition: &[u8],
            key: &[u8],
            level: Level,
        ) -> Result<Option<Vec<u8>>, RowsError> {
            self.0.read(table, partition, key, level)
        }

        fn range(
            &self,
            range: &Range<'_>,
            level: Level,
        ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, RowsError> {
            self.0.range(range, level)
        }

        fn remove(
            &self,
            table: &str,
            partition: &[u8],
            key: Option<&[u8]>,
            level: Level,
        ) -> Result<(), RowsError> {
            self.0.remove(table, partition, key, level)
        }

        fn swap(
            &self,
            table: &str,
            partition: &[u8],
            key: &[u8],
            expected: Option<&[u8]>,
            value: &[u8],
        ) -> Result<Swap, RowsError> {
            let found = self.0.read(table, partition, key, Level::One)?;
            if found.as_deref() != expected {
                return Ok(Swap::Found(found));
            }
            thread::yield_now();
            let mut written = row(partition, key, value);
            written.table = Arc::from(table);
            self.0.write(vec![written], Level::One)?;
            Ok(Swap::Done)
        }

        fn partitions(&self, table: &str) -> Result<Vec<Vec<u8>>, RowsError> {
            self.0.partitions(table)
        }
    }

    #[test]
    fn swaps_in_two_steps_are_detected() {
        let store = Careless(MemoryRows::new());
        creates_tables(&store);
        let failed = (0..100).any(|number: u8| {
            let key = [b'c', number];
            let (winners, lost) = (AtomicUsize::new(0), AtomicU32::new(0));
            thread::scope(|threads| {
                for racer in 0..RACERS as u8 {
                    let (store, winners, lost, key) = (&store, &winners, &lost, &key);
                    threads.spawn(move || {
                        if swap_surely(store, key, None, &[racer], lost) == Swap::Done {
                            winners.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            winners.load(Ordering::SeqCst) > 1
        });
        assert!(failed, "a race never had two winners");
    }
}
