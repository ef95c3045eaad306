//! Small volume: a folder on its own file system of limited size, for tests of a full disk.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Small volume. Dropping it unmounts the file system and removes the folder.
pub struct Volume {
    path: PathBuf,
    bytes: u64,
    /// True if the folder is its own file system. If mounts are not permitted, it is an ordinary
    /// folder.
    own: bool,
}

impl Volume {
    /// Makes a volume of `bytes` bytes at a path, in memory.
    pub fn make(path: PathBuf, bytes: u64) -> Result<Volume> {
        std::fs::create_dir_all(&path)?;
        let size = format!("size={bytes}");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], &path);
        Ok(Volume {
            own: mounted.is_ok(),
            path,
            bytes,
        })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the volume is its own file system.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Enlarges the volume by a part of its size, if it is its own file system.
    pub fn grow(&mut self, part: f64) -> Result<()> {
        let bytes = self.bytes + (self.bytes as f64 * part) as u64;
        let size = format!("remount,size={bytes}");
        run("mount", &["-o", &size], &self.path)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // A lazy unmount succeeds even if another process still uses the volume.
        if self.own
            && let Err(error) = run("umount", &["-l"], &self.path)
        {
            eprintln!("{error:#}");
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<Output> {
    let mut command = Command::new(program);
    let output = command
        .args(arguments)
        .arg(path)
        .output()
        .with_context(|| format!("running {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::DiskUse;
    use std::fs;
    use std::io::ErrorKind;

    /// If mounts are not permitted, the volume is an ordinary folder, and the rest of the test does
    /// not apply.
    #[test]
    fn a_full_volume_rejects_writes_until_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        let mut volume = Volume::make(path.clone(), 1 << 20).unwrap();
        fs::write(path.join("a"), vec![1; 512 << 10]).unwrap();
        assert_eq!(DiskUse::of(&path).allocated, 512 << 10);
        if volume.is_own() {
            let more = || fs::write(path.join("b"), vec![1; 700 << 10]);
            assert_eq!(more().unwrap_err().kind(), ErrorKind::StorageFull);
            volume.grow(0.5).unwrap();
            more().unwrap();
        }
        drop(volume);
        assert!(!path.exists());
    }
}
