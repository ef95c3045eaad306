//! Queries on several threads: the same answers as on one, and the same errors.

use seiner_model::{
    Batch, Column, Columns, FieldColumn, FieldType, Interval, Notation, Selector, SourceId,
    SourceKey,
};
use seiner_promql::{Answer, Error, Limits, Options, Stop, instant, range};
use seiner_store::{
    Durability, Error as StoreError, IsOver, MemoryStore, Parts, Piece, Query, Receipt, Results,
    Status, Store,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SECOND: i64 = 1_000_000_000;
const SERIES: usize = 1_000;

/// Store that delegates to a store in memory. Some of its features can be switched off or fail.
#[derive(Default)]
struct Odd {
    store: MemoryStore,
    /// True if the store reads a query only as a whole.
    is_whole: bool,
    /// Source that is damaged.
    damaged: Option<u32>,
    /// Source at which the disk fails.
    broken: Option<u32>,
}

struct OddParts<'a> {
    store: &'a Odd,
    parts: Box<dyn Parts + 'a>,
}

impl Odd {
    fn spoil<'a>(&'a self, pieces: Results<'a, Piece>) -> Results<'a, Piece> {
        Box::new(pieces.map(|piece| {
            let piece = piece?;
            match piece.source.0 {
                number if Some(number) == self.damaged => Err(StoreError::Damage {
                    file: "seg-1".to_string(),
                    offset: 7,
                    what: "a test".to_string(),
                }),
                number if Some(number) == self.broken => {
                    Err(StoreError::Poisoned("a test".to_string()))
                }
                _ => Ok(piece),
            }
        }))
    }
}

impl Parts for OddParts<'_> {
    fn sources(&self) -> usize {
        self.parts.sources()
    }

    fn scan(&self, sources: Range<usize>) -> Results<'_, Piece> {
        self.store.spoil(self.parts.scan(sources))
    }
}

impl Store for Odd {
    fn append(&self, notation: &dyn Notation, batch: &Batch<'_>) -> Result<Receipt, StoreError> {
        self.store.append(notation, batch)
    }

    fn register(&self, key: &SourceKey) -> Result<SourceId, StoreError> {
        self.store.register(key)
    }

    fn append_columns(
        &self,
        source: SourceId,
        fields: &[&str],
        columns: &Columns,
    ) -> Result<Receipt, StoreError> {
        self.store.append_columns(source, fields, columns)
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn is_durable(&self, position: u64) -> bool {
        self.store.is_durable(position)
    }

    fn wait_durable(&self, position: u64) -> Result<(), StoreError> {
        self.store.wait_durable(position)
    }

    fn delete(&self, selector: &Selector, interval: Interval) -> Result<u64, StoreError> {
        self.store.delete(selector, interval)
    }

    fn measurements(&self) -> Result<Vec<String>, StoreError> {
        self.store.measurements()
    }

    fn tag_names(&self, selector: &Selector) -> Result<Vec<String>, StoreError> {
        self.store.tag_names(selector)
    }

    fn tag_values(
        &self,
        selector: &Selector,
        tag: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.store.tag_values(selector, tag, limit)
    }

    fn fields(&self, selector: &Selector) -> Result<Vec<(String, FieldType)>, StoreError> {
        self.store.fields(selector)
    }

    fn sources(&self, selector: &Selector) -> Result<Vec<SourceId>, StoreError> {
        self.store.sources(selector)
    }

    fn source_key(&self, source: SourceId) -> Result<Option<SourceKey>, StoreError> {
        self.store.source_key(source)
    }

    fn scan(
        &self,
        query: &Query,
        is_over: Option<IsOver>,
    ) -> Result<Results<'_, Piece>, StoreError> {
        Ok(self.spoil(self.store.scan(query, is_over)?))
    }

    fn parts(
        &self,
        query: &Query,
        threads: usize,
        is_over: Option<IsOver>,
    ) -> Result<Option<Box<dyn Parts + '_>>, StoreError> {
        if self.is_whole {
            return Ok(None);
        }
        let parts = self.store.parts(query, threads, is_over)?;
        Ok(parts.map(|parts| Box::new(OddParts { store: self, parts }) as Box<dyn Parts>))
    }

    fn status(&self) -> Status {
        self.store.status()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.store.close()
    }
}

/// Returns a store with many series, whose values have sums that depend on the order of the addends.
fn store() -> Odd {
    let odd = Odd::default();
    for at in 0..SERIES {
        let tags = [("n", at.to_string()), ("group", (at % 7).to_string())];
        let source = odd.register(&SourceKey::new("x", tags).unwrap()).unwrap();
        // Sources have different numbers of samples, and every fifth source has none.
        let rows = if at % 5 == 4 { 0 } else { 150 + at % 300 };
        let value = |row: usize| ((at * 31 + row * 17) as f64 * 0.1).exp2().sin() * 1e7 / 3.0;
        let columns = Columns {
            times: (0..rows as i64).map(|row| row * SECOND).collect(),
            fields: vec![FieldColumn {
                present: None,
                values: Column::F64((0..rows).map(value).collect()),
            }],
        };
        odd.append_columns(source, &["value"], &columns).unwrap();
    }
    odd
}

fn asked(store: &dyn Store, text: &str, threads: usize) -> Result<Answer, Error> {
    let options = Options {
        threads,
        ..Options::default()
    };
    range(store, text, (0, 600 * SECOND, 7 * SECOND), &options, None)
}

#[test]
fn answers_are_equal_on_any_number_of_threads() {
    let mut odd = store();
    for text in [
        "sum(x)",
        "avg by (group) (x)",
        "stddev(x)",
        "sum by (group) (rate(x[1m]))",
        "topk(3, avg_over_time(x[30s]))",
        "quantile(0.9, x)",
        "x{group=\"3\"}",
        "sum(x) / count(x)",
        "limitk(5, x)",
        "label_replace(x, \"a\", \"$1\", \"n\", \"(.).*\")",
    ] {
        odd.is_whole = true;
        // Rust writes floats so that different bits are different texts, except for NaN.
        let expected = format!("{:?}", asked(&odd, text, 1).unwrap().data);
        assert!(expected.len() > 100, "{text}: {expected}");
        for is_whole in [false, true] {
            odd.is_whole = is_whole;
            for threads in [1, 2, 3, 8] {
                let found = format!("{:?}", asked(&odd, text, threads).unwrap().data);
                assert!(found == expected, "{text}, {threads} threads");
            }
        }
    }
}

#[test]
fn damage_is_a_warning_and_failures_are_errors() {
    let mut odd = store();
    odd.damaged = Some(800);
    for threads in [1, 4] {
        let answer = asked(&odd, "count(x)", threads).unwrap();
        assert!(
            answer.warnings[0].contains("seg-1"),
            "{:?}",
            answer.warnings
        );
        let first = format!("{:?}", answer.data);
        assert!(first.contains("799.0"), "{threads} threads: {first:.200}");
    }
    for broken in [0, 500, 998] {
        odd.broken = Some(broken);
        for threads in [1, 4] {
            let error = asked(&odd, "count(x)", threads).unwrap_err();
            assert!(error.to_string().contains("a test"), "{error}");
        }
    }
}

#[test]
fn limits_hold_on_any_number_of_threads() {
    let odd = store();
    for threads in [1, 4] {
        for (limits, name) in [
            (
                Limits {
                    samples: 100_000,
                    ..Limits::default()
                },
                "max_samples_read",
            ),
            (
                Limits {
                    bytes: 500_000,
                    ..Limits::default()
                },
                "max_bytes_held",
            ),
        ] {
            let options = Options {
                threads,
                limits,
                ..Options::default()
            };
            let steps = (0, 600 * SECOND, 7 * SECOND);
            let error = range(&odd, "sort(x)", steps, &options, None).unwrap_err();
            assert!(matches!(error, Error::Limit(_)), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn a_stopped_query_ends() {
    let odd = store();
    for threads in [1, 4] {
        for (after, stop) in [
            (0, Stop::Canceled),
            (100, Stop::TimedOut),
            (900, Stop::Canceled),
        ] {
            let calls = AtomicUsize::new(0);
            let stopper = Arc::new(move || (calls.fetch_add(1, Relaxed) >= after).then_some(stop));
            let options = Options {
                threads,
                ..Options::default()
            };
            let error = instant(&odd, "sum(x)", 100 * SECOND, &options, Some(stopper)).unwrap_err();
            let fits = match stop {
                Stop::Canceled => matches!(error, Error::Canceled),
                Stop::TimedOut => matches!(error, Error::TimedOut),
            };
            assert!(fits, "{threads} threads, after {after} calls: {error}");
        }
    }
}
