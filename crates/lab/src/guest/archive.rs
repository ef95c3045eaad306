//! Writer of the archive that a kernel unpacks as its initial file system: cpio in the format
//! `newc`, see the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;

/// An archive that is being written. The kernel unpacks several archives in one file one after the
/// other.
pub struct Archive<W: Write> {
    out: W,
    written: u64,
    entries: u32,
    directories: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    /// Starts an archive.
    pub fn new(out: W) -> Archive<W> {
        Archive {
            out,
            written: 0,
            entries: 0,
            directories: BTreeSet::new(),
        }
    }

    /// Adds a file under an absolute path, after the directories above it.
    ///
    /// # Errors
    /// The file has 4 GiB or more, or the write fails.
    pub fn file(&mut self, path: &Path, contents: &[u8], is_program: bool) -> io::Result<()> {
        for above in ancestors(path) {
            if self.directories.insert(above.clone()) {
                self.entry(&name(&above), DIRECTORY, &[])?;
            }
        }
        let rights = if is_program { 0o755 } else { 0o644 };
        self.entry(&name(path), FILE | rights, contents)
    }

    /// Adds all files of a directory, which becomes the root.
    ///
    /// # Errors
    /// A file cannot be read, has 4 GiB or more, or the write fails.
    pub fn tree(&mut self, root: &Path) -> io::Result<()> {
        self.below(root, root)
    }

    fn below(&mut self, root: &Path, directory: &Path) -> io::Result<()> {
        let mut entries: Vec<PathBuf> = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        entries.sort();
        for path in entries {
            if path.is_dir() {
                self.below(root, &path)?;
                continue;
            }
            let is_program = fs::metadata(&path)?.permissions().mode() & 0o111 != 0;
            let inside = Path::new("/").join(path.strip_prefix(root).unwrap_or(&path));
            self.file(&inside, &fs::read(&path)?, is_program)?;
        }
        Ok(())
    }

    /// Writes the trailer and flushes. Returns the bytes of the archive.
    ///
    /// # Errors
    /// The write fails.
    pub fn finish(mut self) -> io::Result<u64> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let length = u32::try_from(contents.len())
            .map_err(|_| io::Error::other(format!("{name} is too large for the archive")))?;
        let mut head = String::from("070701");
        // Inode, mode, user, group, links, time, size, device (2), special device (2), name,
        // checksum.
        let size_of_name = name.len() as u32 + 1;
        for field in [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            0,
            0,
            size_of_name,
            0,
        ] {
            head.push_str(&format!("{field:08x}"));
        }
        self.put(head.as_bytes())?;
        self.put(name.as_bytes())?;
        self.put(&[0])?;
        self.pad()?;
        self.put(contents)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let missing = self.written.next_multiple_of(4) - self.written;
        self.put(&[0; 3][..missing as usize])
    }
}

/// Directories above a path, from the top down, without the root.
fn ancestors(path: &Path) -> Vec<PathBuf> {
    let mut above: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .filter(|directory| *directory != Path::new("/") && *directory != Path::new(""))
        .map(Path::to_owned)
        .collect();
    above.reverse();
    above
}

/// Name in the archive: the path relative to the root.
fn name(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_directories_come_first() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file(Path::new("/a/b"), b"hello", true).unwrap();
        archive.file(Path::new("/a/c"), b"", false).unwrap();
        let written = archive.finish().unwrap();
        assert_eq!(written, bytes.len() as u64);
        assert_eq!(written % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        // The directory, two files and the trailer.
        assert_eq!(text.matches("070701").count(), 4);
        assert!(text.find("\0hello").is_some());
        assert!(text.starts_with("07070100000001000041ed"));
        assert!(text.ends_with("TRAILER!!!\0\0\0\0") || text.ends_with("TRAILER!!!\0"));
    }
}
