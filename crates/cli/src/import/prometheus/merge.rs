//! Merge of blocks: every series once, with one sample per time.

use super::block::{Block, BlockSeries, Content, Damages, Labels};
use anyhow::Result;
use seiner_wire::tsdb::chunk::Encoding;
use seiner_wire::tsdb::index::ChunkMeta;

/// Blocks that are read together. Their series are sorted by labels.
pub struct Merge {
    blocks: Vec<(Block, Option<BlockSeries>)>,
}

/// A series in one or several blocks.
pub struct MergedSeries {
    pub labels: Labels,
    /// Parts in the order of their times.
    parts: Vec<Part>,
    /// Deleted intervals, by block.
    deleted: Vec<(usize, Vec<(i64, i64)>)>,
}

/// A chunk of a block.
struct Part {
    chunk: ChunkMeta,
    block: usize,
}

/// Function that takes samples: times in ms since 1970, and values.
pub type Take<'a> = dyn FnMut(&[(i64, f64)]) -> Result<()> + 'a;

/// Counts of the chunks of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Samples of chunks in other encodings, by encoding.
    pub unsupported: Vec<(Encoding, u64)>,
    /// Damaged chunks.
    pub damaged: u64,
    /// Samples whose time another block has too.
    pub duplicates: u64,
    /// Samples in deleted intervals.
    pub deleted: u64,
}

impl Merge {
    /// Creates a merge. Of equal times, the sample of the last block is taken.
    pub fn new(blocks: Vec<Block>, damages: &mut Damages) -> Merge {
        let mut merge = Merge { blocks: Vec::new() };
        for mut block in blocks {
            let first = block.next(damages);
            merge.blocks.push((block, first));
        }
        merge
    }

    /// Returns the next series. The order is that of the labels.
    pub fn next(&mut self, damages: &mut Damages) -> Option<MergedSeries> {
        let waiting = self.blocks.iter().filter_map(|(_, series)| series.as_ref());
        let labels = waiting.map(|series| &series.labels).min().cloned()?;
        let mut merged = MergedSeries {
            labels,
            parts: Vec::new(),
            deleted: Vec::new(),
        };
        for (number, (block, waiting)) in self.blocks.iter_mut().enumerate() {
            let Some(series) = waiting.take_if(|series| series.labels == merged.labels) else {
                continue;
            };
            let chunks = series.chunks.into_iter();
            merged.parts.extend(chunks.map(|chunk| Part {
                chunk,
                block: number,
            }));
            if !series.deleted.is_empty() {
                merged.deleted.push((number, series.deleted));
            }
            *waiting = block.next(damages);
        }
        merged.parts.sort_by_key(|part| part.chunk.first_ms);
        Some(merged)
    }

    /// Reads the samples of a series, in the order of their times.
    ///
    /// # Errors
    /// If `take` fails.
    pub fn read(
        &mut self,
        series: &MergedSeries,
        take: &mut Take<'_>,
        damages: &mut Damages,
    ) -> Result<Parts> {
        let mut parts = Parts::default();
        // Samples that a later chunk may precede, with the numbers of their blocks.
        let mut pending: Vec<(i64, usize, f64)> = Vec::new();
        let (mut samples, mut ready) = (Vec::new(), Vec::new());
        for (number, part) in series.parts.iter().enumerate() {
            samples.clear();
            let (block, _) = &mut self.blocks[part.block];
            match block.read_chunk(part.chunk, &series.labels, &mut samples, damages) {
                Content::Samples => {}
                Content::Unsupported(encoding, count) => parts.add(encoding, u64::from(count)),
                Content::Damaged => parts.damaged += 1,
            }
            let deleted = series
                .deleted
                .iter()
                .find(|(block, _)| *block == part.block);
            for &(time, value) in &samples {
                let is_deleted = |(first, last): &(i64, i64)| (*first..=*last).contains(&time);
                match deleted {
                    Some((_, intervals)) if intervals.iter().any(is_deleted) => parts.deleted += 1,
                    _ => pending.push((time, part.block, value)),
                }
            }
            pending.sort_by_key(|&(time, block, _)| (time, block));
            let next = series.parts.get(number + 1).map(|part| part.chunk.first_ms);
            let end = match next {
                Some(next) => pending.partition_point(|&(time, ..)| time < next),
                None => pending.len(),
            };
            ready.clear();
            for (time, _, value) in pending.drain(..end) {
                match ready.last_mut() {
                    Some((last, before)) if *last == time => {
                        *before = value;
                        parts.duplicates += 1;
                    }
                    _ => ready.push((time, value)),
                }
            }
            if !ready.is_empty() {
                take(&ready)?;
            }
        }
        Ok(parts)
    }
}

impl MergedSeries {
    /// Returns the number of chunks.
    pub fn chunks(&self) -> u64 {
        self.parts.len() as u64
    }
}

impl Parts {
    fn add(&mut self, encoding: Encoding, count: u64) {
        match self
            .unsupported
            .iter_mut()
            .find(|(other, _)| *other == encoding)
        {
            Some((_, samples)) => *samples += count,
            None => self.unsupported.push((encoding, count)),
        }
    }
}
