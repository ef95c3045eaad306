//! The files of sealed segments: a bounded number is held open, the least used are closed first.
//!
//! One for the whole store, and told of every segment that goes: a file that is removed and still
//! held open would keep its room (*Riak*, the failures of the original).

use crate::error::Error;
use crate::volume::{SlotState, Volume};
use seiner_platform::File;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Files held open at most: well below what a process is given.
const LIMIT: usize = 256;

/// See the module.
pub struct Files {
    volume: Arc<dyn Volume>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    files: HashMap<u64, (Arc<dyn File>, u64)>,
    uses: u64,
}

impl Files {
    /// Holds none.
    pub fn new(volume: Arc<dyn Volume>) -> Files {
        Files {
            volume,
            held: Mutex::default(),
        }
    }

    /// The file of a sealed segment.
    pub fn get(&self, number: u64) -> Result<Arc<dyn File>, Error> {
        let mut held = self.held.lock().expect("nobody panics with the files");
        held.uses += 1;
        let uses = held.uses;
        if let Some((file, used)) = held.files.get_mut(&number) {
            *used = uses;
            return Ok(file.clone());
        }
        // A segment that is being merged bears another name.
        let file = self
            .volume
            .open(number, SlotState::Sealed)
            .or_else(|error| {
                let is_missing = |error: &Error| match error {
                    Error::Io { error, .. } => error.kind() == io::ErrorKind::NotFound,
                    _ => false,
                };
                let merging = self.volume.open(number, SlotState::Merging);
                // The error of the name that the segment has.
                merging.map_err(|other| match is_missing(&error) && !is_missing(&other) {
                    true => other,
                    false => error,
                })
            })?;
        held.add(number, file.clone());
        Ok(file)
    }

    /// Holds a file that is open already.
    pub fn hold(&self, number: u64, file: Arc<dyn File>) {
        let mut held = self.held.lock().expect("nobody panics with the files");
        held.add(number, file);
    }

    /// Lets go of a segment's file.
    pub fn forget(&self, number: u64) {
        let mut held = self.held.lock().expect("nobody panics with the files");
        held.files.remove(&number);
    }
}

impl Held {
    fn add(&mut self, number: u64, file: Arc<dyn File>) {
        if self.files.len() >= LIMIT
            && let Some(&least) = self
                .files
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(number, _)| number)
        {
            self.files.remove(&least);
        }
        self.files.insert(number, (file, self.uses));
    }
}
