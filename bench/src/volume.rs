//! A small volume: a folder on a file system of its own and of a certain size, so that full is full.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// See the module. Unmounted and removed when dropped.
pub struct Volume {
    path: PathBuf,
    bytes: u64,
    /// Whether it is a file system of its own: not if we may not mount one. Then it is a folder like others.
    own: bool,
}

impl Volume {
    /// Makes one of so many bytes at a path, in memory.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a file system of its own.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Makes it larger by a part of its size, if it is a file system of its own.
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
        // Lazily: somebody may look at it still.
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

    /// Where nothing may be mounted there is a folder, and the rest of this does not apply.
    #[test]
    fn a_volume_is_full_and_grows() {
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
