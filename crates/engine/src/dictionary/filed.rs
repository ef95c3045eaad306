//! Filed sources: their names and tags are in names files, and no longer in memory.
//!
//! A names file repeats what the catalog contains, in a form that is read without reading it completely. The hash of
//! the name of a source still leads to its number ([`super::names`]), so writers need no file, unless the source is
//! *dormant*: then the hash is not in memory either. Selectors, keys and lists of tags are read from the files, through a
//! cache of bounded size.
//!
//! A copy of [`Filed`] is cheap and does not change. Readers take one under the lock of the dictionary, and read the
//! files without a lock.

use crate::error::{Error, io_error};
use crate::space::on_disk;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use seiner_model::{Selector, SourceKey};
use seiner_names::{Cache, NamesFile};
use seiner_platform::Disk;
use std::sync::Arc;

/// First part of the names of names files. A number follows.
const PREFIX: &str = "names-";
/// Name of a file until it is complete.
pub const NEW: &str = "names.new";

/// Returns the name of the names file with a number.
pub fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:08x}")
}

/// Returns the number of a names file, or `None` for other files.
pub fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (name_of(number) == name).then_some(number)
}

/// Returns whether a file is a names file, complete or not.
pub fn is_names(name: &str) -> bool {
    name == NEW || number_of(name).is_some()
}

/// Opens the names file of a store.
///
/// # Errors
/// If the file is damaged or of another store, or the disk fails.
pub fn open(disk: &dyn Disk, name: &str, store: u64) -> Result<NamesFile, Error> {
    let file = disk
        .open(name)
        .map_err(io_error(|| format!("opening {name}")))?;
    let file = NamesFile::open(name, file).map_err(read_error)?;
    if file.origin().store != store {
        return Err(Error::Damage {
            file: name.to_string(),
            offset: 0,
            what: "it belongs to another store".to_string(),
        });
    }
    Ok(file)
}

/// Returns the space of names files on a disk with units of `unit` bytes.
pub fn disk_bytes(files: &[Arc<NamesFile>], unit: u64) -> u64 {
    files.iter().map(|file| on_disk(file.len(), unit)).sum()
}

/// Sources whose names are in names files, as of one moment.
#[derive(Clone)]
pub struct Filed {
    /// Names files, oldest first. A file may also contain sources that are not filed any more.
    files: Arc<Vec<Arc<NamesFile>>>,
    /// Memory of the files, bytes. Counting it takes long if there are many pages.
    file_bytes: usize,
    sources: Arc<RoaringBitmap>,
    cache: Arc<Cache>,
    /// Files in which a reader found damage.
    damaged: Arc<Mutex<Vec<Arc<NamesFile>>>>,
}

impl Default for Filed {
    fn default() -> Filed {
        Filed::new(Vec::new(), 0)
    }
}

impl Filed {
    /// Creates the list of files of a store, without sources. Pages of files take up to `cache` bytes of memory.
    pub fn new(files: Vec<Arc<NamesFile>>, cache: usize) -> Filed {
        Filed {
            file_bytes: memory_of(&files),
            files: Arc::new(files),
            sources: Arc::default(),
            cache: Arc::new(Cache::new(cache)),
            damaged: Arc::default(),
        }
    }

    /// Removes and returns the files in which a reader found damage.
    pub fn take_damaged(&self) -> Vec<Arc<NamesFile>> {
        std::mem::take(&mut *self.damaged.lock())
    }

    /// Converts the result of reading a file, and notes damage.
    fn result<T>(
        &self,
        file: &Arc<NamesFile>,
        result: Result<T, seiner_names::Error>,
    ) -> Result<T, Error> {
        result.map_err(|error| {
            let error = read_error(error);
            if matches!(error, Error::Damage { .. }) {
                self.note_damaged(file.name());
            }
            error
        })
    }

    /// Notes damage in the file with a name. Returns whether there is such a file.
    pub fn note_damaged(&self, name: &str) -> bool {
        let Some(file) = self.files.iter().find(|file| file.name() == name) else {
            return false;
        };
        let mut damaged = self.damaged.lock();
        if !damaged.iter().any(|other| Arc::ptr_eq(other, file)) {
            damaged.push(file.clone());
        }
        true
    }

    /// Returns the files, oldest first.
    pub fn files(&self) -> &[Arc<NamesFile>] {
        &self.files
    }

    /// Returns the filed sources.
    pub fn sources(&self) -> &RoaringBitmap {
        &self.sources
    }

    /// Returns the cache of pages.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns those of some sources that are in a file, filed or not.
    pub fn in_files(&self, sources: &RoaringBitmap) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for file in &*self.files {
            found |= file.sources() & sources;
        }
        found
    }

    /// Replaces some files by another.
    pub fn replace(&mut self, old: &[Arc<NamesFile>], new: Option<Arc<NamesFile>>) {
        let is_old = |file: &Arc<NamesFile>| old.iter().any(|old| Arc::ptr_eq(old, file));
        let left = self.files.iter().filter(|file| !is_old(file)).cloned();
        let files: Vec<Arc<NamesFile>> = left.chain(new).collect();
        self.file_bytes = memory_of(&files);
        self.files = Arc::new(files);
        old.iter().for_each(|file| self.cache.forget(file));
    }

    /// Adds a filed source.
    pub fn insert(&mut self, source: u32) {
        Arc::make_mut(&mut self.sources).insert(source);
    }

    /// Removes a source, whose name is not read from files any more. Returns whether it was filed.
    pub fn remove(&mut self, source: u32) -> bool {
        self.sources.contains(source) && Arc::make_mut(&mut self.sources).remove(source)
    }

    /// Returns the key of a filed source.
    ///
    /// # Errors
    /// If a file is damaged, or the disk fails.
    pub fn key(&self, source: u32) -> Result<Option<SourceKey>, Error> {
        if !self.sources.contains(source) {
            return Ok(None);
        }
        for file in self.files.iter().rev() {
            if let Some(key) = self.result(file, file.key(&self.cache, source))? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Returns the number under which one of the files has a canonical name. The source may be filed or not.
    ///
    /// # Errors
    /// If the file is damaged, or the disk fails.
    pub fn find(&self, file: &Arc<NamesFile>, name: &[u8]) -> Result<Option<u32>, Error> {
        self.result(file, file.find(&self.cache, name))
    }

    /// Returns the filed sources that meet a selector.
    ///
    /// # Errors
    /// If a file is damaged, or the disk fails.
    pub fn select(&self, selector: &Selector) -> Result<RoaringBitmap, Error> {
        let mut found = RoaringBitmap::new();
        for file in &*self.files {
            found |= self.result(file, file.select(&self.cache, selector))?;
        }
        found &= &*self.sources;
        Ok(found)
    }

    /// Returns texts of filed sources, as `read` finds them in each file.
    ///
    /// # Errors
    /// If a file is damaged, or the disk fails.
    pub fn texts(
        &self,
        read: impl Fn(&NamesFile, &Cache) -> Result<Vec<String>, seiner_names::Error>,
    ) -> Result<Vec<String>, Error> {
        let mut texts = Vec::new();
        for file in &*self.files {
            texts.append(&mut self.result(file, read(file, &self.cache))?);
        }
        Ok(texts)
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.file_bytes + self.sources.serialized_size() + self.cache.memory()
    }
}

fn memory_of(files: &[Arc<NamesFile>]) -> usize {
    files.iter().map(|file| file.memory()).sum()
}

/// Converts the error of a names file.
pub fn read_error(error: seiner_names::Error) -> Error {
    match error {
        seiner_names::Error::Io { file, source } => Error::Io {
            context: format!("reading {file}"),
            error: source,
        },
        seiner_names::Error::Damage { file, offset, what } => Error::Damage { file, offset, what },
        seiner_names::Error::Version { file, found } => Error::Damage {
            file,
            offset: 8,
            what: format!("version {found}, which a later release wrote"),
        },
    }
}
