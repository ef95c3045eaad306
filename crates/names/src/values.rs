//! Lists of measurements, of the names of tags, and of their values.

use crate::cache::PageCache;
use crate::error::Error;
use crate::lists::Terms;
use crate::names::NamesCursor;
use crate::parts::Parts;
use crate::select::{KEY, MEASUREMENT};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

/// Lists of a file for the sources that are in a set.
pub struct Values<'f> {
    file: &'f Parts,
    cache: &'f PageCache,
    among: &'f RoaringBitmap,
}

impl<'f> Values<'f> {
    pub fn new(file: &'f Parts, cache: &'f PageCache, among: &'f RoaringBitmap) -> Values<'f> {
        Values { file, cache, among }
    }

    /// Returns the measurements, sorted.
    pub fn measurements(&self) -> Result<Vec<String>, Error> {
        match self.file.directory.tag(MEASUREMENT.as_bytes()) {
            Some(tag) => self.by_terms(tag, usize::MAX),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the names of the tags, sorted.
    pub fn tag_names(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let all = self.file.sources().is_subset(self.among);
        let tags = self.file.directory.tags.iter();
        for tag in tags.filter(|tag| !tag.name.is_empty()) {
            if all || !self.file.set(&tag.sources)?.is_disjoint(self.among) {
                names.push(String::from_utf8_lossy(&tag.name).into_owned());
            }
        }
        Ok(names)
    }

    /// Returns the first `limit` values of a tag.
    pub fn tag_values(&self, tag: &str, limit: usize) -> Result<Vec<String>, Error> {
        let named = Some(tag.as_bytes()).filter(|tag| !tag.is_empty());
        let Some(index) = named.and_then(|tag| self.file.directory.tag(tag)) else {
            return Ok(Vec::new());
        };
        let values = self.file.directory.tags[index as usize].values;
        match self.file.sources().intersection_len(self.among) < values / KEY {
            true => self.by_keys(tag, limit),
            false => self.by_terms(index, limit),
        }
    }

    /// Returns the first `limit` values of a tag by reading its terms.
    fn by_terms(&self, tag: u32, limit: usize) -> Result<Vec<String>, Error> {
        let mut values = Vec::new();
        let all = self.file.sources().is_subset(self.among);
        let Some(mut term) = Terms::seek(self.file, self.cache, tag, b"")? else {
            return Ok(values);
        };
        while term.cursor.tag == tag && values.len() < limit {
            if all || term.meets(self.among)? {
                values.push(term.text().into_owned());
            }
            if !term.next()? {
                break;
            }
        }
        Ok(values)
    }

    /// Returns the first `limit` values of a tag by reading the keys of the sources.
    fn by_keys(&self, tag: &str, limit: usize) -> Result<Vec<String>, Error> {
        let mut values = BTreeSet::new();
        let mut cursor = NamesCursor::default();
        for source in (self.file.sources() & self.among).iter() {
            let key = self.file.key_with(self.cache, source, &mut cursor)?;
            let value = key.tag(tag);
            if !value.is_empty() && !values.contains(value) {
                values.insert(value.to_string());
            }
        }
        Ok(values.into_iter().take(limit).collect())
    }
}
