//! A member in memory, for tests and for volumes that need not persist.

use super::Member;
use crate::block::{Block, Page};
use crate::geometry::BLOCK_BYTES;
use std::io;
use std::sync::{Mutex, PoisonError};

/// A member in memory. Blocks that were never written occupy no memory.
pub struct Ram {
    blocks: Vec<Mutex<Option<Page>>>,
}

impl Ram {
    /// Creates a member of zeroes with `bytes` bytes, rounded down to whole blocks.
    pub fn new(bytes: u64) -> Ram {
        let blocks = bytes / BLOCK_BYTES as u64;
        Ram {
            blocks: (0..blocks).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// Returns `blocks` blocks from an offset in bytes.
    fn range(&self, offset: u64, blocks: usize) -> io::Result<&[Mutex<Option<Page>>]> {
        let first = (offset / BLOCK_BYTES as u64) as usize;
        self.blocks
            .get(first..first.saturating_add(blocks))
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Member for Ram {
    fn name(&self) -> String {
        "memory".to_string()
    }

    fn bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES) as u64
    }

    fn read(&self, offset: u64, pages: &mut [Page]) -> io::Result<()> {
        let blocks = self.range(offset, pages.len())?;
        for (page, block) in pages.iter_mut().zip(blocks) {
            let block = block.lock().unwrap_or_else(PoisonError::into_inner);
            *page = block.clone().unwrap_or_else(Page::zero);
        }
        Ok(())
    }

    fn write(&self, offset: u64, pages: &[Page], _durable: bool) -> io::Result<()> {
        let blocks = self.range(offset, pages.len())?;
        for (page, block) in pages.iter().zip(blocks) {
            *block.lock().unwrap_or_else(PoisonError::into_inner) = Some(page.clone());
        }
        Ok(())
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        for block in self.range(offset, (bytes / BLOCK_BYTES as u64) as usize)? {
            *block.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(())
    }

    fn discards(&self) -> bool {
        true
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_instant(&self) -> bool {
        true
    }
}
