//! `seiner raid create`: creates a new array.

use super::devices;
use crate::failure::Failure;
use crate::lab::bytes;
use crate::log::size;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use seiner_raid::{CreateError, Creation, Device, Level, Member};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

/// Make a new array of devices: files, or block devices (partitions, whole disks).
///
/// Every member gets a superblock at its beginning and one at its end; nothing else is written. A file that does not
/// exist is made with --size. What members hold is lost, so a device that holds anything is refused.
#[derive(Args)]
pub struct Create {
    /// How data are kept redundant.
    ///
    /// 0: not at all, all members for data. 1: the same on every member. 5: one member's worth of syndromes, any one may
    /// be lost. 6: two, any two may be lost. A small write costs 1, N, 4 and 6 member operations; a whole stripe is
    /// written without reading.
    #[arg(long, value_name = "LEVEL")]
    level: AskedLevel,
    /// What a stripe has on one member: a power of two from 4 KiB to 1 MiB.
    ///
    /// Large strips keep a large read on one member; small ones make whole stripes small, so that a stream of small
    /// writes fills them: merging pays when what a writer has outstanding comes to a stripe.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = bytes)]
    strip: u64,
    /// Make files that do not exist with so many bytes of room.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<u64>,
    /// Devices may be of different size: of each so much is used as the smallest has.
    #[arg(long)]
    smallest: bool,
    /// Devices hold nothing but zeroes, so that syndromes fit already.
    ///
    /// Otherwise they are made to fit when the array runs first, which reads and writes everything once in the
    /// background. If it is not so, a lost member comes back as noise where nothing was written. Files that this
    /// command makes are known to be zeroes.
    #[arg(long)]
    zeroed: bool,
    /// Keep a checksum of every block, so that what a device gives back wrong is known, made good, and its device named.
    ///
    /// Costs a thousandth of the room, and a write of 4 KiB beside each durable write of a member and for each 4 MiB that were
    /// written between two flushes.
    #[arg(long)]
    checksums: bool,
    /// What devices hold may be lost. Wants --yes as well.
    #[arg(long)]
    overwrite: bool,
    /// Yes, it may.
    #[arg(long, requires = "overwrite")]
    yes: bool,
    /// The members, in order.
    #[arg(required = true, value_name = "DEVICE")]
    devices: Vec<PathBuf>,
}

/// A level by its number.
#[derive(Clone, Copy, ValueEnum)]
pub enum AskedLevel {
    #[value(name = "0")]
    Raid0,
    #[value(name = "1")]
    Raid1,
    #[value(name = "5")]
    Raid5,
    #[value(name = "6")]
    Raid6,
}

impl AskedLevel {
    /// Returns the level.
    pub fn level(self) -> Level {
        match self {
            AskedLevel::Raid0 => Level::Raid0,
            AskedLevel::Raid1 => Level::Raid1,
            AskedLevel::Raid5 => Level::Raid5,
            AskedLevel::Raid6 => Level::Raid6,
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
