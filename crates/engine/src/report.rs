//! Report: contents and state of a store.

use crate::core::{Core, ENTRIES_A_LOCK, ROWS_A_LOCK};
use crate::error::Error;
use crate::exchange::share_memory;
use crate::jobs::merging::memory::DecisionRecord;
use crate::names;
use crate::options::Durability;
use crate::segment::list::Listing;
use crate::segment::open::OpenSegment;
use crate::status::{ClassStatus, LogStatus, SegmentInfo, Status, Unsynced, counted, log_status};
use crate::trouble::Trouble;
use seiner_model::{FieldType, Selector, SourceId};
use std::sync::atomic::Ordering;

/// Returns the differences between the rules of this start and the stored rules, as text.
pub(crate) fn rules_changed(core: &Core) -> &[String] {
    &core.rules_changed
}

/// Returns the selected sources, ascending.
///
/// # Errors
/// If a names file is damaged, or the disk fails.
pub(crate) fn sources(core: &Core, selector: &Selector) -> Result<Vec<SourceId>, Error> {
    Ok(names::select(core, selector)?
        .iter()
        .map(SourceId)
        .collect())
}

/// Returns the fields of the selected sources with their types, sorted.
///
/// # Errors
/// If a names file is damaged, or the disk fails.
pub(crate) fn fields(core: &Core, selector: &Selector) -> Result<Vec<(String, FieldType)>, Error> {
    let sources = sources(core, selector)?;
    let mut layouts = std::collections::BTreeSet::new();
    for some in sources.chunks(ROWS_A_LOCK) {
        let head = core.head();
        layouts.extend(some.iter().map(|source| head.layout_of(source.0)));
    }
    let head = core.head();
    let fields: std::collections::BTreeSet<(String, FieldType)> = layouts
        .into_iter()
        .filter_map(|number| head.layouts().get(number))
        .flat_map(|layout| {
            layout
                .names()
                .iter()
                .map(|name| name.to_string())
                .zip(layout.types().iter().copied())
        })
        .collect();
    Ok(fields.into_iter().collect())
}

/// Returns the sealed segments, oldest first.
pub(crate) fn segments(core: &Core) -> Vec<SegmentInfo> {
    let sealed = core.log().sealed().clone();
    sealed.values().map(|segment| segment.info()).collect()
}

/// Returns the log: space, lanes, segments, classes.
pub(crate) fn log(core: &Core) -> LogStatus {
    core.look_at_the_clock();
    let memory = core.decided().memory;
    let live = live_on_disk(core);
    let (head, log) = core.present();
    log_status(log.view(&head.load(), memory, &live))
}

/// Returns the retention classes and their contents.
pub(crate) fn classes(core: &Core) -> Vec<ClassStatus> {
    core.look_at_the_clock();
    let live = live_on_disk(core);
    core.present().1.class_status(&live)
}

/// Returns the bytes of live blocks by class, in sealed segments and in open segments. Releases the
/// lock from time to time.
fn live_on_disk(core: &Core) -> Vec<u64> {
    let (mut live, open) = {
        let log = core.log();
        let open: Vec<Listing> = log.open().iter().map(OpenSegment::listing).collect();
        (log.live_in_sealed(), open)
    };
    for listing in open {
        for entries in listing.entries().chunks(ENTRIES_A_LOCK) {
            core.log().add_live(entries, &mut live);
        }
    }
    live
}

/// Returns recent decisions to drop or merge segments and their reasons, latest last.
pub(crate) fn decisions(core: &Core) -> Vec<DecisionRecord> {
    core.decided().records.iter().cloned().collect()
}

/// Returns the state of the store.
pub(crate) fn status(core: &Core) -> Status {
    let now = core.clock.monotonic();
    let (losses, lost_rows, losses_unacknowledged) = {
        let ledger = core.ledger();
        let contents = ledger.contents();
        let (losses, rows) = contents.lost();
        (losses, rows, contents.unacknowledged().len() as u64)
    };
    let live_bytes = live_on_disk(core).iter().sum();
    let (mut head, log) = core.both();
    head.log_figures().query_memory = core.query_memory();
    // Without writers, the head has the figures of the last batch.
    share_memory(&mut head, &log);
    let load = head.load();
    let headroom = log.headroom(&load);
    let trouble = Trouble {
        no_new_sources: head.is_registry_full(),
        ..core.health.trouble(now, headroom > 0, log.is_slow(&load))
    };
    let (fill, files) = (log.fill(&load), log.used_by_files(&load));
    let (clock_held_ns, clock_behind_ns) = log.retention.clock_differences(core.clock.now());
    let members = head.members();
    let (sources_filed, sources_dormant) = head.filed_sources();
    let durable = &core.durable;
    let unsynced = Unsynced {
        no_journal: core.durability() == Durability::Memory,
        durable: durable.samples.load(Ordering::Relaxed),
        buffered: head.buffers().row_bytes(),
        staged: head.staging.bytes() as u64,
        written: durable.bytes.load(Ordering::Relaxed),
        since: (durable.since.load(Ordering::Relaxed), head.staging.since),
    };
    let (unsynced_samples, unsynced_bytes, unsynced_age_ns) =
        unsynced.count(&head.counters, log.counters.block_samples, now);
    Status {
        sources: members.sources(),
        levels: members.levels(),
        series: head.series(),
        sources_filed,
        sources_dormant,
        names_bytes: log.space.names(),
        unsynced_samples,
        unsynced_bytes,
        unsynced_age_ns,
        buffered_rows: head.buffers().rows(),
        buffer_bytes: head.buffers().block_bytes() as u64,
        dictionary_bytes: head.dictionary_bytes() as u64,
        memory_used: head.memory() as u64,
        memory_budget: core.memory_limit(),
        journal_bytes: head.pins.bytes(),
        journal_files: head.pins.files() as u64,
        journal_syncs: durable.syncs.load(Ordering::Relaxed),
        segments: log.sealed().len() as u64,
        segment_bytes: log.sealed().values().map(|segment| segment.bytes()).sum(),
        damaged_segments: core.recovery.damaged_segments + log.counters.damaged_blocks,
        losses,
        lost_rows,
        losses_unacknowledged,
        extra_left: log.extra_left(),
        rollup_blocked: core.health.rollup_blocked(),
        open_segments: log.open().len() as u64,
        open_segment_bytes: log.open().iter().map(OpenSegment::len).sum(),
        disk_used: fill.used,
        disk_files: files,
        disk_allotted: fill.used - files,
        disk_budget: fill.budget,
        live_bytes,
        clock_held_ns,
        clock_behind_ns,
        poisoned: core.health.poisoned().map(str::to_string),
        trouble,
        ..counted(&head.counters, &log.counters)
    }
}
