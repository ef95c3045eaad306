//! Counts of requests and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the connection, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of requests that were sent, with retries. A page of a range is one request.
    pub requests: u64,
    /// Number of requests that were repeated, by the driver or by this crate.
    pub retries: u64,
    /// Bytes of partitions, keys and values in successful writes.
    pub bytes_written: u64,
    /// Bytes of keys and values in answers.
    pub bytes_read: u64,
}

/// Counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
}

impl Counters {
    /// Counts a request.
    pub(crate) fn add_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the repetition of a request, as a retry and as a request.
    pub(crate) fn add_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
        self.add_request();
    }

    /// Counts written bytes.
    pub(crate) fn add_written(&self, bytes: usize) {
        self.bytes_written
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of an answer.
    pub(crate) fn add_read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the counts of this moment.
    pub(crate) fn get(&self) -> Statistics {
        Statistics {
            requests: self.requests.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
        }
    }
}
