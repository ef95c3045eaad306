//! Joining: writes the coalesced blocks of merge groups.

use super::coalescing::{Live, MergeGroup, OverwriteMask};
use super::victims::{GAP_BETWEEN_SOURCES, HAS_SLOT, Victim, effort, is_whole, layout_of, runs};
use crate::block::{self, Block, BlockHead};
use crate::core::Core;
use crate::dictionary::layouts::Layout;
use crate::error::Error;
use crate::jobs::segments::write_all_pieces;
use crate::maps::HashMap;
use crate::query::rows::{Rows, merge};
use crate::retention::visibility::VisibilityFilter;
use crate::segment::Entry;
use seiner_model::{Column, Columns, FieldColumn};

/// Bytes of blocks, by victim and offset.
type Blocks = HashMap<(usize, u32), Vec<u8>>;

/// Reads the blocks of merge groups and writes the coalesced blocks.
pub(super) fn coalesce_rows(
    core: &Core,
    victims: &mut [Victim],
    groups: &[MergeGroup],
) -> Result<(), Error> {
    let live = groups
        .iter()
        .flat_map(|group| group.outputs.iter().flatten());
    let (mut blocks, mut read) = (Blocks::default(), 0);
    let mut live: Vec<Live> = live.copied().collect();
    for run in runs(&mut live, GAP_BETWEEN_SOURCES) {
        let victim = &mut victims[run.victim()];
        let bytes = victim.segment.bytes_at(run.offset(), run.len())?;
        read += run.len();
        for (entry, bytes) in run.blocks(&bytes) {
            if is_whole(core, victim, entry, bytes) {
                blocks.insert((run.victim(), entry.offset), bytes.to_vec());
            }
        }
    }
    core.log().counters.merge_read += read;
    for group in groups {
        let mut mask = group.overlaps.then(OverwriteMask::default);
        // Later rows overwrite earlier rows.
        for output in group.outputs.iter().rev() {
            put_output(core, victims, output, &blocks, &mut mask)?;
        }
        write_all_pieces(core)?;
    }
    Ok(())
}

fn put_output(
    core: &Core,
    victims: &mut [Victim],
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
) -> Result<(), Error> {
    match join(core, output, blocks, mask) {
        // All rows of the block are overwritten.
        Some(None) => {
            for live in output {
                victims[live.victim].partial.done.insert(live.entry.number);
            }
            Ok(())
        }
        Some(Some((entry, bytes))) => add_coalesced(core, victims, output, entry, &bytes, blocks),
        None => copy_all(core, victims, output, blocks),
    }
}

/// Returns the block into which blocks are coalesced, or `None` if no row remains. The outer `None`
/// means that the blocks cannot be combined.
#[allow(clippy::type_complexity)]
fn join(
    core: &Core,
    output: &[Live],
    blocks: &Blocks,
    mask: &mut Option<OverwriteMask>,
) -> Option<Option<(Entry, Vec<u8>)>> {
    let (first, last) = (output[0].entry, output[output.len() - 1].entry);
    let source = first.source;
    let (layout, visibility) = {
        let (head, log) = core.both();
        let layout = head.line(source).layout;
        (layout, log.retention.permanent_visibility(source))
    };
    let layout = layout_of(core, layout)?;
    let mut runs = Vec::with_capacity(output.len());
    for live in output {
        let bytes = blocks.get(&(live.victim, live.entry.offset))?;
        runs.push(decode_block(
            core,
            bytes,
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
        ..last
    };
    let head = BlockHead {
        source,
        number: entry.number,
        layout: layout.number(),
    };
    let effort = {
        let (head, log) = core.both();
        effort(&log, &head.load())
    };
    let mut bytes = Vec::new();
    block::encode(head, &columns(rows, &layout), effort, &mut bytes);
    Some(Some((entry, bytes)))
}

/// Decodes the live rows of a block into the columns that its source has now.
pub(crate) fn decode_block(
    core: &Core,
    bytes: &[u8],
    entry: &Entry,
    layout: &Layout,
    visibility: &VisibilityFilter,
) -> Option<Rows> {
    let block = Block::open(bytes).ok()?;
    let own = layout_of(core, block.head.layout)?;
    let (times, found) = block.columns(own.types(), |_| true).ok()?;
    let mut fields = vec![None; layout.columns()];
    for (column, field) in found.into_iter().enumerate() {
        let place = layout.column(own.names()[column].as_bytes(), column)?;
        fields[place] = field;
    }
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
    entry: Entry,
    bytes: &[u8],
    blocks: &Blocks,
) -> Result<(), Error> {
    let (head, mut log) = core.both_with_slot()?;
    let visibility = log
        .retention
        .visibility(entry.source, head.rows_of(entry.source));
    if output.iter().any(|live| visibility.hides(&live.entry)) {
        drop((head, log));
        return copy_all(core, victims, output, blocks);
    }
    let into = log.add_copy(entry, bytes).expect(HAS_SLOT);
    for live in output {
        victims[live.victim].partial.into.insert(into);
        victims[live.victim].partial.done.insert(live.entry.number);
    }
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
) -> Result<(), Error> {
    for live in output {
        let Some(bytes) = blocks.get(&(live.victim, live.entry.offset)) else {
            continue;
        };
        let mut log = core.log_with_slot()?;
        let into = log.add_copy(live.entry, bytes).expect(HAS_SLOT);
        let partial = &mut victims[live.victim].partial;
        partial.into.insert(into);
        partial.done.insert(live.entry.number);
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
