//! Simulated volume that loses unflushed writes.

use seiner_platform::Disk;
use seiner_platform::sim::SimDisk;
use seiner_volume::{BLOCK, Blocks, FileBlocks, OpenError, VolumeDisk, VolumeShape};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

/// State and honesty of the simulated volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VolumeKind {
    /// All members are present.
    Whole,
    /// Members are missing: after a crash the stripes that were being written may hold anything.
    Degraded,
    /// Members are missing, but the volume reports that it is whole.
    Secretive,
    /// Flushes are acknowledged without effect.
    Forgetful,
}

/// A volume, and the stripes that were written since the last flush.
struct LossyVolume {
    blocks: FileBlocks,
    kind: VolumeKind,
    unflushed: Arc<Mutex<BTreeSet<u64>>>,
}

impl Blocks for LossyVolume {
    fn shape(&self) -> VolumeShape {
        self.blocks.shape()
    }

    fn is_whole(&self) -> bool {
        self.kind != VolumeKind::Degraded
    }

    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.blocks.read(start, buffer)
    }

    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let stripe = self.shape().stripe_blocks;
        let end = start + (bytes.len() / BLOCK) as u64;
        self.unflushed
            .lock()
            .unwrap()
            .extend(start / stripe..end.div_ceil(stripe));
        self.blocks.write(start, bytes)
    }

    fn flush(&self) -> io::Result<()> {
        if self.kind == VolumeKind::Forgetful {
            return Ok(());
        }
        self.blocks.flush()?;
        self.unflushed.lock().unwrap().clear();
        Ok(())
    }

    fn trim(&self, start: u64, blocks: u64) {
        // No file contains this byte. A failure of this write is noticed by the next operation.
        let _ = self.write(start, &vec![0xee; blocks as usize * BLOCK]);
    }
}

pub fn mount(sim: &SimDisk, shape: VolumeShape) -> Result<VolumeDisk, OpenError> {
    mount_as(sim, shape, VolumeKind::Whole, Arc::default())
}

pub fn mount_as(
    sim: &SimDisk,
    shape: VolumeShape,
    kind: VolumeKind,
    unflushed: Arc<Mutex<BTreeSet<u64>>>,
) -> Result<VolumeDisk, OpenError> {
    let file = sim.open("volume").or_else(|_| sim.create("volume"))?;
    sim.sync_names()?;
    let volume = LossyVolume {
        blocks: FileBlocks::new(file, shape)?,
        kind,
        unflushed,
    };
    VolumeDisk::open(Arc::new(volume), *b"a volume of ours")
}
