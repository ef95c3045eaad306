//! A store with one file per sensor, which is appended to: the store of *FS*.

use super::paths::Paths;
use super::{Portion, Store};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::write::Write;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Model of the paper's store: open, append, close. Files are rotated by renaming.
pub struct Files {
    paths: Paths,
    portion: usize,
    pub(super) rotate_at: u64,
    kept: u64,
    is_synced: bool,
    /// A buffer per sensor, if `is_buffered` is set.
    buffers: Option<Vec<Mutex<Vec<u8>>>>,
    lap: u64,
}

impl Files {
    /// Makes the store with all files.
    ///
    /// # Errors
    /// A file cannot be made, or the user stopped the run.
    pub fn make(
        settings: &Write,
        sensors: u64,
        portion: u64,
        directories: &[PathBuf],
        interrupt: &Interrupt,
    ) -> Result<Files> {
        let mut files = Files::there(settings, sensors, portion, directories);
        files
            .paths
            .make(sensors, interrupt, |path| File::create(path).map(drop))?;
        let buffer = || Mutex::new(vec![1; portion as usize]);
        files.buffers = settings
            .is_buffered
            .then(|| (0..sensors).map(|_| buffer()).collect());
        Ok(files)
    }

    /// Opens a store whose files exist, without buffers.
    pub fn there(settings: &Write, sensors: u64, portion: u64, directories: &[PathBuf]) -> Files {
        Files {
            paths: Paths {
                directories: directories.to_vec(),
                layout: settings.layout,
            },
            portion: portion as usize,
            rotate_at: settings.rotate_at(sensors),
            kept: settings.kept,
            is_synced: settings.is_synced,
            buffers: None,
            lap: sensors * portion,
        }
    }

    fn append(&self, sensor: u64, bytes: &[u8]) -> std::io::Result<()> {
        let path = self.paths.of(sensor);
        let open = || OpenOptions::new().append(true).create(true).open(&path);
        let mut file = open()?;
        if file.metadata()?.len() + bytes.len() as u64 > self.rotate_at {
            drop(file);
            self.rotate(&path)?;
            file = open()?;
        }
        file.write_all(bytes)?;
        if self.is_synced {
            file.sync_data()?;
        }
        Ok(())
    }

    /// Renames each kept file to the next number. The oldest file is replaced by the second oldest.
    fn rotate(&self, path: &Path) -> std::io::Result<()> {
        let old = |number: u64| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.kept - 1).rev() {
            match fs::rename(old(number), old(number + 1)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        fs::rename(path, old(1))
    }
}

impl Store for Files {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let bytes = &portion.contents[portion.content..portion.content + self.portion];
        match &self.buffers {
            Some(buffers) => {
                let mut buffer = buffers[portion.first as usize]
                    .lock()
                    .expect("a sensor has one writer");
                buffer.copy_from_slice(bytes);
                self.append(portion.first, &buffer)?;
            }
            None => self.append(portion.first, bytes)?,
        }
        Ok(bytes.len() as u64)
    }

    fn lap_bytes(&self) -> u64 {
        self.lap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn files_are_rotated_and_the_oldest_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let set = Write {
            space_bytes: 20_000,
            kept: 3,
            ..Write::new(home.path().to_owned(), Profile::Toy)
        };
        let files = Files::make(
            &set,
            2,
            1000,
            &[home.path().to_owned()],
            &Interrupt::default(),
        )
        .unwrap();
        assert_eq!(files.rotate_at, 3000);
        for turn in 0..30 {
            for first in 0..2 {
                let portion = Portion {
                    first,
                    count: 1,
                    turn,
                    contents: &[7; 1000],
                    content: 0,
                };
                assert_eq!(files.put(&portion).unwrap(), 1000);
            }
        }
        let directory = home.path().join("00/00/00");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 6);
        for entry in fs::read_dir(&directory).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().len() <= 3000);
        }
    }
}
