//! Folder of an export, with a file that states the selection of the export.

use super::day::Day;
use super::file::Format;
use super::layout::{DAY, MEASUREMENT};
use crate::failure::Failure;
use crate::partition;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the file with the selection. Readers of data sets skip names that begin with a dot.
const SELECTION: &str = ".seiner-export.json";

/// Maximum length of the name of a folder, bytes: that of common file systems.
const MAX_NAME: usize = 255;

/// Selection of an export. All runs of one export have the same.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Selector in its canonical notation.
    pub select: String,
    /// Names of the fields, separated by commas; `None` for all.
    pub fields: Option<String>,
    /// Name of the format of the files.
    pub format: String,
}

/// Open folder of an export. No second export writes into the folder at the same time.
pub struct Folder {
    root: PathBuf,
    format: Format,
    /// Locked file with the selection.
    _lock: File,
}

impl Folder {
    /// Opens the folder of an export, or creates it.
    ///
    /// # Errors
    /// If the folder has the files of another selection or of no export, or another export is running.
    pub fn open(root: &Path, chosen: &Chosen, format: Format) -> Result<Folder, Failure> {
        let text = || root.display();
        fs::create_dir_all(root)
            .with_context(|| format!("the folder {} cannot be created", text()))?;
        let path = root.join(SELECTION);
        if !path.exists() {
            if !is_empty(root)? {
                return Err(Failure::Usage(format!(
                    "the folder {} has files that no export wrote; name a new folder",
                    text()
                )));
            }
            create(root, chosen)?;
        }
        let lock =
            File::open(&path).with_context(|| format!("{} cannot be opened", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Usage(format!(
                    "another export into {} is running; wait for its end",
                    text()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let found: Chosen = serde_json::from_slice(&fs::read(&path)?).with_context(|| {
            format!(
                "{} is damaged; name a new folder, or restore the file",
                path.display()
            )
        })?;
        match found == *chosen {
            true => Ok(Folder {
                root: root.to_path_buf(),
                format,
                _lock: lock,
            }),
            false => Err(Failure::Usage(format!(
                "{} has an export of {}; name a new folder for {}",
                text(),
                found.text(),
                chosen.text()
            ))),
        }
    }

    /// Returns the folder of a day. It may not exist.
    ///
    /// # Errors
    /// If the name of the measurement is too long for a folder.
    pub fn of_day(&self, measurement: &str, day: Day) -> anyhow::Result<PathBuf> {
        let name = partition::folder(MEASUREMENT, measurement);
        if name.len() > MAX_NAME {
            anyhow::bail!(
                "its name is too long for a folder; rename the measurement, or leave it out by --select"
            );
        }
        let day = partition::folder(DAY, &day.name());
        Ok(self.root.join(name).join(day))
    }

    /// Returns true if the file of a day was written at least `late_ns` after the end of the day.
    pub fn is_final(&self, measurement: &str, day: Day, late_ns: i64) -> bool {
        let folder = self.of_day(measurement, day);
        let begun = folder
            .ok()
            .and_then(|folder| self.format.begun(&folder.join(self.format.file_name())));
        begun.is_some_and(|begun| is_over(day, begun, late_ns))
    }
}

/// Returns true if a day had ended `late_ns` before a time.
pub fn is_over(day: Day, time: i64, late_ns: i64) -> bool {
    time > day.interval().end.saturating_add(late_ns)
}

impl Chosen {
    fn text(&self) -> String {
        let fields = match &self.fields {
            Some(fields) => format!(" --fields {fields}"),
            None => String::new(),
        };
        format!(
            "--select '{}'{fields} --format {}",
            self.select, self.format
        )
    }
}

fn is_empty(root: &Path) -> anyhow::Result<bool> {
    let mut entries = fs::read_dir(root)
        .with_context(|| format!("the folder {} cannot be read", root.display()))?;
    // A run that was stopped at its begin leaves this file.
    let unfinished = temporary(root);
    Ok(entries.all(|entry| entry.is_ok_and(|entry| entry.path() == unfinished)))
}

fn temporary(root: &Path) -> PathBuf {
    root.join(format!("{SELECTION}.part"))
}

fn create(root: &Path, chosen: &Chosen) -> anyhow::Result<()> {
    let path = temporary(root);
    let mut file =
        File::create(&path).with_context(|| format!("{} cannot be created", path.display()))?;
    file.write_all(serde_json::to_string_pretty(chosen)?.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&path, root.join(SELECTION))?;
    File::open(root)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(select: &str) -> Chosen {
        Chosen {
            select: select.to_string(),
            fields: None,
            format: "parquet".to_string(),
        }
    }

    fn reason(opened: Result<Folder, Failure>) -> String {
        match opened {
            Err(Failure::Usage(reason)) => reason,
            Err(other) => format!("{other:?}"),
            Ok(_) => "opened".to_string(),
        }
    }

    #[test]
    fn a_folder_belongs_to_one_selection_and_one_run() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let open = |select| Folder::open(&out, &chosen(select), Format::Parquet);
        let first = open("cpu").ok().unwrap();
        assert!(reason(open("cpu")).contains("is running"));
        drop(first);
        assert!(open("cpu").is_ok());
        let other = reason(open("mem"));
        assert!(
            other.contains("--select 'cpu'") && other.contains("name a new folder"),
            "{other}"
        );
        let foreign = Folder::open(root.path(), &chosen("cpu"), Format::Parquet);
        assert!(reason(foreign).contains("that no export wrote"));
    }

    #[test]
    fn a_day_is_over_some_time_after_its_end() {
        let day = Day::of(0);
        let end = day.interval().end;
        assert!(!is_over(day, end, 0) && is_over(day, end + 1, 0));
        assert!(!is_over(day, end + 5, 5) && is_over(day, end + 6, 5));
        assert!(!is_over(Day::of(i64::MAX), i64::MAX, 0));
    }
}
