//! The device under the data directory, and what is written to it: flash wears by bytes.

use rustix::fs::{major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// The unit of sectors in the kernel's counters, whatever the device's own.
const SECTOR: u64 = 512;
/// Where sectors written stand among the counters.
const SECTORS_WRITTEN: usize = 6;

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name: `nvme0n1`.
    pub name: String,
    /// Where the kernel shows it.
    path: PathBuf,
}

impl Device {
    /// The whole device that holds a path: not the partition, and beneath volumes that lie on one
    /// device. None where the kernel does not tell, as for files in memory or on other hosts.
    pub fn of(path: &Path) -> Option<Device> {
        let number = stat(path).ok()?.st_dev;
        let (major, minor) = match major(number) {
            // A file system over several devices, or one that is not on a device at all.
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

    /// Bytes written to it since the host was started, by everybody.
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

/// The device that the mount of a nameless one names as its source.
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
    fn memory_is_no_device_and_devices_count() {
        assert!(Device::of(Path::new("/proc")).is_none());
        assert!(Device::of(Path::new("/nowhere")).is_none());
        // Wherever this runs: if there is a device, it counts and is no partition.
        if let Some(device) = Device::of(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            assert!(device.written().is_some(), "{device:?}");
            assert!(!device.path.join("partition").exists());
        }
    }
}
