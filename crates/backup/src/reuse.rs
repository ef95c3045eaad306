//! Segments of an earlier backup that need no copy.

use crate::sealed;
use seiner_platform::{Disk, Snapshot};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Sealed segments of an earlier backup.
pub struct Earlier {
    path: PathBuf,
    disk: Snapshot,
    /// Names by stem.
    names: BTreeMap<String, String>,
}

impl Earlier {
    /// Lists the sealed segments in the directory of a backup.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(path: &Path) -> io::Result<Earlier> {
        let disk = Snapshot::on_demand(path)?;
        Ok(Earlier {
            names: sealed::names(&disk)?,
            path: path.to_path_buf(),
            disk,
        })
    }

    /// Gives a file that has the contents of a segment of `source` a name in a directory, if the earlier backup has it.
    /// Returns whether it has. A file system without links has no such file.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn link(&self, source: &dyn Disk, name: &str, directory: &Path) -> io::Result<bool> {
        let known = sealed::stem(name).and_then(|stem| self.names.get(stem));
        let Some(known) = known else {
            return Ok(false);
        };
        let same = sealed::is_same(&*source.open(name)?, &*self.disk.open(known)?)?;
        Ok(same && fs::hard_link(self.path.join(known), directory.join(name)).is_ok())
    }
}
