//! Reads of parts of a file, through a buffer.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// File with a buffer for one part of it. Reads in ascending order seldom reach the disk.
pub struct Window {
    file: File,
    path: PathBuf,
    /// Bytes of the file.
    bytes: u64,
    /// Minimum bytes of a read.
    piece: usize,
    /// Position of the buffer in the file.
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    /// Opens a file, to read pieces of this size.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path, piece: usize) -> Result<Window> {
        let context = || format!("{} cannot be opened", path.display());
        let file = File::open(path).with_context(context)?;
        let bytes = file.metadata().with_context(context)?.len();
        Ok(Window {
            file,
            path: path.to_path_buf(),
            bytes,
            piece,
            start: 0,
            buffer: Vec::new(),
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads bytes. At the end of the file, fewer are returned.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self, at: u64, count: usize) -> Result<&[u8]> {
        let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let count = count.min(left);
        let end = self.start + self.buffer.len() as u64;
        if at < self.start || at.saturating_add(count as u64) > end {
            let wanted = count.max(self.piece).min(left);
            self.buffer.clear();
            self.buffer.resize(wanted, 0);
            self.start = at;
            let mut filled = 0;
            while filled < wanted {
                let read = self
                    .file
                    .read_at(&mut self.buffer[filled..], at + filled as u64)
                    .with_context(|| format!("{} cannot be read", self.path.display()))?;
                if read == 0 {
                    break;
                }
                filled += read;
            }
            self.buffer.truncate(filled);
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        let from = from.min(self.buffer.len());
        let to = (from + count).min(self.buffer.len());
        Ok(&self.buffer[from..to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes: Vec<u8> = (0..200).collect();
        std::fs::write(&path, &bytes).unwrap();
        for piece in [1, 7, 64, 500] {
            let mut window = Window::open(&path, piece).unwrap();
            for (at, count) in [
                (0, 10),
                (5, 10),
                (190, 50),
                (20, 3),
                (0, 200),
                (200, 1),
                (999, 5),
                (u64::MAX, 9),
            ] {
                let from = (at as usize).min(200);
                let to = from.saturating_add(count).min(200);
                assert_eq!(window.read(at, count).unwrap(), &bytes[from..to]);
            }
        }
        assert!(Window::open(&directory.path().join("none"), 1).is_err());
    }
}
