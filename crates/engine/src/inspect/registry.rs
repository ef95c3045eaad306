//! Registry: the sources and layouts in catalog and journal, read without opening the store.

use crate::bytes::{Cursor, Short};
use crate::catalog::{
    self, LOST, ReadCatalog, ReadFrame, Registers, check_known, get_key, get_layout, not_free,
    register_reused,
};
use crate::dictionary::Dictionary;
use crate::dictionary::layouts::{Layout, Layouts};
use crate::dictionary::names::Names;
use crate::error::Error;
use crate::journal::record::JournalRecord;
use crate::retention::records::check_records;
use roaring::RoaringBitmap;
use seiner_model::{FieldType, SourceKey};
use seiner_platform::Disk;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Sources and layouts by their numbers.
pub struct Registry {
    pub dictionary: Dictionary,
    names: Names,
    pub layouts: Layouts,
    /// Layout number of each source.
    links: Vec<u32>,
    /// First record of the journal with names that the catalog may not contain.
    known_before: u64,
}

impl Registry {
    /// Creates a registry that contains only the empty layout.
    pub fn new() -> Registry {
        Registry {
            dictionary: Dictionary::default(),
            #[allow(clippy::disallowed_methods, reason = "no output depends on the key")]
            names: Names::new(RandomState::new().hash_one(())),
            layouts: Layouts::new(),
            links: Vec::new(),
            known_before: 0,
        }
    }

    /// Reads the valid frames of a catalog. Errors of other frames are passed to `damage` with
    /// their offsets.
    pub fn read(
        frames: impl Iterator<Item = ReadFrame>,
        damage: &mut dyn FnMut(u64, String),
    ) -> Registry {
        let mut registry = Registry::new();
        catalog::register(frames, &mut registry, damage);
        registry
    }

    /// Returns the number of sources.
    pub fn sources(&self) -> u32 {
        self.links.len() as u32
    }

    /// Returns the layout of a source.
    pub fn layout_of(&self, source: u32) -> Option<&Arc<Layout>> {
        self.layouts.get(*self.links.get(source as usize)?)
    }

    /// Returns the number of the layout with these fields.
    pub fn find_layout(&self, fields: &[(String, FieldType)]) -> Option<u32> {
        self.layouts.find(fields)
    }

    /// Returns a layout, unless its description is lost.
    pub fn layout(&self, number: u32) -> Option<&Arc<Layout>> {
        self.layouts.get(number).filter(|layout| !layout.is_lost())
    }

    /// Returns whether the layout of a source equals or extends `layout`. Only then does the source
    /// have the columns of `layout`. A forgotten source has only dead blocks, of any layout.
    pub fn reaches(&self, source: u32, layout: u32) -> bool {
        if self.dictionary.is_absent(source) {
            return true;
        }
        let mut at = self.links.get(source as usize).copied();
        while let Some(number) = at {
            if number == layout {
                return true;
            }
            at = if number == 0 {
                None
            } else {
                self.layouts.get(number).map(|layout| layout.parent())
            };
        }
        false
    }

    /// Assigns a layout to a source.
    pub fn link(&mut self, source: u32, layout: u32) -> Result<(), Short> {
        if layout as usize >= self.layouts.len() {
            return Err(Short);
        }
        *self.links.get_mut(source as usize).ok_or(Short)? = layout;
        Ok(())
    }

    /// Adds the registrations of the journal record with a sequence. Registrations that the catalog already contains
    /// must be identical, unless it may have forgotten them.
    pub fn add_record(&mut self, sequence: u64, record: &JournalRecord) -> Result<(), String> {
        let is_known = sequence < self.known_before;
        let mut names = Cursor(&record.streams[0]);
        if record.new_sources > 0 && record.first_source > u64::from(self.sources()) {
            return Err(format!(
                "its first source is {}, {} was expected",
                record.first_source,
                self.sources()
            ));
        }
        for number in (0..record.new_sources).map(|index| record.first_source + index) {
            let key = get_key(&mut names).map_err(|Short| "its names are malformed".to_string())?;
            let number = number as u32;
            if number >= self.sources() {
                self.add_source(&key)?;
            } else if !is_known
                && !self.dictionary.is_absent(number)
                && self
                    .dictionary
                    .key(number)
                    .is_none_or(|known| known != key && known.measurement() != LOST)
            {
                return Err(format!(
                    "it names source {number} {key}, the catalog otherwise"
                ));
            }
        }
        if !is_known {
            register_reused(names.0, self)?;
        }
        let mut layouts = Cursor(&record.streams[1]);
        if record.new_layouts > 0 && record.first_layout > self.layouts.len() as u64 {
            let what = format!(
                "its first layout is {}, {} was expected",
                record.first_layout,
                self.layouts.len()
            );
            self.layouts
                .lose(u32::try_from(record.first_layout).unwrap_or(0));
            return Err(what);
        }
        for _ in 0..record.new_layouts {
            get_layout(&mut layouts, &mut self.layouts)
                .map_err(|Short| "its layouts are malformed".to_string())?;
        }
        if layouts.is_empty() {
            Ok(())
        } else {
            Err("its streams are malformed".to_string())
        }
    }
}

impl Registers for Registry {
    fn sources(&self) -> u32 {
        Registry::sources(self)
    }

    fn layouts(&mut self) -> &mut Layouts {
        &mut self.layouts
    }

    fn add_source(&mut self, key: &SourceKey) -> Result<(), String> {
        let (number, new) = self.dictionary.intern(&mut self.names, key);
        if !new {
            return Err(format!(
                "{key} is registered twice, first as source {number}"
            ));
        }
        self.links.push(0);
        Ok(())
    }

    fn add_free(&mut self, tags: usize) {
        self.dictionary.add_free(tags);
        self.links.push(0);
    }

    fn forget(&mut self, sources: &RoaringBitmap) -> Result<(), String> {
        check_known(sources, Registry::sources(self))?;
        for source in sources {
            self.dictionary.erase(&mut self.names, source);
            self.links[source as usize] = 0;
        }
        Ok(())
    }

    fn know_before(&mut self, sequence: u64) {
        self.known_before = sequence.max(self.known_before);
    }

    fn reuse(&mut self, source: u32, _: u64, key: &SourceKey) -> Result<(), String> {
        let put = self.dictionary.put_at(&mut self.names, source, key);
        let is_there = put.is_some_and(|(number, _)| number == source);
        match is_there {
            true => {
                self.links[source as usize] = 0;
                Ok(())
            }
            false => Err(not_free(source, key)),
        }
    }

    fn link(&mut self, source: u32, layout: u32) {
        self.links[source as usize] = layout;
    }

    fn record_dead(&mut self, dead: &[u8]) -> Result<(), Short> {
        check_records(dead, Registry::sources(self))
    }
}

/// Reads the catalog of a disk.
///
/// # Errors
/// If there is no catalog, or its header is damaged.
pub fn open_catalog(disk: &dyn Disk) -> Result<ReadCatalog, Error> {
    catalog::read(disk)?
        .ok_or_else(|| Error::Options("there is no store here: there is no catalog".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::put_reused;
    use crate::journal::record::JournalRecord;

    /// Regression: the record looked malformed, and the rest of the journal was set aside.
    #[test]
    fn a_record_may_name_a_source_that_the_catalog_forgot_and_registered_again() {
        let key = |name: &str| SourceKey::new(name, [("a", "b")]).unwrap();
        let mut registry = Registry::new();
        for name in ["old", "other"] {
            registry.add_source(&key(name)).unwrap();
        }
        let mut names = Vec::new();
        let tags = [(&b"a"[..], &b"b"[..])];
        put_reused(0, 15, (b"new", tags.into_iter()), &mut names);
        let record = JournalRecord {
            streams: [names, vec![], vec![], vec![], vec![], vec![], vec![]],
            ..JournalRecord::default()
        };
        let forget = |registry: &mut Registry, sequence| {
            registry.forget(&RoaringBitmap::from_iter([0])).unwrap();
            registry.know_before(sequence);
        };
        forget(&mut registry, 15);
        // The catalog knows the source under the number of the record.
        registry.reuse(0, 15, &key("new")).unwrap();
        registry.add_record(16, &record).unwrap();
        // It has forgotten the source, and the name returned.
        forget(&mut registry, 17);
        registry.add_source(&key("new")).unwrap();
        registry.add_record(16, &record).unwrap();
        assert!(registry.dictionary.is_absent(0));
        // Another source has the number.
        registry.reuse(0, 20, &key("third")).unwrap();
        registry.add_record(16, &record).unwrap();
        assert!(registry.add_record(17, &record).is_err(), "it is not known");
    }
}
