//! A store that writes blocks of all sensors into one ring, with index blocks between them.

use super::{FIXED_PORTION, Portion, Store};
use crate::error::Result;
use crate::write::{FILL, Write};
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Model of Akumuli: Z = S, B = 4096, F = 1. After every 32 blocks an index block is written to the
/// same log, which is a ring.
pub struct Volume {
    file: File,
    next: AtomicU64,
    blocks: u64,
    is_synced: bool,
    lap: u64,
}

/// Number of blocks per index block.
const FAN_OUT: u64 = 32;

impl Volume {
    /// Makes the volume.
    ///
    /// # Errors
    /// The volume cannot be made, for example because the space is not free.
    pub fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Volume> {
        let file = File::create(directories[0].join("volume"))?;
        let blocks = (settings.space_bytes as f64 * FILL) as u64 / FIXED_PORTION;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, blocks * FIXED_PORTION) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => {
                return Err(anyhow::Error::from(error)
                    .context("the volume was not made")
                    .into());
            }
        }
        let lap = sensors * FIXED_PORTION;
        Ok(Volume {
            file,
            next: AtomicU64::new(0),
            blocks,
            is_synced: settings.is_synced,
            lap,
        })
    }
}

impl Store for Volume {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let block = &portion.contents[portion.content..portion.content + FIXED_PORTION as usize];
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let place = |place: u64| place % self.blocks * FIXED_PORTION;
        let before = number + number / FAN_OUT;
        self.file.write_all_at(block, place(before))?;
        if (number + 1).is_multiple_of(FAN_OUT) {
            self.file.write_all_at(block, place(before + 1))?;
        }
        if self.is_synced {
            self.file.sync_data()?;
        }
        Ok(FIXED_PORTION)
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}
