//! Dictionary: the sources of a store, found by name or by tags, with their columns.
//!
//! Designed for millions of sources whose tag values may all be unique. A tag with its value is a
//! *pair*, stored once. A source is a list of pair numbers. A pair lists its sources, inline if it
//! has only one. [`Dictionary::memory`] returns the cost.
//!
//! [`Names`] maps the canonical name of every source to its number. The methods here therefore take
//! names and dictionary together.
//!
//! A source is forgotten in steps: [`Dictionary::hide`] removes it from all answers,
//! [`Dictionary::remove`] removes its key, and [`Dictionary::release`] leaves its number to a new source
//! when nothing refers to it any more.

mod canonical;
mod directory;
pub mod filed;
mod free;
mod hashes;
pub mod layouts;
mod lists;
mod name_hash;
pub mod names;
mod pages;
mod pairs;
mod reader;
mod select;
mod sources;
pub mod spelling;
mod table;

use filed::Filed;
use free::Free;
use lists::PairLists;
use names::{NameHash, Names, hash_name};
use pairs::Pairs;
use reader::NameReader;
use roaring::RoaringBitmap;
use seiner_model::{LevelId, SourceKey};
use spelling::{Piece, Spelling};

/// Tag name under which pairs store the measurement. No tag has this name, because empty names are
/// rejected.
const MEASUREMENT: &str = "";

/// Notation of canonical names with backslashes. No other notation has this number: a line may
/// write the same bytes and mean another source.
const ESCAPED_NOTATION: u32 = 0;

/// Sources, by number.
#[derive(Default)]
pub struct Dictionary {
    pairs: Pairs,
    /// Pair numbers of each source: the measurement, then the tags in order. None if the number is
    /// free.
    members: PairLists,
    /// Numbers that a new source may get.
    free: Free,
    /// Sources that are hidden or removed.
    absent: RoaringBitmap,
    /// Sources whose pairs are in names files instead.
    filed: Filed,
    /// Pair numbers of the source that is being registered.
    fresh: Vec<u32>,
    /// Spelling of the name of `spelled`.
    spelling: Spelling,
    /// Source whose pairs are the pieces of `spelling`, if the spelling has any.
    spelled: u32,
    /// Pairs of `spelled`.
    pieces: Vec<u32>,
}

impl Dictionary {
    /// Returns the number of the source with this key, and whether the source is new. Registers a
    /// new source.
    pub fn intern(&mut self, names: &mut Names, key: &SourceKey) -> (u32, bool) {
        let (name, hash) = canonical(names.seed(), key);
        self.intern_named(names, key, &name, hash)
    }

    /// Does the same as [`Dictionary::intern`] with the canonical name of the key and its hash.
    pub fn intern_named(
        &mut self,
        names: &mut Names,
        key: &SourceKey,
        name: &[u8],
        hash: NameHash,
    ) -> (u32, bool) {
        if let Some(source) = names.find(hash) {
            return (source, false);
        }
        let added = self.add_name(names, name, hash);
        let source = added.unwrap_or_else(|| {
            self.list_pairs(key);
            self.add(names, hash)
        });
        (source, true)
    }

    /// Lists the pairs of a key in `fresh`.
    fn list_pairs(&mut self, key: &SourceKey) {
        self.fresh.clear();
        let measurement = [(MEASUREMENT, key.measurement())];
        for (tag, value) in measurement.into_iter().chain(key.tags()) {
            let pair = self.pairs.intern(tag.as_bytes(), value.as_bytes(), None);
            self.fresh.push(pair);
        }
    }

    /// Registers a source under the number of a forgotten one, unless the key has a number. Returns the number of the key,
    /// and whether it is new. Returns `None` if a source has the number, or if it has no place for as many tags.
    pub fn put_at(
        &mut self,
        names: &mut Names,
        source: u32,
        key: &SourceKey,
    ) -> Option<(u32, bool)> {
        let hash = canonical(names.seed(), key).1;
        if let Some(known) = names.find(hash) {
            return Some((known, false));
        }
        if self.is_dormant(names, source) {
            return self.has_filed(source, key).then_some((source, false));
        }
        let fits = self.absent.contains(source)
            && self.members.get(source).is_empty()
            && key.tags().len() < self.members.capacity(source);
        fits.then(|| {
            self.list_pairs(key);
            self.free.remove(source, self.members.capacity(source));
            self.take_number(source);
            self.link(names, source, hash);
            (source, true)
        })
    }

    /// Returns whether a source is present and its canonical name is not in memory.
    pub fn is_dormant(&self, names: &Names, source: u32) -> bool {
        self.filed.sources().contains(source) && !names.has_canonical(source)
    }

    /// Returns whether a filed source has a key. The catalog is right about a file that cannot be read.
    fn has_filed(&self, source: u32, key: &SourceKey) -> bool {
        match self.filed.key(source) {
            Ok(filed) => filed.as_ref() == Some(key),
            Err(_) => true,
        }
    }

    /// Adds a number without a source, for a source with up to `tags` tags.
    pub fn add_free(&mut self, tags: usize) {
        let source = self.members.len() as u32;
        self.members.push(&vec![u32::MAX; tags + 1]);
        self.absent.insert(source);
    }

    /// Returns the number of the source with this key, if it is registered.
    pub fn find(&self, names: &Names, key: &SourceKey) -> Option<u32> {
        names.find(canonical(names.seed(), key).1)
    }

    /// Returns the number of the source with an unknown name, and whether the source is new,
    /// without decoding its key. Registers a new source. Returns `None` for names that need their
    /// key: names that contain a backslash, and names that differ from the canonical name in more
    /// than the order of their tags.
    pub fn intern_name(
        &mut self,
        names: &mut Names,
        name: &[u8],
        hash: NameHash,
    ) -> Option<(u32, bool)> {
        if let Some(source) = self.add_name(names, name, hash) {
            return Some((source, true));
        }
        let sorted = spelling::sorted(name)?;
        let sorted_hash = hash_name(names.seed(), SourceKey::NOTATION, &sorted);
        let (source, new) = match names.find(sorted_hash) {
            Some(source) => (source, false),
            None => (self.add_name(names, &sorted, sorted_hash)?, true),
        };
        names.insert_other(hash, source);
        Some((source, new))
    }

    /// Returns the number of the source with a canonical name, and whether the source is new. Registers a new source.
    /// `spelled` is the result of a spelling that reads the same names: the pieces that it kept of the previous name,
    /// and the others.
    pub fn add_spelled(
        &mut self,
        names: &mut Names,
        name: &[u8],
        hash: NameHash,
        (kept, fresh): (usize, &[Piece]),
    ) -> (u32, bool) {
        if let Some(source) = names.find(hash) {
            return (source, false);
        }
        self.spelling.follow(name, kept, fresh);
        (self.add_latest(names, kept, hash), true)
    }

    /// Registers a source by its canonical name, which no source has yet, and returns its number.
    /// Returns `None` for names that are not canonical or contain a backslash.
    fn add_name(&mut self, names: &mut Names, name: &[u8], hash: NameHash) -> Option<u32> {
        let kept = self.spelling.read(name)?;
        Some(self.add_latest(names, kept, hash))
    }

    /// Registers a source by the latest name of the spelling, which has `kept` pieces in common with the previous name.
    fn add_latest(&mut self, names: &mut Names, kept: usize, hash: NameHash) -> u32 {
        self.fresh.clear();
        self.fresh.extend_from_slice(&self.pieces[..kept]);
        for index in kept..self.spelling.pieces() {
            let (tag, value) = self.spelling.piece(index);
            let like = match kept {
                0 => None,
                _ => self.pieces.get(index).copied(),
            };
            let pair = self.pairs.intern(tag, value, like);
            self.fresh.push(pair);
        }
        let source = self.add(names, hash);
        self.spelled = source;
        std::mem::swap(&mut self.pieces, &mut self.fresh);
        source
    }

    /// Registers a source with the pairs in `fresh`. A free number is used before a new one.
    fn add(&mut self, names: &mut Names, hash: NameHash) -> u32 {
        let source = match self.free.take(self.fresh.len()) {
            Some(source) => {
                self.take_number(source);
                source
            }
            None => {
                self.members.push(&self.fresh);
                self.members.len() as u32 - 1
            }
        };
        self.link(names, source, hash);
        source
    }

    /// Gives the pairs in `fresh` the number of a forgotten source.
    fn take_number(&mut self, source: u32) {
        self.members.replace(source, &self.fresh);
        self.absent.remove(source);
    }

    /// Adds a source to the lists of the pairs in `fresh`, and to the names.
    fn link(&mut self, names: &mut Names, source: u32, hash: NameHash) {
        self.list_source(source);
        names.insert(hash, source);
    }

    /// Adds a source to the lists of the pairs in `fresh`.
    fn list_source(&mut self, source: u32) {
        for &pair in &self.fresh {
            self.pairs.add_source(pair, source);
        }
    }

    /// Hides a source: no selector finds it any more.
    pub fn hide(&mut self, source: u32) {
        self.filed.remove(source);
        self.absent.insert(source);
    }

    /// Returns the sources in names files.
    pub fn filed(&self) -> &Filed {
        &self.filed
    }

    /// Returns the sources in names files, mutably.
    pub fn filed_mut(&mut self) -> &mut Filed {
        &mut self.filed
    }

    /// Removes the pairs of a source from memory, because a names file contains them.
    pub fn file(&mut self, source: u32) {
        if !self.absent.contains(source) && !self.filed.sources().contains(source) {
            self.remove(source);
            self.filed.insert(source);
        }
    }

    /// Puts the pairs and the name of a filed source into memory again. The key is its own.
    pub fn unfile(&mut self, names: &mut Names, source: u32, key: &SourceKey) {
        if self.filed.remove(source) {
            self.list_pairs(key);
            self.members.replace(source, &self.fresh);
            self.list_source(source);
            if !names.has_canonical(source) {
                names.insert(canonical(names.seed(), key).1, source);
            }
        }
    }

    /// Removes the key of a source that is hidden or filed.
    pub fn remove(&mut self, source: u32) {
        if source == self.spelled {
            self.spelling = Spelling::default();
        }
        for &pair in &*self.members.get(source) {
            self.pairs.remove_source(pair, source);
        }
        self.members.replace(source, &[]);
    }

    /// Removes a source whose only name is the canonical one.
    pub fn erase(&mut self, names: &mut Names, source: u32) {
        if !self.absent.contains(source) {
            if names.has_canonical(source) {
                names.remove(source);
            }
            self.hide(source);
            self.remove(source);
        }
    }

    /// Frees the number of a removed source: a new source may get it.
    pub fn release(&mut self, source: u32) {
        self.free.put(source, self.members.capacity(source));
    }

    /// Returns whether the values of tags take nearly the 4 GiB that they can take.
    pub fn is_full(&self) -> bool {
        self.pairs.is_full()
    }

    /// Returns whether a new source gets the number of a forgotten one.
    pub fn has_free_numbers(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns the number of sources that are not forgotten.
    pub fn present(&self) -> u64 {
        self.members.len() as u64 - self.absent.len()
    }

    /// Returns whether a source is hidden or its number is free.
    pub fn is_absent(&self, source: u32) -> bool {
        self.absent.contains(source)
    }

    /// Returns how many numbers of sources exist, including those of forgotten sources.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the key of a source, or `None` if the number is free or the source is filed.
    pub fn key(&self, source: u32) -> Option<SourceKey> {
        if source as usize >= self.members.len() {
            return None;
        }
        self.key_of(&self.members.get(source))
    }

    /// Returns the key with these pairs, or `None` if there are none.
    fn key_of(&self, pairs: &[u32]) -> Option<SourceKey> {
        let (&measurement, tags) = pairs.split_first()?;
        let tags = tags.iter().map(|&pair| self.pairs.text(pair));
        // Only keys are interned.
        let measurement = self.pairs.text(measurement).1;
        Some(SourceKey::recorded(measurement, tags))
    }

    /// Returns the measurement of a source, and its tags with their values, as bytes of UTF-8 text.
    pub fn texts(&self, source: u32) -> (&[u8], impl ExactSizeIterator<Item = (&[u8], &[u8])>) {
        let members = self.members.get(source);
        let measurement = self.pairs.bytes(members[0]).1;
        let tags = (1..members.len()).map(move |index| self.pairs.bytes(members[index]));
        (measurement, tags)
    }

    /// Returns a reader of names, for sources in about the order of their numbers.
    pub fn reader(&self) -> NameReader<'_> {
        NameReader::new(self)
    }

    /// Returns whether a source is a level of another source.
    pub fn is_level(&self, source: u32) -> bool {
        let first = self.texts(source).1.next();
        first.is_some_and(|(tag, _)| tag == SourceKey::step_tag().as_bytes())
    }

    /// Returns whether any source has a level.
    pub fn has_levels(&self) -> bool {
        self.pairs.of_tag(SourceKey::step_tag()).next().is_some()
    }

    /// Returns the existing levels of a source with their numbers, ordered by step.
    pub fn levels_of(&self, names: &Names, source: u32) -> Vec<(LevelId, u32)> {
        let Some(key) = self.key(source).filter(|_| self.has_levels()) else {
            return Vec::new();
        };
        let ids = self.pairs.of_tag(SourceKey::step_tag());
        let ids = ids.filter_map(|pair| LevelId::parse(self.pairs.text(pair).1));
        let mut found: Vec<(LevelId, u32)> = ids
            .filter_map(|id| Some((id, self.find(names, &key.level(id))?)))
            .collect();
        found.sort_unstable();
        found
    }

    /// Returns the number of sources that are not filed.
    pub fn unfiled(&self) -> u64 {
        self.present() - self.filed.sources().len()
    }

    /// Returns the memory of pairs without sources, in bytes. New pairs use it.
    pub fn spare(&self) -> usize {
        self.pairs.spare()
    }

    /// Stores the pairs of all sources in memory anew, so that those without sources take no memory.
    pub fn rebuild_pairs(&mut self) {
        let old = std::mem::take(&mut self.pairs);
        self.spelling = Spelling::default();
        let unfiled = self.all() - self.filed.sources();
        for source in unfiled {
            let list = self.members.get(source).into_owned();
            self.fresh.clear();
            for pair in list {
                let (tag, value) = old.bytes(pair);
                self.fresh.push(self.pairs.intern(tag, value, None));
            }
            self.members.replace(source, &self.fresh);
            self.list_source(source);
        }
    }

    /// Returns the memory of the names and tags that are not filed, in bytes.
    pub fn pair_bytes(&self) -> usize {
        let all = self.members.len().max(1) as u64;
        let unfiled = all - self.filed.sources().len();
        let lists = self.members.memory() as u64 * unfiled / all;
        self.pairs.memory().saturating_sub(self.pairs.spare()) + lists as usize
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.pairs.memory()
            + self.members.memory()
            + self.free.memory()
            + self.absent.serialized_size()
            + self.filed.memory()
            + (self.fresh.capacity() + self.pieces.capacity()) * 4
            + self.spelling.memory()
    }
}

/// Returns the canonical name of a key, and its hash.
fn canonical(seed: u64, key: &SourceKey) -> (Vec<u8>, NameHash) {
    let mut name = Vec::with_capacity(64);
    let hash = put_canonical(seed, key, &mut name);
    (name, hash)
}

/// Appends the canonical name of a key, and returns its hash.
pub fn put_canonical(seed: u64, key: &SourceKey, out: &mut Vec<u8>) -> NameHash {
    let start = out.len();
    key.put_name(out);
    let name = &out[start..];
    let notation = match memchr::memchr(b'\\', name) {
        Some(_) => ESCAPED_NOTATION,
        None => SourceKey::NOTATION,
    };
    hash_name(seed, notation, name)
}

#[cfg(test)]
mod tests;
