//! Directory trees that are generated from a seed, with realistic file sizes: most files are small,
//! but most bytes are in a few large files.

use crate::error::Result;
use crate::interrupt::Interrupt;
use anyhow::Context;
use seiner_random::SplitMixRng;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

/// Bytes per read and write of a copy.
const PIECE: usize = 128 << 10;

/// Parameters of a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeShape {
    /// Approximate total bytes. The last file may exceed them.
    pub bytes: u64,
    /// Median of the file sizes, bytes.
    pub median: u64,
    /// Standard deviation of the logarithm of the file sizes.
    pub spread: f64,
    /// Size of the largest file, bytes.
    pub largest: u64,
    /// Number of files per directory.
    pub per_directory: u64,
}

impl TreeShape {
    /// Returns a tree like a home directory: documents, pictures and programs, from bytes to tens
    /// of MB.
    pub fn mixed(bytes: u64) -> TreeShape {
        TreeShape {
            bytes,
            median: 16 << 10,
            spread: 2.4,
            largest: bytes / 8,
            per_directory: 30,
        }
    }

    /// Returns a tree of many small files, like source code.
    pub fn small(bytes: u64) -> TreeShape {
        TreeShape {
            bytes,
            median: 700,
            spread: 1.1,
            largest: 64 << 10,
            per_directory: 6,
        }
    }

    /// Mean file size in bytes, without the limit of `largest`.
    pub fn mean(self) -> f64 {
        self.median as f64 * (self.spread * self.spread / 2.0).exp()
    }

    /// Draws the sizes of all files, bytes.
    fn sizes(self, seed: u64) -> Vec<u64> {
        let mut rng = SplitMixRng::new(seed);
        let (mut sizes, mut sum) = (Vec::new(), 0);
        while sum < self.bytes {
            let size = (self.median as f64 * rng.lognormal(self.spread)) as u64;
            let size = size.clamp(1, self.largest.max(1));
            sum += size;
            sizes.push(size);
        }
        sizes
    }

    /// Path of a file in the tree.
    fn path(self, number: u64) -> String {
        let directory = number / self.per_directory;
        format!(
            "{:02}/{:03}/{:02}",
            directory / 40,
            directory % 40,
            number % self.per_directory
        )
    }
}

/// Pool of bytes from which the contents of all files are cut. The bytes do not compress, and
/// reading the pool costs little.
struct Contents(Vec<u8>);

impl Contents {
    fn new(seed: u64) -> Contents {
        let mut bytes = vec![0; 1 << 20];
        SplitMixRng::new(seed ^ 0x5eed).fill(&mut bytes);
        Contents(bytes)
    }

    /// Returns a reader of `size` bytes that starts at a different place for each file.
    fn of(&self, number: u64, size: u64) -> impl Read + '_ {
        Turning {
            bytes: &self.0,
            place: (number * 4099) as usize % self.0.len(),
        }
        .take(size)
    }
}

/// Endless reader that repeats the pool.
struct Turning<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl Read for Turning<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.bytes[self.place..];
        let count = out.len().min(rest.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.place = (self.place + count) % self.bytes.len();
        Ok(count)
    }
}

/// Generates a tree in `root`, which is created. Returns the number of files.
///
/// # Errors
/// A file cannot be written, or the user stopped the run.
pub fn grow(root: &Path, shape: TreeShape, seed: u64, interrupt: &Interrupt) -> Result<u64> {
    let contents = Contents::new(seed);
    let sizes = shape.sizes(seed);
    for (number, size) in (0u64..).zip(&sizes) {
        interrupt.check()?;
        let path = root.join(shape.path(number));
        fs::create_dir_all(path.parent().expect("a file has a directory"))?;
        let mut file =
            File::create(&path).with_context(|| format!("{} was not made", path.display()))?;
        std::io::copy(&mut contents.of(number, *size), &mut file)?;
    }
    Ok(sizes.len() as u64)
}

/// Writes a tar archive of such a tree. Returns the number of files.
///
/// # Errors
/// The archive cannot be written, or the user stopped the run.
pub fn archive(path: &Path, shape: TreeShape, seed: u64, interrupt: &Interrupt) -> Result<u64> {
    let contents = Contents::new(seed);
    let sizes = shape.sizes(seed);
    let mut archive = tar::Builder::new(std::io::BufWriter::new(File::create(path)?));
    for (number, size) in (0u64..).zip(&sizes) {
        interrupt.check()?;
        let mut header = tar::Header::new_gnu();
        header.set_size(*size);
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        archive.append_data(&mut header, shape.path(number), contents.of(number, *size))?;
    }
    archive.into_inner()?.flush()?;
    Ok(sizes.len() as u64)
}

/// Unpacks a tar archive into a directory, which is created.
///
/// # Errors
/// The archive cannot be read, a file cannot be written, or the user stopped the run.
pub fn unpack(path: &Path, into: &Path, interrupt: &Interrupt) -> Result<()> {
    fs::create_dir(into)?;
    let mut archive =
        tar::Archive::new(std::io::BufReader::with_capacity(PIECE, File::open(path)?));
    for entry in archive.entries()? {
        interrupt.check()?;
        entry?.unpack_in(into)?;
    }
    Ok(())
}

/// Copies a file through memory, so that extents are not shared and the kernel does not copy.
///
/// # Errors
/// A read or write fails, or the user stopped the run.
pub fn copy_file(from: &Path, to: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::create(to).with_context(|| format!("{} was not made", to.display()))?;
    let mut piece = vec![0; PIECE];
    loop {
        interrupt.check()?;
        let count = source.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        target.write_all(&piece[..count])?;
    }
}

/// Copies a tree into `to`, which is created.
///
/// # Errors
/// A read or write fails, or the user stopped the run.
pub fn copy(from: &Path, to: &Path, interrupt: &Interrupt) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("{} was not made", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &target, interrupt)?,
            kind if kind.is_file() => copy_file(&entry.path(), &target, interrupt)?,
            // Links and special files, which occur in trees of users, are skipped.
            _ => {}
        }
    }
    Ok(())
}

/// Reads a file, or all files of a tree. Returns the number of bytes.
///
/// # Errors
/// A read fails, or the user stopped the run.
pub fn read(root: &Path, interrupt: &Interrupt) -> Result<u64> {
    if root.is_file() {
        return read_file(root, interrupt);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(root)? {
        bytes += read(&entry?.path(), interrupt)?;
    }
    Ok(bytes)
}

fn read_file(path: &Path, interrupt: &Interrupt) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        interrupt.check()?;
        match file.read(&mut piece)? {
            0 => return Ok(bytes),
            count => bytes += count as u64,
        }
    }
}

/// Removes a tree or a file.
///
/// # Errors
/// The removal fails.
pub fn remove(root: &Path) -> Result<()> {
    if root.is_dir() {
        fs::remove_dir_all(root)?;
    } else {
        fs::remove_file(root)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_and_files(root: &Path) -> (u64, u64) {
        let (mut bytes, mut files) = (0, 0);
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let below = bytes_and_files(&path);
                (bytes, files) = (bytes + below.0, files + below.1);
            } else {
                (bytes, files) = (bytes + path.metadata().unwrap().len(), files + 1);
            }
        }
        (bytes, files)
    }

    #[test]
    fn a_tree_is_the_same_for_the_same_seed_and_survives_every_operation() {
        let home = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let shape = TreeShape::mixed(3 << 20);
        let files = grow(&home.path().join("a"), shape, 5, &interrupt).unwrap();
        copy(&home.path().join("a"), &home.path().join("b"), &interrupt).unwrap();
        let grown = bytes_and_files(&home.path().join("b"));
        assert_eq!(grown.1, files);
        assert!(grown.0 >= 3 << 20);
        assert_eq!(read(&home.path().join("a"), &interrupt).unwrap(), grown.0);
        let archived = archive(&home.path().join("tar"), shape, 5, &interrupt).unwrap();
        assert_eq!(archived, files);
        unpack(&home.path().join("tar"), &home.path().join("c"), &interrupt).unwrap();
        assert_eq!(bytes_and_files(&home.path().join("c")), grown);
        remove(&home.path().join("c")).unwrap();
        assert!(!home.path().join("c").exists());
        assert_ne!(shape.sizes(5), shape.sizes(6));
    }

    #[test]
    fn sizes_have_their_median() {
        let mut sizes = TreeShape::small(4 << 20).sizes(1);
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((500..1000).contains(&median), "{median}");
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        let expected = TreeShape::small(4 << 20).mean();
        assert!((0.9..1.1).contains(&(mean / expected)), "{mean} {expected}");
    }
}
