//! Block storage on which files are made.

use seiner_platform::File;
use std::io;
use std::sync::Arc;

/// Bytes of a block, the unit of reads and writes.
pub const BLOCK: usize = 4096;

/// Size of a volume, and the best size of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeShape {
    /// Number of blocks.
    pub blocks: u64,
    /// Blocks of a stripe: a run of this many, aligned to this many, is written without reading anything.
    pub stripe_blocks: u64,
}

/// A volume of blocks, used by one process.
///
/// After a power cut, every write that was not flushed may have changed any of its blocks, or parts of them. If the
/// volume is not whole, the stripes of these blocks may hold anything.
pub trait Blocks: Send + Sync {
    /// Returns the size and the stripe of the volume; both are constant.
    fn shape(&self) -> VolumeShape;

    /// Returns whether blocks that are not being written keep their contents when the power fails during a write to a
    /// part of their stripe. False for an array with missing members: their blocks are computed from the rest of the
    /// stripe.
    fn is_whole(&self) -> bool {
        true
    }

    /// Reads whole blocks into `buffer`, with the contents of the latest writes.
    ///
    /// # Errors
    /// If the blocks cannot be read.
    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Accepts a write of whole blocks. Reads return the new bytes from now on; the volume may write them later.
    ///
    /// # Errors
    /// If the write fails at once. A later failure is returned by every flush from then on.
    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all earlier writes durable, on whichever thread they were made.
    ///
    /// # Errors
    /// If the flush or any earlier write failed.
    fn flush(&self) -> io::Result<()>;

    /// Discards blocks: until they are written again they may hold anything. The volume may free their space or do
    /// nothing. The trim has ended when this returns.
    fn trim(&self, _start: u64, _blocks: u64) {}
}

/// A file as a volume, for tests and for simulated volumes that lose unflushed writes.
pub struct FileBlocks {
    file: Arc<dyn File>,
    shape: VolumeShape,
}

impl FileBlocks {
    /// Creates a volume of this shape in a file, and extends the file if it is shorter.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn new(file: Arc<dyn File>, shape: VolumeShape) -> io::Result<FileBlocks> {
        let bytes = shape.blocks * BLOCK as u64;
        if file.len()? < bytes {
            file.set_len(bytes)?;
            file.sync()?;
        }
        Ok(FileBlocks { file, shape })
    }
}

impl Blocks for FileBlocks {
    fn shape(&self) -> VolumeShape {
        self.shape
    }

    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(start * BLOCK as u64, buffer)
    }

    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(start * BLOCK as u64, bytes)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync()
    }
}
