//! Liveness: counts the live blocks of segments whose contents may have changed.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::segments::scan_segment;
use crate::jobs::writing::Writing;
use crate::locks::LogGuard;
use crate::log::Log;
use crate::recover::losses::loss_of_page;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::space::Load;
use seiner_merge::{Fill, SegmentStat};
use std::collections::HashSet;
use std::sync::Arc;

/// Segment and its entries.
pub(super) type SegmentEntries = (Arc<Segment>, Vec<Entry>);

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

/// Reads the entries of segments. Omits segments whose index is unreadable.
pub(crate) fn opened(
    core: &Core,
    writing: &mut Writing,
    numbers: &[u64],
) -> Result<Vec<SegmentEntries>, Error> {
    let segments: Vec<Arc<Segment>> = {
        let log = core.log();
        numbers
            .iter()
            .map(|&number| segment(&log, number))
            .collect()
    };
    let mut opened = Vec::with_capacity(segments.len());
    for segment in segments {
        if let Some(entries) = entries_of(core, writing, &segment)? {
            opened.push((segment, entries));
        }
    }
    Ok(opened)
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

/// Scans the liveness of segments.
pub(super) fn scan_segments(
    core: &Core,
    writing: &mut Writing,
    segments: &[Arc<Segment>],
) -> Result<(), Error> {
    let mut read = Vec::with_capacity(segments.len());
    for segment in segments {
        if let Some(entries) = entries_of(core, writing, segment)? {
            read.push((segment, entries));
        }
    }
    let mut log: LogGuard<'_> = core.log();
    for (segment, entries) in read {
        let trailer = &segment.trailer;
        let elsewhere = |entry: &Entry| writing.is_elsewhere(trailer.number, entry);
        let scan;
        (log, scan) = scan_segment(core, log, trailer.number, &entries, elsewhere);
        let clocks = log.retention.clocks();
        let stats = scan.stats(
            trailer.lane,
            segment.disk_bytes(core.unit),
            trailer.born,
            &clocks,
        );
        if stats.stat.live == 0 {
            log.retention.note_past(&entries);
        }
        log.put_stats(stats);
    }
    Ok(())
}

/// Reads the entries of a segment. A segment with an unreadable index stays as it is from now on,
/// because all of its blocks may be live.
pub(super) fn entries_of(
    core: &Core,
    writing: &mut Writing,
    segment: &Segment,
) -> Result<Option<Vec<Entry>>, Error> {
    let mut entries = Vec::with_capacity(segment.trailer.blocks as usize);
    for page in segment.blocks() {
        match page {
            Ok(page) => entries.extend(page),
            Err(error @ Error::Damage { .. }) => {
                let number = segment.trailer.number;
                tracing::error!("{error}; the segment is neither dropped nor merged");
                core.note_loss(loss_of_page(segment, &error));
                writing.merge.unreadable.insert(number);
                if let Some(stats) = core.log().stats_mut(number) {
                    stats.give_up();
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(entries))
}

/// Scans the liveness of all segments, as after a delete.
pub(crate) fn scan_all(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    for stats in core.log().segment_stats_mut() {
        stats.request_scan();
    }
    snapshot(core, writing, usize::MAX).map(drop)
}
