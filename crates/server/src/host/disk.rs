//! Measurements `host_disk` (activity of whole devices, tag `device`) and `host_fs` (the file system of the
//! data directory, bytes).

use super::{Readings, rate, rounded};
use crate::system::FileSystem;
use procfs::DiskStat;
use seiner_model::Value;
use std::collections::HashMap;
use std::path::Path;

/// Unit of sectors in `/proc/diskstats`, bytes, independent of the device's own.
const SECTOR: u64 = 512;

#[derive(Default)]
pub struct Disks {
    before: HashMap<String, DiskStat>,
}

impl Disks {
    pub fn read(&mut self, seconds: f64, readings: &mut Readings) {
        let Ok(stats) = procfs::diskstats() else {
            return;
        };
        for now in stats.into_iter().filter(is_whole_and_used) {
            if let Some(before) = self.before.get(&now.name) {
                readings.add(
                    "host_disk",
                    &[("device", &now.name)],
                    fields(&now, before, seconds),
                );
            }
            self.before.insert(now.name.clone(), now);
        }
    }
}

/// Partitions would count everything twice; loops and RAM disks pass work to other devices.
fn is_whole_and_used(stat: &DiskStat) -> bool {
    let virtual_device = ["loop", "ram", "zram"]
        .iter()
        .any(|prefix| stat.name.starts_with(prefix));
    !virtual_device
        && stat.reads + stat.writes > 0
        && Path::new("/sys/block").join(&stat.name).exists()
}

fn fields(now: &DiskStat, before: &DiskStat, seconds: f64) -> Vec<(&'static str, Value<'static>)> {
    let busy_ms = now.time_in_progress.saturating_sub(before.time_in_progress) as f64;
    vec![
        (
            "read_bytes_per_s",
            rate(
                now.sectors_read * SECTOR,
                before.sectors_read * SECTOR,
                seconds,
            ),
        ),
        (
            "write_bytes_per_s",
            rate(
                now.sectors_written * SECTOR,
                before.sectors_written * SECTOR,
                seconds,
            ),
        ),
        ("reads_per_s", rate(now.reads, before.reads, seconds)),
        ("writes_per_s", rate(now.writes, before.writes, seconds)),
        ("busy", rounded((busy_ms / 10.0 / seconds).min(100.0))),
        ("in_flight", Value::U64(now.in_progress)),
    ]
}

/// Returns the figures of the file system that holds `path`.
pub fn read_file_system(path: &Path, readings: &mut Readings) {
    let file_system = FileSystem::of(path);
    if file_system.total_bytes == 0 {
        return;
    }
    let used = file_system
        .total_bytes
        .saturating_sub(file_system.free_bytes);
    let fields = vec![
        ("total", Value::U64(file_system.total_bytes)),
        ("used", Value::U64(used)),
        ("free", Value::U64(file_system.free_bytes)),
        (
            "used_percent",
            rounded(100.0 * used as f64 / file_system.total_bytes as f64),
        ),
    ];
    readings.add("host_fs", &[("path", &path.display().to_string())], fields);
}
