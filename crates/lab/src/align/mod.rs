//! `lab align`: cost of a partition that does not start at a physical sector boundary.
//!
//! 1. Each available file system is made at sector 40 (aligned) and at sector 34 (unaligned) and
//!    runs the same operations.
//! 2. The tracer records the requests that reach the device.
//! 3. A model of a disk with 4 KiB sectors replays the requests and counts read-modify-writes.
//!
//! The counts are measured. The seconds of the model are estimates. On a device from the user, the
//! wall-clock seconds are those of the device.

mod pictures;
mod platter;

use crate::backend::Backend;
use crate::bench::Bench;
use crate::blocks::tracer::Tracer;
use crate::cell::{Cell, CellSettings, Missing};
use crate::error::{Error, Result, refuse};
use crate::experiment::{
    Experiment, ExperimentPlan, GuestNeeds, Measurements, Profile, Session, Task,
};
use crate::interrupt::Interrupt;
use crate::location::{Device, SECTOR, StorageLocation};
use crate::native::{self, LoopDevice, Mounted, Recipe, ResourceGuards};
use crate::tree::{self, TreeShape};
use anyhow::Context;
use platter::{HeadCosts, replay};
use seiner_chart::{Figure, bytes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Start of the partition in the papers' two cases, in sectors of 512 bytes.
const ALIGNED: u64 = 40;
const UNALIGNED: u64 = 34;
/// Operations, in their order.
const OPERATIONS: [&str; 6] = [
    "mkfs",
    "extract",
    "copy large",
    "read small",
    "read large",
    "delete",
];
/// Seconds per small file over all operations, for estimates: 0.6 to 1.2 ms on a virtual disk.
const SMALL_FILE_S: f64 = 0.9e-3;
/// Rate of writing and reading a large file, bytes/s, for estimates.
const LARGE_RATE: f64 = 100e6;
/// Number of bytes at each end of a device that are searched for data.
const LOOKED_AT: u64 = 1 << 20;

/// Settings of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Align {
    /// Directory of inputs and the image.
    pub directory: PathBuf,
    /// Device to use instead of an image. Its contents are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// Path of `device` again. It confirms that the user accepts the loss of its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erase: Option<PathBuf>,
    /// Names of the file systems to test.
    pub systems: Vec<String>,
    /// Bytes of the small files.
    pub small_bytes: u64,
    /// Bytes of the large file.
    pub large_bytes: u64,
    /// Number of runs to average.
    pub runs: u64,
    /// Kernel that is measured: this one, or one in an emulated machine.
    #[serde(default, skip_serializing_if = "Backend::is_native")]
    pub backend: Backend,
}

impl Align {
    /// Returns the settings of a profile.
    pub fn new(directory: PathBuf, profile: Profile) -> Align {
        let (small_bytes, large_bytes, runs) = match profile {
            Profile::Toy => (256 << 10, 1 << 20, 1),
            Profile::Safe => (8 << 20, 48 << 20, 1),
            Profile::Full => (451 << 20, 451 << 20, 3),
        };
        let systems = [
            "ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "reiserfs", "f2fs", "nilfs2",
        ];
        Align {
            directory,
            device: None,
            erase: None,
            systems: systems.map(String::from).into(),
            small_bytes,
            large_bytes,
            runs,
            backend: Backend::Native,
        }
    }

    /// Returns the estimated seconds of all operations on one file system at one sector. The cost
    /// of small files depends on their number, mostly because the device reads each file.
    fn pass_s(&self) -> f64 {
        let small_files = self.small_bytes as f64 / TreeShape::small(self.small_bytes).mean();
        1.0 + small_files * SMALL_FILE_S + self.large_bytes as f64 / LARGE_RATE
    }

    /// Returns these settings for a guest, where `directory` replaces the directories of this machine.
    pub fn inside(&self, directory: &Path) -> Align {
        Align {
            directory: directory.to_owned(),
            backend: Backend::Native,
            ..self.clone()
        }
    }

    fn image_bytes(&self) -> u64 {
        (self.small_bytes * 6 + self.large_bytes * 2).max(640 << 20)
    }
}

/// Returns a device that may be used by the test.
///
/// # Errors
/// [`Error::Rejected`] if the device is in use, has fewer than `needed` bytes, or contains data and
/// is not named by `erase`.
pub fn check_device(path: &Path, erase: Option<&Path>, needed: u64) -> Result<Device> {
    let name = path.display();
    let device = Device::of_node(&path.to_string_lossy())
        .map_err(|error| Error::Rejected(error.to_string()))?;
    let users = device.users()?;
    if !users.is_empty() {
        return refuse(format!("{name} is {}: it is left alone", users.join(", ")));
    }
    if device.bytes < needed {
        return refuse(format!(
            "{name} has {}; the test needs {}",
            bytes(device.bytes as f64),
            bytes(needed as f64)
        ));
    }
    if erase.is_some_and(|erase| erase == path) {
        return Ok(device);
    }
    if holds_data(path, device.bytes).with_context(|| format!("{name} was not read"))? {
        return refuse(format!(
            "{name} contains data, which the test would overwrite; to allow this, add --erase {name}"
        ));
    }
    Ok(device)
}

/// Returns true if the first or last MiB of a device contains bytes other than 0.
fn holds_data(path: &Path, size: u64) -> anyhow::Result<bool> {
    let file = File::open(path)?;
    let count = LOOKED_AT.min(size);
    let mut piece = vec![0; count as usize];
    for offset in [0, size - count] {
        file.read_exact_at(&mut piece, offset)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Experiment for Align {
    fn plan(&self, _profile: Profile) -> Result<ExperimentPlan> {
        let is_guest = self.backend == Backend::Guest;
        if !is_guest && !rustix::process::geteuid().is_root() {
            return refuse(
                "file systems at chosen sectors need root, or --backend guest; `lab check` shows the alignment of partitions without either",
            );
        }
        if is_guest && self.device.is_some() {
            return refuse(
                "a guest cannot use a device of this machine; leave out --device or --backend guest",
            );
        }
        let location = StorageLocation::find(&self.directory)?;
        let inputs = self.small_bytes * 6 + self.large_bytes;
        // A guest keeps the image in memory.
        let image = if self.device.is_some() || is_guest {
            0
        } else {
            self.image_bytes()
        };
        if location.free_bytes()? < inputs + image + (64 << 20) {
            return refuse(format!(
                "{} needs {} free",
                location.path.display(),
                bytes((inputs + image + (64 << 20)) as f64)
            ));
        }
        let (backend, location) = match &self.device {
            Some(path) => {
                check_device(path, self.erase.as_deref(), self.image_bytes())?;
                (Backend::Native, StorageLocation::find(path)?)
            }
            None if is_guest => (Backend::Guest, location),
            None => (Backend::Model, location),
        };
        let (mut tasks, mut missing) = (Vec::new(), Vec::new());
        for kind in &self.systems {
            match self.backend.obstacle(kind) {
                Some(why) if why.starts_with("unknown") => return refuse(format!("{kind}: {why}")),
                Some(why) => missing.push(Missing {
                    name: kind.clone(),
                    why,
                }),
                None => tasks.push(Task {
                    name: kind.clone(),
                    settings: CellSettings::from([("kind".to_string(), json!(kind))]),
                    estimate_s: 2.0 * self.runs as f64 * self.pass_s(),
                }),
            }
        }
        if tasks.is_empty() {
            return refuse(
                "none of these file systems can be made here; install e2fsprogs, xfsprogs or btrfs-progs",
            );
        }
        Ok(ExperimentPlan {
            tasks,
            missing,
            backend,
            location: Some(location),
        })
    }

    fn open(&self, seed: u64, bench: &Bench) -> Result<Box<dyn Session>> {
        let (guard, root) = bench.registry.tree(&self.directory)?;
        bench.say("creating the input files");
        let archive = root.join("small.tar");
        tree::archive(
            &archive,
            TreeShape::small(self.small_bytes),
            seed,
            &bench.interrupt,
        )?;
        let medium = match &self.device {
            Some(device) => device.clone(),
            None => native::image(
                &root,
                self.image_bytes() + UNALIGNED.max(ALIGNED) * SECTOR,
                &bench.registry,
            )?,
        };
        let point = root.join("mounted");
        std::fs::create_dir(&point)?;
        Ok(Box::new(Run {
            settings: self.clone(),
            archive,
            medium,
            point,
            _guards: ResourceGuards(vec![guard]),
        }))
    }

    fn guest_needs(&self) -> Option<GuestNeeds> {
        Some(GuestNeeds {
            directory: self.directory.clone(),
            medium_bytes: self.image_bytes() + UNALIGNED.max(ALIGNED) * SECTOR,
            memory_bytes: self.small_bytes * 4,
        })
    }

    fn figures(&self, results: &Measurements<'_>) -> Vec<Figure> {
        pictures::figures(self, results)
    }

    fn remarks(&self, results: &Measurements<'_>) -> Vec<String> {
        pictures::remarks(self, results)
    }
}

struct Run {
    settings: Align,
    archive: PathBuf,
    medium: PathBuf,
    point: PathBuf,
    _guards: ResourceGuards,
}

/// Cost of an operation.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    clock_s: f64,
    costs: HeadCosts,
}

impl Session for Run {
    fn run(&mut self, task: &Task, bench: &Bench) -> Result<Cell> {
        let mut cell = Cell::default();
        let mut lost = 0;
        for (which, sector) in [("aligned", ALIGNED), ("unaligned", UNALIGNED)] {
            let mut sums: BTreeMap<&str, Cost> = BTreeMap::new();
            for _ in 0..self.settings.runs {
                bench.say(format!("{} at sector {sector}", task.name));
                let mut pass = Pass::begin(self, &task.name, sector, bench)?;
                pass.operations(&mut sums)?;
                lost += pass.lost;
            }
            for (name, cost) in sums {
                let runs = self.settings.runs as f64;
                cell.record(&format!("{name} s clock, {which}"), cost.clock_s / runs);
                cell.record(
                    &format!("{name} s model, {which}"),
                    cost.costs.seconds / runs,
                );
                cell.record(
                    &format!("{name} rmw, {which}"),
                    cost.costs.read_modify_writes as f64 / runs,
                );
                cell.record(
                    &format!("{name} requests, {which}"),
                    cost.costs.operations as f64 / runs,
                );
            }
        }
        if lost > 0 {
            cell.notes.push(format!(
                "The tracer lost {lost} requests: counts are too small."
            ));
        }
        Ok(cell)
    }
}

/// All operations on one file system at one sector.
struct Pass<'a> {
    run: &'a Run,
    recipe: Recipe,
    bench: &'a Bench,
    disk: LoopDevice,
    mounted: Option<Mounted>,
    lost: u64,
}

impl<'a> Pass<'a> {
    fn begin(run: &'a Run, kind: &str, sector: u64, bench: &'a Bench) -> Result<Pass<'a>> {
        let offset = sector * SECTOR;
        let disk = LoopDevice::attach(&run.medium, offset, &bench.registry)?;
        let bytes = run.settings.image_bytes();
        let recipe = Recipe {
            kind: kind.to_string(),
            options: String::new(),
            bytes,
            inodes: bytes >> 13,
            offset,
        };
        Ok(Pass {
            run,
            recipe,
            bench,
            disk,
            mounted: None,
            lost: 0,
        })
    }

    fn operations(&mut self, sums: &mut BTreeMap<&'static str, Cost>) -> Result<()> {
        for name in OPERATIONS {
            self.bench.interrupt.check()?;
            let mut tracer = Tracer::start(&self.disk.device, &self.bench.registry)?;
            let (clock_s, operations) = tracer.during(|| {
                let start = crate::time::now();
                self.operation(name)?;
                if let Some(mounted) = &mut self.mounted {
                    mounted.unmount()?;
                } else {
                    File::open(self.disk.node())?.sync_all()?;
                }
                Ok(start.elapsed().as_secs_f64())
            })?;
            self.lost += tracer.lost();
            drop(tracer);
            let costs = replay(&operations, self.recipe.offset);
            let sum = sums.entry(name).or_default();
            sum.clock_s += clock_s;
            sum.costs.seconds += costs.seconds;
            sum.costs.read_modify_writes += costs.read_modify_writes;
            sum.costs.operations += costs.operations;
            self.mount()?;
        }
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        match &mut self.mounted {
            Some(mounted) => mounted.mount_again(),
            None => {
                let mounted = Mounted::mount(
                    &self.disk.node(),
                    &self.run.point,
                    &self.recipe,
                    &self.bench.registry,
                )?;
                self.mounted = Some(mounted);
                Ok(())
            }
        }
    }

    fn operation(&self, name: &str) -> Result<()> {
        let at = |name: &str| self.run.point.join(name);
        let interrupt: &Interrupt = &self.bench.interrupt;
        match name {
            "mkfs" => native::make(&self.disk.node(), &self.recipe),
            "extract" => tree::unpack(&self.run.archive, &at("small"), interrupt),
            "copy large" => self.large(&at("large")),
            "read small" => tree::read(&at("small"), interrupt).map(drop),
            "read large" => tree::read(&at("large"), interrupt).map(drop),
            _ => tree::remove(&at("small")),
        }
    }

    fn large(&self, path: &Path) -> Result<()> {
        let bytes = self.run.settings.large_bytes;
        let archive = File::open(&self.run.archive)?;
        let mut piece = vec![0; 1 << 20];
        let count = archive.read_at(&mut piece, 0)?;
        let file = File::create(path)?;
        for offset in (0..bytes).step_by(count.max(1)) {
            self.bench.interrupt.check()?;
            let rest = (bytes - offset).min(count as u64) as usize;
            file.write_all_at(&piece[..rest], offset)?;
        }
        Ok(())
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // The file system is unmounted before the loop device is detached.
        self.mounted.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_no_data() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let size = 3 << 20;
        file.as_file().set_len(size).unwrap();
        assert!(!holds_data(file.path(), size).unwrap());
        file.as_file().write_all_at(b"x", size - 1).unwrap();
        assert!(holds_data(file.path(), size).unwrap());
    }

    #[test]
    fn a_regular_file_is_rejected_as_a_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(
            check_device(file.path(), None, 0),
            Err(Error::Rejected(_))
        ));
    }
}
