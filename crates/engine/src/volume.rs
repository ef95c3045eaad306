//! The volume: fixed-size slots, a segment each.
//!
//! A directory gives a file a slot. A segment that is being written is `segment-N.open`; sealing
//! renames it to `segment-N.log`, so the name tells which segments count.

use crate::error::{Error, io_error};
use seiner_platform::{Disk, File};
use std::sync::Arc;

const PREFIX: &str = "segment-";
const OPEN: &str = ".open";
const SEALED: &str = ".log";
const DAMAGED: &str = ".damaged";

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// A segment that was being written: the journal has what is in it.
    Open,
    /// A sealed segment.
    Sealed,
    /// A segment set aside.
    Damaged,
}

/// Slots of a volume, whatever it is made of.
pub trait Volume: Send + Sync {
    /// The slots in use: the segment's number, and what its slot holds.
    fn list(&self) -> Result<Vec<(u64, SlotState)>, Error>;

    /// A slot for a segment that will be written, with room for `bytes`.
    fn claim(&self, number: u64, bytes: u64) -> Result<Arc<dyn File>, Error>;

    /// Opens the slot of a sealed segment.
    fn open(&self, number: u64) -> Result<Arc<dyn File>, Error>;

    /// Declares a segment whose `bytes` are written and synced sealed; durable on return.
    fn seal(&self, number: u64, file: &dyn File, bytes: u64) -> Result<(), Error>;

    /// Sets a damaged segment aside: it is kept, and no longer read.
    fn set_aside(&self, number: u64) -> Result<(), Error>;

    /// Gives back the slot of a segment that was being written.
    fn discard(&self, number: u64) -> Result<(), Error>;

    /// What a slot is called in reports.
    fn name(&self, number: u64) -> String;
}

/// A directory as a volume: a file a slot.
pub struct DirectoryVolume {
    disk: Arc<dyn Disk>,
}

impl DirectoryVolume {
    /// The slots in a disk's directory.
    pub fn new(disk: Arc<dyn Disk>) -> DirectoryVolume {
        DirectoryVolume { disk }
    }
}

fn file_name(number: u64, state: SlotState) -> String {
    let suffix = match state {
        SlotState::Open => OPEN,
        SlotState::Sealed => SEALED,
        SlotState::Damaged => DAMAGED,
    };
    format!("{PREFIX}{number:08x}{suffix}")
}

/// The segment's number and the slot's state that a file's name tells.
pub fn parse(name: &str) -> Option<(u64, SlotState)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (number, state) = [
        (OPEN, SlotState::Open),
        (SEALED, SlotState::Sealed),
        (DAMAGED, SlotState::Damaged),
    ]
    .into_iter()
    .find_map(|(suffix, state)| Some((rest.strip_suffix(suffix)?, state)))?;
    Some((u64::from_str_radix(number, 16).ok()?, state))
}

impl Volume for DirectoryVolume {
    fn list(&self) -> Result<Vec<(u64, SlotState)>, Error> {
        let names = self
            .disk
            .list()
            .map_err(io_error(|| "listing segments".to_string()))?;
        let mut slots: Vec<(u64, SlotState)> =
            names.iter().filter_map(|name| parse(name)).collect();
        slots.sort_by_key(|&(number, _)| number);
        Ok(slots)
    }

    fn claim(&self, number: u64, bytes: u64) -> Result<Arc<dyn File>, Error> {
        let name = file_name(number, SlotState::Open);
        let context = || format!("creating {name}");
        let file = self.disk.create(&name).map_err(io_error(context))?;
        file.reserve(bytes).map_err(io_error(context))?;
        Ok(file)
    }

    fn open(&self, number: u64) -> Result<Arc<dyn File>, Error> {
        let name = file_name(number, SlotState::Sealed);
        self.disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))
    }

    fn seal(&self, number: u64, file: &dyn File, bytes: u64) -> Result<(), Error> {
        let name = file_name(number, SlotState::Sealed);
        let context = || format!("sealing {name}");
        // Gives back what was reserved and not needed.
        file.set_len(bytes).map_err(io_error(context))?;
        file.sync().map_err(io_error(context))?;
        self.disk
            .rename(&file_name(number, SlotState::Open), &name)
            .map_err(io_error(context))?;
        self.disk.sync_names().map_err(io_error(context))
    }

    fn set_aside(&self, number: u64) -> Result<(), Error> {
        let name = file_name(number, SlotState::Sealed);
        let context = || format!("setting {name} aside");
        self.disk
            .rename(&name, &file_name(number, SlotState::Damaged))
            .map_err(io_error(context))?;
        self.disk.sync_names().map_err(io_error(context))
    }

    fn discard(&self, number: u64) -> Result<(), Error> {
        let name = file_name(number, SlotState::Open);
        self.disk
            .remove(&name)
            .map_err(io_error(|| format!("removing {name}")))
    }

    fn name(&self, number: u64) -> String {
        file_name(number, SlotState::Sealed)
    }
}
