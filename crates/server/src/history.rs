//! What was written over the last hour and day: a mark a minute, of counters that only grow.

use crate::device::Device;
use crate::figures::ProcessFigures;
use seiner_engine::Status;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a mark is made.
const EVERY: Duration = Duration::from_secs(60);
/// An hour, and a day.
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
/// Marks of a day.
const MARKS: usize = 1441;
/// Over less than this nothing is said about a day.
const LEAST_SECONDS: f64 = 30.0;

/// The counters at one moment.
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

/// What was written in a period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Period {
    /// How long it is, as far as the server ran.
    pub seconds: f64,
    /// Bytes of blocks stored.
    pub stored: u64,
    /// Bytes of blocks that merges wrote again.
    pub merged: u64,
    /// Bytes written to the journal.
    pub journal: u64,
    /// Bytes written to segments: blocks, footers, fill.
    pub segments: u64,
    /// Bytes that the kernel wrote to devices for this process.
    pub process: u64,
    /// Bytes written to the device, by everybody; none where the kernel does not tell.
    pub device: Option<u64>,
    /// Bytes of blocks written for each byte stored: 1 where nothing was merged; none where nothing
    /// was stored.
    pub per_byte: Option<f64>,
}

impl Period {
    /// Bytes written to the device a day, at the pace of the period.
    pub fn device_per_day(&self) -> Option<f64> {
        let device = self.device.filter(|_| self.seconds >= LEAST_SECONDS)?;
        Some(device as f64 / self.seconds * DAY.as_secs_f64())
    }
}

/// What was written lately.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Written {
    /// In the last hour.
    pub hour: Period,
    /// In the last day.
    pub day: Period,
    /// Since the server was started.
    pub start: Period,
}

/// See the module.
pub struct History {
    device: Option<Device>,
    start: Mark,
    marks: Mutex<VecDeque<Mark>>,
}

impl History {
    /// Begins; `status` is that of the store now.
    pub fn new(device: Option<Device>, status: &Status) -> History {
        let start = Mark::now(device.as_ref(), status);
        History {
            device,
            start,
            marks: Mutex::new(VecDeque::from([start])),
        }
    }

    /// The device of the data directory, if the kernel tells.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// Makes a mark if it is time to. To be called about once a second.
    pub fn note(&self, status: &Status) {
        let mut marks = self.marks.lock().expect("nothing panics with the marks");
        let due = marks.back().is_none_or(|last| last.at.elapsed() >= EVERY);
        if !due {
            return;
        }
        if marks.len() == MARKS {
            marks.pop_front();
        }
        marks.push_back(Mark::now(self.device.as_ref(), status));
    }

    /// What was written until now.
    pub fn written(&self, status: &Status) -> Written {
        let now = Mark::now(self.device.as_ref(), status);
        let marks = self.marks.lock().expect("nothing panics with the marks");
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
            at: Instant::now(),
            stored: status.block_bytes_sealed,
            merged: status.merge_written,
            journal: status.journal_written,
            segments: status.segment_written,
            process: ProcessFigures::now().written_bytes,
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
        let ago = |seconds| Instant::now() - Duration::from_secs(seconds);
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
    fn nothing_stored_is_no_ratio() {
        let history = History::new(None, &stored(5, 0));
        let written = history.written(&stored(5, 7));
        assert_eq!(written.start.per_byte, None);
        assert_eq!(written.start.device_per_day(), None);
    }
}
