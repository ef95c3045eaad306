//! Members for the benchmark: modelled, in memory, or devices.

use super::cell::{Cell, Outcome};
use super::{client, modelled};
use crate::failure::Failure;
use crate::figures::size;
use anyhow::{Context, anyhow};
use seiner_raid::{
    Array, ArraySettings, Block, CreateError, Creation, Device, Geometry, Level, Member, Page, Ram,
    ShardSettings,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Size of a modelled member in bytes.
const MODELLED: u64 = 16 << 30;
/// Number of blocks to clear at both ends of a device afterwards: superblocks and records.
const RECORDS: usize = 3;

/// Members for the benchmark.
pub struct BenchTarget {
    name: String,
    kind: Kind,
    /// Files created for the benchmark, to be removed.
    made: Vec<PathBuf>,
}

enum Kind {
    Modelled(Geometry),
    Real(Vec<Arc<dyn Member>>),
}

/// Level, strip size and checksums of the array.
#[derive(Clone, Copy)]
pub struct ArrayShape {
    /// RAID level.
    pub level: Level,
    /// Size of a strip in bytes.
    pub strip: u64,
    /// True if members have checksums.
    pub checksums: bool,
}

impl ArrayShape {
    fn of(self, members: &str) -> String {
        let checksums = if self.checksums { ", checksums" } else { "" };
        let (level, strip) = (self.level, size(self.strip));
        format!("{level:?} of {members}, strips of {strip}{checksums}")
    }
}

impl BenchTarget {
    /// Creates modelled members.
    pub fn modelled(members: usize, shape: ArrayShape) -> Result<BenchTarget, Failure> {
        let geometry = Geometry::new(shape.level, members, shape.strip, MODELLED)?;
        Ok(BenchTarget {
            name: shape.of(&format!("{members} modelled NVMe disks")),
            kind: Kind::Modelled(geometry),
            made: Vec::new(),
        })
    }

    /// Creates members in memory, each of `bytes` bytes.
    pub fn in_memory(
        members: usize,
        bytes: u64,
        shape: ArrayShape,
    ) -> Result<BenchTarget, Failure> {
        let rams = (0..members).map(|_| Arc::new(Ram::new(bytes)) as Arc<dyn Member>);
        let target = BenchTarget {
            name: shape.of(&format!("{members} members in memory")),
            kind: Kind::Real(rams.collect()),
            made: Vec::new(),
        };
        target.create(shape, false)
    }

    /// Opens devices and creates missing files of `bytes` bytes. The contents of devices are lost. Devices that
    /// contain data are rejected unless `overwrite` is set.
    pub fn on_devices(
        paths: &[PathBuf],
        bytes: u64,
        shape: ArrayShape,
        overwrite: bool,
    ) -> Result<BenchTarget, Failure> {
        let mut target = BenchTarget {
            name: shape.of(&format!("{} devices", paths.len())),
            kind: Kind::Real(Vec::new()),
            made: Vec::new(),
        };
        let mut members: Vec<Arc<dyn Member>> = Vec::new();
        for path in paths {
            let opened = match path.exists() {
                true => Device::open(path),
                false => {
                    target.made.push(path.clone());
                    Device::create(path, bytes)
                }
            };
            members.push(Arc::new(opened.map_err(|error| anyhow!("{error}"))?));
        }
        target.kind = Kind::Real(members);
        target.create(shape, overwrite)
    }

    fn create(self, shape: ArrayShape, overwrite: bool) -> Result<BenchTarget, Failure> {
        if let Kind::Real(members) = &self.kind {
            let creation = Creation {
                level: shape.level,
                strip_bytes: shape.strip,
                smallest: true,
                overwrite,
                // Old contents are never read, so the syndromes need not match the data.
                zeroed: true,
                checksums: shape.checksums,
            };
            seiner_raid::create(members, &creation).map_err(|error| match error {
                CreateError::System { .. } => Failure::Failed(error.into()),
                error => Failure::Usage(error.to_string()),
            })?;
        }
        Ok(self)
    }

    /// Returns a description for people.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Measures one combination.
    pub fn measure(&mut self, cell: &Cell) -> Result<Outcome, Failure> {
        let members = match &self.kind {
            Kind::Modelled(geometry) => return Ok(modelled::measure(*geometry, cell)),
            Kind::Real(members) => members,
        };
        let defaults = ArraySettings::default();
        let settings = ArraySettings {
            shard: ShardSettings {
                merging: cell.merging,
                longest_hold: cell.longest_hold,
                ..defaults.shard
            },
            ..defaults
        };
        let array = Array::assemble(members.clone(), false, settings)?;
        let outcome = client::measure(&array, cell);
        let stopped = array.stop();
        let outcome = outcome?;
        stopped.map_err(|failure| anyhow!("the last flush failed: {failure}"))?;
        Ok(outcome)
    }

    /// Removes the marks of an array from devices, and the created files.
    pub fn clear(&mut self) -> Result<(), Failure> {
        if let Kind::Real(members) = &self.kind {
            let zeroes = vec![Page::zero(); RECORDS];
            for member in members {
                let end = member.bytes() - (RECORDS << 12) as u64;
                [0, end]
                    .into_iter()
                    .try_for_each(|at| member.write(at, &zeroes, true))
                    .with_context(|| member.name())?;
            }
        }
        Ok(())
    }
}

impl Drop for BenchTarget {
    fn drop(&mut self) {
        for path in &self.made {
            // The file did not exist before the benchmark.
            let _ = std::fs::remove_file(path);
        }
    }
}
