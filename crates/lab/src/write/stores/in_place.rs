//! A store with one file per sensor, which contains a ring and is updated in place.

use super::paths::Paths;
use super::{Portion, Store};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::write::{SAMPLE_BYTES, Write};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Model of RRDtool: no buffers (Z = 0), F = S. Every sample updates a slot of the ring in its file
/// at once.
pub struct InPlace {
    paths: Paths,
    is_synced: bool,
    sensors: u64,
}

/// Bytes of a file: a head, and a ring of samples.
const RING_FILE: u64 = 4096;
const RING_HEAD: u64 = 512;
/// Bytes of the head that an update writes.
const LIVE_HEAD: usize = 128;

impl InPlace {
    /// Makes the store with all files.
    ///
    /// # Errors
    /// A file cannot be made, or the user stopped the run.
    pub fn make(
        settings: &Write,
        sensors: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<InPlace> {
        let paths = Paths {
            directories: directories.to_vec(),
            layout: settings.layout,
        };
        let zeros = [0; RING_FILE as usize];
        paths.make(sensors, interrupt, |path| fs::write(path, zeros))?;
        Ok(InPlace {
            paths,
            is_synced: settings.is_synced,
            sensors,
        })
    }
}

impl Store for InPlace {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let slots = (RING_FILE - RING_HEAD) / SAMPLE_BYTES;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.paths.of(portion.first))?;
        let mut head = [0; RING_HEAD as usize];
        file.read_exact_at(&mut head, 0)?;
        let sample = &portion.contents[portion.content..portion.content + SAMPLE_BYTES as usize];
        file.write_all_at(sample, RING_HEAD + portion.turn % slots * SAMPLE_BYTES)?;
        head[..8].copy_from_slice(&portion.turn.to_le_bytes());
        file.write_all_at(&head[..LIVE_HEAD], 0)?;
        if self.is_synced {
            file.sync_data()?;
        }
        Ok(SAMPLE_BYTES)
    }

    fn lap_bytes(&self) -> u64 {
        self.sensors * SAMPLE_BYTES
    }
}
