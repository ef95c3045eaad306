//! Snapshot of a source: the state of head and log that a query needs, at one moment.
//!
//! [`Snapshot::take`] is the only part of a query that needs their locks. A hold of the locks copies a few sources: the
//! parts that writers may change, which are open buffers, the ends of blocks that are not written yet, and the rules
//! that hide rows. Sealed segments and layouts never change and are shared. Queries read a snapshot without any lock.

use crate::buffer::line::OpenBlock;
use crate::dictionary::layouts::{Layout, Layouts};
use crate::error::Error;
use crate::head::Head;
use crate::log::Log;
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use crate::segment::sealed::{Segment, read_bytes};
use crate::volume::Volume;
use seiner_model::{FieldType, Interval};
use seiner_platform::File;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Source and its levels at one moment.
pub(crate) struct Snapshot {
    /// Sealed segments, by number.
    pub sealed: Arc<BTreeMap<u64, Arc<Segment>>>,
    /// Source without its levels.
    pub own: Part,
    /// Levels that may have rows in the query's interval, with the lengths of their steps in ns,
    /// finest first.
    pub levels: Vec<(u64, Part)>,
    /// Exclusive end of the times that levels may cover, ns.
    pub levels_until: i64,
}

/// Head and log, both locked.
#[derive(Clone, Copy)]
pub(crate) struct Present<'a> {
    pub head: &'a Head,
    pub log: &'a Log,
    /// Names of segments.
    pub volume: &'a dyn Volume,
}

/// Source, or one of its levels, without the blocks in sealed segments.
#[derive(Clone)]
pub(crate) struct Part {
    /// Number of the source or level.
    pub source: u32,
    /// Layouts of its blocks.
    pub layouts: Arc<Known>,
    /// Rules that hide rows.
    pub visibility: VisibilityFilter,
    /// True for a level.
    pub is_level: bool,
    /// Blocks that are not yet encoded, oldest first.
    pub open: Vec<OpenBlock>,
    /// Blocks in segments that are not sealed, oldest first.
    pub unsealed: Vec<(Entry, BlockLocation)>,
}

/// Location of a block's bytes.
#[derive(Clone)]
pub(crate) enum BlockLocation {
    /// Segment that is being written.
    Open(Arc<Unsealed>),
    /// Sealed segment.
    Sealed(Arc<Segment>),
}

/// Location of a block in a segment that is being written.
pub(crate) struct Unsealed {
    pub(super) file: Arc<dyn File>,
    /// Number of the segment.
    pub(super) number: u64,
    /// Name of the file.
    pub(super) name: String,
    /// End of the block or of its bundle, which may not be written yet.
    pub(super) end: Arc<Vec<u8>>,
}

/// Layouts that blocks of a source can have.
pub(crate) struct Known {
    /// Present layout.
    pub present: Arc<Layout>,
    /// Number and columns of each layout that the present layout extends. These columns are the
    /// first columns of the present layout.
    earlier: Vec<(u32, usize)>,
    /// All layouts of the store, if damage destroyed some of them. A source may then have begun
    /// again with another layout.
    others: Vec<Arc<Layout>>,
}

impl Snapshot {
    /// Copies a source. Its levels are included if they may have rows in the interval.
    ///
    /// `last` keeps the layouts of the source that was copied last. Most sources of a query have the same.
    pub fn take(
        present: Present<'_>,
        source: u32,
        interval: Interval,
        last: &mut Option<Arc<Known>>,
    ) -> Snapshot {
        let levels_until = present.log.retention.levels_until(source);
        let levels = match interval.start < levels_until {
            true => present.head.levels_of(source),
            false => Vec::new(),
        };
        let level = |(id, level): (seiner_model::LevelId, u32)| {
            (id.step_ns, Part::take(present, level, last))
        };
        Snapshot {
            levels: levels.into_iter().map(level).collect(),
            levels_until,
            ..Snapshot::take_alone(present, source, last)
        }
    }

    /// Returns the bytes of rows that were copied.
    pub fn copied_bytes(&self) -> usize {
        let levels = self.levels.iter().map(|(_, level)| level);
        levels.chain([&self.own]).map(Part::copied_bytes).sum()
    }

    /// Copies a source or level without its levels.
    pub fn take_alone(
        present: Present<'_>,
        source: u32,
        last: &mut Option<Arc<Known>>,
    ) -> Snapshot {
        Snapshot {
            sealed: present.log.sealed().clone(),
            own: Part::take(present, source, last),
            levels: Vec::new(),
            levels_until: i64::MIN,
        }
    }
}

impl Part {
    fn copied_bytes(&self) -> usize {
        let open = self.open.iter().map(|open| open.bytes.len());
        // Bundles are shared.
        let own = self
            .unsealed
            .iter()
            .filter(|(entry, _)| !entry.is_bundled());
        let ends = own.map(|(_, location)| match location {
            BlockLocation::Open(unsealed) => unsealed.end.len(),
            BlockLocation::Sealed(_) => 0,
        });
        open.chain(ends).sum()
    }

    fn take(
        Present { head, log, volume }: Present<'_>,
        source: u32,
        last: &mut Option<Arc<Known>>,
    ) -> Part {
        let layout = head.layout_of(source);
        let layouts = match last {
            Some(known) if known.is_all_of(layout) => known.clone(),
            _ => last
                .insert(Arc::new(Known::of(head.layouts(), layout)))
                .clone(),
        };
        let unsealed = log.open_blocks_of(source).map(|(open, entry)| {
            let unsealed = Unsealed {
                file: open.file.clone(),
                number: open.number,
                name: volume.name(open.number),
                end: open.held_end(&entry),
            };
            (entry, BlockLocation::Open(Arc::new(unsealed)))
        });
        let visibility = log.retention.visibility(source, head.rows_of(source));
        Part {
            source,
            layouts,
            is_level: head.members().is_level(source),
            open: head.unsealed(source, log.logged(), &visibility),
            unsealed: unsealed.collect(),
            visibility,
        }
    }
}

impl Known {
    /// Returns the layouts of a source with the layout `number`.
    ///
    /// # Panics
    /// If the store has no such layout.
    fn of(layouts: &Layouts, number: u32) -> Known {
        let get = |number| {
            layouts
                .get(number)
                .expect("sources have layouts of the store")
        };
        let present = get(number).clone();
        let others = match layouts.has_lost() {
            true => layouts.all().to_vec(),
            false => Vec::new(),
        };
        let mut earlier = Vec::new();
        let mut layout = &present;
        while others.is_empty() && layout.number() != 0 {
            layout = get(layout.parent());
            earlier.push((layout.number(), layout.columns()));
        }
        Known {
            earlier,
            others,
            present,
        }
    }

    /// Returns whether these are the layouts of every source with the layout `number`, now and later.
    fn is_all_of(&self, number: u32) -> bool {
        self.present.number() == number && self.others.is_empty()
    }

    /// Returns the names and types of the columns of a layout, or `None` if the layout is unknown.
    pub fn get(&self, number: u32) -> Option<(&[Arc<str>], &[FieldType])> {
        let (names, types) = (self.present.names(), self.present.types());
        if number == self.present.number() {
            return Some((names, types));
        }
        if let Some((_, columns)) = self.earlier.iter().find(|(known, _)| *known == number) {
            return Some((&names[..*columns], &types[..*columns]));
        }
        let other = self.others.get(number as usize)?;
        (!other.is_lost()).then(|| (other.names(), other.types()))
    }
}

impl BlockLocation {
    /// Reads the bytes of a block, or of the bundle that contains it.
    ///
    /// # Errors
    /// As [`BlockLocation::read_part`].
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, Error> {
        self.read_part(entry, 0..entry.extent().1)
    }

    /// Reads some bytes of a block, or of the bundle that contains it.
    ///
    /// # Errors
    /// If the disk fails. [`Error::Damage`] if the block cannot be at this location.
    pub fn read_part(&self, entry: &Entry, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let (offset, len) = entry.extent();
        match self {
            BlockLocation::Open(part) => {
                let written = len - part.end.len() as u64;
                let (start, end) = (range.start, range.end.min(written));
                let mut bytes = match start < end {
                    true => read_bytes(&*part.file, &part.name, offset + start, end - start)?,
                    false => Vec::new(),
                };
                let held = start.max(written) - written..range.end.max(written) - written;
                bytes.extend_from_slice(&part.end[held.start as usize..held.end as usize]);
                Ok(bytes)
            }
            BlockLocation::Sealed(segment) => segment.bytes_within((offset, len), range),
        }
    }

    /// Returns the number of the segment.
    pub fn segment(&self) -> u64 {
        match self {
            BlockLocation::Open(part) => part.number,
            BlockLocation::Sealed(segment) => segment.trailer.number,
        }
    }

    /// Returns the error for a block that cannot be decoded.
    pub fn damage(&self, entry: &Entry, what: String) -> Error {
        let file = match self {
            BlockLocation::Open(part) => part.name.clone(),
            BlockLocation::Sealed(segment) => segment.name().to_string(),
        };
        Error::Damage {
            file,
            offset: u64::from(entry.offset),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(known: &Known, number: u32) -> Option<Vec<String>> {
        let (names, types) = known.get(number)?;
        assert_eq!(names.len(), types.len());
        Some(names.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn earlier_layouts_are_prefixes_of_the_current_one() {
        let mut layouts = Layouts::new();
        let (a, _) = layouts.extend(0, "a", FieldType::F64);
        let (b, _) = layouts.extend(a, "b", FieldType::Bool);
        let (other, _) = layouts.extend(0, "x", FieldType::Str);
        let known = Known::of(&layouts, b);
        assert_eq!(names(&known, b).unwrap(), ["a", "b"]);
        assert_eq!(names(&known, a).unwrap(), ["a"]);
        assert_eq!(names(&known, 0).unwrap(), Vec::<String>::new());
        assert_eq!(names(&known, other), None);
    }

    #[test]
    fn a_source_that_began_anew_after_a_loss_keeps_its_blocks() {
        let mut layouts = Layouts::new();
        let (a, _) = layouts.extend(0, "a", FieldType::F64);
        layouts.lose(a + 2);
        let (anew, _) = layouts.extend(0, "b", FieldType::F64);
        let known = Known::of(&layouts, anew);
        assert_eq!(names(&known, a).unwrap(), ["a"]);
        assert_eq!(names(&known, anew).unwrap(), ["b"]);
        assert_eq!(names(&known, a + 1), None);
        assert_eq!(names(&known, anew + 1), None);
    }
}
