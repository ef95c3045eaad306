//! Encoder of taken buffers: rows as they lie in memory become blocks.

use crate::block::{self, BlockHead};
use crate::buffer::decimals::Decimals;
use crate::buffer::row;
use crate::dictionary::layouts::Layout;
use crate::sealing::queue::Taken;
use seiner_codec::Effort;
use seiner_model::FieldType;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of rows that are encoded at once, about: so much is copied under the lock.
const RAW_AT_ONCE: usize = 64 << 10;
/// Buffers that are encoded at once.
const BUFFERS_AT_ONCE: usize = 512;

/// Rows that wait to be encoded.
struct WaitingRows {
    layout: Arc<Layout>,
    taken: Taken,
    /// Place of the encoded rows in the copy.
    raw: Range<usize>,
}

/// A block whose place in the log is not known yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The buffer.
    pub taken: Taken,
    /// First time, ns.
    pub first: i64,
    /// Last time, ns.
    pub last: i64,
    /// Number of rows, those that others replace left out.
    pub rows: u32,
    /// Number of values.
    pub samples: u64,
    bytes: Range<usize>,
}

/// A few buffers on their way to blocks. The memory is used again for the next.
#[derive(Default)]
pub struct Encoder {
    waiting: Vec<WaitingRows>,
    raw: Vec<u8>,
    decimals: Decimals,
    blocks: Vec<Encoded>,
    out: Vec<u8>,
}

impl Encoder {
    /// Forgets all buffers and blocks.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.raw.clear();
        self.blocks.clear();
        self.out.clear();
    }

    /// Returns whether as many buffers were copied as are encoded at once.
    pub fn is_full(&self) -> bool {
        self.raw.len() >= RAW_AT_ONCE || self.waiting.len() >= BUFFERS_AT_ONCE
    }

    /// Copies the bytes of a buffer.
    pub fn copy(&mut self, taken: Taken, layout: Arc<Layout>, bytes: &[u8]) {
        let start = self.raw.len();
        self.raw.extend_from_slice(bytes);
        self.waiting.push(WaitingRows {
            layout,
            taken,
            raw: start..self.raw.len(),
        });
    }

    /// Makes blocks of all buffers that were copied.
    pub fn encode(&mut self) {
        for rows in &self.waiting {
            let start = self.out.len();
            let raw = &self.raw[rows.raw.clone()];
            let found = encode(rows, raw, &mut self.decimals, &mut self.out);
            self.blocks.push(Encoded {
                bytes: start..self.out.len(),
                ..found
            });
        }
    }

    /// Returns the blocks, in the order of the buffers.
    pub fn blocks(&self) -> &[Encoded] {
        &self.blocks
    }

    /// Returns the bytes of a block.
    pub fn bytes(&self, block: &Encoded) -> &[u8] {
        &self.out[block.bytes.clone()]
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        self.raw.capacity()
            + self.out.capacity()
            + self.decimals.memory()
            + self.waiting.capacity() * size_of::<WaitingRows>()
            + self.blocks.capacity() * size_of::<Encoded>()
    }
}

/// Appends the block of one buffer. Rows that are decimals are not decoded further; others are
/// decoded and sorted by time, and of rows at one time the last remains.
fn encode(rows: &WaitingRows, raw: &[u8], decimals: &mut Decimals, out: &mut Vec<u8>) -> Encoded {
    let (types, count) = (rows.layout.types(), rows.taken.rows as usize);
    let head = BlockHead {
        source: rows.taken.source,
        number: rows.taken.number,
        layout: rows.taken.layout,
    };
    if types == [FieldType::F64] && decimals.read(raw, count) {
        block::encode_decimals(head, decimals, out);
        return Encoded {
            samples: decimals.times.len() as u64,
            ..of_times(rows.taken, &decimals.times)
        };
    }
    let columns = row::decode(raw, count, types).expect("a buffer holds what this process encoded");
    let columns = block::sorted(columns);
    block::encode(head, &columns, Effort::Fast, out);
    let fields = columns.fields.iter();
    Encoded {
        samples: fields.map(|field| field.values.len() as u64).sum(),
        ..of_times(rows.taken, &columns.times)
    }
}

fn of_times(taken: Taken, times: &[i64]) -> Encoded {
    Encoded {
        taken,
        first: times[0],
        last: *times.last().expect("a block has rows"),
        rows: times.len() as u32,
        samples: 0,
        bytes: 0..0,
    }
}
