//! Names, layouts and rules in the catalog.

use crate::bytes::{Cursor, Short};
use crate::catalog::{
    self, Catalog, NamesAhead, Registers, check_known, decode_ahead, get_name, malformed, not_free,
};
use crate::dictionary::filed::disk_bytes;
use crate::dictionary::layouts::Layouts;
use crate::error::Error;
use crate::head::{Head, NotAdded};
use crate::opened::Parts;
use crate::recover::filed::open_files;
use crate::status::Recovery;
use crate::volume::{SlotState, Volume};
use roaring::RoaringBitmap;
use seiner_model::SourceKey;
use seiner_platform::{Clock, Disk};
use std::hash::BuildHasher;

pub(super) fn read_catalog(
    disk: &dyn Disk,
    volume: &dyn Volume,
    clock: &dyn Clock,
    parts: &mut Parts,
    recovery: &mut Recovery,
) -> Result<Catalog, Error> {
    let Some(read) = catalog::read(disk)? else {
        if volume
            .list()?
            .iter()
            .any(|(_, slot)| *slot != SlotState::Open(0))
        {
            return Err(Error::Damage {
                file: catalog::NAME.to_string(),
                offset: 0,
                what: "it is missing, and there are segments; put it back from a copy of the directory".to_string(),
            });
        }
        parts.head.set_files(Vec::new());
        let store = foldhash::fast::FixedState::default().hash_one(clock.now());
        return Catalog::create(disk, store);
    };
    let open = Catalog::open(disk, &read)?;
    let files = open_files(disk, &open, recovery)?;
    parts.log.space.note_names(disk_bytes(&files, disk.unit()));
    parts.head.set_files(files);
    for &(file, offset) in &read.damaged {
        let what = "damaged; mended from its other copy".to_string();
        recovery
            .set_aside
            .push((format!("{file}, offset {offset}"), what));
    }
    parts.head.make_space(read.sources());
    let seed = parts.head.names().seed();
    decode_ahead(read.living_frames(), seed, |frames| {
        catalog::register(frames, parts, &mut |offset, what| {
            let place = format!("{}, offset {offset}", catalog::NAME);
            recovery.set_aside.push((place, what));
        });
    });
    let Parts { head, log, .. } = parts;
    head.note_catalogued();
    for (source, rows) in log.retention.pasts() {
        head.had(source, rows);
    }
    head.begin_blocks_at(log.retention.next_block());
    Ok(open)
}

/// Describes a second registration of a source.
fn twice(head: &Head, number: u32) -> String {
    let dictionary = head.dictionary().read();
    let dictionary = dictionary.expect("no panic while the dictionary is locked");
    let key = dictionary.key(number);
    let key = key.map_or_else(String::new, |key| key.to_string());
    format!("{key} is registered twice, first as source {number}")
}

impl Registers for Parts {
    fn sources(&self) -> u32 {
        self.head.sources()
    }

    fn layouts(&mut self) -> &mut Layouts {
        self.head.layouts_mut()
    }

    fn add_source(&mut self, key: &SourceKey) -> Result<(), String> {
        self.head
            .add_source(key)
            .map_err(|number| twice(&self.head, number))
    }

    fn add_names(
        &mut self,
        names: &mut Cursor<'_>,
        count: u32,
        ahead: &NamesAhead,
    ) -> Result<(), String> {
        let first = self.head.sources();
        let left = count - ahead.names().len() as u32;
        let added = self.head.add_read(ahead, names, get_name);
        let added = added.and_then(|()| self.head.add_names(names, left, get_name));
        self.head.file_found(first);
        added.map_err(|error| match error {
            NotAdded::Malformed => malformed("names"),
            NotAdded::Twice(number) => twice(&self.head, number),
        })
    }

    fn add_free(&mut self, tags: usize) {
        self.head.add_free(tags);
    }

    fn forget(&mut self, sources: &RoaringBitmap) -> Result<(), String> {
        check_known(sources, self.head.sources())?;
        self.head.forget(sources);
        self.log.retention.forget_sources(sources);
        Ok(())
    }

    fn know_before(&mut self, sequence: u64) {
        self.head.know_before(sequence);
    }

    fn reuse(&mut self, source: u32, first_record: u64, key: &SourceKey) -> Result<(), String> {
        match self.head.reuse(source, first_record, key) {
            true => Ok(()),
            false => Err(not_free(source, key)),
        }
    }

    fn link(&mut self, source: u32, layout: u32) {
        // A layout that extends a lost layout would be lost, too.
        let lost = self
            .head
            .layouts()
            .get(layout)
            .is_none_or(|layout| layout.is_lost());
        self.head.relink(source, if lost { 0 } else { layout });
    }

    fn record_dead(&mut self, dead: &[u8]) -> Result<(), Short> {
        self.log.retention.read_records(dead)
    }
}
