//! Writer of bundles.

use std::collections::BTreeMap;
use std::sync::Arc;

use seiner_codec::varint::put_u64;
use seiner_model::Columns;

use crate::ans::Scratch;
use crate::buffer::GroupBuffer;
use crate::cut::chunks;
use crate::directory::VERSION;
use crate::entries;
use crate::error::PushError;
use crate::estimate::Estimate;
use crate::group;
use crate::layout::Layout;
use crate::limits::MIN_CHUNK;

/// Options of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of samples of a chunk, at least 500. Larger chunks take a little less space; one source of
    /// them takes longer to read.
    pub chunk_samples: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            chunk_samples: 2500,
        }
    }
}

/// Encoded bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Bytes of the directory, which describes the chunks and contains their tables.
    pub directory: Vec<u8>,
    /// Bytes of the chunks, end to end.
    pub data: Vec<u8>,
}

/// Writer that collects the rows of many sources and encodes them together.
///
/// The scratch memory of [`BundleWriter::finish`] is proportional to the rows. Callers finish a bundle
/// at 64 KiB to 1 MiB.
pub struct BundleWriter {
    options: Options,
    groups: Vec<GroupBuffer>,
    /// Index of the group of each layout.
    by_layout: BTreeMap<Arc<Layout>, usize>,
    /// Group of the source before.
    last_group: usize,
    last_id: Option<u64>,
    estimate: Estimate,
}

impl BundleWriter {
    /// Creates an empty writer.
    pub fn new(options: Options) -> BundleWriter {
        BundleWriter {
            options: Options {
                chunk_samples: options.chunk_samples.max(MIN_CHUNK),
            },
            groups: Vec::new(),
            by_layout: BTreeMap::new(),
            last_group: 0,
            last_id: None,
            estimate: Estimate::default(),
        }
    }

    /// Appends the rows of a source. Sources come in ascending order of their numbers. The same number
    /// may follow again with another layout.
    ///
    /// # Errors
    /// The source is not behind the one before, the rows are not ascending in time or do not belong to the
    /// layout, or they exceed the limits of a chunk: 2^20 cells, 16 MiB of texts.
    pub fn push(&mut self, id: u64, layout: &Arc<Layout>, rows: &Columns) -> Result<(), PushError> {
        let group = self.group(layout);
        let before = match &self.groups[group].ids[..] {
            [.., last] if *last == id => Some(id),
            _ => self.last_id.filter(|last| *last > id),
        };
        if let Some(before) = before {
            return Err(PushError::Order { id, before });
        }
        self.groups[group].push(id, rows)?;
        self.last_group = group;
        self.last_id = Some(id);
        self.estimate.add(rows);
        Ok(())
    }

    /// Returns the index of the group of a layout; creates the group if there is none.
    fn group(&mut self, layout: &Arc<Layout>) -> usize {
        let last = self.groups.get(self.last_group);
        if last.is_some_and(|last| Arc::ptr_eq(&last.layout, layout)) {
            return self.last_group;
        }
        let next = self.groups.len();
        let group = *self.by_layout.entry(layout.clone()).or_insert(next);
        if group == next {
            self.groups.push(GroupBuffer::new(layout.clone()));
        }
        group
    }

    /// Returns the number of values pushed.
    pub fn samples(&self) -> u64 {
        self.groups.iter().map(|group| group.samples).sum()
    }

    /// Returns whether no source was pushed.
    pub fn is_empty(&self) -> bool {
        self.last_id.is_none()
    }

    /// Returns the approximate size of the bundle, by a sample of the sources. It may be off by a half.
    pub fn estimated_bytes(&self) -> usize {
        self.estimate.bytes()
    }

    /// Encodes all rows. The writer is empty afterwards and keeps its memory for the next bundle.
    pub fn finish(&mut self) -> Bundle {
        let mut data = Vec::new();
        let mut body = vec![VERSION];
        let mut scratch = Scratch::default();
        // A group without rows remains of an earlier bundle, or of a source that was rejected.
        self.groups.retain(|group| !group.ids.is_empty());
        put_u64(self.groups.len() as u64, &mut body);
        for buffer in &mut self.groups {
            let chunks = chunks(buffer, self.options.chunk_samples);
            let encoded = group::encode(buffer, &chunks, &mut scratch, &mut data);
            buffer.layout.put(&mut body);
            encoded.model.put(&mut body);
            for table in &encoded.tables {
                table.put(&mut body);
            }
            entries::put(&encoded.chunks, buffer.layout.cells(), &mut body);
            buffer.clear();
        }
        self.by_layout.clear();
        let layouts = self.groups.iter().map(|group| group.layout.clone());
        self.by_layout.extend(layouts.zip(0..));
        (self.last_group, self.last_id) = (0, None);
        self.estimate = Estimate::default();
        let mut directory = seiner_codec::checksum(&body).to_le_bytes().to_vec();
        directory.extend_from_slice(&body);
        Bundle { directory, data }
    }
}
