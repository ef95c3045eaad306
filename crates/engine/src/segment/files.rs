//! Open files of sealed segments: a bounded number stays open, and the least recently used file is
//! closed first.
//!
//! The whole store shares one cache. Every removed segment must be removed from the cache as well:
//! a removed file that is still open keeps its disk space (*Riak*, the failures of the original).

use crate::error::Error;
use crate::maps::HashMap;
use crate::volume::{SlotState, Volume};
use seiner_platform::File;
use std::io;
use std::sync::{Arc, Mutex};

/// Maximum number of open files, well below the limit of a process.
const LIMIT: usize = 256;

/// Cache of open segment files.
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
    /// Creates an empty cache.
    pub fn new(volume: Arc<dyn Volume>) -> Files {
        Files {
            volume,
            held: Mutex::default(),
        }
    }

    /// Returns the file of a sealed segment.
    pub fn get(&self, number: u64) -> Result<Arc<dyn File>, Error> {
        let mut held = self
            .held
            .lock()
            .expect("no thread panics while it holds the files");
        held.uses += 1;
        let uses = held.uses;
        if let Some((file, used)) = held.files.get_mut(&number) {
            *used = uses;
            return Ok(file.clone());
        }
        // A segment that is being merged has another name.
        let file = self
            .volume
            .open(number, SlotState::Sealed)
            .or_else(|error| {
                let is_missing = |error: &Error| match error {
                    Error::Io { error, .. } => error.kind() == io::ErrorKind::NotFound,
                    _ => false,
                };
                let merging = self.volume.open(number, SlotState::Merging);
                // Return the error for the name that the segment has.
                merging.map_err(|other| match is_missing(&error) && !is_missing(&other) {
                    true => other,
                    false => error,
                })
            })?;
        held.add(number, file.clone());
        Ok(file)
    }

    /// Adds an open file to the cache.
    pub fn hold(&self, number: u64, file: Arc<dyn File>) {
        let mut held = self
            .held
            .lock()
            .expect("no thread panics while it holds the files");
        held.add(number, file);
    }

    /// Removes the file of a segment from the cache.
    pub fn forget(&self, number: u64) {
        let mut held = self
            .held
            .lock()
            .expect("no thread panics while it holds the files");
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
