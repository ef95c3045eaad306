//! Counters of the traffic of all ports, and rates from them.
//!
//! They are updated once per frame or request, never once per line.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Counters of one protocol since the start of the server.
#[derive(Default)]
pub struct ProtocolCounters {
    /// Accepted rows.
    pub rows: AtomicU64,
    /// Accepted samples.
    pub samples: AtomicU64,
    /// Rejected rows: lines of line protocol, samples of remote write, points of OTLP.
    pub rejected: AtomicU64,
    /// Ignored items, which this store does not keep, such as exemplars.
    pub ignored: AtomicU64,
    /// Received bytes, after decompression.
    pub bytes: AtomicU64,
    /// Datagrams of UDP that the kernel dropped because its buffer was full.
    pub dropped: AtomicU64,
}

/// Counters since the start of the server.
pub struct TrafficCounters {
    protocols: Mutex<BTreeMap<&'static str, Arc<ProtocolCounters>>>,
    /// Started writes.
    pub writes: AtomicU64,
    /// Writes, queries and connections rejected because there were too many.
    pub rejected_requests: AtomicU64,
    /// Started queries.
    pub queries: AtomicU64,
    /// Opened connections.
    pub connections: AtomicU64,
    rates: Mutex<Rates>,
}

struct Rates {
    at: Instant,
    rows: u64,
    samples: u64,
    rows_per_s: f64,
    samples_per_s: f64,
}

impl TrafficCounters {
    /// Creates counters of zero.
    pub fn new() -> TrafficCounters {
        TrafficCounters {
            protocols: Mutex::default(),
            writes: AtomicU64::new(0),
            rejected_requests: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            rates: Mutex::new(Rates {
                at: crate::time::now(),
                rows: 0,
                samples: 0,
                rows_per_s: 0.0,
                samples_per_s: 0.0,
            }),
        }
    }

    /// Returns the counters of a protocol, which begin at 0. The name is the value of the metrics' label `protocol`.
    pub fn protocol(&self, name: &'static str) -> Arc<ProtocolCounters> {
        self.all().entry(name).or_default().clone()
    }

    /// Returns the names of all protocols with the value of one counter, sorted by name.
    pub fn by_protocol(
        &self,
        counter: impl Fn(&ProtocolCounters) -> &AtomicU64,
    ) -> Vec<(&'static str, u64)> {
        let all = self.all();
        let counts = all
            .iter()
            .map(|(name, counters)| (*name, counter(counters).load(Relaxed)));
        counts.collect()
    }

    /// Returns the sum of one counter over all protocols.
    pub fn total(&self, counter: impl Fn(&ProtocolCounters) -> &AtomicU64) -> u64 {
        self.by_protocol(counter)
            .iter()
            .map(|(_, count)| count)
            .sum()
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Arc<ProtocolCounters>>> {
        self.protocols
            .lock()
            .expect("no thread panics while it holds the counters")
    }

    /// Ends a period of the rates. Called about once a second with the number of rows and samples that the store has
    /// accepted so far, from any port.
    pub fn tick(&self, rows: u64, samples: u64) {
        let mut rates = self
            .rates
            .lock()
            .expect("no thread panics while it holds the rates");
        let seconds = rates.at.elapsed().as_secs_f64().max(1e-3);
        rates.rows_per_s = ((rows - rates.rows) as f64 / seconds).round();
        rates.samples_per_s = ((samples - rates.samples) as f64 / seconds).round();
        (rates.rows, rates.samples, rates.at) = (rows, samples, crate::time::now());
    }

    /// Returns the rows and samples per second of the last complete period.
    pub fn rates(&self) -> (f64, f64) {
        let rates = self
            .rates
            .lock()
            .expect("no thread panics while it holds the rates");
        (rates.rows_per_s, rates.samples_per_s)
    }
}
