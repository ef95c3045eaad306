//! Encoder: converts the rows of taken buffers into blocks and bundles.

use crate::block::{self, BlockHead};
use crate::buffer::columns;
use crate::buffer::decimals::Decimals;
use crate::bundle;
use crate::bundle::encode::{Member, Packed, pack};
use crate::dictionary::layouts::Layout;
use crate::maps::{HashMap, HashSet};
use crate::options::{Bundling, Together};
use crate::sealing::queue::Taken;
use crate::segment::Entry;
use seiner_codec::Effort;
use seiner_merge::LaneId;
use seiner_model::{Columns, FieldType};
use std::ops::Range;
use std::sync::Arc;

/// Approximate bytes of rows that are encoded at once, if they become blocks of their own.
const RAW_AT_ONCE: usize = 64 << 10;
/// Maximum number of such buffers that are encoded at once.
const BUFFERS_AT_ONCE: usize = 512;
/// Maximum number of layouts that are kept in the form of bundles.
const LAYOUTS: usize = 1024;

/// Rows that wait to be encoded.
struct WaitingRows {
    layout: Arc<Layout>,
    taken: Taken,
    /// Range of the encoded rows in the copy.
    raw: Range<usize>,
}

/// Encoded block that is not yet in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// Buffer that the block was made of.
    pub taken: Taken,
    /// First time, ns.
    pub first: i64,
    /// Last time, ns.
    pub last: i64,
    /// Number of rows, without rows that later rows replace.
    pub rows: u32,
    /// Number of values.
    pub samples: u64,
    /// Lane in which the block belongs, if it is already known.
    pub lane: Option<LaneId>,
    bytes: Range<usize>,
}

/// Encoded bundle that is not yet in the log.
pub struct Bundle {
    /// Lane in which its blocks belong.
    pub lane: LaneId,
    /// Blocks with their entries, which lack what the log knows.
    pub blocks: Vec<(Encoded, Entry)>,
    /// Bytes of the bundle.
    pub bytes: Arc<Vec<u8>>,
}

/// Encoder of some buffers at a time. Its memory is reused.
#[derive(Default)]
pub struct Encoder {
    limits: Together,
    waiting: Vec<WaitingRows>,
    /// Sources of the copied buffers.
    sources: HashSet<u32>,
    /// True if a copied buffer may become part of a bundle.
    has_small: bool,
    raw: Vec<u8>,
    decimals: Decimals,
    blocks: Vec<Encoded>,
    out: Vec<u8>,
    /// Blocks that may become part of a bundle.
    small: Vec<(Encoded, Member)>,
    layouts: HashMap<u32, Arc<seiner_bundle::Layout>>,
    bundles: Vec<Bundle>,
}

impl Encoder {
    /// Creates an encoder with limits.
    pub fn new(limits: Together) -> Encoder {
        Encoder {
            limits,
            ..Encoder::default()
        }
    }

    /// Removes all buffers and blocks.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.sources.clear();
        self.has_small = false;
        self.raw.clear();
        self.blocks.clear();
        self.out.clear();
        self.small.clear();
        self.bundles.clear();
    }

    /// Returns the number of copied buffers.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether another buffer can be encoded together with the copied ones. A bundle has one
    /// block of each source.
    pub fn accepts(&self, taken: &Taken) -> bool {
        let (buffers, bytes) = match self.has_small {
            true => (self.limits.buffers, self.limits.bytes),
            false => (BUFFERS_AT_ONCE, RAW_AT_ONCE),
        };
        let is_full = self.len() >= buffers || self.raw.len() >= bytes;
        let mixes = self.has_small || self.is_small(taken);
        let repeats = mixes && self.sources.contains(&taken.source);
        self.waiting.is_empty() || !is_full && !repeats
    }

    /// Copies the bytes of a buffer.
    pub fn copy(&mut self, taken: Taken, layout: Arc<Layout>, bytes: &[u8]) {
        let start = self.raw.len();
        self.raw.extend_from_slice(bytes);
        self.has_small |= self.is_small(&taken);
        self.sources.insert(taken.source);
        self.waiting.push(WaitingRows {
            layout,
            taken,
            raw: start..self.raw.len(),
        });
    }

    fn is_small(&self, taken: &Taken) -> bool {
        self.limits.bundling != Bundling::Never
            && bundle::encode::is_small(taken.rows as usize, u64::from(taken.bytes))
    }

    /// Encodes the copied buffers that become blocks of their own, and decodes the others.
    pub fn encode(&mut self) {
        for rows in std::mem::take(&mut self.waiting) {
            let raw = &self.raw[rows.raw.clone()];
            if self.is_small(&rows.taken) {
                let layout = bundle_layout(&mut self.layouts, &rows.layout);
                self.small.push(decode_small(&rows, raw, layout));
            } else {
                let start = self.out.len();
                let found = encode(&rows, raw, &mut self.decimals, &mut self.out);
                self.blocks.push(Encoded {
                    bytes: start..self.out.len(),
                    ..found
                });
            }
            // The number of buffers stays known.
            self.waiting.push(rows);
        }
    }

    /// Returns whether there are blocks that may become part of a bundle.
    pub fn has_small(&self) -> bool {
        !self.small.is_empty()
    }

    /// Returns all blocks: those of their own, then the small ones.
    pub fn all(&self) -> impl Iterator<Item = &Encoded> {
        self.blocks
            .iter()
            .chain(self.small.iter().map(|(block, _)| block))
    }

    /// Encodes the small blocks into bundles, or into blocks of their own if these are smaller.
    /// `lanes` are the lanes of [`Encoder::all`].
    pub fn bundle(&mut self, lanes: &[LaneId]) {
        let small = self.small.iter_mut().map(|(block, _)| block);
        for (block, lane) in self.blocks.iter_mut().chain(small).zip(lanes) {
            block.lane = Some(*lane);
        }
        let mut small = std::mem::take(&mut self.small);
        small.sort_unstable_by_key(|(block, _)| (block.lane, block.taken.source));
        let mut small = small.into_iter().peekable();
        while let Some((first, member)) = small.next() {
            let lane = first.lane;
            let (mut blocks, mut members) = (vec![first], vec![member]);
            while let Some((block, member)) = small.next_if(|(other, _)| other.lane == lane) {
                blocks.push(block);
                members.push(member);
            }
            self.put_together(blocks, members);
        }
    }

    fn put_together(&mut self, blocks: Vec<Encoded>, members: Vec<Member>) {
        let Packed { alone, bundle } = pack(&members, self.limits.bundling, |member| {
            let at = blocks.binary_search_by_key(&member.entry.source, |block| block.taken.source);
            let taken = &blocks[at.expect("each member has a block")].taken;
            let mut bytes = Vec::new();
            block::encode(head_of(taken), &member.rows, Effort::Fast, &mut bytes);
            Some(bytes)
        });
        for (at, bytes) in alone {
            let start = self.out.len();
            self.out.extend_from_slice(&bytes);
            self.blocks.push(Encoded {
                bytes: start..self.out.len(),
                ..blocks[at].clone()
            });
        }
        let Some(bundle) = bundle else { return };
        let positions = bundle.positions.iter();
        let found = positions.map(|&at| blocks[at].clone()).zip(bundle.entries);
        self.bundles.push(Bundle {
            lane: blocks[0].lane.expect("small blocks have lanes"),
            blocks: found.collect(),
            bytes: Arc::new(bundle.bytes),
        });
    }

    /// Returns the blocks of their own. Without bundles, they are in the order of the buffers.
    pub fn blocks(&self) -> &[Encoded] {
        &self.blocks
    }

    /// Returns the lanes of the blocks and bundles.
    pub fn lanes(&self) -> impl Iterator<Item = LaneId> {
        let blocks = self.blocks.iter().filter_map(|block| block.lane);
        blocks.chain(self.bundles.iter().map(|bundle| bundle.lane))
    }

    /// Returns the bundles.
    pub fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    /// Returns the bytes of a block.
    pub fn bytes(&self, block: &Encoded) -> &[u8] {
        &self.out[block.bytes.clone()]
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        let bundles = self.bundles.iter();
        let bundles = bundles.map(|bundle| {
            bundle.bytes.capacity() + bundle.blocks.capacity() * size_of::<(Encoded, Entry)>()
        });
        self.raw.capacity()
            + self.out.capacity()
            + self.decimals.memory()
            + self.waiting.capacity() * size_of::<WaitingRows>()
            + self.sources.capacity() * size_of::<u32>()
            + self.blocks.capacity() * size_of::<Encoded>()
            + self.small.capacity() * size_of::<(Encoded, Member)>()
            + bundles.sum::<usize>()
    }
}

/// Returns a layout in the form of bundles. Sources of the same layout share it.
fn bundle_layout(
    known: &mut HashMap<u32, Arc<seiner_bundle::Layout>>,
    layout: &Layout,
) -> Arc<seiner_bundle::Layout> {
    if known.len() >= LAYOUTS && !known.contains_key(&layout.number()) {
        known.clear();
    }
    let found = known.entry(layout.number());
    found
        .or_insert_with(|| Arc::new(layout.for_bundles()))
        .clone()
}

/// Decodes the rows of a buffer that may become part of a bundle.
fn decode_small(
    rows: &WaitingRows,
    raw: &[u8],
    layout: Arc<seiner_bundle::Layout>,
) -> (Encoded, Member) {
    let taken = rows.taken;
    let columns = columns::decode(raw, taken.rows as usize, rows.layout.types());
    let columns = block::sorted(columns.expect("this process encoded the buffer"));
    let block = of_columns(taken, &columns);
    let member = Member {
        entry: block.entry(),
        layout,
        rows: columns,
    };
    (block, member)
}

impl Encoded {
    /// Returns the entry of the block, without its position and without what the log knows.
    pub fn entry(&self) -> Entry {
        Entry {
            source: self.taken.source,
            number: self.taken.number,
            first: self.first,
            last: self.last,
            rows: self.rows,
            ordinal: self.taken.ordinal,
            since: self.taken.number,
            before: self.taken.before,
            ..Entry::default()
        }
    }
}

fn head_of(taken: &Taken) -> BlockHead {
    BlockHead {
        source: taken.source,
        number: taken.number,
        layout: taken.layout,
    }
}

/// Appends the block of one buffer. Rows of decimals are not decoded further. Other rows are
/// decoded and sorted by time, and the last of several rows at the same time is kept.
fn encode(rows: &WaitingRows, raw: &[u8], decimals: &mut Decimals, out: &mut Vec<u8>) -> Encoded {
    let (types, count) = (rows.layout.types(), rows.taken.rows as usize);
    let head = head_of(&rows.taken);
    if types == [FieldType::F64] && decimals.read(raw, count) {
        block::encode_decimals(head, decimals, out);
        return Encoded {
            samples: decimals.times.len() as u64,
            ..of_times(rows.taken, &decimals.times)
        };
    }
    let columns = columns::decode(raw, count, types).expect("this process encoded the buffer");
    let columns = block::sorted(columns);
    block::encode(head, &columns, Effort::Fast, out);
    of_columns(rows.taken, &columns)
}

fn of_columns(taken: Taken, columns: &Columns) -> Encoded {
    let fields = columns.fields.iter();
    Encoded {
        samples: fields.map(|field| field.values.len() as u64).sum(),
        ..of_times(taken, &columns.times)
    }
}

fn of_times(taken: Taken, times: &[i64]) -> Encoded {
    Encoded {
        taken,
        first: times[0],
        last: *times.last().expect("a block has rows"),
        rows: times.len() as u32,
        samples: 0,
        lane: None,
        bytes: 0..0,
    }
}
