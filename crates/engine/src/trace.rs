//! Traces: the blocks that a store wrote, for the simulation of merges.
//!
//! A store keeps no history. A trace is built from existing blocks, with their bytes and times, and
//! the rules by which they will die. Dropped blocks are not in a trace.
//! `docs/format/merge-trace.md` specifies the lines.

use crate::core::Core;
use crate::error::Error;
use crate::inspect::registry::{Registry, open_catalog};
use crate::inspect::{FileKind, files};
use crate::maps::HashMap;
use crate::retention::class::{Class, Keep};
use crate::retention::records::rules_of;
use crate::segment::list::Listing;
use crate::segment::open::OpenSegment;
use crate::segment::sealed::Segment;
use crate::segment::{Entry, uncover};
use seiner_merge::simulate::{self, Arrival};
use seiner_platform::Disk;

/// Blocks of a store, each with the time at which its segment was written.
#[derive(Default)]
struct Blocks(Vec<(Entry, i64)>);

/// Totals of the blocks of a source, or of a class.
#[derive(Clone, Copy, Default)]
struct Sum {
    blocks: u64,
    rows: u64,
    bytes: u64,
}

impl Blocks {
    fn add(&mut self, entries: &[Entry], born: i64) {
        self.0.extend(entries.iter().map(|entry| (*entry, born)));
    }

    fn add_segment(&mut self, segment: &Segment) -> Result<(), Error> {
        for page in segment.blocks() {
            self.add(&page?, segment.trailer.born);
        }
        Ok(())
    }

    /// Returns one line per block, in order of time. `class_of` returns the class of a source.
    fn arrivals(mut self, rules: &[Keep], class_of: impl Fn(u32) -> u8) -> Vec<Arrival> {
        self.0.sort_by_key(|(entry, _)| entry.source);
        let mut blocks: Vec<(Entry, i64)> = Vec::with_capacity(self.0.len());
        for of_source in self.0.chunk_by(|(a, _), (b, _)| a.source == b.source) {
            // While segments are merged, a block may be in two of them.
            let mut once = of_source.to_vec();
            uncover(&mut once, |(entry, _)| entry.numbers());
            blocks.extend(once);
        }
        let written = |(entry, born): &(Entry, i64)| entry.last.min(*born);
        blocks.sort_by_key(written);
        let span = match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => written(last) - written(first),
            _ => 0,
        };
        let (mut sources, mut classes) = (
            HashMap::<u32, Sum>::default(),
            HashMap::<u8, Sum>::default(),
        );
        for (entry, _) in &blocks {
            sources.entry(entry.source).or_default().count(entry);
            classes
                .entry(class_of(entry.source))
                .or_default()
                .count(entry);
        }
        let keep = |source: u32| {
            let class = class_of(source);
            let rules = rules.get(usize::from(class)).copied().unwrap_or_default();
            keep(rules, span, sources[&source], classes[&class])
        };
        let keeps: HashMap<u32, simulate::Keep> = sources
            .keys()
            .map(|&source| (source, keep(source)))
            .collect();
        let arrival = |block: &(Entry, i64)| Arrival {
            at: written(block),
            source: block.0.source,
            bytes: block.0.len.max(1),
            keep: keeps[&block.0.source],
        };
        blocks.iter().map(arrival).collect()
    }
}

impl Sum {
    fn count(&mut self, entry: &Entry) {
        self.blocks += 1;
        self.rows += u64::from(entry.rows);
        self.bytes += u64::from(entry.len);
    }
}

/// Returns the lifetime of blocks by the rule that expires them first, if the future resembles a
/// span of `span` ns. A ring is expressed in blocks of the source's usual number of rows. A quota
/// is expressed as the time in which the class writes that many bytes.
fn keep(rules: Keep, span: i64, source: Sum, class: Sum) -> simulate::Keep {
    let mut found: Vec<(f64, simulate::Keep)> = Vec::new();
    let age = |ns: f64| simulate::Keep::Age((ns as i64).max(1));
    if let Some(rule) = rules.age {
        let ns = rule.as_nanos() as f64;
        found.push((ns, age(ns)));
    }
    if let Some(rows) = rules.rows {
        let blocks = (rows as f64 * source.blocks as f64 / source.rows.max(1) as f64).ceil();
        let ring = simulate::Keep::Ring(blocks.clamp(1.0, f64::from(u32::MAX)) as u32);
        found.push((blocks * span as f64 / source.blocks as f64, ring));
    }
    if let Some(bytes) = rules.bytes.filter(|_| span > 0) {
        let ns = bytes as f64 * span as f64 / class.bytes as f64;
        found.push((ns, age(ns)));
    }
    let first = found.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    first.map_or(simulate::Keep::Forever, |(_, keep)| keep)
}

/// Returns the blocks that a store wrote and still has in sealed segments. No engine may have the
/// store open.
///
/// # Errors
/// If there is no catalog, a file is damaged, or the disk fails.
pub fn trace(disk: &dyn Disk) -> Result<Vec<Arrival>, Error> {
    let catalog = open_catalog(disk)?;
    let registry = Registry::read(catalog.frames(), &mut |_, _| {});
    let classes = rules_of(catalog.dead().iter().map(Vec::as_slice));
    let mut blocks = Blocks::default();
    for file in files(disk)? {
        if file.kind == FileKind::Segment {
            blocks.add_segment(&Segment::on(disk, &file.file, catalog.store)?)?;
        }
    }
    let class_of = |source: u32| {
        registry
            .dictionary
            .key(source)
            .map_or(0, |key| classes.of(&key))
    };
    Ok(blocks.arrivals(&keeps(classes.list()), class_of))
}

fn keeps(classes: &[Class]) -> Vec<Keep> {
    classes.iter().map(|class| class.keep).collect()
}

/// Returns the blocks that the store wrote and still has, in sealed and open segments.
///
/// # Errors
/// If the disk fails, or an index is damaged.
pub(crate) fn written(core: &Core) -> Result<Vec<Arrival>, Error> {
    let mut blocks = Blocks::default();
    let (now, open, sealed, keeps) = {
        let log = core.log();
        let open: Vec<Listing> = log.open().iter().map(OpenSegment::listing).collect();
        let keeps = keeps(log.retention.classes());
        (log.retention.now(), open, log.sealed().clone(), keeps)
    };
    for listing in open {
        blocks.add(&listing.entries(), now);
    }
    for segment in sealed.values() {
        blocks.add_segment(segment)?;
    }
    let members = core.head().shared_members();
    Ok(blocks.arrivals(&keeps, |source| members.class_of(source)))
}
