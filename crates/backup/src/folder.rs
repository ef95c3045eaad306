//! Folder of backups: one directory for each backup, named by the time at which it was begun.

use crate::error::{Error, folder_error};
use crate::name::{self, is_name};
use std::fs;
use std::path::{Path, PathBuf};

/// End of the name of a backup that is not complete.
const PARTIAL: &str = ".partial";
/// End of the name of a backup that is being removed.
const REMOVED: &str = ".removed";

/// Folder of the backups of one store.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing. Ends the removal of backups that was interrupted.
    ///
    /// # Errors
    /// If the folder cannot be read or created.
    pub fn open(path: &Path) -> Result<Folder, Error> {
        let context = || format!("opening the folder {}", path.display());
        fs::create_dir_all(path).map_err(folder_error(context))?;
        let folder = Folder {
            path: path.to_path_buf(),
        };
        for name in folder.names()? {
            if name.strip_suffix(REMOVED).is_some_and(is_name) {
                folder.remove_directory(&name)?;
            }
        }
        Ok(folder)
    }

    /// Returns the path of a backup.
    pub fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the names of the complete backups, oldest first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn complete(&self) -> Result<Vec<String>, Error> {
        let mut names = self.names()?;
        names.retain(|name| is_name(name));
        Ok(names)
    }

    /// Returns the name of a backup that was interrupted.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn interrupted(&self) -> Result<Option<String>, Error> {
        let names = self.names()?.into_iter().rev();
        Ok({ names }.find(|name| name.strip_suffix(PARTIAL).is_some_and(is_name)))
    }

    /// Returns a name for a backup that begins at `now`, ns since 1970. It is later than all names of the folder.
    ///
    /// # Errors
    /// If the folder cannot be read, or the time is not within the years 1677 to 2262.
    pub fn name(&self, now: i64) -> Result<String, Error> {
        name::next(self.complete()?.pop().as_deref(), now)
    }

    /// Returns the name of the directory of a backup that is not complete.
    pub fn partial(name: &str) -> String {
        format!("{name}{PARTIAL}")
    }

    /// Gives a complete backup its name, durably.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn finish(&self, partial: &str, name: &str) -> Result<PathBuf, Error> {
        rename(&self.of(partial), &self.of(name))?;
        Ok(self.of(name))
    }

    /// Removes the oldest complete backups but the latest `keep`. Returns their names.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn remove_old(&self, keep: usize) -> Result<Vec<String>, Error> {
        let mut names = self.complete()?;
        names.truncate(names.len().saturating_sub(keep));
        for name in &names {
            let removed = format!("{name}{REMOVED}");
            rename(&self.of(name), &self.of(&removed))?;
            self.remove_directory(&removed)?;
        }
        Ok(names)
    }

    fn remove_directory(&self, name: &str) -> Result<(), Error> {
        let context = || format!("removing {}", self.of(name).display());
        fs::remove_dir_all(self.of(name)).map_err(folder_error(context))
    }

    /// Returns the names in the folder, sorted.
    fn names(&self) -> Result<Vec<String>, Error> {
        let context = || format!("reading the folder {}", self.path.display());
        let entries = fs::read_dir(&self.path).map_err(folder_error(context))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(folder_error(context))?;
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
}

/// Renames a directory, durably.
///
/// # Errors
/// If the directories above cannot be written.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    let context = || format!("renaming {} to {}", from.display(), to.display());
    let above = match to.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    };
    let renamed = fs::rename(from, to).and_then(|()| fs::File::open(above)?.sync_all());
    renamed.map_err(folder_error(context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_later_than_all_of_the_folder() {
        let above = tempfile::tempdir().unwrap();
        let folder = Folder::open(&above.path().join("new")).unwrap();
        let first = folder.name(1_700_000_000_000_000_000).unwrap();
        assert_eq!(first, "2023-11-14T22-13-20Z");
        fs::create_dir(folder.of(&first)).unwrap();
        assert_eq!(folder.name(0).unwrap(), "2023-11-14T22-13-21Z");
        for other in [
            "notes",
            "2023-11-14T22-13-19Z.partial",
            "2023-13-14T22-13-20Z",
        ] {
            fs::create_dir(folder.of(other)).unwrap();
        }
        assert_eq!(folder.complete().unwrap(), [first]);
        let interrupted = folder.interrupted().unwrap();
        assert_eq!(interrupted.unwrap(), "2023-11-14T22-13-19Z.partial");
    }

    #[test]
    fn old_backups_are_removed_even_after_an_interruption() {
        let above = tempfile::tempdir().unwrap();
        let folder = Folder::open(above.path()).unwrap();
        for name in [
            "2023-11-14T22-13-20Z",
            "2024-01-01T00-00-00Z",
            "2024-01-02T00-00-00Z",
        ] {
            fs::create_dir(folder.of(name)).unwrap();
        }
        fs::create_dir(folder.of("2022-01-01T00-00-00Z.removed")).unwrap();
        fs::create_dir(folder.of("mine.removed")).unwrap();
        let folder = Folder::open(above.path()).unwrap();
        assert_eq!(folder.remove_old(2).unwrap(), ["2023-11-14T22-13-20Z"]);
        assert_eq!(folder.remove_old(2).unwrap(), [""; 0]);
        let left = folder.names().unwrap();
        assert_eq!(
            left,
            [
                "2024-01-01T00-00-00Z",
                "2024-01-02T00-00-00Z",
                "mine.removed"
            ]
        );
    }
}
