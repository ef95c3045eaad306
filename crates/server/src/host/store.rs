//! Measurement `seiner`: the store and its process, as sensors of the host.

use super::{Readings, rate, rounded};
use crate::system::ProcessStats;
use seiner_model::Value;
use seiner_store::Status;

#[derive(Default)]
pub struct Store {
    before: Option<(Status, ProcessStats)>,
}

impl Store {
    pub fn read(&mut self, store: &dyn seiner_store::Store, seconds: f64, readings: &mut Readings) {
        let (status, process) = (store.status(), ProcessStats::now());
        if let Some((before, process_before)) = &self.before {
            let mut fields = state(&status, &process);
            fields.extend(rates(&status, before, seconds));
            let cpu = (process.cpu_s - process_before.cpu_s) / seconds;
            fields.push(("cpu", rounded(100.0 * cpu)));
            readings.add("seiner", &[], fields);
        }
        self.before = Some((status, process));
    }
}

fn state(status: &Status, process: &ProcessStats) -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("sources", Value::U64(status.sources)),
        ("series", Value::U64(status.series)),
        ("unsynced_samples", Value::U64(status.unsynced_samples)),
        ("unsynced_bytes", Value::U64(status.unsynced_bytes)),
        (
            "unsynced_age_ms",
            Value::U64(status.unsynced_age_ns / 1_000_000),
        ),
        ("buffer_bytes", Value::U64(status.buffer_bytes)),
        ("dictionary_bytes", Value::U64(status.dictionary_bytes)),
        ("memory_used", Value::U64(status.memory_used)),
        ("journal_bytes", Value::U64(status.journal_bytes)),
        ("segments", Value::U64(status.segments)),
        ("segment_bytes", Value::U64(status.segment_bytes)),
        ("rss_bytes", Value::U64(process.rss_bytes)),
    ]
}

fn rates(status: &Status, before: &Status, seconds: f64) -> [(&'static str, Value<'static>); 5] {
    [
        (
            "rows_per_s",
            rate(status.rows_accepted, before.rows_accepted, seconds),
        ),
        (
            "samples_per_s",
            rate(status.samples_accepted, before.samples_accepted, seconds),
        ),
        (
            "rejected_per_s",
            rate(status.rows_rejected, before.rows_rejected, seconds),
        ),
        (
            "journal_written_per_s",
            rate(status.journal_written, before.journal_written, seconds),
        ),
        (
            "segment_written_per_s",
            rate(status.segment_written, before.segment_written, seconds),
        ),
    ]
}
