//! Encoder: converts the rows of taken buffers into blocks.

use crate::block::{self, BlockHead};
use crate::buffer::columns;
use crate::buffer::decimals::Decimals;
use crate::dictionary::layouts::Layout;
use crate::sealing::queue::Taken;
use seiner_codec::Effort;
use seiner_model::FieldType;
use std::ops::Range;
use std::sync::Arc;

/// Approximate bytes of rows that are encoded at once. These are copied under the lock.
const RAW_AT_ONCE: usize = 64 << 10;
/// Maximum number of buffers that are encoded at once.
const BUFFERS_AT_ONCE: usize = 512;

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
    bytes: Range<usize>,
}

/// Encoder of some buffers at a time. Its memory is reused.
#[derive(Default)]
pub struct Encoder {
    waiting: Vec<WaitingRows>,
    raw: Vec<u8>,
    decimals: Decimals,
    blocks: Vec<Encoded>,
    out: Vec<u8>,
}

impl Encoder {
    /// Removes all buffers and blocks.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.raw.clear();
        self.blocks.clear();
        self.out.clear();
    }

    /// Returns whether the maximum that is encoded at once was copied.
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

    /// Encodes all copied buffers into blocks.
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

/// Appends the block of one buffer. Rows of decimals are not decoded further. Other rows are
/// decoded and sorted by time, and the last of several rows at the same time is kept.
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
    let columns = columns::decode(raw, count, types).expect("this process encoded the buffer");
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
