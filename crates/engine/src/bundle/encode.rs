//! Encoding of bundles from the rows of blocks.

use super::{HEADER_BYTES, Header};
use crate::options::Bundling;
use crate::segment::Entry;
use seiner_bundle::{BundleWriter, Layout, Options};
use seiner_model::Columns;
use seiner_platform::critical::assert_outside;
use std::sync::Arc;

/// Maximum rows of a block in a bundle. Longer blocks have aggregates, and share little.
pub const MOST_ROWS: usize = 255;
/// Maximum bytes of the rows of such a block, in a buffer or encoded.
pub const MOST_BYTES: u64 = 4096;

/// Number of blocks from which on a bundle is always smaller.
const SURELY_SMALLER: usize = 64;

/// Block that may become part of a bundle.
pub struct Member {
    /// Entry of the block, without its position.
    pub entry: Entry,
    /// Names and types of the columns.
    pub layout: Arc<Layout>,
    /// Rows in strictly ascending time.
    pub rows: Columns,
}

/// Encoded bundle.
pub struct Encoded {
    /// Positions of its blocks among the given ones.
    pub positions: Vec<usize>,
    /// Entries of its blocks, by source, without the offset.
    pub entries: Vec<Entry>,
    /// Bytes of the bundle.
    pub bytes: Vec<u8>,
}

/// Blocks in the form that takes fewer bytes.
pub struct Packed {
    /// Positions and bytes of blocks of their own.
    pub alone: Vec<(usize, Vec<u8>)>,
    /// Bundle of the other blocks.
    pub bundle: Option<Encoded>,
}

/// Returns whether a block is small enough for a bundle.
pub fn is_small(rows: usize, bytes: u64) -> bool {
    rows <= MOST_ROWS && bytes <= MOST_BYTES
}

/// Encodes blocks of different sources, in the order of their sources, in a bundle or as blocks of
/// their own. `alone` encodes a block of its own, or returns `None` if that is impossible.
///
/// # Panics
/// If the blocks are not in strictly ascending order of their sources.
pub fn pack(
    members: &[Member],
    bundling: Bundling,
    alone: impl Fn(&Member) -> Option<Vec<u8>>,
) -> Packed {
    let is_alone_possible = match bundling {
        Bundling::Smaller => members.len() < SURELY_SMALLER,
        Bundling::Always => false,
        Bundling::Never => true,
    };
    let each = |at: usize| Some((at, alone(&members[at])?));
    let others: Option<Vec<(usize, Vec<u8>)>> = match is_alone_possible {
        true => (0..members.len()).map(each).collect(),
        false => None,
    };
    if bundling == Bundling::Never
        && let Some(others) = others
    {
        return Packed {
            alone: others,
            bundle: None,
        };
    }
    let (bundle, left_out) = encode(members);
    if let (Some(others), Some(found)) = (others, &bundle) {
        let bytes = found.positions.iter().map(|&at| others[at].1.len());
        if bytes.sum::<usize>() <= found.bytes.len() {
            return Packed {
                alone: others,
                bundle: None,
            };
        }
    }
    Packed {
        alone: left_out.into_iter().filter_map(each).collect(),
        bundle,
    }
}

/// Encodes blocks of different sources, in the order of their sources. Returns the positions of
/// blocks that a bundle cannot contain, because their texts are too long.
fn encode(members: &[Member]) -> (Option<Encoded>, Vec<usize>) {
    assert_outside("encoding a bundle");
    let mut writer = BundleWriter::new(Options::default());
    let (mut positions, mut left_out) = (Vec::with_capacity(members.len()), Vec::new());
    let mut before = None;
    for (at, member) in members.iter().enumerate() {
        let id = u64::from(member.entry.source);
        assert!(
            before < Some(id),
            "blocks of a bundle have ascending sources"
        );
        before = Some(id);
        match writer.push(id, &member.layout, &member.rows) {
            Ok(()) => positions.push(at),
            Err(_) => left_out.push(at),
        }
    }
    let encoded = (!positions.is_empty()).then(|| put(&mut writer, members, positions));
    (encoded, left_out)
}

fn put(writer: &mut BundleWriter, members: &[Member], positions: Vec<usize>) -> Encoded {
    let bundle = writer.finish();
    let entries = positions.iter().map(|&at| members[at].entry);
    let mut entries: Vec<Entry> = entries.collect();
    let numbers = entries.iter().map(|entry| entry.number);
    let header = Header {
        first_block: numbers.clone().min().unwrap_or(0),
        last_block: numbers.max().unwrap_or(0),
        directory: bundle.directory.len() as u32,
        data: bundle.data.len() as u32,
    };
    let len = HEADER_BYTES + bundle.directory.len() + bundle.data.len();
    let mut bytes = Vec::with_capacity(len.max(entries.len()));
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(&bundle.directory);
    bytes.extend_from_slice(&bundle.data);
    // Every block has at least a byte: a segment without live bytes is dropped.
    bytes.resize(len.max(entries.len()), 0);
    share(&mut entries, bytes.len());
    Encoded {
        positions,
        entries,
        bytes,
    }
}

/// Divides the bytes of a bundle among its blocks.
fn share(entries: &mut [Entry], bytes: usize) {
    let (each, rest) = (bytes / entries.len(), bytes % entries.len());
    for (at, entry) in entries.iter_mut().enumerate() {
        entry.bundle = bytes as u32;
        entry.len = (each + if at == 0 { rest } else { 0 }) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Whole;
    use super::*;
    use seiner_model::{Column, FieldColumn, FieldType};

    fn members(sources: u32, rows: usize) -> Vec<Member> {
        let layout = Arc::new(Layout::new([("value", FieldType::F64)]));
        let member = |source: u32| Member {
            entry: Entry {
                source,
                number: u64::from(source) + 100,
                rows: rows as u32,
                ..Entry::default()
            },
            layout: layout.clone(),
            rows: Columns {
                times: (0..rows as i64).map(|row| row * 1000).collect(),
                fields: vec![FieldColumn {
                    present: None,
                    values: Column::F64(vec![1.5; rows]),
                }],
            },
        };
        (0..sources).map(member).collect()
    }

    #[test]
    fn the_shares_of_the_blocks_add_up_to_the_bundle() {
        for (sources, rows) in [(1, 1), (7, 3), (9000, 1)] {
            let (encoded, left_out) = encode(&members(sources, rows));
            let Encoded { entries, bytes, .. } = encoded.unwrap();
            assert!(left_out.is_empty());
            let len = |entry: &Entry| u64::from(entry.len);
            assert_eq!(entries.iter().map(len).sum::<u64>(), bytes.len() as u64);
            assert!(entries.iter().all(|entry| entry.len > 0));
            assert!(
                entries
                    .iter()
                    .all(|entry| entry.bundle as usize == bytes.len())
            );
        }
    }

    #[test]
    fn a_bundle_contains_the_rows_of_its_blocks() {
        let members = members(300, 10);
        let bytes = encode(&members).0.unwrap().bytes;
        let bundle = Whole::open(&bytes).unwrap();
        let numbers = (bundle.header.first_block, bundle.header.last_block);
        assert_eq!(numbers, (100, 399));
        for member in &members {
            let id = u64::from(member.entry.source);
            let chunk = bundle.directory.find(id).next().unwrap();
            let found = bundle.chunk(&chunk).unwrap().find(id);
            assert_eq!(found.unwrap().rows, member.rows);
        }
    }
}
