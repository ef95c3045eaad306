//! Copies of files from one disk to another.

use crate::sealed;
use seiner_engine::Error;
use seiner_engine::inspect::FileKind;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Name of the file that is being copied.
const UNFINISHED: &str = "unfinished";
/// End of the name of a names file that is being written.
const UNFINISHED_NAMES: &str = ".new";
/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Copies files and reports the bytes.
pub struct Copier<'a> {
    /// Disk with the files.
    pub source: &'a dyn Disk,
    /// Disk that gets the files.
    pub target: &'a dyn Disk,
}

impl Copier<'_> {
    /// Copies a file, durably but for its name. A file of the same name is replaced. `advance` is called with the bytes
    /// of each piece.
    ///
    /// # Errors
    /// If the disks fail. No file of this name has other contents then.
    pub fn copy(&self, name: &str, advance: &mut dyn FnMut(u64)) -> Result<(), Error> {
        self.copy_unsynced(name, advance)?
            .sync()
            .map_err(failed(|| written(name)))?;
        self.target
            .rename(UNFINISHED, name)
            .map_err(failed(|| written(name)))
    }

    /// Copies files that change as fast as possible, because another process may reuse them. Returns their bytes.
    ///
    /// # Errors
    /// If the disks fail. Some of the files may be missing then.
    pub fn copy_changing(&self, names: &[String]) -> Result<u64, Error> {
        let (mut bytes, mut copies) = (0, Vec::new());
        for name in names {
            copies.push(self.copy_unsynced(name, &mut |piece| bytes += piece)?);
            self.target
                .rename(UNFINISHED, name)
                .map_err(failed(|| written(name)))?;
        }
        for (name, copy) in names.iter().zip(copies) {
            copy.sync().map_err(failed(|| written(name)))?;
        }
        Ok(bytes)
    }

    fn copy_unsynced(
        &self,
        name: &str,
        advance: &mut dyn FnMut(u64),
    ) -> Result<Arc<dyn File>, Error> {
        let from = self
            .source
            .open(name)
            .map_err(failed(|| format!("reading {name}")))?;
        let length = from.len().map_err(failed(|| format!("reading {name}")))?;
        let to = self
            .target
            .create(UNFINISHED)
            .map_err(failed(|| written(name)))?;
        let mut piece = vec![0; PIECE.min(length as usize)];
        let mut offset = 0;
        while offset < length {
            let bytes = (length - offset).min(PIECE as u64);
            let piece = &mut piece[..bytes as usize];
            read(&*from, offset, piece).map_err(failed(|| format!("reading {name}")))?;
            to.write_at(offset, piece)
                .map_err(failed(|| written(name)))?;
            offset += bytes;
            advance(bytes);
        }
        Ok(to)
    }

    /// Removes the files of the target that are not sealed segments of the source. A segment that the source has under
    /// another name gets that name. Returns the names of the segments that stay.
    ///
    /// # Errors
    /// If the disks fail.
    pub fn tidy(&self) -> Result<Vec<String>, Error> {
        let context = || "reading the files of an interrupted copy".to_string();
        let sealed = sealed::names(self.source).map_err(failed(context))?;
        let mut kept = Vec::new();
        for name in self.target.list().map_err(failed(context))? {
            let same = self.same_in(&sealed, &name).map_err(failed(context))?;
            let changed = match same {
                Some(same) if *same == name => Ok(()),
                Some(same) => self.target.rename(&name, same),
                None => self.target.remove(&name),
            };
            changed.map_err(failed(context))?;
            kept.extend(same.cloned());
        }
        Ok(kept)
    }

    /// Returns the name of the source's sealed segment that a file of the target is.
    fn same_in<'n>(
        &self,
        sealed: &'n BTreeMap<String, String>,
        name: &str,
    ) -> io::Result<Option<&'n String>> {
        let Some(same) = sealed::stem(name).and_then(|stem| sealed.get(stem)) else {
            return Ok(None);
        };
        let (there, here) = (self.source.open(same)?, self.target.open(name)?);
        Ok(sealed::is_same(&*there, &*here)?.then_some(same))
    }
}

/// Returns the files that are copied each time, in this order: the ledger first, because it names others. All may change
/// but names files. Those of a moment may be older than the catalog that is copied with them, and are not newer.
///
/// # Errors
/// If the disk cannot be listed.
pub fn changing(source: &dyn Disk) -> Result<Vec<String>, Error> {
    let context = || "listing the files of the store".to_string();
    let mut names = source.list().map_err(failed(context))?;
    names.retain(|name| match FileKind::of(name) {
        FileKind::Segment | FileKind::Spare | FileKind::Other => false,
        FileKind::Names => !name.ends_with(UNFINISHED_NAMES),
        _ => true,
    });
    let rank = |name: &String| match FileKind::of(name) {
        FileKind::Ledger => 0,
        FileKind::Catalog => 1,
        FileKind::Clock | FileKind::Rules => 2,
        FileKind::OpenSegment => 3,
        FileKind::Journal => 4,
        _ => 5,
    };
    names.sort_by_key(|name| (rank(name), name.clone()));
    Ok(names)
}

fn written(name: &str) -> String {
    format!("writing a copy of {name}")
}

/// Fills a buffer. A file that was cut meanwhile is reported as one that changed, so that the caller tries again.
///
/// # Errors
/// If the file cannot be read.
pub fn read(file: &dyn File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.read_at(offset, buffer)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(io::ErrorKind::StaleNetworkFileHandle, error)
            }
            _ => error,
        })
}

/// Adds the failed operation to an error of the disk.
pub fn failed<C: Fn() -> String>(context: C) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io {
        context: context(),
        error,
    }
}
