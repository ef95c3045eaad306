//! Extents: the bytes and times of groups of sources in segments.

use crate::core::Core;
use crate::error::Error;
use crate::segment::Entry;
use crate::segment::list::Listing;
use crate::segment::open::OpenSegment;
use seiner_model::{Interval, SourceId};
use seiner_store::Extent;

/// Number of a source that is in no group.
const NONE: u32 = u32::MAX;

/// Groups of sources, and the extent of each group.
struct Groups {
    /// Group of each source.
    of: Vec<u32>,
    extents: Vec<Extent>,
}

impl Groups {
    fn new(groups: &[Vec<SourceId>]) -> Groups {
        let highest = groups.iter().flatten().map(|source| source.0).max();
        let mut of = vec![NONE; highest.map_or(0, |highest| highest as usize + 1)];
        for (number, group) in groups.iter().enumerate() {
            for source in group {
                of[source.0 as usize] = number as u32;
            }
        }
        Groups {
            of,
            extents: vec![Extent::default(); groups.len()],
        }
    }

    fn add(&mut self, entries: &[Entry]) {
        for entry in entries {
            let group = self.of.get(entry.source as usize).copied();
            if let Some(group) = group.filter(|group| *group != NONE) {
                let extent = &mut self.extents[group as usize];
                extent.bytes += u64::from(entry.len);
                extent.include(Interval::new(entry.first, entry.last));
            }
        }
    }
}

/// Returns the extent of each group of sources in sealed and open segments, by their indexes. Blocks with expired samples
/// count until their segment is gone, and blocks that a merge has copied count twice until it ends.
///
/// # Errors
/// If the disk fails, or an index is damaged.
pub(crate) fn extents(core: &Core, groups: &[Vec<SourceId>]) -> Result<Vec<Extent>, Error> {
    let mut groups = Groups::new(groups);
    let (open, sealed) = {
        let log = core.log();
        let open: Vec<Listing> = log.open().iter().map(OpenSegment::listing).collect();
        (open, log.sealed().clone())
    };
    for listing in open {
        groups.add(&listing.entries());
    }
    for segment in sealed.values() {
        for page in segment.blocks() {
            groups.add(&page?);
        }
    }
    Ok(groups.extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{World, options};
    use seiner_model::Selector;

    #[test]
    fn blocks_count_for_the_group_of_their_source() {
        let world = World::new(options());
        world.append("a", 0..400);
        world.append("b", 0..100);
        world.flush();
        let of = |name: &str| {
            let selector = Selector::parse(name).unwrap();
            crate::report::sources(&world.core, &selector).unwrap()
        };
        let (a, b) = (of("a"), of("b"));
        let both = [a.clone(), b.clone()].concat();
        let bytes = |groups: &[Vec<SourceId>]| {
            let extents = extents(&world.core, groups).unwrap();
            extents
                .iter()
                .map(|extent| extent.bytes)
                .collect::<Vec<u64>>()
        };
        let apart = bytes(&[a.clone(), Vec::new(), b.clone()]);
        assert!(apart[0] > 0 && apart[1] == 0 && apart[2] > 0, "{apart:?}");
        assert_eq!(bytes(&[both]), [apart[0] + apart[2]]);
        assert_eq!(bytes(&[a]), [apart[0]]);
        assert_eq!(bytes(&[]), []);
        let times = extents(&world.core, &[b]).unwrap()[0].times.unwrap();
        let query = seiner_store::Query {
            selector: Selector::parse("b").unwrap(),
            fields: None,
            interval: Interval::ALL,
        };
        assert_eq!(
            crate::query::time_range(&world.core, &query, 1),
            Some(times)
        );
    }
}
