//! Bytes written in the last hour and day, from a mark per minute of counters that only grow.

use crate::device::Device;
use crate::system::ProcessStats;
use seiner_store::Status;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Interval of marks.
const EVERY: Duration = Duration::from_secs(60);
/// Periods: an hour and a day.
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Number of marks of a day.
const MARKS: usize = 1441;
/// Minimum time before a figure per day is given.
const LEAST_SECONDS: f64 = 30.0;

/// Counters at one moment.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    stored: u64,
    merged: u64,
    journal: u64,
    segments: u64,
    process: u64,
    device: Option<u64>,
}

/// Bytes written in a period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Period {
    /// Length of the period, as far as the server ran.
    pub seconds: f64,
    /// Bytes of stored blocks.
    pub stored: u64,
    /// Bytes of blocks that merges wrote again.
    pub merged: u64,
    /// Bytes written to the journal.
    pub journal: u64,
    /// Bytes written to segments: blocks, footers, padding.
    pub segments: u64,
    /// Bytes that the kernel wrote to devices for this process.
    pub process: u64,
    /// Bytes that all processes wrote to the device; `None` if the kernel does not report them.
    pub device: Option<u64>,
    /// Bytes of blocks written per byte stored: 1 without merges; `None` if nothing
    /// was stored.
    pub per_byte: Option<f64>,
}

impl Period {
    /// Returns the bytes written to the device per day, at the rate of the period.
    pub fn device_per_day(&self) -> Option<f64> {
        let device = self.device.filter(|_| self.seconds >= LEAST_SECONDS)?;
        Some(device as f64 / self.seconds * DAY.as_secs_f64())
    }
}

/// Bytes written lately.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Written {
    /// Figures of the last hour.
    pub hour: Period,
    /// Figures of the last day.
    pub day: Period,
    /// Figures since the start of the server.
    pub start: Period,
}

/// History of the write counters.
pub struct History {
    device: Option<Device>,
    start: Mark,
    marks: Mutex<VecDeque<Mark>>,
}

impl History {
    /// Starts the history with the present status of the store.
    pub fn new(device: Option<Device>, status: &Status) -> History {
        let start = Mark::now(device.as_ref(), status);
        History {
            device,
            start,
            marks: Mutex::new(VecDeque::from([start])),
        }
    }

    /// Returns the device of the data directory, if the kernel reports it.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Makes a mark if one is due. Must be called about once a second.
    pub fn note(&self, status: &Status) {
        let mut marks = self
            .marks
            .lock()
            .expect("no thread panics while it holds the marks");
        let due = marks.back().is_none_or(|last| last.at.elapsed() >= EVERY);
        if !due {
            return;
        }
        if marks.len() == MARKS {
            marks.pop_front();
        }
        marks.push_back(Mark::now(self.device.as_ref(), status));
    }

    /// Returns the bytes written until now.
    pub fn written(&self, status: &Status) -> Written {
        let now = Mark::now(self.device.as_ref(), status);
        let marks = self
            .marks
            .lock()
            .expect("no thread panics while it holds the marks");
        let over = |length: Duration| {
            let within = |mark: &&Mark| now.at.duration_since(mark.at) <= length + EVERY / 2;
            marks
                .iter()
                .find(within)
                .map_or(now.since(&now), |mark| now.since(mark))
        };
        Written {
            hour: over(HOUR),
            day: over(DAY),
            start: now.since(&self.start),
        }
    }
}

impl Mark {
    fn now(device: Option<&Device>, status: &Status) -> Mark {
        Mark {
            at: crate::time::now(),
            stored: status.block_bytes_sealed,
            merged: status.merge_written,
            journal: status.journal_written,
            segments: status.segment_written,
            process: ProcessStats::now().written_bytes,
            device: device.and_then(Device::written),
        }
    }

    fn since(&self, before: &Mark) -> Period {
        let (stored, merged) = (self.stored - before.stored, self.merged - before.merged);
        let device = self.device.zip(before.device);
        Period {
            seconds: self.at.duration_since(before.at).as_secs_f64(),
            stored,
            merged,
            journal: self.journal - before.journal,
            segments: self.segments - before.segments,
            process: self.process.saturating_sub(before.process),
            device: device.map(|(now, before)| now.saturating_sub(before)),
            per_byte: (stored > 0).then(|| (stored + merged) as f64 / stored as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(stored: u64, merged: u64) -> Status {
        Status {
            block_bytes_sealed: stored,
            merge_written: merged,
            ..Status::default()
        }
    }

    #[test]
    fn periods_begin_at_the_first_mark_within_them() {
        let history = History::new(None, &stored(100, 0));
        let ago = |seconds| crate::time::now() - Duration::from_secs(seconds);
        let mark = |seconds, bytes, merged| Mark {
            at: ago(seconds),
            ..Mark::now(None, &stored(bytes, merged))
        };
        *history.marks.lock().unwrap() =
            VecDeque::from([mark(7200, 200, 0), mark(3600, 300, 50), mark(60, 900, 50)]);
        let written = history.written(&stored(1000, 190));
        assert_eq!((written.hour.stored, written.hour.merged), (700, 140));
        assert_eq!(written.hour.per_byte, Some(1.2));
        assert_eq!(written.day.stored, 800);
        assert_eq!(written.start.stored, 900);
        history.note(&stored(1000, 190));
        assert_eq!(history.marks.lock().unwrap().len(), 4);
        history.note(&stored(1001, 190));
        assert_eq!(history.marks.lock().unwrap().len(), 4);
    }

    #[test]
    fn no_ratio_is_computed_while_nothing_is_stored() {
        let history = History::new(None, &stored(5, 0));
        let written = history.written(&stored(5, 7));
        assert_eq!(written.start.per_byte, None);
        assert_eq!(written.start.device_per_day(), None);
    }
}
