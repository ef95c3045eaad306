//! Bundle check: header, directory, all chunks, and the entries of the footer.

use super::times::compare_times;
use crate::bundle::{Header, Whole};
use crate::inspect::registry::Registry;
use crate::segment::Entry;
use seiner_bundle::ChunkRows;

/// Entries of a footer that lie in one bundle, by source.
pub(super) struct BundleEntries<'a> {
    pub entries: &'a [Entry],
    /// True if the footer lists all blocks of the bundle.
    pub whole: bool,
}

/// Contents of a bundle without damage.
#[derive(Default)]
pub(super) struct Found {
    pub rows: u64,
    pub samples: u64,
    /// Number of blocks whose columns the catalog does not assign to their sources.
    pub lost_layouts: u64,
}

/// Decodes a bundle completely and compares it with its entries.
///
/// # Errors
/// A description of the damage.
pub(super) fn check(
    bytes: &[u8],
    listed: BundleEntries<'_>,
    registry: &Registry,
) -> Result<Found, String> {
    let bundle = Whole::open(bytes)?;
    if let Some(at) = bundle.rest.iter().position(|byte| *byte != 0) {
        let at = bytes.len() - bundle.rest.len() + at;
        return Err(format!(
            "zeros follow the data of the bundle, but not at byte {at}"
        ));
    }
    let shares: u64 = listed
        .entries
        .iter()
        .map(|entry| u64::from(entry.len))
        .sum();
    if listed.whole && shares != bytes.len() as u64 {
        return Err(format!(
            "the footer lists shares of {shares} bytes of a bundle with {}",
            bytes.len()
        ));
    }
    let mut checked = Checked {
        entries: listed.entries,
        header: bundle.header,
        registry,
        blocks: 0,
        found: Found::default(),
    };
    for chunk in bundle.directory.chunks() {
        checked.chunk(&bundle.chunk(&chunk)?, listed.whole)?;
    }
    if checked.blocks != listed.entries.len() {
        return Err(format!(
            "the footer lists {} blocks of the bundle, it has {} of them",
            listed.entries.len(),
            checked.blocks
        ));
    }
    Ok(checked.found)
}

struct Checked<'a> {
    entries: &'a [Entry],
    header: Header,
    registry: &'a Registry,
    /// Number of entries whose rows were found.
    blocks: usize,
    found: Found,
}

impl Checked<'_> {
    fn chunk(&mut self, chunk: &ChunkRows, whole: bool) -> Result<(), String> {
        for (at, id) in chunk.ids().iter().enumerate() {
            let found = self
                .entries
                .binary_search_by_key(id, |entry| u64::from(entry.source));
            match found {
                Ok(entry) => self.block(&self.entries[entry], chunk, at)?,
                Err(_) if whole => {
                    return Err(format!(
                        "the footer lists no block of source {id} in the bundle"
                    ));
                }
                // The page of the footer is unreadable, and this was reported.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn block(&mut self, entry: &Entry, chunk: &ChunkRows, at: usize) -> Result<(), String> {
        let name = || format!("block {} of source {}", entry.number, entry.source);
        let rows = chunk.source(at);
        if rows.rows.times.len() != entry.rows as usize {
            return Err(format!(
                "{} has {} rows, the footer lists {}",
                name(),
                rows.rows.times.len(),
                entry.rows
            ));
        }
        compare_times(entry, &rows.rows.times).map_err(|what| format!("{}: {what}", name()))?;
        let numbers = self.header.first_block..=self.header.last_block;
        if !numbers.contains(&entry.number) {
            return Err(format!("{} is not among the blocks {numbers:?}", name()));
        }
        if entry.source >= self.registry.sources() {
            return Err(format!(
                "{} has a source that the catalog does not name",
                name()
            ));
        }
        let layout = self.registry.find_layout(rows.layout.fields());
        let reaches = layout.is_some_and(|layout| self.registry.reaches(entry.source, layout));
        self.found.lost_layouts += u64::from(!reaches);
        let fields = rows.rows.fields.iter();
        self.found.samples += fields.map(|field| field.values.len() as u64).sum::<u64>();
        self.found.rows += u64::from(entry.rows);
        self.blocks += 1;
        Ok(())
    }
}
