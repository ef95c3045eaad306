//! Directory as a target, with links to the segments of an earlier backup.

use crate::copy::{Copier, failed};
use crate::error::{Error, folder_error};
use crate::reuse::Earlier;
use crate::target::Target;
use seiner_platform::{Directory, Disk};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory that gets the files of a store.
pub struct DirectoryTarget {
    path: PathBuf,
    disk: Arc<Directory>,
    earlier: Option<Earlier>,
}

impl DirectoryTarget {
    /// Creates and locks a directory. Its segments may be links to those of an earlier backup.
    ///
    /// # Errors
    /// If the directory cannot be written, or another process uses it.
    pub fn open(path: &Path, earlier: Option<Earlier>) -> Result<DirectoryTarget, Error> {
        let context = || writing(path);
        Ok(DirectoryTarget {
            path: path.to_path_buf(),
            disk: Arc::new(Directory::open(path).map_err(failed(context))?),
            earlier,
        })
    }

    fn copier<'a>(&'a self, source: &'a dyn Disk) -> Copier<'a> {
        Copier {
            source,
            target: &*self.disk,
        }
    }
}

impl Target for DirectoryTarget {
    fn changing(&self) -> &dyn Disk {
        &*self.disk
    }

    fn keep(&self, source: &dyn Disk) -> Result<BTreeSet<String>, seiner_engine::Error> {
        Ok(self.copier(source).tidy()?.into_iter().collect())
    }

    fn reuse(&self, source: &dyn Disk, name: &str) -> Result<bool, Error> {
        let Some(earlier) = &self.earlier else {
            return Ok(false);
        };
        let linked = earlier.link(source, name, &self.path);
        linked.map_err(folder_error(|| writing(&self.path)))
    }

    fn send(
        &self,
        source: &dyn Disk,
        name: &str,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        Ok(self.copier(source).copy(name, advance)?)
    }

    fn pending(&self, _: u64) -> u64 {
        0
    }

    fn complete(&self, _: &mut dyn FnMut(u64)) -> Result<Arc<dyn Disk>, Error> {
        let synced = self.disk.sync_names();
        synced.map_err(failed(|| writing(&self.path)))?;
        Ok(self.disk.clone())
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.disk.free()
    }
}

fn writing(path: &Path) -> String {
    format!("writing to {}", path.display())
}
