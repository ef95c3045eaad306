//! Report: what a store has, and how it is.

use crate::core::{Core, ENTRIES_A_LOCK, ROWS_A_LOCK};
use crate::jobs::merging::memory::Record;
use crate::log::TRIMS;
use crate::options::Durability;
use crate::segment::list::Listing;
use crate::segment::open::OpenSegment;
use crate::status::{ClassStatus, LogStatus, SegmentInfo, Status, Unsynced, counted, log_status};
use seiner_model::{FieldType, Selector, SourceId, SourceKey};
use std::sync::atomic::Ordering;
/// Differences between the rules that this start brought and those that were stored, in words.
pub(crate) fn rules_changed(core: &Core) -> &[String] {
    &core.rules_changed
}

/// All measurements, sorted.
pub(crate) fn measurements(core: &Core) -> Vec<String> {
    core.dictionary(|dictionary| dictionary.measurements())
}

/// The tags that the selected sources have, sorted.
pub(crate) fn tag_names(core: &Core, selector: &Selector) -> Vec<String> {
    core.dictionary(|dictionary| dictionary.tag_names(selector))
}

/// The first `limit` values of a tag among the selected sources, sorted.
pub(crate) fn tag_values(core: &Core, selector: &Selector, tag: &str, limit: usize) -> Vec<String> {
    let values = core.dictionary(|dictionary| dictionary.tag_values(selector, tag, limit));
    core.lock().trims_due = TRIMS;
    values
}

/// The selected sources, ascending.
pub(crate) fn sources(core: &Core, selector: &Selector) -> Vec<SourceId> {
    core.dictionary(|dictionary| dictionary.select(selector).iter().map(SourceId).collect())
}

/// The measurement and tags of a source.
pub(crate) fn source_key(core: &Core, id: SourceId) -> Option<SourceKey> {
    core.dictionary(|dictionary| dictionary.key(id.0))
}

/// The fields of the selected sources with their types, sorted.
pub(crate) fn fields(core: &Core, selector: &Selector) -> Vec<(String, FieldType)> {
    let sources = sources(core, selector);
    let mut layouts = std::collections::BTreeSet::new();
    for some in sources.chunks(ROWS_A_LOCK) {
        let state = core.lock();
        layouts.extend(
            some.iter()
                .map(|source| state.buffers.line(source.0).layout),
        );
    }
    let state = core.lock();
    let fields: std::collections::BTreeSet<(String, FieldType)> = layouts
        .into_iter()
        .filter_map(|number| state.layouts.get(number))
        .flat_map(|layout| {
            layout
                .names()
                .iter()
                .map(|name| name.to_string())
                .zip(layout.types().iter().copied())
        })
        .collect();
    fields.into_iter().collect()
}

/// The sealed segments, oldest first.
pub(crate) fn segments(core: &Core) -> Vec<SegmentInfo> {
    let sealed = core.lock().sealed.clone();
    sealed.values().map(|segment| segment.info()).collect()
}

/// The log: room, lanes, segments, classes.
pub(crate) fn log(core: &Core) -> LogStatus {
    core.look_at_the_clock();
    let memory = core.decided().memory;
    let live = live_on_disk(core);
    let mut state = core.lock();
    state.advance(&*core.clock);
    log_status(state.log_view(memory, &live))
}

/// The retention classes and what they have.
pub(crate) fn classes(core: &Core) -> Vec<ClassStatus> {
    core.look_at_the_clock();
    let live = live_on_disk(core);
    let mut state = core.lock();
    state.advance(&*core.clock);
    state.class_status(&live)
}

/// Returns the bytes of live blocks by class, in sealed segments and in those that are being written.
/// Others get the lock now and then.
fn live_on_disk(core: &Core) -> Vec<u64> {
    let (mut live, open) = {
        let state = core.lock();
        let open: Vec<Listing> = state.open.iter().map(OpenSegment::listing).collect();
        (state.live_in_sealed(), open)
    };
    for listing in open {
        for entries in listing.entries().chunks(ENTRIES_A_LOCK) {
            core.lock().add_live(entries, &mut live);
        }
    }
    live
}

/// What was dropped and merged lately and why, the latest last.
pub(crate) fn decisions(core: &Core) -> Vec<Record> {
    core.decided().records.iter().cloned().collect()
}

/// The state of the store.
pub(crate) fn status(core: &Core) -> Status {
    let now = core.clock.monotonic();
    let (losses, lost_rows, losses_unacknowledged) = {
        let ledger = core.ledger();
        let contents = ledger.contents();
        let (losses, rows) = contents.lost();
        (losses, rows, contents.unacknowledged().len() as u64)
    };
    let live_bytes = live_on_disk(core).iter().sum();
    let mut state = core.lock();
    let trouble = state.trouble(now);
    let counters = &state.counters;
    let (fill, files) = (state.fill(), state.used_by_files());
    let (clock_held_ns, clock_behind_ns) = state.retention.clock_differences(core.clock.now());
    let durable = &core.durable;
    let unsynced = Unsynced {
        no_journal: core.durability() == Durability::Memory,
        durable: durable.samples.load(Ordering::Relaxed),
        buffered: state.buffers.row_bytes(),
        staged: state.staging.bytes() as u64,
        written: durable.bytes.load(Ordering::Relaxed),
        since: (durable.since.load(Ordering::Relaxed), state.staging.since),
    };
    let (unsynced_samples, unsynced_bytes, unsynced_age_ns) = unsynced.count(counters, now);
    Status {
        sources: state.buffers.sources() as u64 - state.retention.levels(),
        levels: state.retention.levels(),
        series: state.series,
        unsynced_samples,
        unsynced_bytes,
        unsynced_age_ns,
        buffered_rows: state.buffers.rows(),
        buffer_bytes: state.buffers.memory() as u64,
        dictionary_bytes: state.dictionary_bytes() as u64,
        memory_used: state.memory() as u64,
        memory_budget: state.options.memory,
        journal_bytes: state.pins.bytes(),
        journal_files: state.pins.files() as u64,
        journal_syncs: durable.syncs.load(Ordering::Relaxed),
        segments: state.sealed.len() as u64,
        segment_bytes: state.sealed.values().map(|segment| segment.bytes()).sum(),
        damaged_segments: core.recovery.damaged_segments + counters.damaged_blocks,
        losses,
        lost_rows,
        losses_unacknowledged,
        extra_left: state.extra_left(),
        ageing_waits: state.ageing_waits.clone(),
        open_segments: state.open.len() as u64,
        open_segment_bytes: state.open.iter().map(OpenSegment::len).sum(),
        disk_used: fill.used,
        disk_files: files,
        disk_allotted: fill.used - files,
        disk_budget: fill.budget,
        live_bytes,
        clock_held_ns,
        clock_behind_ns,
        poisoned: state.poisoned.clone(),
        trouble,
        ..counted(counters)
    }
}
