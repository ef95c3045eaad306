//! Counts of what passes the ports, and the rates made from them.
//!
//! Counted once a frame or request, never once a line.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Counts since the server started.
pub struct Meters {
    /// Rows accepted.
    pub rows: AtomicU64,
    /// Samples accepted.
    pub samples: AtomicU64,
    /// Lines refused.
    pub rejected_lines: AtomicU64,
    /// Bytes of line protocol, after decompression.
    pub bytes: AtomicU64,
    /// Writes begun.
    pub writes: AtomicU64,
    /// Writes and queries turned away because there were too many.
    pub turned_away: AtomicU64,
    /// Queries begun.
    pub queries: AtomicU64,
    /// Connections opened.
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

impl Meters {
    /// All zero.
    pub fn new() -> Meters {
        Meters {
            rows: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            rejected_lines: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            rates: Mutex::new(Rates {
                at: Instant::now(),
                rows: 0,
                samples: 0,
                rows_per_s: 0.0,
                samples_per_s: 0.0,
            }),
        }
    }

    /// Ends a period for the rates; called about once a second with what the store has accepted so
    /// far, whatever door it came by.
    pub fn tick(&self, rows: u64, samples: u64) {
        let mut rates = self
            .rates
            .lock()
            .expect("nothing panics while it holds the rates");
        let seconds = rates.at.elapsed().as_secs_f64().max(1e-3);
        rates.rows_per_s = ((rows - rates.rows) as f64 / seconds).round();
        rates.samples_per_s = ((samples - rates.samples) as f64 / seconds).round();
        (rates.rows, rates.samples, rates.at) = (rows, samples, Instant::now());
    }

    /// Rows and samples a second in the last whole period.
    pub fn rates(&self) -> (f64, f64) {
        let rates = self
            .rates
            .lock()
            .expect("nothing panics while it holds the rates");
        (rates.rows_per_s, rates.samples_per_s)
    }
}
