//! Volume: slots of fixed size, one for each segment.
//!
//! In a directory each slot is a file, and its name states which part is valid. `segment-N.open` is
//! being written, and none of it is valid. Of `segment-N.M.open`, the first M times 4096 bytes are
//! valid. `segment-N.log` is sealed. `segment-N.merging` is sealed, and some of its blocks may also
//! be in other segments.

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
    /// Segment that was being written: this many of its bytes are valid, and the journal contains
    /// the rest.
    Open(u64),
    /// Sealed segment.
    Sealed,
    /// Sealed segment whose live blocks were being rewritten: copies of them may exist.
    Merging,
    /// Segment that was set aside.
    Damaged,
}

/// Slots of a volume of any kind.
pub trait Volume: Send + Sync {
    /// Returns the slots in use: segment number and state.
    fn list(&self) -> Result<Vec<(u64, SlotState)>, Error>;

    /// Claims a slot for a segment that will be written.
    fn claim(&self, number: u64) -> Result<Arc<dyn File>, Error>;

    /// Opens the slot of a segment.
    fn open(&self, number: u64, state: SlotState) -> Result<Arc<dyn File>, Error>;

    /// Changes the state of a slot. Durable when [`Volume::sync`] returns.
    fn turn(&self, number: u64, from: SlotState, to: SlotState) -> Result<(), Error>;

    /// Makes changed states and freed slots durable.
    fn sync(&self) -> Result<(), Error>;

    /// Frees a slot.
    fn discard(&self, number: u64, state: SlotState) -> Result<(), Error>;

    /// Returns the name of a slot in reports.
    fn name(&self, number: u64) -> String;
}

/// Directory as a volume: one file for each slot.
pub struct DirectoryVolume {
    disk: Arc<dyn Disk>,
}

impl DirectoryVolume {
    /// Creates a volume of the slots in a disk's directory.
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

/// Returns the name of a sealed segment.
pub fn sealed_name(number: u64) -> String {
    file_name(number, SlotState::Sealed)
}

/// Returns the segment number and the slot state that a file name encodes.
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
