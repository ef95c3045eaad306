//! The interface of an open names file and of the cache.

use crate::cache::PageCache;
use crate::check::check;
use crate::error::Error;
use crate::hashes::{hash_name, stored_bits};
use crate::layout::Origin;
use crate::parts::Parts;
use crate::select::Selection;
use crate::values::Values;
use roaring::RoaringBitmap;
use seiner_model::{Selector, SourceKey};
use seiner_platform::File;
use std::sync::Arc;

/// Pages of names files, decompressed, up to so many bytes. Files and threads share a cache.
pub struct Cache(PageCache);

impl Cache {
    /// Creates an empty cache of at most `bytes` bytes.
    pub fn new(bytes: usize) -> Cache {
        Cache(PageCache::new(bytes))
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Removes the pages of a file.
    pub fn forget(&self, file: &NamesFile) {
        self.0.forget(file.0.id);
    }

    /// Returns the pages.
    pub(crate) fn pages(&self) -> &PageCache {
        &self.0
    }
}

/// An open names file.
pub struct NamesFile(Parts);

impl NamesFile {
    /// Opens a file. Reads header, trailer, directory and filter only.
    ///
    /// # Errors
    /// If the file is damaged, is of another version, or cannot be read.
    pub fn open(name: &str, file: Arc<dyn File>) -> Result<NamesFile, Error> {
        Parts::open(name, file).map(NamesFile)
    }

    /// Returns the parts.
    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.0.reader.name
    }

    /// Returns the origin of the file.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Returns the length of the file in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a file is never empty")]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Returns the numbers of all sources in the file.
    pub fn sources(&self) -> &RoaringBitmap {
        self.0.sources()
    }

    /// Returns the memory used, in bytes, about.
    pub fn memory(&self) -> usize {
        size_of::<NamesFile>() + self.0.directory.memory() + self.0.filter.memory()
    }

    /// Returns the hash of a canonical name ([`SourceKey::put_name`]).
    pub fn hash(&self, name: &[u8]) -> u64 {
        hash_name(self.0.origin.seed, name)
    }

    /// Returns false if no source of the file has a canonical name with this hash.
    pub fn may_have(&self, hash: u64) -> bool {
        self.0.filter.may_have(stored_bits(hash))
    }

    /// Returns the number of the source with a canonical name.
    ///
    /// # Errors
    /// If a page is damaged or cannot be read.
    pub fn find(&self, cache: &Cache, name: &[u8]) -> Result<Option<u32>, Error> {
        self.0.find(&cache.0, name)
    }

    /// Returns the key of a source; `None` if the file does not have the source.
    ///
    /// # Errors
    /// If a page is damaged or cannot be read.
    pub fn key(&self, cache: &Cache, source: u32) -> Result<Option<SourceKey>, Error> {
        self.0.key(&cache.0, source)
    }

    /// Returns the sources whose key meets a selector.
    ///
    /// # Errors
    /// If a page is damaged or cannot be read.
    pub fn select(&self, cache: &Cache, selector: &Selector) -> Result<RoaringBitmap, Error> {
        Selection::new(&self.0, &cache.0).select(selector)
    }

    /// Returns the measurements of the sources that are in `among`, sorted.
    ///
    /// # Errors
    /// If a page is damaged or cannot be read.
    pub fn measurements(&self, cache: &Cache, among: &RoaringBitmap) -> Result<Vec<String>, Error> {
        Values::new(&self.0, &cache.0, among).measurements()
    }

    /// Returns the names of the tags of the sources that are in `among`, sorted.
    ///
    /// # Errors
    /// If a list of sources is damaged or cannot be read.
    pub fn tag_names(&self, cache: &Cache, among: &RoaringBitmap) -> Result<Vec<String>, Error> {
        Values::new(&self.0, &cache.0, among).tag_names()
    }

    /// Returns the first `limit` values of a tag, in the order of their bytes, of the sources that are in `among`.
    ///
    /// # Errors
    /// If a page is damaged or cannot be read.
    pub fn tag_values(
        &self,
        cache: &Cache,
        tag: &str,
        among: &RoaringBitmap,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        Values::new(&self.0, &cache.0, among).tag_values(tag, limit)
    }

    /// Reads everything. Verifies all checksums, and that every source is found by its name, its number and its tags.
    ///
    /// # Errors
    /// If the file is damaged or cannot be read.
    pub fn check(&self) -> Result<(), Error> {
        check(&self.0)
    }
}
