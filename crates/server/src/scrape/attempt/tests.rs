//! Tests of scrapes with targets and a clock that are not real.

use super::*;
use crate::access::Access;
use crate::app_state::Extensions;
use crate::settings::{ScrapeJob, Settings, TargetAddress};
use crate::whole_body::Held;
use seiner_model::{Interval, Selector, Value};
use seiner_store::{MemoryStore, Query};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Target that answers with the texts of a list, from the last one on.
struct Fake(Mutex<Vec<Result<&'static str, &'static str>>>);

impl Outside for Fake {
    fn now(&self) -> i64 {
        0
    }

    async fn fetch(&self, app: &AppState, _: &Target) -> Result<Fetched, String> {
        let answer = self.0.lock().unwrap().pop();
        let Some(answer) = answer else {
            return std::future::pending().await;
        };
        let body = answer.map_err(str::to_string)?.as_bytes().to_vec();
        let permit = app.bodies.acquire(body.len()).unwrap();
        Ok(Fetched {
            body: Held::new(body, permit),
            form: Form::Prometheus,
        })
    }
}

struct Bench {
    app: AppState,
    target: Target,
    known: KnownSeries,
    time: i64,
}

impl Bench {
    fn new(change: impl FnOnce(&mut ScrapeJob)) -> Bench {
        let mut job = ScrapeJob {
            name: "node".into(),
            ..ScrapeJob::default()
        };
        change(&mut job);
        let settings = Settings {
            scrape: vec![job],
            ..Settings::default()
        };
        let store = Arc::new(MemoryStore::new());
        let access = Access::open(&settings).unwrap();
        let app = AppState::new(store, Extensions::default(), settings, (access, None));
        let address = TargetAddress::parse("nas:9100").unwrap();
        let job = app.scrape.jobs[0].job.clone();
        Bench {
            target: Target::new(&job, address, &BTreeMap::new()).unwrap(),
            known: KnownSeries::new(app.scrape.names.clone()),
            time: 0,
            app,
        }
    }

    /// Scrapes a target that gives these answers in turn. Returns the last report.
    async fn scrape(&mut self, answers: &[Result<&'static str, &'static str>]) -> Report {
        let mut answers = answers.to_vec();
        answers.reverse();
        let rounds = answers.len().max(1);
        let fake = Fake(Mutex::new(answers));
        let mut report = Report::default();
        for _ in 0..rounds {
            self.time += 1_000_000_000;
            report = scrape(&self.app, &fake, &self.target, &mut self.known, self.time).await;
        }
        report
    }

    /// Returns the bits of the values of a series with the labels of the target, by second.
    fn values(&self, metric: &str) -> Vec<(i64, u64)> {
        let selector = format!("{metric}{{job=\"node\",instance=\"nas:9100\"}}");
        let query = Query {
            selector: Selector::parse(&selector).unwrap(),
            fields: None,
            interval: Interval::new(i64::MIN, i64::MAX),
        };
        let mut rows = Vec::new();
        for series in self.app.store.select(&query, None).unwrap() {
            let series = series.unwrap();
            for (index, time) in series.times.iter().enumerate() {
                let Value::F64(value) = series.values.get(index) else {
                    panic!("{:?}", series.values);
                };
                rows.push((time / 1_000_000_000, value.to_bits()));
            }
        }
        rows
    }
}

const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

fn number(value: f64) -> u64 {
    value.to_bits()
}

#[tokio::test]
async fn vanished_series_and_failed_scrapes_are_stale() {
    let mut bench = Bench::new(|_| {});
    let both = "# HELP a Text.\n# TYPE a counter\na 1\nb{job=\"x\"} 2\nold 3 500\n";
    let report = bench
        .scrape(&[Ok(both), Ok("a 4\n"), Err("no answer"), Ok("a 5\n")])
        .await;
    assert_eq!((report.health, report.samples), (Health::Up, 1));
    let a = [
        (1, number(1.0)),
        (2, number(4.0)),
        (3, STALE_BITS),
        (4, number(5.0)),
    ];
    assert_eq!(bench.values("a"), a);
    assert_eq!(bench.values("b"), [(1, number(2.0)), (2, STALE_BITS)]);
    // A series with times of its own gets no marker.
    assert_eq!(bench.values("old"), [(0, number(3.0))]);
    let up = [1.0, 1.0, 0.0, 1.0].map(number);
    let found: Vec<u64> = bench.values("up").iter().map(|(_, bits)| *bits).collect();
    assert_eq!(found, up);
    let scraped = [3.0, 1.0, 0.0, 1.0].map(number);
    let found = bench.values("scrape_samples_scraped");
    assert_eq!(
        found.iter().map(|(_, bits)| *bits).collect::<Vec<_>>(),
        scraped
    );
    assert_eq!(bench.values("scrape_duration_seconds").len(), 4);
    let metadata = json!({ "type": "counter", "help": "Text.", "unit": "" });
    assert_eq!(
        bench.app.metric_metadata.entries(),
        [("a".to_string(), metadata)]
    );
    let status = bench.app.scrape.status();
    assert_eq!(
        (&status[0]["scrapes"], &status[0]["failures"]),
        (&json!(4), &json!(1))
    );
    let time = bench.time + 1_000_000_000;
    end(&bench.app, &bench.target, &mut bench.known, time)
        .await
        .unwrap();
    for metric in ["a", "up", "scrape_duration_seconds"] {
        assert_eq!(
            bench.values(metric).last(),
            Some(&(5, STALE_BITS)),
            "{metric}"
        );
    }
}

#[tokio::test]
async fn a_bad_or_large_text_is_rejected_as_a_whole() {
    let mut bench = Bench::new(|job| job.sample_limit = 2);
    for (text, reason) in [
        ("a 1\nb\n", "line 2"),
        ("a 1\nb 1\nc 1\n", "raise sample_limit"),
        ("<html>", "line 1"),
    ] {
        let report = bench.scrape(&[Ok(text)]).await;
        assert_eq!(report.health, Health::Down);
        assert!(report.error.contains(reason), "{text}: {}", report.error);
    }
    assert!(bench.values("a").is_empty());
    assert_eq!(bench.values("up").len(), 3);
}

#[tokio::test]
async fn a_slow_target_times_out() {
    let mut bench = Bench::new(|job| job.timeout = Some(Duration::from_millis(20)));
    let report = bench.scrape(&[]).await;
    assert!(report.error.contains("raise timeout"), "{}", report.error);
}

#[tokio::test]
async fn repeated_and_invalid_samples_are_counted() {
    let mut bench = Bench::new(|_| {});
    let report = bench
        .scrape(&[Ok("a 1\na 2\nb{c=\"1\",c=\"2\"} 1\n")])
        .await;
    assert_eq!((report.health, report.samples), (Health::Up, 3));
    assert!(
        report.error.contains("2 samples were rejected: line 2"),
        "{}",
        report.error
    );
    assert_eq!(bench.values("a"), [(1, number(1.0))]);
    let counters = bench.app.traffic.protocol(PROTOCOL);
    assert_eq!(counters.rejected.load(Relaxed), 2);
}
