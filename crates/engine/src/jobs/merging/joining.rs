//! Joining: writes the coalesced blocks of merge groups.

use super::bundling::Bundler;
use super::coalescing::{Live, MergeGroup, OverwriteMask};
use super::victims::{
    GAP_BETWEEN_SOURCES, HAS_SLOT, Stored, Victim, has_hidden, is_whole, layout_of, member_of,
    note_rewritten, present_effort, read_bundled, runs,
};
use crate::block::{self, Block, BlockHead};
use crate::bundle::encode::{Member, is_small};
use crate::core::Core;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::jobs::segments::write_all_pieces;
use crate::maps::HashMap;
use crate::query::rows::{Rows, merge};
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use seiner_bundle::SourceRows;
use seiner_model::{Column, Columns, FieldColumn};
use std::sync::Arc;

/// Blocks that were read, by victim and number.
type Blocks = HashMap<(usize, u64), Stored>;

/// Reads the blocks of merge groups and writes the coalesced blocks.
pub(super) fn coalesce_rows(
    core: &Core,
    victims: &mut [Victim],
    groups: &[MergeGroup],
    bundler: &mut Bundler,
) -> Result<(), Error> {
    let live = groups
        .iter()
        .flat_map(|group| group.outputs.iter().flatten());
    let (mut blocks, mut read) = (Blocks::default(), 0);
    let (bundled, mut live): (Vec<Live>, Vec<Live>) =
        live.partition(|live| live.entry.is_bundled());
    for live in bundled {
        read += u64::from(live.entry.len);
        if let Some(found) = read_bundled(core, &mut victims[live.victim], &live.entry)? {
            blocks.insert((live.victim, live.entry.number), Stored::Bundled(found));
        }
    }
    for run in runs(&mut live, GAP_BETWEEN_SOURCES) {
        let victim = &mut victims[run.victim()];
        let bytes = victim.segment.bytes_at(run.offset(), run.len())?;
        read += run.len();
        for (entry, bytes) in run.blocks(&bytes) {
            if is_whole(core, victim, entry, bytes) {
                let stored = Stored::Alone(bytes.to_vec());
                blocks.insert((run.victim(), entry.number), stored);
            }
        }
    }
    core.log().counters.merge_read += read;
    for group in groups {
        let mut mask = group.overlaps.then(OverwriteMask::default);
        // Later rows overwrite earlier rows.
        for output in group.outputs.iter().rev() {
            put_output(core, victims, output, &blocks, &mut mask, bundler)?;
        }
        write_all_pieces(core)?;
        bundler.flush_if_full(core, victims)?;
    }
    Ok(())
}

fn put_output(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
    bundler: &mut Bundler,
) -> Result<(), Error> {
    match join(core, output, blocks, mask) {
        // All rows of the block are overwritten.
        Some(None) => {
            for live in output {
                victims[live.victim].partial.done.insert(live.entry.number);
            }
            Ok(())
        }
        Some(Some(joined)) if joined.is_small(output) => {
            let member = Member {
                entry: joined.entry,
                layout: Arc::new(joined.layout.for_bundles()),
                rows: joined.rows,
            };
            bundler.push(member, output.to_vec());
            Ok(())
        }
        Some(Some(joined)) => add_coalesced(core, victims, output, &joined, blocks, bundler),
        None => copy_all(core, victims, output, blocks, bundler),
    }
}

/// Rows of several blocks, as one block.
struct Joined {
    /// Entry of the block, without its position.
    entry: Entry,
    layout: Arc<Layout>,
    rows: Columns,
}

impl Joined {
    /// Returns whether the block is small enough for a bundle.
    fn is_small(&self, output: &[Live]) -> bool {
        let bytes = output.iter().map(|live| u64::from(live.entry.len)).sum();
        is_small(self.entry.rows as usize, bytes)
    }

    /// Encodes the block.
    fn encode(&self, core: &Core) -> Vec<u8> {
        let head = BlockHead {
            source: self.entry.source,
            number: self.entry.number,
            layout: self.layout.number(),
        };
        let mut bytes = Vec::new();
        block::encode(head, &self.rows, present_effort(core), &mut bytes);
        bytes
    }
}

/// Returns the block into which blocks are coalesced, or `None` if no row remains. The outer `None`
/// means that the blocks cannot be combined.
fn join(
    core: &Core,
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
) -> Option<Option<Joined>> {
    let (first, last) = (output[0].entry, output[output.len() - 1].entry);
    let source = first.source;
    let (layout, visibility) = {
        let (head, log) = core.both();
        let layout = head.layout_of(source);
        (layout, log.retention.permanent_visibility(source))
    };
    let layout = layout_of(core, layout)?;
    let mut runs = Vec::with_capacity(output.len());
    for live in output {
        let stored = blocks.get(&(live.victim, live.entry.number))?;
        runs.push(decode_block(
            core,
            stored,
            &live.entry,
            &layout,
            &visibility,
        )?);
    }
    let found: u64 = runs.iter().map(|rows| rows.times.len() as u64).sum();
    let mut rows = merge(runs, layout.types());
    if let Some(mask) = mask {
        (rows, _) = mask.retain_visible(rows);
    }
    core.log().counters.overwritten_rows += found - rows.times.len() as u64;
    let (Some(&first_time), Some(&last_time)) = (rows.times.first(), rows.times.last()) else {
        // Rows were deleted one by one. This is rare, and the blocks are kept as a record of them.
        return (found > 0).then_some(None);
    };
    let entry = Entry {
        first: first_time,
        last: last_time,
        rows: rows.times.len() as u32,
        since: first.since,
        before: first.before,
        late: output.iter().any(|live| live.entry.late),
        bundle: 0,
        ..last
    };
    Some(Some(Joined {
        entry,
        rows: columns(rows, &layout),
        layout,
    }))
}

/// Decodes the live rows of a block into the columns that its source has now.
pub(crate) fn decode_block(
    core: &Core,
    stored: &Stored,
    entry: &Entry,
    layout: &Layout,
    visibility: &VisibilityFilter,
) -> Option<Rows> {
    let mut fields = vec![None; layout.columns()];
    let times = match stored {
        Stored::Alone(bytes) => {
            let block = Block::open(bytes).ok()?;
            let own = layout_of(core, block.head.layout)?;
            let (times, found) = block.columns(own.types(), |_| true).ok()?;
            for (column, field) in found.into_iter().enumerate() {
                let place = layout.column(own.names()[column].as_bytes(), column)?;
                fields[place] = field;
            }
            times
        }
        Stored::Bundled(SourceRows {
            layout: own, rows, ..
        }) => {
            let own = own.fields().iter().zip(&rows.fields).enumerate();
            for (column, ((name, field_type), field)) in own {
                let place = layout.column(name.as_bytes(), column)?;
                if layout.types()[place] != *field_type {
                    return None;
                }
                fields[place] = Some(field.clone());
            }
            rows.times.clone()
        }
    };
    let kept: Vec<usize> = (0..times.len())
        .filter(|&row| !visibility.hides_row(entry.number, times[row]))
        .collect();
    let rows = Rows { times, fields };
    Some(match kept.len() == rows.times.len() {
        true => rows,
        false => rows.pick(&kept),
    })
}

/// Adds a coalesced block. If some of its rows were hidden in the meantime, its blocks are copied
/// instead, so that hidden rows do not return.
fn add_coalesced(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    joined: &Joined,
    blocks: &Blocks,
    bundler: &mut Bundler,
) -> Result<(), Error> {
    let (entry, bytes) = (joined.entry, joined.encode(core));
    let (head, mut log) = core.both_with_slot()?;
    if has_hidden(&head, &log, output) {
        drop((head, log));
        return copy_all(core, victims, output, blocks, bundler);
    }
    let into = log.add_copy(entry, &bytes).expect(HAS_SLOT);
    note_rewritten(victims, output, into);
    log.counters.merge_written += bytes.len() as u64;
    if output.len() > 1 {
        log.counters.coalesced_blocks += output.len() as u64;
    }
    Ok(())
}

/// Copies blocks unchanged, without damaged blocks.
fn copy_all(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    blocks: &Blocks,
    bundler: &mut Bundler,
) -> Result<(), Error> {
    for live in output {
        let bytes = match blocks.get(&(live.victim, live.entry.number)) {
            Some(Stored::Alone(bytes)) => bytes,
            Some(Stored::Bundled(found)) => {
                bundler.push(member_of(live.entry, found.clone()), vec![*live]);
                continue;
            }
            None => continue,
        };
        let mut log = core.log_with_slot()?;
        let into = log.add_copy(live.entry, bytes).expect(HAS_SLOT);
        note_rewritten(victims, [live], into);
        log.counters.merge_written += bytes.len() as u64;
    }
    Ok(())
}

/// Converts rows into the columns of a layout. A column without any value consists of gaps.
fn columns(rows: Rows, layout: &Layout) -> Columns {
    let count = rows.times.len();
    let fields = rows.fields.into_iter().zip(layout.types());
    let fields = fields.map(|(field, &field_type)| {
        field.unwrap_or_else(|| FieldColumn {
            present: Some(std::iter::repeat_n(false, count).collect()),
            values: Column::new(field_type),
        })
    });
    Columns {
        fields: fields.collect(),
        times: rows.times,
    }
}
