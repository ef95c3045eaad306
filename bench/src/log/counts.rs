//! Counts of one interval of a load.

use seiner_engine::Status;

/// Counts of one interval of a load.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct IntervalCounts {
    pub rows: u64,
    /// Bytes of sealed blocks. They count as the bytes stored.
    pub stored: u64,
    /// Bytes of blocks that merges rewrote.
    pub merged: u64,
    /// Bytes written to segments, indexes included.
    pub segments_written: u64,
    /// Bytes that the process wrote to devices, by the kernel's count.
    pub kernel_written: u64,
    /// Seconds of work.
    pub work_s: f64,
    /// Seconds for which writers were delayed.
    pub wait_s: f64,
    pub segments_dropped: u64,
    pub segments_merged: u64,
    /// Mean D of the merged segments; `None` if none was merged.
    pub mean_d: Option<f64>,
}

impl IntervalCounts {
    /// Adds the counts of the next interval.
    pub fn add(&mut self, next: &IntervalCounts) {
        let merges = |one: &IntervalCounts| one.mean_d.map_or(0, |_| one.segments_merged);
        let (before, now) = (merges(self), merges(next));
        let d = |one: &IntervalCounts, merges: u64| one.mean_d.unwrap_or(0.0) * merges as f64;
        let sum = d(self, before) + d(next, now);
        self.mean_d = (before + now > 0).then(|| sum / (before + now) as f64);
        self.rows += next.rows;
        self.stored += next.stored;
        self.merged += next.merged;
        self.segments_written += next.segments_written;
        self.kernel_written += next.kernel_written;
        self.work_s += next.work_s;
        self.wait_s += next.wait_s;
        self.segments_dropped += next.segments_dropped;
        self.segments_merged += next.segments_merged;
    }

    /// Returns the bytes of blocks written per byte stored, by the engine's count.
    pub fn blocks_written(&self) -> f64 {
        (self.stored + self.merged) as f64 / self.stored.max(1) as f64
    }

    /// Returns the bytes written per byte stored, with everything written to segments.
    pub fn engine_written(&self) -> f64 {
        self.segments_written as f64 / self.stored.max(1) as f64
    }

    /// Returns the bytes written per byte stored, by the kernel's count.
    pub fn device_written(&self) -> f64 {
        self.kernel_written as f64 / self.stored.max(1) as f64
    }

    /// Returns the megabytes stored per second, waits included.
    pub fn rate(&self) -> f64 {
        self.stored as f64 / (self.work_s + self.wait_s).max(1e-9) / 1e6
    }
}

/// Returns the counts of the engine between two states.
pub(super) fn difference(before: &Status, after: &Status) -> IntervalCounts {
    IntervalCounts {
        stored: after.block_bytes_sealed - before.block_bytes_sealed,
        merged: after.merge_written - before.merge_written,
        segments_written: after.segment_written - before.segment_written,
        segments_dropped: after.segments_dropped - before.segments_dropped,
        segments_merged: after.segments_merged - before.segments_merged,
        ..IntervalCounts::default()
    }
}
