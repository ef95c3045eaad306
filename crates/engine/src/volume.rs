//! The volume: fixed-size slots, a segment each.
//!
//! A directory gives a file a slot, and its name tells what counts: `segment-N.open` is being
//! written, and nothing of it counts; of `segment-N.M.open`, the first M times 4096 bytes do;
//! `segment-N.log` is sealed; `segment-N.merging` is sealed, and some of its blocks may lie in other
//! segments as well.

use crate::error::{Error, io_error, sync_error};
use crate::segment::ALIGNMENT;
use seiner_platform::{Disk, File};
use std::sync::Arc;

const PREFIX: &str = "segment-";
const OPEN: &str = ".open";
const SEALED: &str = ".log";
const MERGING: &str = ".merging";
const DAMAGED: &str = ".damaged";

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// A segment that was being written: so many of its bytes count, and the journal has the rest.
    Open(u64),
    /// A sealed segment.
    Sealed,
    /// A sealed segment whose live blocks were being written elsewhere: copies of them may exist.
    Merging,
    /// A segment set aside.
    Damaged,
}

/// Slots of a volume, whatever it is made of.
pub trait Volume: Send + Sync {
    /// The slots in use: the segment's number, and what its slot holds.
    fn list(&self) -> Result<Vec<(u64, SlotState)>, Error>;

    /// A slot for a segment that will be written.
    fn claim(&self, number: u64) -> Result<Arc<dyn File>, Error>;

    /// Opens the slot of a segment.
    fn open(&self, number: u64, state: SlotState) -> Result<Arc<dyn File>, Error>;

    /// Declares that a slot is in another state now; durable once [`Volume::sync`] returned.
    fn turn(&self, number: u64, from: SlotState, to: SlotState) -> Result<(), Error>;

    /// Makes durable what was declared and given back.
    fn sync(&self) -> Result<(), Error>;

    /// Gives a slot back.
    fn discard(&self, number: u64, state: SlotState) -> Result<(), Error>;

    /// Returns the name of a slot in reports.
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
        SlotState::Open(0) => OPEN,
        SlotState::Open(bytes) => {
            return format!("{PREFIX}{number:08x}.{:x}{OPEN}", bytes / ALIGNMENT as u64);
        }
        SlotState::Sealed => SEALED,
        SlotState::Merging => MERGING,
        SlotState::Damaged => DAMAGED,
    };
    format!("{PREFIX}{number:08x}{suffix}")
}

/// The name of a sealed segment.
pub fn sealed_name(number: u64) -> String {
    file_name(number, SlotState::Sealed)
}

/// The segment's number and the slot's state that a file's name tells.
pub fn parse(name: &str) -> Option<(u64, SlotState)> {
    let rest = name.strip_prefix(PREFIX)?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    if let Some(rest) = rest.strip_suffix(OPEN) {
        let (number, units) = rest.split_once('.').unwrap_or((rest, "0"));
        let bytes = hex(units)?.checked_mul(ALIGNMENT as u64)?;
        return Some((hex(number)?, SlotState::Open(bytes)));
    }
    let (number, state) = [
        (SEALED, SlotState::Sealed),
        (MERGING, SlotState::Merging),
        (DAMAGED, SlotState::Damaged),
    ]
    .into_iter()
    .find_map(|(suffix, state)| Some((rest.strip_suffix(suffix)?, state)))?;
    Some((hex(number)?, state))
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

    fn claim(&self, number: u64) -> Result<Arc<dyn File>, Error> {
        let name = file_name(number, SlotState::Open(0));
        self.disk
            .create(&name)
            .map_err(io_error(|| format!("creating {name}")))
    }

    fn open(&self, number: u64, state: SlotState) -> Result<Arc<dyn File>, Error> {
        let name = file_name(number, state);
        self.disk
            .open(&name)
            .map_err(io_error(|| format!("opening {name}")))
    }

    fn turn(&self, number: u64, from: SlotState, to: SlotState) -> Result<(), Error> {
        let (from, to) = (file_name(number, from), file_name(number, to));
        if from == to {
            return Ok(());
        }
        self.disk
            .rename(&from, &to)
            .map_err(io_error(|| format!("renaming {from} to {to}")))
    }

    fn sync(&self) -> Result<(), Error> {
        self.disk
            .sync_names()
            .map_err(sync_error(|| "syncing the names of segments".to_string()))
    }

    fn discard(&self, number: u64, state: SlotState) -> Result<(), Error> {
        let name = file_name(number, state);
        self.disk
            .remove(&name)
            .map_err(io_error(|| format!("removing {name}")))
    }

    fn name(&self, number: u64) -> String {
        file_name(number, SlotState::Sealed)
    }
}
