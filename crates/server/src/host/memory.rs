//! Measurements `host_mem` (bytes) and `host_load` (runnable tasks, averaged over minutes).

use super::{Readings, rounded};
use procfs::{Current, LoadAverage, Meminfo};
use seiner_model::Value;

pub fn read(readings: &mut Readings) {
    if let Ok(info) = Meminfo::current() {
        let available = info.mem_available.unwrap_or(info.mem_free);
        let used = info.mem_total.saturating_sub(available);
        let fields = vec![
            ("total", Value::U64(info.mem_total)),
            ("used", Value::U64(used)),
            ("available", Value::U64(available)),
            ("free", Value::U64(info.mem_free)),
            ("cached", Value::U64(info.cached)),
            ("buffers", Value::U64(info.buffers)),
            ("dirty", Value::U64(info.dirty)),
            ("writeback", Value::U64(info.writeback)),
            ("swap_total", Value::U64(info.swap_total)),
            (
                "swap_used",
                Value::U64(info.swap_total.saturating_sub(info.swap_free)),
            ),
            (
                "used_percent",
                rounded(100.0 * used as f64 / info.mem_total.max(1) as f64),
            ),
        ];
        readings.add("host_mem", &[], fields);
    }
    if let Ok(load) = LoadAverage::current() {
        let fields = vec![
            ("load1", rounded(f64::from(load.one))),
            ("load5", rounded(f64::from(load.five))),
            ("load15", rounded(f64::from(load.fifteen))),
            ("running", Value::U64(u64::from(load.cur))),
            ("tasks", Value::U64(u64::from(load.max))),
        ];
        readings.add("host_load", &[], fields);
    }
}
