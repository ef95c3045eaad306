//! Liveness: what is live in segments, counted anew where it may have changed.

use crate::core::Core;
use crate::error::Error;
use crate::jobs::flush::survey_segment;
use crate::jobs::writing::Writing;
use crate::recover::loss_of_page;
use crate::segment::Entry;
use crate::segment::sealed::Segment;
use crate::shared::Guard;
use crate::state::State;
use seiner_merge::{Fill, SegmentStat};
use std::collections::HashSet;
use std::sync::Arc;

/// A segment and its entries.
pub(super) type Opened = (Arc<Segment>, Vec<Entry>);

/// What a decision is made from.
pub(super) struct Census {
    /// Wall time, ns.
    pub now: i64,
    pub fill: Fill,
    pub segments: Vec<SegmentStat>,
    pub least_dead_share: f64,
}

pub(super) fn segment(state: &State, number: u64) -> Arc<Segment> {
    state.sealed[&number].clone()
}

/// What there is, but for victims that are `eaten`: their room is as good as free, and what is live
/// of them is counted where it is now.
pub(super) fn census_of(state: &State, eaten: &HashSet<u64>) -> Census {
    let moment = state.retention.moment();
    let stats = state.tallies.values().map(|tally| tally.stat_at(&moment));
    let mut segments: Vec<SegmentStat> = stats.collect();
    let mut fill = state.fill_of(segments.iter().map(|stat| stat.live).sum());
    for gone in segments.extract_if(.., |stat| eaten.contains(&stat.number)) {
        fill.used = fill.used.saturating_sub(gone.bytes);
        fill.live = fill.live.saturating_sub(gone.live);
    }
    Census {
        now: moment.now,
        fill,
        segments,
        least_dead_share: state.least_dead_share(),
    }
}

/// Segments with their entries, but for those whose indexes cannot be read.
pub(crate) fn opened(
    core: &Core,
    writing: &mut Writing,
    numbers: &[u64],
) -> Result<Vec<Opened>, Error> {
    let segments: Vec<Arc<Segment>> = {
        let state = core.lock();
        numbers
            .iter()
            .map(|&number| segment(&state, number))
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

/// What there is, once as many segments as `most` were surveyed of which it is time to.
pub(super) fn census(core: &Core, writing: &mut Writing, most: usize) -> Result<Census, Error> {
    let eaten = writing.eaten.iter();
    let eaten: HashSet<u64> = eaten.map(|eaten| eaten.segment.trailer.number).collect();
    let mut state = core.lock();
    state.advance(&*core.clock);
    let moment = state.retention.moment();
    let due = state
        .tallies
        .iter()
        .filter(|(_, tally)| tally.is_due(&moment));
    let due = due.take(most).map(|(&number, _)| segment(&state, number));
    let due: Vec<Arc<Segment>> = due.collect();
    if !due.is_empty() {
        drop(state);
        state = survey_segments(core, writing, &due)?;
    }
    Ok(census_of(&state, &eaten))
}

/// Counts anew what is live in segments, and keeps the lock.
pub(super) fn survey_segments<'a>(
    core: &'a Core,
    writing: &mut Writing,
    segments: &[Arc<Segment>],
) -> Result<Guard<'a>, Error> {
    let mut read = Vec::with_capacity(segments.len());
    for segment in segments {
        if let Some(entries) = entries_of(core, writing, segment)? {
            read.push((segment, entries));
        }
    }
    let mut state = core.lock();
    for (segment, entries) in read {
        let trailer = &segment.trailer;
        let elsewhere = |entry: &Entry| writing.is_elsewhere(trailer.number, entry);
        let survey;
        (state, survey) = survey_segment(core, state, trailer.number, &entries, elsewhere);
        let moment = state.retention.moment();
        let tally = survey.tally(trailer.lane, segment.room(core.unit), trailer.born, &moment);
        if tally.stat.live == 0 {
            state.retention.note_past(&entries);
        }
        state.put_tally(tally);
    }
    Ok(state)
}

/// A segment's entries. One whose index cannot be read stays as it is from now on: for all we
/// know, everything in it is live.
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
                writing.unreadable.insert(number);
                if let Some(tally) = core.lock().tallies.get_mut(&number) {
                    tally.give_up();
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(entries))
}

/// Counts everything anew, as after a delete.
pub(crate) fn survey_all(core: &Core, writing: &mut Writing) -> Result<(), Error> {
    for tally in core.lock().tallies.values_mut() {
        tally.ask();
    }
    census(core, writing, usize::MAX).map(drop)
}
