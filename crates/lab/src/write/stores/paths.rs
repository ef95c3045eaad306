//! Paths of the sensors' files.

use super::AT_ONCE;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::write::Layout;
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths of the sensors' files, distributed over directories.
pub struct Paths {
    /// Directories.
    pub directories: Vec<PathBuf>,
    /// Layout of the files in each directory.
    pub layout: Layout,
}

impl Paths {
    /// Returns the path of a sensor's file.
    pub fn of(&self, sensor: u64) -> PathBuf {
        let directory = &self.directories[(sensor % self.directories.len() as u64) as usize];
        let number = sensor / self.directories.len() as u64;
        match self.layout {
            Layout::Flat => directory.join(format!("{number:08}")),
            Layout::Tree => directory.join(format!(
                "{:02}/{:02}/{:02}/{:02}",
                number / 1_000_000,
                number / 10_000 % 100,
                number / 100 % 100,
                number % 100
            )),
        }
    }

    /// Makes all directories, and each file by `fill`.
    ///
    /// # Errors
    /// A directory or file cannot be made, or the user stopped the run.
    pub fn make(
        &self,
        sensors: u64,
        interrupt: &Interrupt,
        fill: impl Fn(&Path) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut last = PathBuf::new();
        for sensor in 0..sensors {
            if sensor.is_multiple_of(AT_ONCE) {
                interrupt.check()?;
            }
            let path = self.of(sensor);
            let parent = path.parent().expect("a file has a directory");
            if parent != last {
                fs::create_dir_all(parent)
                    .with_context(|| format!("{} was not made", parent.display()))?;
                last = parent.to_owned();
            }
            fill(&path).with_context(|| format!("{} was not made", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directory_has_more_than_a_hundred_entries() {
        let paths = Paths {
            directories: vec!["/a".into(), "/b".into()],
            layout: Layout::Tree,
        };
        assert_eq!(paths.of(0), Path::new("/a/00/00/00/00"));
        assert_eq!(paths.of(2_469_135), Path::new("/b/01/23/45/67"));
        let flat = Paths {
            directories: vec!["/a".into()],
            layout: Layout::Flat,
        };
        assert_eq!(flat.of(12), Path::new("/a/00000012"));
    }
}
