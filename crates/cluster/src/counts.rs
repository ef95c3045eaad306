//! Counts of a port's work.

use crate::bundling::Report;

/// Counts since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Completed handovers.
    pub handovers: u64,
    /// Samples in bundles of this port.
    pub samples: u64,
    /// Bundles.
    pub bundles: u64,
    /// Bytes of bundles, once for all replicas.
    pub bytes: u64,
    /// Samples that were too old when they were handed over.
    pub expired: u64,
    /// Journals of failed ports that this port has finished.
    pub takeovers: u64,
}

impl PortCounts {
    /// Adds a completed handover.
    pub(crate) fn add(&mut self, report: &Report) {
        self.handovers += 1;
        self.samples += report.samples;
        self.bundles += report.bundles;
        self.bytes += report.bytes;
        self.expired += report.expired_samples;
    }
}
