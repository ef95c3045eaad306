//! `seiner raid create`: creates a new array.

use super::devices;
use crate::failure::Failure;
use crate::figures::size;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use seiner_model::parse_bytes as bytes;
use seiner_raid::{CreateError, Creation, Device, Level, Member};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

/// Create an array of devices: files, or block devices (partitions, whole disks).
///
/// Every member gets a superblock at its start and one at its end. No other block is written. With
/// --size, missing files are created. The contents of members are lost, so a device that contains
/// data is rejected.
#[derive(Args)]
pub struct Create {
    /// RAID level: the redundancy of data.
    ///
    /// 0: no redundancy, all space for data. 1: a copy on every member. 5: one syndrome; any one
    /// member may be lost. 6: two syndromes; any two members may be lost. A small write costs 1, N,
    /// 4 and 6 member operations, in this order. A whole stripe is written without reads.
    #[arg(long, value_name = "LEVEL")]
    level: LevelArgument,
    /// Bytes of a stripe on one member: a power of two from 4 KiB to 1 MiB.
    ///
    /// With large strips, a large read stays on one member. With small strips, whole stripes are
    /// small, and a stream of small writes fills them. Merging pays if the outstanding writes of a
    /// client amount to a stripe.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = bytes)]
    strip: u64,
    /// Create missing files with this size in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<u64>,
    /// Accept devices of different sizes. The array then uses as much of each device as the
    /// smallest has.
    #[arg(long)]
    smallest: bool,
    /// State that devices contain only zeroes, so that their syndromes already match.
    ///
    /// Without this flag, the first run of the array reads and writes everything once in the
    /// background, to make the syndromes match. If the statement is false, a rebuilt member
    /// contains noise in places that were never written. Files that this command creates are known
    /// to contain zeroes.
    #[arg(long)]
    zeroed: bool,
    /// Store a checksum of every block. The array then detects wrong data from a device, repairs
    /// them, and names the device.
    ///
    /// Costs a thousandth of the space, and one additional write of 4 KiB for each durable write of
    /// a member and for each 4 MiB written between two flushes.
    #[arg(long)]
    checksums: bool,
    /// Allow the loss of data on devices. Requires --yes as well.
    #[arg(long)]
    overwrite: bool,
    /// Confirm --overwrite.
    #[arg(long, requires = "overwrite")]
    yes: bool,
    /// Members, in order.
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
}

/// RAID level, by its number.
#[derive(Clone, Copy, ValueEnum)]
pub enum LevelArgument {
    #[value(name = "0")]
    Raid0,
    #[value(name = "1")]
    Raid1,
    #[value(name = "5")]
    Raid5,
    #[value(name = "6")]
    Raid6,
}

impl LevelArgument {
    /// Returns the level.
    pub fn level(self) -> Level {
        match self {
            LevelArgument::Raid0 => Level::Raid0,
            LevelArgument::Raid1 => Level::Raid1,
            LevelArgument::Raid5 => Level::Raid5,
            LevelArgument::Raid6 => Level::Raid6,
        }
    }
}

impl Create {
    /// Creates the array.
    pub fn run(self) -> Result<(), Failure> {
        let mut creation = Creation {
            level: self.level.level(),
            strip_bytes: self.strip,
            smallest: self.smallest,
            overwrite: self.overwrite && self.yes,
            zeroed: self.zeroed,
            checksums: self.checksums,
        };
        // The check comes before any file is created.
        creation
            .check(self.devices.len())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let mut made = Vec::new();
        let members = self.members(&mut made);
        creation.zeroed |= made.len() == self.devices.len();
        let created = members.and_then(|members| {
            seiner_raid::create(&members, &creation).map_err(|error| match error {
                CreateError::System { .. } => Failure::Failed(error.into()),
                error => Failure::Usage(error.to_string()),
            })
        });
        if created.is_err() {
            for path in made {
                // The file did not exist before this command.
                let _ = std::fs::remove_file(path);
            }
        }
        let superblock = created?;
        let geometry = superblock.geometry()?;
        let volume = geometry.blocks() * seiner_raid::BLOCK_BYTES as u64;
        writeln!(
            stdout(),
            "array {}: {} for data",
            superblock.array,
            size(volume)
        )?;
        Ok(())
    }

    /// Opens devices and creates missing files. Appends the paths of the created files to `made`.
    fn members(&self, made: &mut Vec<PathBuf>) -> Result<Vec<Arc<dyn Member>>, Failure> {
        let mut members: Vec<Arc<dyn Member>> = Vec::new();
        for path in &self.devices {
            if path.exists() {
                members.push(devices::open(path)?);
                continue;
            }
            let Some(size) = self.size else {
                let reason = format!(
                    "{} does not exist: give --size to make a file",
                    path.display()
                );
                return Err(Failure::Usage(reason));
            };
            made.push(path.clone());
            let device = Device::create(path, size).map_err(|error| anyhow!("{error}"))?;
            members.push(Arc::new(device));
        }
        Ok(members)
    }
}
