//! A volume of blocks: what files are made on.

use seiner_platform::File;
use std::io;
use std::sync::Arc;

/// Bytes of a block: the unit of reads and writes.
pub const BLOCK: usize = 4096;

/// How large a volume is, and what is best written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many blocks it has.
    pub blocks: u64,
    /// A run of so many blocks, from a multiple of it on, is written without reading anything: a stripe.
    pub stripe_blocks: u64,
}

/// A volume of blocks. It belongs to one process.
///
/// A power cut leaves of every write that was not flushed any blocks or parts of them; while the volume is not whole, any
/// of the stripes that these blocks are in.
pub trait Blocks: Send + Sync {
    /// What it is like; stays the same.
    fn shape(&self) -> Shape;

    /// Whether blocks that are not being written stay as they are when a stripe is written in part and the power goes. It is
    /// not so of an array without some of its members: what they had is computed from the rest of the stripe.
    fn is_whole(&self) -> bool {
        true
    }

    /// Fills `buffer`, whole blocks of it, with what the latest writes gave.
    ///
    /// # Errors
    /// What cannot be read.
    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Takes whole blocks over: they are read from now on, and written now or later.
    ///
    /// # Errors
    /// What failed at once. What fails later, every flush tells from then on.
    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable what was written before, on any thread.
    ///
    /// # Errors
    /// If that, or any write before it, failed.
    fn flush(&self) -> io::Result<()>;

    /// What these blocks hold matters no more, and until they are written again they may hold anything: their room may be
    /// given up, or nothing done. It is over when this returns.
    fn trim(&self, _start: u64, _blocks: u64) {}
}

/// A file as a volume: for tests, and simulations of a volume that forgets what was not flushed.
pub struct FileBlocks {
    file: Arc<dyn File>,
    shape: Shape,
}

impl FileBlocks {
    /// A volume of this shape in a file, which is made as long as that where it is shorter.
    ///
    /// # Errors
    /// The file's.
    pub fn new(file: Arc<dyn File>, shape: Shape) -> io::Result<FileBlocks> {
        let bytes = shape.blocks * BLOCK as u64;
        if file.len()? < bytes {
            file.set_len(bytes)?;
            file.sync()?;
        }
        Ok(FileBlocks { file, shape })
    }
}

impl Blocks for FileBlocks {
    fn shape(&self) -> Shape {
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
