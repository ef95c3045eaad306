//! Location of a path: its file system, the mount, the block device below, and the kernel's description of the
//! device. Reads only `/proc` and `/sys`; needs no privileges.

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Unit in which the kernel states partition starts and device sizes, independent of the device's sectors, in
/// bytes.
pub const SECTOR: u64 = 512;

/// An entry of the kernel's list of mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Mounted source, usually a device.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// Number of the device, as `major:minor`.
    pub number: String,
}

/// A path with its mount and its device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StorageLocation {
    /// The path.
    pub path: PathBuf,
    /// Mount that contains the path; `None` for a device.
    pub mount: Option<Mount>,
    /// Block device below, if there is one.
    pub device: Option<Device>,
}

/// A block device as the kernel describes it. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the device, such as `sda2`.
    pub name: String,
    /// Number of the device, as `major:minor`.
    pub number: String,
    /// Name of the whole disk.
    pub disk: String,
    /// Start on the disk in sectors of 512 bytes; `None` for a whole disk.
    pub start: Option<u64>,
    /// Size of the device.
    pub bytes: u64,
    /// Logical sector: the smallest addressable unit.
    pub logical_sector: u64,
    /// Physical sector: the unit in which the disk writes internally, if the disk reports it.
    pub physical_sector: u64,
    /// Smallest I/O without a penalty.
    pub minimum_io: u64,
    /// Optimal size of I/O, such as a stripe; 0 if it is not reported.
    pub optimal_io: u64,
    /// Offset of the first physical sector from byte 0 of the device; negative if it cannot be aligned.
    pub alignment_offset: i64,
    /// True if the disk rotates.
    pub rotational: bool,
    /// Current I/O scheduler.
    pub scheduler: String,
    /// Write cache: `write back` or `write through`.
    pub write_cache: String,
    /// True if the device supports forced unit access (FUA).
    pub fua: bool,
    /// Read-ahead.
    pub read_ahead: u64,
    /// Discard granularity; 0 if discard is not supported.
    pub discard_granularity: u64,
    /// Model name of the manufacturer.
    pub model: String,
    /// Devices below this one: RAID, LVM, encryption.
    pub below: Vec<Device>,
}

/// Returns all mounts, in the kernel's order.
///
/// # Errors
/// If `/proc` is not available.
pub fn mounts() -> anyhow::Result<Vec<Mount>> {
    let text =
        fs::read_to_string("/proc/self/mountinfo").context("the list of mounts was not read")?;
    Ok(text.lines().filter_map(parse_mount).collect())
}

fn parse_mount(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    let system: Vec<&str> = system.split(' ').collect();
    let options = mount.get(5)?.split(',').chain(system.get(2)?.split(','));
    let mut seen: Vec<String> = Vec::new();
    for option in options {
        if !seen.iter().any(|other| other == option) {
            seen.push(option.to_string());
        }
    }
    Some(Mount {
        point: unescape(mount.get(4)?).into(),
        kind: (*system.first()?).to_string(),
        source: unescape(system.get(1)?),
        options: seen,
        number: (*mount.get(2)?).to_string(),
    })
}

/// Decodes the octal escapes that the kernel uses for blanks and similar characters.
fn unescape(text: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                plain.push(code);
                rest = &tail[3..];
            }
            _ => {
                plain.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

impl StorageLocation {
    /// Finds the location of `path`: a directory, a file, or a block device.
    ///
    /// # Errors
    /// If `path` does not exist.
    pub fn find(path: &Path) -> anyhow::Result<StorageLocation> {
        let path = fs::canonicalize(path).with_context(|| {
            format!(
                "{} does not exist; create it, or name another path",
                path.display()
            )
        })?;
        let metadata = fs::metadata(&path)?;
        if metadata.file_type().is_block_device() {
            return Ok(StorageLocation {
                device: Some(Device::find(&number(metadata.rdev()))?),
                mount: None,
                path,
            });
        }
        let mounts = mounts()?;
        let mount = mounts
            .into_iter()
            .filter(|mount| path.starts_with(&mount.point))
            // Takes the longest mount point and, among equal ones, the last, which hides the others.
            .max_by_key(|mount| mount.point.as_os_str().len())
            .ok_or_else(|| anyhow!("no file system holds {}", path.display()))?;
        let device = Device::find(&number(metadata.dev()))
            .or_else(|_| Device::find(&mount.number))
            .or_else(|_| Device::of_node(&mount.source))
            .ok();
        Ok(StorageLocation {
            path,
            mount: Some(mount),
            device,
        })
    }

    /// Returns the space available to an ordinary user, in bytes.
    ///
    /// # Errors
    /// If the file system does not report it.
    pub fn free_bytes(&self) -> anyhow::Result<u64> {
        let stat = rustix::fs::statvfs(&self.path)?;
        Ok(stat.f_bavail * stat.f_frsize)
    }
}

fn number(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

fn text(path: &Path, name: &str) -> String {
    fs::read_to_string(path.join(name))
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}

fn count<T: std::str::FromStr + Default>(path: &Path, name: &str) -> T {
    text(path, name).parse().unwrap_or_default()
}

impl Device {
    /// Returns the device of a node such as `/dev/sda`.
    ///
    /// # Errors
    /// If the node is not a block device.
    pub fn of_node(node: &str) -> anyhow::Result<Device> {
        let metadata = fs::metadata(node).with_context(|| format!("{node} is not there"))?;
        if !metadata.file_type().is_block_device() {
            return Err(anyhow!("{node} is not a block device"));
        }
        Device::find(&number(metadata.rdev()))
    }

    /// Returns the device with a number, as `major:minor`.
    ///
    /// # Errors
    /// If the kernel has no such device.
    pub fn find(number: &str) -> anyhow::Result<Device> {
        let path = fs::canonicalize(Path::new("/sys/dev/block").join(number))
            .with_context(|| format!("no block device has the number {number}"))?;
        Device::at(&path).ok_or_else(|| anyhow!("{} is not a block device", path.display()))
    }

    /// Returns the device that a directory of `/sys` describes.
    fn at(path: &Path) -> Option<Device> {
        let name = path.file_name()?.to_str()?.to_string();
        let start = text(path, "start").parse().ok();
        let whole = if path.join("partition").exists() {
            path.parent()?
        } else {
            path
        };
        let queue = whole.join("queue");
        let below = fs::read_dir(path.join("slaves"))
            .into_iter()
            .flatten()
            .flatten();
        let scheduler = text(&queue, "scheduler");
        Some(Device {
            number: text(path, "dev"),
            disk: whole.file_name()?.to_str()?.to_string(),
            start: if whole == path { None } else { start },
            bytes: count::<u64>(path, "size") * SECTOR,
            logical_sector: count(&queue, "logical_block_size"),
            physical_sector: count(&queue, "physical_block_size"),
            minimum_io: count(&queue, "minimum_io_size"),
            optimal_io: count(&queue, "optimal_io_size"),
            alignment_offset: count(path, "alignment_offset"),
            rotational: text(&queue, "rotational") == "1",
            scheduler: chosen(&scheduler).to_string(),
            write_cache: text(&queue, "write_cache"),
            fua: text(&queue, "fua") == "1",
            read_ahead: count::<u64>(&queue, "read_ahead_kb") << 10,
            discard_granularity: count(&queue, "discard_granularity"),
            model: text(&whole.join("device"), "model"),
            below: below
                .filter_map(|entry| Device::at(&fs::canonicalize(entry.path()).ok()?))
                .collect(),
            name,
        })
    }

    /// Returns the device's directory in `/sys`.
    pub fn directory(&self) -> PathBuf {
        Path::new("/sys/dev/block").join(&self.number)
    }

    /// Returns the other users of the device: mounts, devices built on it, and its partitions.
    ///
    /// # Errors
    /// If the lists cannot be read.
    pub fn users(&self) -> anyhow::Result<Vec<String>> {
        let directory = self.directory();
        let mut users: Vec<String> = mounts()?
            .into_iter()
            .filter(|mount| mount.number == self.number)
            .map(|mount| format!("mounted on {}", mount.point.display()))
            .collect();
        for entry in fs::read_dir(directory.join("holders"))
            .into_iter()
            .flatten()
            .flatten()
        {
            users.push(format!("part of {}", entry.file_name().to_string_lossy()));
        }
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if swaps
            .lines()
            .any(|line| line.split(' ').next() == Some(&format!("/dev/{}", self.name)))
        {
            users.push("in use for swapping".to_string());
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.path().join("partition").exists() {
                users.push(format!(
                    "divided: it has the partition {}",
                    entry.file_name().to_string_lossy()
                ));
            }
        }
        Ok(users)
    }
}

/// Returns the entry in brackets, as in `none [mq-deadline] kyber`.
fn chosen(list: &str) -> &str {
    match (list.find('['), list.find(']')) {
        (Some(start), Some(end)) if start < end => &list[start + 1..end],
        _ => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line =
            r"36 35 98:0 /mnt1 /a\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = parse_mount(line).unwrap();
        assert_eq!(mount.point, Path::new("/a b"));
        assert_eq!(
            (mount.kind.as_str(), mount.source.as_str()),
            ("ext3", "/dev/root")
        );
        assert_eq!(mount.options, ["rw", "noatime", "errors=continue"]);
        assert_eq!(mount.number, "98:0");
        assert_eq!(parse_mount("36 35"), None);
    }

    #[test]
    fn the_scheduler_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn this_directory_has_a_location() {
        let location = StorageLocation::find(Path::new(".")).unwrap();
        assert!(location.mount.is_some());
        assert!(location.free_bytes().unwrap() > 0);
    }
}
