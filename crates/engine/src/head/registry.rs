//! Registration: numbers sources and layouts, and passes them to the journal and the catalog.

use super::Head;
use crate::catalog::{Frame, lost_keys, put_key, put_layout, put_link, put_reused};
use crate::dictionary::filed::Filed;
use crate::dictionary::names::NameHash;
use crate::dictionary::{Dictionary, put_canonical};
use crate::error::Reason;
use crate::memory;
use crate::retention::Retention;
use roaring::RoaringBitmap;
use seiner_model::{FieldType, LevelId, Notation, SourceKey, Value};
use seiner_names::NamesFile;
use std::sync::Arc;

/// Contents of a frame of the catalog, compared with all pending records at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The frame should be extended.
    Part,
    /// The frame has its maximum length and should be written.
    Full,
    /// The frame contains all pending records and should be written.
    Complete,
}

/// Approximate bytes of names that are added to a catalog frame under one lock.
const FRAME_PART: usize = 16 << 10;
/// Fraction of the memory for pages of names files, and the maximum in bytes.
const CACHE_SHARE: u64 = 32;
const CACHE_BYTES: u64 = 32 << 20;
/// Links of sources with new layouts that are added under one lock.
const LINKS_A_PART: usize = 1024;

impl Head {
    /// Returns the source of a key, and registers the source if it is new.
    pub fn register(
        &mut self,
        dictionary: &mut Dictionary,
        key: &SourceKey,
    ) -> Result<u32, Reason> {
        let mut name = Vec::with_capacity(64);
        let hash = put_canonical(self.names.seed(), key, &mut name);
        self.register_named(dictionary, key, &name, hash)
    }

    /// Does the same as [`Head::register`] with the canonical name of the key and its hash.
    pub fn register_named(
        &mut self,
        dictionary: &mut Dictionary,
        key: &SourceKey,
        name: &[u8],
        hash: NameHash,
    ) -> Result<u32, Reason> {
        if self.registry_full {
            return self.names.find(hash).ok_or(Reason::TooManySources);
        }
        let (source, new) = dictionary.intern_named(&mut self.names, key, name, hash);
        match new {
            true => self.note_source(dictionary, source),
            false => self.touch(dictionary, source),
        }
        Ok(source)
    }

    /// Returns the source of an unknown name.
    pub fn register_name(
        &mut self,
        dictionary: &mut Dictionary,
        notation: &dyn Notation,
        name: &[u8],
        hash: NameHash,
    ) -> Result<u32, Reason> {
        if notation.id() == SourceKey::NOTATION
            && !self.registry_full
            && let Some((source, new)) = dictionary.intern_name(&mut self.names, name, hash)
        {
            match new {
                true => self.note_source(dictionary, source),
                false => self.touch(dictionary, source),
            }
            return Ok(source);
        }
        let key = notation.source_key(name)?;
        let source = self.register(dictionary, &key)?;
        // The canonical name already belongs to the source.
        if self.names.find(hash).is_none() {
            self.names.insert_other(hash, source);
            self.touch(dictionary, source);
        }
        Ok(source)
    }

    /// Allocates memory for a source that was just registered, and adds it to the journal.
    fn note_source(&mut self, dictionary: &Dictionary, source: u32) {
        let is_level = dictionary.is_level(source);
        self.members.put(source, is_level, || {
            dictionary
                .key(source)
                .expect("the source was just registered")
        });
        self.position += 1;
        if source < self.sources() {
            self.counters.reused += 1;
            let first_record = self.forgetting.first_record;
            return self.record_again(dictionary, source, first_record);
        }
        self.buffers.add_source();
        if self.journalled {
            if self.staging.new_sources == 0 {
                self.staging.first_source = u64::from(source);
            }
            self.staging.new_sources += 1;
            put_key(dictionary.texts(source), &mut self.staging.names);
        }
    }

    /// Adds a source to journal and catalog whose number is known there without a name.
    pub(super) fn record_again(&mut self, dictionary: &Dictionary, source: u32, first_record: u64) {
        self.forgetting.reused.insert(source, first_record);
        if self.journalled {
            let texts = dictionary.texts(source);
            put_reused(source, first_record, texts, &mut self.staging.reused);
        }
    }

    /// Returns the layout with one more field, and adds it to the journal if it is new.
    pub(super) fn extend_layout(&mut self, parent: u32, name: &str, value: &Value<'_>) -> u32 {
        let (number, new) = self.layouts.extend(parent, name, value.field_type());
        if new && self.journalled {
            if self.staging.new_layouts == 0 {
                self.staging.first_layout = u64::from(number);
            }
            self.staging.new_layouts += 1;
            let layout = self
                .layouts
                .get(number)
                .expect("the layout was just added")
                .clone();
            put_layout(&layout, &mut self.staging.layouts);
        }
        number
    }

    /// Assigns another layout to a source, whose open block must be sealed.
    pub fn relink(&mut self, source: u32, layout: u32) {
        let before = self.buffers.layout(source);
        let columns = |number: u32| {
            self.layouts
                .get(number)
                .map_or(0, |layout| layout.columns()) as u64
        };
        // Columns of levels are not series.
        if !self.members.is_level(source) {
            self.series += columns(layout).saturating_sub(columns(before));
        }
        self.buffers.set_layout(source, layout);
        if source < self.catalogued.0 {
            self.relinked.push(source);
        }
    }

    /// Returns the source's layout, if the field is its only one.
    pub fn only_layout(&self, source: u32, field: &str, field_type: FieldType) -> Option<u32> {
        let layout = self.layouts.get(self.buffers.layout(source))?;
        layout
            .is_only(field.as_bytes(), field_type)
            .then(|| layout.number())
    }

    /// Returns whether a source has a single column, which is not a text.
    pub fn has_one_number(&self, source: u32) -> bool {
        self.layouts.is_number(self.buffers.layout(source))
    }

    /// Returns the existing levels of a source with their numbers, ordered by step.
    pub fn levels_of(&self, source: u32) -> Vec<(LevelId, u32)> {
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        dictionary.levels_of(&self.names, source)
    }

    /// Extends a frame by a part of the records that are not yet in the catalog. If the frame
    /// cannot be written, later frames cannot be written either.
    pub fn extend_catalog_frame(&mut self, retention: &mut Retention, frame: &mut Frame) -> Extent {
        let dictionary = self
            .dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        let (sources, layouts) = self.catalogued;
        if frame.is_empty() {
            (frame.first_source, frame.first_layout) = (sources, layouts);
        }
        assert_eq!(
            frame.first_source + frame.sources,
            sources,
            "parts follow each other"
        );
        let limit = memory::frame_limit(&self.options);
        let part = limit.min(frame.names.len() + frame.reused.len() + FRAME_PART);
        if frame.is_empty() {
            // Names in the same frame may be those of sources that are forgotten.
            self.forgetting.move_recorded(frame);
        }
        let mut names = dictionary.reader();
        for source in sources..dictionary.len() as u32 {
            if frame.names.len() >= part {
                break;
            }
            put_key(names.texts(source), &mut frame.names);
            frame.sources += 1;
            put_link(source, self.buffers.layout(source), &mut frame.links);
        }
        while frame.names.len() + frame.reused.len() < part
            && let Some((source, first_record)) = self.forgetting.reused.pop_first()
        {
            let texts = dictionary.texts(source);
            put_reused(source, first_record, texts, &mut frame.reused);
            put_link(source, self.buffers.layout(source), &mut frame.links);
        }
        let is_last = self.forgetting.reused.is_empty()
            && frame.first_source + frame.sources == dictionary.len() as u32;
        for number in layouts..self.layouts.len() as u32 {
            put_layout(
                self.layouts
                    .get(number)
                    .expect("the numbers of layouts have no gaps"),
                &mut frame.layouts,
            );
            frame.new_layouts += 1;
        }
        // A link follows the name of its source.
        let first = match self.forgetting.reused.is_empty() {
            true => self.relinked.len().saturating_sub(LINKS_A_PART),
            false => self.relinked.len(),
        };
        let mut relinked = self.relinked.split_off(first);
        relinked.sort_unstable();
        relinked.dedup();
        for source in relinked {
            put_link(source, self.buffers.layout(source), &mut frame.links);
        }
        let adds = frame.sources > 0 || frame.new_layouts > 0;
        if adds || retention.has_pending() {
            retention.note_ledger();
        }
        let is_last = is_last && self.relinked.is_empty();
        // These may belong to sources in the next frame.
        if is_last {
            frame.dead = retention.take_pending();
        }
        self.catalogued = (
            frame.first_source + frame.sources,
            frame.first_layout + frame.new_layouts,
        );
        self.frame_waits = !frame.is_empty();
        if is_last {
            self.relinked = Vec::new();
        }
        match is_last {
            true => Extent::Complete,
            false if frame.names.len() + frame.reused.len() >= limit => Extent::Full,
            false => Extent::Part,
        }
    }

    /// Returns the number of sources in frames of the catalog.
    pub fn catalogued_sources(&self) -> u32 {
        self.catalogued.0
    }

    /// Returns those of the first `known` sources whose names are in memory and stay the same until the catalog is
    /// written again.
    pub fn unfiled(&self, known: u32) -> RoaringBitmap {
        let mut sources = RoaringBitmap::new();
        sources.insert_range(0..known);
        sources -= self.members.absent();
        self.forgetting.retain_catalogued(&mut sources);
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        sources -= dictionary.filed().sources();
        sources
    }

    /// Sets the names files that a start found, before it adds names.
    pub fn set_files(&mut self, files: Vec<Arc<NamesFile>>) {
        let cache = (self.options.memory / CACHE_SHARE).min(CACHE_BYTES);
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        *dictionary.filed_mut() = Filed::new(files, cache as usize);
    }

    /// Removes the tags of the sources from a number on from memory that are in names files, and their names if these
    /// leave too little memory.
    pub fn file_found(&mut self, first: u32) {
        let lock = self.dictionary.clone();
        let mut lock = lock.write();
        let dictionary = lock
            .as_mut()
            .expect("no panic while the dictionary is locked");
        if dictionary.filed().files().is_empty() {
            return;
        }
        let mut found = RoaringBitmap::new();
        found.insert_range(first..self.buffers.sources() as u32);
        let filed = dictionary.filed().in_files(&found);
        filed.iter().for_each(|source| dictionary.file(source));
        drop(lock);
        if self.should_more_leave() {
            for source in filed {
                if self.names.has_canonical(source) {
                    self.names.remove(source);
                }
            }
        }
    }

    /// Puts names and tags of filed sources into memory again. Each key is that of its source.
    pub fn unfile(&mut self, keys: &[(u32, SourceKey)]) {
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        for (source, key) in keys {
            dictionary.unfile(&mut self.names, *source, key);
        }
    }

    /// Puts sources into memory again whose names are lost, under names that state their numbers. Rows with a lost name are
    /// those of a new source from now on.
    pub fn unfile_lost(&mut self, sources: &RoaringBitmap) {
        let mut dictionary = self.dictionary.write();
        let dictionary = dictionary
            .as_mut()
            .expect("no panic while the dictionary is locked");
        for source in sources {
            let [usual, other] = lost_keys(source);
            let key = match dictionary.find(&self.names, &usual) {
                None => usual,
                Some(_) => other,
            };
            if self.names.has_canonical(source) {
                self.names.remove(source);
            }
            dictionary.unfile(&mut self.names, source, &key);
        }
    }

    /// Returns the sources in names files.
    pub fn filed(&self) -> Filed {
        let dictionary = self.dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        dictionary.filed().clone()
    }

    /// Returns whether any source is dormant: a name that is not in memory may be its name.
    pub fn has_dormant(&self) -> bool {
        self.filed_sources().1 > 0
    }

    /// Keeps a dormant source that is used again, and adds its names if they have space. `hash` is the hash of the
    /// canonical name, `other` that of the name by which the source was searched for.
    pub fn recall(&mut self, source: u32, hash: NameHash, other: NameHash) {
        let dictionary = self.dictionary.clone();
        let dictionary = dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        self.touch(&dictionary, source);
        let is_dormant = dictionary.is_dormant(&self.names, source);
        self.counters.recalled += u64::from(is_dormant);
        if self.registry_full {
            return;
        }
        if is_dormant {
            self.names.insert(hash, source);
        }
        if self.names.find(other).is_none() {
            self.names.insert_other(other, source);
        }
    }

    /// Begins to note which sources are idle, with the sources from `cursor` on. Returns the next cursor, unless all
    /// sources were examined.
    pub fn add_idle(&mut self, cursor: u32) -> Option<u32> {
        self.idle.add(cursor, self.sources(), &self.names)
    }

    /// Returns whether a source began no block since [`Head::add_idle`], and had no row for `ticks`.
    fn is_idle(&self, source: u32, ticks: u16) -> bool {
        let open = self.buffers.state(source);
        let rests = open.rows == 0 || self.tick.wrapping_sub(open.touched) >= ticks;
        rests && self.idle.sources().contains(source)
    }

    /// Returns those of some sources that may be idle.
    pub fn noted_idle(&self, mut sources: RoaringBitmap) -> RoaringBitmap {
        sources &= self.idle.sources();
        sources
    }

    /// Returns those of some sources that had no row for `ticks`. The others are not idle any more.
    pub fn take_idle(&mut self, sources: Vec<u32>, ticks: u16) -> Vec<u32> {
        let (idle, used): (Vec<u32>, Vec<u32>) = sources
            .into_iter()
            .partition(|source| self.is_idle(*source, ticks));
        used.into_iter().for_each(|source| self.idle.remove(source));
        idle
    }

    /// Removes names of idle sources, from the number `cursor` on: canonical names if the source is filed, and all others.
    /// Returns the next cursor, unless all names were examined.
    pub fn remove_idle_names(&mut self, cursor: u32, ticks: u16) -> Option<u32> {
        let mut found = Vec::new();
        let next = self.idle.list(cursor, &self.names, &mut found);
        self.remove_if_idle(&found, ticks);
        next
    }

    /// Removes names, given as pairs of source and number, as [`Head::remove_idle_names`] does.
    pub fn remove_if_idle(&mut self, names: &[(u32, u32)], ticks: u16) {
        let dictionary = self.dictionary.clone();
        let dictionary = dictionary.read();
        let dictionary = dictionary.expect("no panic while the dictionary is locked");
        let filed = dictionary.filed().sources();
        for &(source, number) in names {
            let can_leave = match number == source {
                true => filed.contains(source) && self.names.has_canonical(source),
                false => true,
            };
            if can_leave && self.is_idle(source, ticks) {
                self.names.remove(number);
            }
        }
    }

    /// Ends noting which sources are idle.
    pub fn clear_idle(&mut self) {
        self.idle.clear();
    }

    /// Records that the last frame is in the catalog.
    pub fn note_frame_written(&mut self) {
        self.frame_waits = false;
    }

    /// Returns whether any name or layout is not yet in the catalog.
    pub fn has_new_names(&self) -> bool {
        let (sources, layouts) = self.catalogued;
        self.frame_waits
            || !self.forgetting.reused.is_empty()
            || (sources as usize) < self.buffers.sources()
            || (layouts as usize) < self.layouts.len()
    }
}
