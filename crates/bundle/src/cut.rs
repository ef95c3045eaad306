//! Division of the sources of a group into chunks of neighbours.

use std::ops::Range;

use seiner_model::Column;

use crate::buffer::GroupBuffer;
use crate::limits::{CHUNK_SOURCES, CHUNK_TEXT, MAX_CELLS, MAX_TEXT, MIN_CHUNK};

/// Size of some neighbouring sources.
#[derive(Clone, Copy, Default)]
struct Size {
    samples: usize,
    cells: usize,
    text: usize,
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size {
            samples: self.samples + other.samples,
            cells: self.cells + other.cells,
            text: self.text + other.text,
        }
    }

    /// Returns whether a chunk of this size can be read.
    fn is_permitted(self) -> bool {
        self.cells <= MAX_CELLS && self.text <= MAX_TEXT
    }

    /// Returns whether a chunk of this size is small.
    fn is_small(self) -> bool {
        self.samples < MIN_CHUNK && self.text < CHUNK_TEXT
    }
}

/// Returns the sources of each chunk. A chunk has about `target` samples, and fewer than 500 only if its
/// group or the limits leave no choice.
pub(crate) fn chunks(group: &GroupBuffer, target: usize) -> Vec<Range<usize>> {
    let (mut chunks, mut start, mut size) = (Vec::new(), 0, Size::default());
    let mut sizes = Sizes::new(group);
    let mut last = Size::default();
    for source in 0..group.ids.len() {
        let next = sizes.of(source);
        let with_next = size.and(next);
        // Cut where the chunk comes nearer to its target.
        let is_nearer =
            with_next.samples.saturating_sub(target) <= target.saturating_sub(size.samples);
        let is_full = with_next.samples > target && !is_nearer
            || with_next.text > CHUNK_TEXT
            || source - start >= CHUNK_SOURCES;
        if source > start && (!with_next.is_permitted() || is_full && !size.is_small()) {
            chunks.push(start..source);
            (start, last, size) = (source, size, next);
        } else {
            size = with_next;
        }
    }
    let end = group.ids.len();
    match chunks.last_mut() {
        Some(before) if size.is_small() && last.and(size).is_permitted() => before.end = end,
        _ => chunks.push(start..end),
    }
    chunks
}

/// Sizes of the sources of a group, in order.
struct Sizes<'a> {
    group: &'a GroupBuffer,
    /// Number of values of each field in the sources before.
    passed: Vec<usize>,
}

impl Sizes<'_> {
    fn new(group: &GroupBuffer) -> Sizes<'_> {
        Sizes {
            group,
            passed: vec![0; group.fields.len()],
        }
    }

    /// Returns the size of the next source.
    fn of(&mut self, source: usize) -> Size {
        let rows = self.group.rows(source).len();
        let mut size = Size {
            samples: 0,
            cells: rows * self.group.layout.cells(),
            text: 0,
        };
        for (field, passed) in self.group.fields.iter().zip(&mut self.passed) {
            let count = field.counts[source] as usize;
            size.samples += count;
            if let Column::Str(texts) = &field.values {
                let end_of = |index: usize| index.checked_sub(1).map_or(0, |last| texts.ends[last]);
                size.text += (end_of(*passed + count) - end_of(*passed)) as usize;
            }
            *passed += count;
        }
        size.samples = size.samples.max(rows.div_ceil(4));
        size
    }
}
