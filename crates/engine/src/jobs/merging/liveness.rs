//! Liveness: counts the live blocks of segments whose contents may have changed.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::writing::Writing;
use crate::log::Log;
use crate::maps::HashSet;
use crate::recover::losses::loss_of_page;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::segment::stats::LivenessScan;
use crate::space::Load;
use seiner_merge::{Fill, SegmentStat};
use std::sync::Arc;

/// Segment and its live blocks.
pub(crate) type SegmentEntries = (Arc<Segment>, Vec<Entry>);

/// Inputs of a merge decision.
pub(crate) struct StatsSnapshot {
    /// Wall time, ns.
    pub now: i64,
    pub fill: Fill,
    pub segments: Vec<SegmentStat>,
    pub least_dead_share: f64,
}

pub(super) fn segment(log: &Log, number: u64) -> Arc<Segment> {
    log.sealed()[&number].clone()
}

/// Returns the inputs without the victims in `merged`: their space is about to be freed, and their
/// live blocks are counted in their new segments.
pub(super) fn snapshot_of(log: &Log, load: &Load, merged: &HashSet<u64>) -> StatsSnapshot {
    let clocks = log.retention.clocks();
    let stats = log
        .segment_stats()
        .values()
        .map(|stats| stats.stat_at(&clocks));
    let mut segments: Vec<SegmentStat> = stats.collect();
    let mut fill = log.fill_of(load, segments.iter().map(|stat| stat.live).sum());
    for gone in segments.extract_if(.., |stat| merged.contains(&stat.number)) {
        fill.used = fill.used.saturating_sub(gone.bytes);
        fill.live = fill.live.saturating_sub(gone.live);
    }
    StatsSnapshot {
        now: clocks.now,
        fill,
        segments,
        least_dead_share: log.least_dead_share(),
    }
}

/// Returns the live blocks of segments. Omits segments whose index is unreadable.
pub(crate) fn live_blocks(
    core: &Core,
    writing: &mut Writing,
    numbers: &[u64],
) -> Result<Vec<SegmentEntries>, Error> {
    let segments: Vec<Arc<Segment>> = {
        let log = core.log();
        let segments = numbers.iter().map(|&number| segment(&log, number));
        segments.collect()
    };
    let mut found = Vec::with_capacity(segments.len());
    for segment in segments {
        let number = segment.trailer.number;
        let (mut live, mut past) = (Vec::new(), Vec::new());
        let is_whole = each_page(core, writing, &segment, |log, writing, page| {
            for entry in page {
                match writing.is_elsewhere(number, entry) || log.retention.may_drop(entry) {
                    true => past.extend(log.retention.past_of(entry)),
                    false => live.push(*entry),
                }
            }
        })?;
        if is_whole {
            core.log().retention.note_past(&past);
            live.shrink_to_fit();
            found.push((segment, live));
        }
    }
    Ok(found)
}

/// Returns the inputs after at most `most` due liveness scans.
pub(super) fn snapshot(
    core: &Core,
    writing: &mut Writing,
    most: usize,
) -> Result<StatsSnapshot, Error> {
    let merged = writing.merge.merged.iter();
    let merged: HashSet<u64> = merged.map(|merged| merged.segment.trailer.number).collect();
    let due: Vec<Arc<Segment>> = {
        let (_, log) = core.present();
        let clocks = log.retention.clocks();
        let due = log.segment_stats().iter();
        let due = due.filter(|(_, stats)| stats.is_due(&clocks)).take(most);
        due.map(|(&number, _)| segment(&log, number)).collect()
    };
    scan_segments(core, writing, &due)?;
    let (head, log) = core.both();
    Ok(snapshot_of(&log, &head.load(), &merged))
}

/// Scans the liveness of segments, one after the other: a list of all their blocks may need more
/// memory than the store has.
pub(super) fn scan_segments(
    core: &Core,
    writing: &mut Writing,
    segments: &[Arc<Segment>],
) -> Result<(), Error> {
    for segment in segments {
        let trailer = &segment.trailer;
        let mut scan = LivenessScan::new(trailer.number);
        let is_whole = each_page(core, writing, segment, |log, writing, page| {
            for entry in page {
                let elsewhere = writing.is_elsewhere(trailer.number, entry);
                scan.add(entry, &log.retention, elsewhere);
            }
        })?;
        if !is_whole {
            continue;
        }
        let mut log = core.log();
        if scan.live() == 0 {
            log.retention.note_past(scan.past());
        }
        let clocks = log.retention.clocks();
        let bytes = segment.disk_bytes(core.unit);
        log.put_stats(scan.stats(trailer.lane, bytes, trailer.born, &clocks));
    }
    Ok(())
}

/// Reads the index of a segment page by page. `work` gets each page under the lock of the log.
/// Returns whether the index is readable. A segment with an unreadable index stays as it is from
/// now on, because all of its blocks may be live.
fn each_page(
    core: &Core,
    writing: &mut Writing,
    segment: &Segment,
    mut work: impl FnMut(&Log, &Writing, &[Entry]),
) -> Result<bool, Error> {
    for page in segment.blocks() {
        match page {
            Ok(page) => work(&core.log(), writing, &page),
            Err(error @ Error::Damage { .. }) => {
                let number = segment.trailer.number;
                tracing::error!("{error}; the segment is neither dropped nor merged");
                core.note_loss(loss_of_page(segment, &error));
                writing.merge.unreadable.insert(number);
                if let Some(stats) = core.log().stats_mut(number) {
                    stats.give_up();
                }
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Scans the liveness of all segments, as after a delete.
pub(crate) fn scan_all(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    for stats in core.log().segment_stats_mut() {
        stats.request_scan();
    }
    snapshot(core, writing, usize::MAX).map(drop)
}
