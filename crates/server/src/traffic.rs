//! Counters of the traffic of all ports, and rates from them.
//!
//! They are updated once per frame or request, never once per line.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Counters since the start of the server.
pub struct TrafficCounters {
    /// Accepted rows.
    pub rows: AtomicU64,
    /// Accepted samples.
    pub samples: AtomicU64,
    /// Rejected lines.
    pub rejected_lines: AtomicU64,
    /// Bytes of line protocol, after decompression.
    pub bytes: AtomicU64,
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
            rows: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            rejected_lines: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
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
