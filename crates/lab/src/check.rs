//! `lab check`: properties of a disk and of its mount, found without root and without writing.

use crate::location::{Device, Mount, SECTOR, StorageLocation};
use seiner_chart::{bytes, plain};
use serde::Serialize;

/// Alignment of a partition's start that is sufficient for all common disks and arrays, bytes.
const GOOD_START: u64 = 1 << 20;
/// Shortest plausible sync of a rotating disk, ms. A faster sync did not wait for the platter.
const HALF_TURN_MS: f64 = 2.0;
/// Shortest plausible sync of flash without a battery or capacitors, ms.
const FLASH_MS: f64 = 0.03;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No action is needed.
    Good,
    /// Information.
    Note,
    /// The setting costs speed or endangers data.
    Warn,
}

/// One statement about a disk or a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    #[serde(rename = "level")]
    pub severity: Severity,
    /// Subject of the text: a device name, a mount point or `device`.
    pub subject: String,
    /// Observation, with a remedy if one is needed.
    pub text: String,
}

/// Returns all findings about a location: the mount first, then the device and the devices below it.
pub fn findings(location: &StorageLocation, is_virtual: bool) -> Vec<Finding> {
    let mut list = List(Vec::new());
    if let Some(mount) = &location.mount {
        mounted(mount, &mut list);
    }
    match &location.device {
        Some(device) => whole_device(device, is_virtual, &mut list),
        None => list.add(Severity::Note, "device", "there is no block device below: this is a network, memory or overlay file system. The kernel does not describe it further".into()),
    }
    list.0
}

struct List(Vec<Finding>);

impl List {
    fn add(&mut self, severity: Severity, subject: &str, text: String) {
        self.0.push(Finding {
            severity,
            subject: subject.to_string(),
            text,
        });
    }
}

fn whole_device(device: &Device, is_virtual: bool, list: &mut List) {
    sectors(device, list);
    alignment(device, list);
    scheduler(device, list);
    cache(device, is_virtual, list);
    for below in &device.below {
        list.add(
            Severity::Note,
            &device.name,
            format!("consists of {}", below.name),
        );
        whole_device(below, is_virtual, list);
    }
}

fn mounted(mount: &Mount, list: &mut List) {
    let has = |name: &str| mount.options.iter().any(|option| option == name);
    let subject = mount.point.display().to_string();
    list.add(
        Severity::Note,
        &subject,
        format!(
            "{} from {} ({})",
            mount.kind,
            mount.source,
            mount.options.join(",")
        ),
    );
    if has("nobarrier") || has("barrier=0") {
        list.add(Severity::Warn, &subject, "barriers are off: a power cut can destroy synced data; mount it without nobarrier unless the disk's cache has a battery".into());
    }
    if has("data=writeback") {
        list.add(
            Severity::Warn,
            &subject,
            "data=writeback: after a crash files may end in old contents of other files".into(),
        );
    }
    if has("data=journal") {
        list.add(
            Severity::Note,
            &subject,
            "data=journal writes everything twice: K_wa is at least 2".into(),
        );
    }
    if has("sync") || has("dirsync") {
        list.add(Severity::Note, &subject, "mounted synchronously: every write waits for the disk; the store does not need this, because it syncs itself".into());
    }
    if !["noatime", "relatime", "lazytime"]
        .iter()
        .any(|name| has(name))
    {
        list.add(
            Severity::Note,
            &subject,
            "every read writes the access time; mount it with noatime".into(),
        );
    }
    if has("discard") {
        list.add(
            Severity::Note,
            &subject,
            "discards at once, which stalls some disks; fstrim once a week does the same".into(),
        );
    }
    if mount.kind == "btrfs" && !has("nodatacow") {
        list.add(Severity::Note, &subject, "Btrfs copies on write: overwriting recycled segments fragments them; chattr +C on the empty directory avoids it".into());
    }
    if [
        "nfs",
        "nfs4",
        "cifs",
        "fuse.sshfs",
        "9p",
        "tmpfs",
        "overlay",
    ]
    .contains(&mount.kind.as_str())
    {
        list.add(
            Severity::Note,
            &subject,
            format!(
                "{} is not a local disk: the guarantees of a sync depend on the server",
                mount.kind
            ),
        );
    }
}

fn sectors(device: &Device, list: &mut List) {
    let (logical, physical) = (device.logical_sector, device.physical_sector);
    let text = format!("sectors of {logical} bytes to address, {physical} on the medium");
    match () {
        () if logical == 512 && physical == 512 => list.add(
            Severity::Note,
            &device.name,
            format!("{text}, according to the disk: nearly every disk since 2011 has 4096, and some report 512; `lab align` measures it"),
        ),
        () if physical > logical => {
            list.add(Severity::Good, &device.name, format!("{text}: aligned writes of {physical} bytes need no reads"));
        }
        () => list.add(Severity::Good, &device.name, text),
    }
    if device.optimal_io > 0 {
        list.add(
            Severity::Note,
            &device.name,
            format!(
                "prefers writes of {} (a stripe or similar)",
                bytes(device.optimal_io as f64)
            ),
        );
    }
}

fn alignment(device: &Device, list: &mut List) {
    if device.alignment_offset != 0 {
        list.add(Severity::Warn, &device.name, format!(
            "not aligned: according to the kernel it begins {} bytes off a sector of the medium; move the partition", device.alignment_offset));
    }
    let Some(start) = device.start else {
        list.add(
            Severity::Good,
            &device.name,
            "is a whole disk: it begins at 0, so everything in it is aligned".into(),
        );
        return;
    };
    let (offset, unit) = (
        start * SECTOR,
        device.physical_sector.max(device.optimal_io).max(4096),
    );
    if !offset.is_multiple_of(4096) {
        list.add(Severity::Warn, &device.name, format!(
            "not aligned: it begins at sector {start}, which is not a multiple of 4096 bytes; every write of 4 KiB reads and writes two sectors \
             of the medium. On such disks creating small files took up to 25 times as long. Create it again at sector 2048"));
    } else if !offset.is_multiple_of(unit) {
        list.add(
            Severity::Warn,
            &device.name,
            format!(
                "begins at sector {start}, which is not a multiple of {}: whole stripes are split",
                bytes(unit as f64)
            ),
        );
    } else if !offset.is_multiple_of(GOOD_START) {
        list.add(
            Severity::Good,
            &device.name,
            format!(
                "begins at sector {start}, aligned to {}",
                bytes(unit as f64)
            ),
        );
    } else {
        list.add(
            Severity::Good,
            &device.name,
            format!("begins at sector {start}, aligned to 1 MiB"),
        );
    }
}

fn scheduler(device: &Device, list: &mut List) {
    let name = device.scheduler.as_str();
    match (device.rotational, name) {
        (_, "") => {}
        (true, "none") => list.add(Severity::Note, &device.name, "rotates and has no scheduler: mq-deadline keeps reads from waiting behind writes".into()),
        (false, "bfq" | "cfq") => list.add(Severity::Warn, &device.name, format!("does not rotate but has the scheduler {name}, which costs operations per second: echo none > /sys/block/{}/queue/scheduler", device.disk)),
        _ => list.add(Severity::Good, &device.name, format!("{}, scheduler {name}", if device.rotational { "reports that it rotates" } else { "does not rotate" })),
    }
}

/// Adds findings on the write cache. Software cannot prove that a flush reaches the medium.
fn cache(device: &Device, is_virtual: bool, list: &mut List) {
    let text = match device.write_cache.as_str() {
        "write back" => "has a write cache, which the kernel flushes at each sync",
        "write through" => {
            "reports no write cache: the kernel never flushes it. This is right for disks with a battery or capacitors; \
             other disks lose synced data. A virtual disk also loses synced data if its host caches"
        }
        _ => return,
    };
    list.add(
        if device.write_cache == "write back" {
            Severity::Good
        } else {
            Severity::Note
        },
        &device.name,
        text.into(),
    );
    if is_virtual {
        list.add(Severity::Note, &device.name, "is a virtual machine's disk: the host decides whether a flush reaches a medium, and the guest cannot observe it".into());
    } else {
        list.add(Severity::Note, &device.name, "only a power cut proves that a flush works; `lab disk` reports syncs that are faster than such a disk can be".into());
    }
}

/// Assesses the syncs of a disk from the median time of a synced write of 4 KiB.
pub fn judge_sync(p50_ms: f64, device: Option<&Device>, is_virtual: bool) -> String {
    let text = format!("A synced write of 4 KiB takes {} ms", plain(p50_ms));
    match device {
        None => {
            format!("{text}; there is no block device below that could be assessed.")
        }
        Some(_) if is_virtual => format!(
            "{text}; the guest cannot observe whether the host keeps the data through a power cut."
        ),
        Some(device) if device.rotational && p50_ms < HALF_TURN_MS => format!(
            "{text}: faster than a rotating disk can be. It acknowledges from a cache; without a battery it loses synced data."
        ),
        Some(_) if p50_ms < FLASH_MS => {
            format!(
                "{text}: faster than flash. The disk has capacitors, or it acknowledges a sync before the data is safe."
            )
        }
        Some(_) => {
            format!("{text}: a plausible time for a disk of this kind that waits for its medium.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        Device {
            name: "sda1".into(),
            disk: "sda".into(),
            logical_sector: 512,
            physical_sector: 4096,
            write_cache: "write back".into(),
            scheduler: "none".into(),
            start: Some(2048),
            ..Device::default()
        }
    }

    fn worst(device: Device, about: &str) -> Severity {
        let location = StorageLocation {
            path: "/".into(),
            mount: None,
            device: Some(device),
        };
        let findings = findings(&location, false);
        findings
            .iter()
            .filter(|finding| finding.text.contains(about))
            .map(|finding| finding.severity)
            .max()
            .unwrap()
    }

    #[test]
    fn start_sectors_are_judged_by_their_alignment() {
        assert_eq!(
            worst(
                Device {
                    start: Some(34),
                    ..device()
                },
                "sector 34"
            ),
            Severity::Warn
        );
        assert_eq!(
            worst(
                Device {
                    start: Some(40),
                    ..device()
                },
                "sector 40"
            ),
            Severity::Good
        );
        assert_eq!(
            worst(
                Device {
                    start: Some(63),
                    ..device()
                },
                "sector 63"
            ),
            Severity::Warn
        );
        assert_eq!(worst(device(), "1 MiB"), Severity::Good);
        let array = Device {
            optimal_io: 384 << 10,
            start: Some(2048),
            ..device()
        };
        assert_eq!(worst(array, "whole stripes are split"), Severity::Warn);
    }

    #[test]
    fn risky_mount_options_are_reported() {
        let mount = Mount {
            point: "/data".into(),
            kind: "ext4".into(),
            source: "/dev/sda1".into(),
            options: ["rw", "nobarrier"].map(String::from).into(),
            number: "8:1".into(),
        };
        let location = StorageLocation {
            path: "/data".into(),
            mount: Some(mount),
            device: None,
        };
        let findings = findings(&location, false);
        assert!(
            findings
                .iter()
                .any(|finding| finding.severity == Severity::Warn
                    && finding.text.contains("barriers"))
        );
        assert!(
            findings
                .iter()
                .any(|finding| finding.text.contains("noatime"))
        );
    }

    #[test]
    fn sync_times_are_judged_by_the_type_of_disk() {
        let turning = Device {
            rotational: true,
            ..device()
        };
        assert!(judge_sync(0.2, Some(&turning), false).contains("cache"));
        assert!(judge_sync(8.0, Some(&turning), false).contains("waits for its medium"));
        assert!(judge_sync(0.01, Some(&device()), false).contains("capacitors"));
        assert!(judge_sync(0.01, Some(&device()), true).contains("host"));
    }

    #[test]
    fn a_costly_scheduler_is_reported() {
        assert_eq!(
            worst(
                Device {
                    scheduler: "bfq".into(),
                    ..device()
                },
                "bfq"
            ),
            Severity::Warn
        );
    }
}
