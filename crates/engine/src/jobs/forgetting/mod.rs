//! Forgetting: sources without data lose their names, so that names of sources that come and go do not
//! fill the memory.
//!
//! A search begins when segments were dropped, because only then can a source lose its last block. It
//! looks for sources without rows in memory, and reads the lists of blocks of all segments, newest
//! first, until each of these sources was found. What is left is forgotten as [`crate::head`] describes:
//! first in the catalog, then in memory.
//!
//! The number of a forgotten source is used again when no query can refer to the source. Nothing is
//! forgotten while a segment or a journal file is damaged or missing: if it is restored, its rows must
//! find their names.

pub(crate) mod memory;

use self::memory::{ForgettingMemory, Search, Waiting};
use crate::commit::write_journal;
use crate::core::Core;
use crate::error::Error;
use crate::head::Head;
use crate::jobs::filing::unfile;
use crate::jobs::writing::Writing;
use crate::retention::class::Keep;
use roaring::RoaringBitmap;

/// Share of the segments that must have been dropped since the last search.
const DROPPED_SHARE: u64 = 8;
/// Share of the registry that sources fill before segments are closed.
const CLOSING_SHARE: f64 = 1.0 / 16.0;
/// Names removed, and numbers freed, under one lock.
const AT_ONCE: usize = 256;
/// Time after which the number of a source without a name may be used again, ns. A copy of the store
/// that is being made may contain segments that were dropped meanwhile.
const REST: u64 = 60_000_000_000;
/// The catalog is compacted when it is so many times as long as after the last time.
const GROWTH: u64 = 2;
/// Bytes by which the catalog grows at least before it is compacted.
const LEAST_GROWTH: u64 = 1 << 20;

/// Performs a step: begins or continues a search, forgets the sources that it found, or frees numbers.
/// Returns whether anything was done.
pub(super) fn forget(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if !core.forgets() || writing.forgetting.is_off || writing.rollup.is_some() {
        return Ok(false);
    }
    note_start(core, &mut writing.forgetting);
    close_segments(core, &mut writing.forgetting);
    let freed = free_numbers(core, &mut writing.forgetting)?;
    if let Some(search) = &mut writing.forgetting.search {
        if !read_segment(core, search)? {
            writing.forgetting.search = None;
            match forget_candidates(core, &mut writing.forgetting) {
                Err(error @ Error::Damage { .. }) => {
                    tracing::error!("no more sources are forgotten: {error}");
                    writing.forgetting.is_off = true;
                }
                result => result?,
            }
        }
        return Ok(true);
    }
    if is_due(core, &writing.forgetting) {
        begin_search(core, &mut writing.forgetting)?;
        return Ok(true);
    }
    Ok(freed)
}

/// Lets the numbers without names that a start finds wait as those that lose their names now.
fn note_start(core: &Core, memory: &mut ForgettingMemory) {
    if std::mem::replace(&mut memory.knows_start, true) {
        return;
    }
    let head = core.head();
    let sources = head.unoccupied();
    if !sources.is_empty() {
        memory.waiting.push_back(Waiting {
            sources,
            queries: core.queries.end_epoch(),
            since: core.clock.monotonic(),
        });
    }
}

/// Closes the segments that accept blocks when many sources have come. A segment is dropped when its last
/// block dies: one that collects blocks for long would keep the names of all sources in it.
fn close_segments(core: &Core, memory: &mut ForgettingMemory) {
    let (head, mut log) = core.both();
    let expires = log
        .retention
        .classes()
        .iter()
        .any(|class| class.keep != Keep::default());
    if expires && head.registered_share(memory.closed) >= CLOSING_SHARE {
        memory.closed = head.registrations();
        log.close_active();
    }
}

/// Frees the numbers of sources to which nothing refers any more. Returns whether there were any.
fn free_numbers(core: &Core, memory: &mut ForgettingMemory) -> Result<bool, Error> {
    let is_free = |waiting: &mut Waiting| {
        core.clock.monotonic() - waiting.since >= REST && waiting.queries.is_over()
    };
    let Some(mut waiting) = memory.waiting.pop_front_if(is_free) else {
        return Ok(release_from_files(core, memory));
    };
    // A names file would give the source that gets the number another name at the next start.
    let held = in_files(core, &waiting.sources);
    waiting.sources -= &held;
    memory.held |= held;
    // All rows of the sources are in records before the next. These are synced: if a power cut lost some of them, rows of
    // the next source with the number would be in records that look older than the source.
    write_journal(core, true)?;
    let first_record = core.journal().sequence();
    core.log().retention.forget_sources(&waiting.sources);
    let sources: Vec<u32> = waiting.sources.iter().collect();
    for some in sources.chunks(AT_ONCE) {
        let (mut head, mut log) = core.both();
        head.free_numbers(some, first_record);
        for &source in some {
            log.retention.reset_source(source);
        }
    }
    Ok(true)
}

/// Returns those of some numbers that are in names files.
fn in_files(core: &Core, sources: &RoaringBitmap) -> RoaringBitmap {
    core.dictionary(|dictionary| dictionary.filed().in_files(sources))
}

/// Lets the numbers wait that names files do not contain any more. Returns whether there were any.
fn release_from_files(core: &Core, memory: &mut ForgettingMemory) -> bool {
    if memory.held.is_empty() {
        return false;
    }
    let held = in_files(core, &memory.held);
    let sources = std::mem::replace(&mut memory.held, held) - &memory.held;
    let were_any = !sources.is_empty();
    if were_any {
        memory.waiting.push_front(Waiting {
            sources,
            queries: core.queries.end_epoch(),
            since: 0,
        });
    }
    were_any
}

/// Returns whether a search should begin.
fn is_due(core: &Core, memory: &ForgettingMemory) -> bool {
    has_dropped(core, memory) && core.health.writable().is_ok() && is_complete(core)
}

/// Returns whether enough segments were dropped since the last search, or there was none.
fn has_dropped(core: &Core, memory: &ForgettingMemory) -> bool {
    let (head, log) = core.both();
    let Some(before) = memory.dropped else {
        return head.sources() > 0;
    };
    let few = (log.sealed().len() as u64 / DROPPED_SHARE).max(1);
    let needed = match head.is_registry_full() {
        true => 1,
        false => few,
    };
    log.counters.segments_dropped - before >= needed
}

/// Returns whether no data is damaged or missing.
fn is_complete(core: &Core) -> bool {
    let recovery = &core.recovery;
    recovery.damaged_segments == 0
        && recovery.set_aside.is_empty()
        && core.ledger().contents().unacknowledged().is_empty()
        && core.log().counters.damaged_blocks == 0
}

fn begin_search(core: &Core, memory: &mut ForgettingMemory) -> Result<(), Error> {
    memory.dropped = Some(core.log().counters.segments_dropped);
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = core.head().add_candidates(from);
    }
    if core.head().candidates().is_empty() {
        return Ok(());
    }
    // Blocks of candidates that were taken before are in the log from now on.
    core.finish_sealing()?;
    let log = core.log();
    let mut found = RoaringBitmap::new();
    let taken: Vec<_> = log.open().iter().map(|open| open.listing()).collect();
    let segments = log.sealed().values().cloned().collect();
    drop(log);
    for listing in taken {
        found.extend(listing.iter().map(|entry| entry.source));
    }
    memory.search = Some(Search { segments, found });
    Ok(())
}

/// Reads the list of blocks of the newest segment that was not read. Returns false if no further
/// segment has to be read.
fn read_segment(core: &Core, search: &mut Search) -> Result<bool, Error> {
    let is_left = !core.head().candidates().is_subset(&search.found);
    if let Some(segment) = search.segments.pop()
        && is_left
    {
        for page in segment.blocks() {
            match page {
                Ok(entries) => search
                    .found
                    .extend(entries.iter().map(|entry| entry.source)),
                Err(Error::Damage { .. }) => {
                    // Any source may have blocks in the damaged part.
                    search.found.insert_range(..);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        return Ok(true);
    }
    core.head().drop_candidates(&search.found);
    Ok(false)
}

/// Forgets the candidates, which have no data.
fn forget_candidates(core: &Core, memory: &mut ForgettingMemory) -> Result<(), Error> {
    keep_bases(core);
    if core.head().candidates().is_empty() {
        core.head().end_round();
        return Ok(());
    }
    let _span = tracing::trace_span!("forget").entered();
    let candidates = core.head().candidates().clone();
    // A name that is kept after all is written to the catalog again.
    match unfile(core, &candidates) {
        Err(Error::Damage { .. }) => {
            // The names are read from the catalog before the next search.
            core.head().abandon_round();
            return Ok(());
        }
        result => result?,
    }
    if let Err(error) = record_candidates(core) {
        core.head().abandon_round();
        return Err(error);
    }
    let mut names = Vec::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = core.head().list_names(from, &mut names);
    }
    names.sort_unstable();
    let mut from = 0;
    while from < names.len() {
        let some = Head::some_names(&names, from, AT_ONCE);
        from = some.end;
        core.head().remove_names(&names[some]);
    }
    let sources = core.head().end_round();
    memory.waiting.push_back(Waiting {
        sources,
        queries: core.queries.end_epoch(),
        since: core.clock.monotonic(),
    });
    let compacted = memory.compacted;
    let is_long = |len: u64| len >= (compacted * GROWTH).max(compacted + LEAST_GROWTH);
    if let Some(len) = core.compact_catalog_if(|catalog| is_long(catalog.len()))? {
        memory.compacted = len;
    }
    Ok(())
}

/// Records the candidates as forgotten in the catalog.
fn record_candidates(core: &Core) -> Result<(), Error> {
    // A segment that a power cut brings back would have blocks of sources that the catalog has forgotten, and
    // whose numbers others may have by then.
    core.volume.sync()?;
    core.compact_catalog_if(|catalog| !catalog.is_third_version())?;
    // A journal that is kept for other sources may contain the names. A start must not register them again.
    write_journal(core, true)?;
    let sequence = core.journal().sequence();
    core.write_catalog()?;
    core.head().record_candidates(sequence);
    while core.head().has_recorded() {
        core.write_catalog()?;
    }
    Ok(())
}

/// Keeps the sources of levels that have data.
fn keep_bases(core: &Core) {
    let head = core.head();
    let candidates = match head.members().levels() {
        0 => return,
        _ => head.candidates().clone(),
    };
    drop(head);
    let mut kept = RoaringBitmap::new();
    for source in &candidates {
        if !core.head().levels_of(source).is_empty() {
            kept.insert(source);
        }
    }
    core.head().drop_candidates(&kept);
}

#[cfg(test)]
mod tests {
    use super::record_candidates;
    use crate::check::check;
    use crate::commit::write_journal;
    use crate::delete::delete;
    use crate::jobs::step;
    use crate::jobs::testing::{World, options};
    use crate::options::{Durability, Options};
    use crate::report::sources;
    use crate::retention::class::{Class, Classes};
    use seiner_model::{Interval, Selector};
    use seiner_platform::Disk;
    use std::time::Duration;

    fn names(round: u32) -> Vec<String> {
        let name = |number| format!("m,pod=p{round:03}-{number:03},zone=z{}", number % 3);
        (0..100).map(name).collect()
    }

    fn listed(world: &World) -> usize {
        sources(&world.core, &Selector::all()).unwrap().len()
    }

    fn hourly_options() -> Options {
        let mut class = Class::forever();
        class.keep.age = Some(Duration::from_secs(3600));
        Options {
            classes: Classes::new(vec![class]).unwrap(),
            ..options()
        }
    }

    fn hourly() -> World {
        World::new(hourly_options())
    }

    #[test]
    fn sources_that_come_and_go_leave_their_numbers_to_new_ones() {
        let world = hourly();
        let mut memory = 0;
        for round in 0..30 {
            let names = names(round);
            world.append_named(&names, i64::from(round) * 1800);
            world.run_all();
            world.wait(1800);
            world.run_all();
            assert!(listed(&world) <= 400, "round {round}: {}", listed(&world));
            let head = world.core.head();
            assert!(head.sources() <= 500, "round {round}: {}", head.sources());
            if round == 10 {
                memory = head.dictionary_bytes();
            }
        }
        let head = world.core.head();
        assert!(
            head.dictionary_bytes() <= memory + 4096,
            "{}",
            head.dictionary_bytes()
        );
        assert_eq!(head.series(), head.members().sources());
        drop(head);
        let (_, rows) = (world.sealed(), world.rows());
        assert_eq!(rows, listed(&world), "one row of each");
    }

    #[test]
    fn a_deleted_source_releases_its_name() {
        let world = hourly();
        world.append_named(&names(0), 0);
        world.run_all();
        world.append_named(&names(1), 1);
        world.run_all();
        assert_eq!(listed(&world), 200);
        let selector = Selector::parse(r#"m{pod^="p000"}"#).unwrap();
        let all = Interval::new(i64::MIN, i64::MAX);
        assert_eq!(delete(&world.core, &selector, all).unwrap(), 100);
        world.run_all();
        assert_eq!(listed(&world), 100);
        assert_eq!(world.core.head().counters.forgotten, 100);
        // The same name is a new source.
        world.append_named(&names(0), 2);
        world.run_all();
        assert_eq!((listed(&world), world.rows()), (200, 200));
    }

    /// Regression: a segment returned with blocks of forgotten sources, and these were shown under their new names.
    #[test]
    fn segments_of_forgotten_sources_do_not_return_after_a_power_cut() {
        let world = hourly();
        for round in 0..3 {
            world.append_named(&names(round), 0);
            world.run_all();
            let selector = Selector::all();
            assert_eq!(delete(&world.core, &selector, Interval::ALL).unwrap(), 100);
            world.run_all();
            let head = world.core.head();
            assert_eq!(head.counters.forgotten, 100 * (u64::from(round) + 1));
            drop(head);
            let left = segments(&*world.disk);
            for seed in 0..20 {
                assert_eq!(segments(&world.disk.fork(seed).crash()), left);
            }
        }
    }

    fn synced() -> Options {
        Options {
            durability: Durability::Sync,
            ..hourly_options()
        }
    }

    /// Appends a row to each of the sources of a round, and deletes these rows, in a journal that is kept for another source.
    fn append_and_delete(world: &World, round: u32) {
        world.append_named(&names(round), 0);
        write_journal(&world.core, true).unwrap();
        let selector = Selector::parse("m").unwrap();
        delete(&world.core, &selector, Interval::ALL).unwrap();
        world.core.log().close_active();
        world.wait(61);
    }

    /// Regression: a source with the number of an earlier one was forgotten, too. A start read its name and its deleted
    /// rows from the journal again, or called the record malformed if a third source had the number by then.
    #[test]
    fn a_journal_that_is_kept_does_not_bring_forgotten_sources_back() {
        let mut world = World::new(synced());
        world.append("kept", 0..3);
        for round in 0..8 {
            // Numbers rest after a start.
            while step(&world.core).unwrap() {}
            world.wait(61);
            while step(&world.core).unwrap() {}
            append_and_delete(&world, round);
            while step(&world.core).unwrap() {}
            let compacts = round % 3 == 0;
            world.core.compact_catalog_if(|_| compacts).unwrap();
            assert!(world.core.head().sources() <= 301, "numbers are used again");
            let report = check(&*world.disk, &mut |_, _| {}).unwrap();
            assert!(report.is_sound(), "{report:?}");
            let before = listed(&world);
            world = world.reopen(synced());
            assert_eq!(world.core.recovery.set_aside, []);
            assert_eq!((world.rows(), listed(&world)), (3, before), "round {round}");
        }
    }

    /// Regression: rows of an earlier source with the number were shown as those of a source that was kept.
    #[test]
    fn a_source_that_is_kept_does_not_get_rows_of_an_earlier_one() {
        let world = World::new(synced());
        world.append("kept", 0..3);
        for round in 0..2 {
            append_and_delete(&world, round);
            while step(&world.core).unwrap() {}
        }
        append_and_delete(&world, 2);
        world.core.head().add_candidates(0);
        record_candidates(&world.core).unwrap();
        world.append_named(&names(2)[..40], 7);
        write_journal(&world.core, true).unwrap();
        let world = world.reopen(synced());
        assert_eq!(world.core.recovery.set_aside, []);
        assert_eq!((world.rows(), listed(&world)), (43, 41));
    }

    /// Regression: records before a source got its number were lost, and the source lost rows in records that replaced
    /// them.
    #[test]
    fn rows_of_a_source_survive_the_second_power_cut() {
        let world = World::new(synced());
        append_and_delete(&world, 0);
        while step(&world.core).unwrap() {}
        world.wait(61);
        world.append("other", 0..3);
        while step(&world.core).unwrap() {}
        world.append_named(&names(1), 5);
        assert_eq!(world.core.head().counters.reused, 100);
        let selector = Selector::parse("other").unwrap();
        delete(&world.core, &selector, Interval::new(0, 0)).unwrap();
        for seed in 0..20 {
            let world = world.on(world.disk.fork(seed).crash(), synced());
            world.append_named(&names(1), 6);
            write_journal(&world.core, true).unwrap();
            let rows = world.rows();
            let world = world.on(world.disk.fork(seed).crash(), synced());
            assert_eq!(world.core.recovery.set_aside, []);
            assert_eq!(world.rows(), rows, "seed {seed}");
        }
    }

    /// Regression: a start without a journal and without segments counted records from 1. Rows in them looked like those
    /// of an earlier source with the number.
    #[test]
    fn rows_of_a_source_are_kept_when_the_journal_begins_anew() {
        let world = World::new(synced());
        append_and_delete(&world, 0);
        while step(&world.core).unwrap() {}
        world.wait(61);
        while step(&world.core).unwrap() {}
        append_and_delete(&world, 1);
        assert_eq!(world.core.head().counters.reused, 100);
        world.core.head().pin(0..100);
        world.run_all();
        assert_eq!((world.sealed().0, listed(&world)), (0, 100));
        let world = world.reopen(synced());
        assert_eq!(world.core.recovery.journal_bytes, 0);
        world.append_named(&names(1), 7);
        write_journal(&world.core, true).unwrap();
        let world = world.reopen(synced());
        assert_eq!(world.rows(), 100);
    }

    /// New records must not look like those that the catalog knows.
    #[test]
    fn new_names_are_known_after_the_journal_was_lost() {
        let world = World::new(synced());
        world.append("kept", 0..3);
        for round in 0..2 {
            append_and_delete(&world, round);
            while step(&world.core).unwrap() {}
        }
        for name in world.disk.list().unwrap() {
            if name.starts_with("journal-") {
                world.disk.remove(&name).unwrap();
            }
        }
        let world = world.reopen(synced());
        world.append_named(&names(2), 7);
        write_journal(&world.core, true).unwrap();
        let world = world.reopen(synced());
        assert_eq!((world.rows(), listed(&world)), (100, 101));
    }

    fn segments(disk: &dyn Disk) -> Vec<String> {
        let mut names = disk.list().unwrap();
        names.retain(|name| name.starts_with("segment-"));
        names.sort();
        names
    }

    /// A source that gets a row while the catalog forgets it keeps its number, and its name is in the
    /// catalog again.
    #[test]
    fn a_row_during_a_round_keeps_its_source() {
        let world = hourly();
        world.append_named(&names(0), 0);
        world.run_all();
        let core = &world.core;
        core.head().add_candidates(0);
        record_candidates(core).unwrap();
        world.append_named(&names(0)[..40], 1);
        let mut found = Vec::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            cursor = core.head().list_names(from, &mut found);
        }
        assert_eq!(found.len(), 60);
        core.head().remove_names(&found);
        assert_eq!(core.head().end_round().len(), 60);
        assert_eq!(listed(&world), 40);
        core.write_catalog().unwrap();
        assert!(!core.head().has_new_names());
        world.append_named(&names(0), 2);
        assert_eq!(listed(&world), 100);
        assert_eq!(core.head().sources(), 160);
    }

    /// Regression: a segment that was never full kept all names, and new sources were rejected.
    #[test]
    fn a_segment_does_not_keep_the_names_of_all_sources() {
        let mut class = Class::forever();
        class.keep.age = Some(Duration::from_secs(3600));
        let world = World::new(Options {
            classes: Classes::new(vec![class]).unwrap(),
            segment_bytes: 64 << 20,
            ..options()
        });
        for round in 0..400 {
            world.append_named(&names(round), i64::from(round) * 600);
            world.core.finish_sealing().unwrap();
            world.wait(600);
            while step(&world.core).unwrap() {}
        }
        let head = world.core.head();
        assert!(head.sources() < 10_000, "{}", head.sources());
        assert!(head.counters.forgotten > 20_000);
    }
}
