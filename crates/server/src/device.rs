//! Device under the data directory, and the bytes written to it, which wear flash.

use rustix::fs::{major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// Unit of sectors in the kernel's counters, bytes, independent of the device's own.
const SECTOR: u64 = 512;
/// Index of the written sectors among the counters.
const SECTORS_WRITTEN: usize = 6;

/// Block device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name: `nvme0n1`.
    pub name: String,
    /// Path of the kernel's figures.
    path: PathBuf,
}

impl Device {
    /// Returns the whole device that holds a path: not the partition, and below volumes that lie on one
    /// device. `None` if the kernel does not report it, as for files in memory or on other hosts.
    pub fn of(path: &Path) -> Option<Device> {
        let number = stat(path).ok()?.st_dev;
        let (major, minor) = match major(number) {
            // The file system lies on several devices, or on none.
            0 => mounted(number)?,
            major => (major, minor(number)),
        };
        let mut path = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        while let Some(beneath) = only_entry(&path.join("slaves")) {
            path = fs::canonicalize(beneath).ok()?;
        }
        if path.join("partition").exists() {
            path.pop();
        }
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Device { name, path })
    }

    /// Returns the bytes that all processes have written since the start of the host.
    pub fn written(&self) -> Option<u64> {
        let counters = fs::read_to_string(self.path.join("stat")).ok()?;
        let sectors: u64 = counters
            .split_whitespace()
            .nth(SECTORS_WRITTEN)?
            .parse()
            .ok()?;
        Some(sectors * SECTOR)
    }
}

/// Returns the device that the mount of an unnamed device has as its source.
fn mounted(number: u64) -> Option<(u32, u32)> {
    let wanted = format!("{}:{}", major(number), minor(number));
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    let mount = mounts.into_iter().find(|mount| mount.majmin == wanted)?;
    let source = mount
        .mount_source
        .filter(|source| source.starts_with('/'))?;
    let device = stat(source.as_str()).ok()?.st_rdev;
    (major(device) != 0).then(|| (major(device), minor(device)))
}

fn only_entry(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).ok()?;
    let first = entries.next()?.ok()?;
    entries.next().is_none().then(|| first.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_only_for_paths_on_a_disk() {
        assert!(Device::of(Path::new("/proc")).is_none());
        assert!(Device::of(Path::new("/nowhere")).is_none());
        // On any host: if there is a device, it counts and is not a partition.
        if let Some(device) = Device::of(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            assert!(device.written().is_some(), "{device:?}");
            assert!(!device.path.join("partition").exists());
        }
    }
}
