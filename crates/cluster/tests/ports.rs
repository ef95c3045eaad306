//! Several ports of one cluster: reads, failures, takeovers, deletes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod killed;
mod samples;
mod world;

use killed::Killed;
use samples::{SECOND, START, put};
use seiner_cluster::{Acknowledge, ClusterStore, Level, Range as RowRange};
use seiner_model::{Column, Interval, Selector};
use seiner_store::{Class, Error, Keep, Query, Store};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use world::World;

/// Returns the samples by measurement: time in seconds and value.
fn all(port: &ClusterStore) -> BTreeMap<String, Vec<(i64, i64)>> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    let mut found = BTreeMap::new();
    for series in port.select(&query, None).unwrap() {
        let series = series.unwrap();
        let Column::I64(values) = series.values else {
            panic!("the values are integers");
        };
        let times = series.times.iter().map(|time| (time - START) / SECOND);
        let name = series.key.measurement().to_string();
        let before = found.insert(name, times.zip(values).collect::<Vec<_>>());
        assert!(before.is_none(), "a series is returned twice");
    }
    found
}

fn expected(name: &str, times: Range<i64>) -> BTreeMap<String, Vec<(i64, i64)>> {
    let samples = times.map(|time| (time, time)).collect();
    BTreeMap::from([(name.to_string(), samples)])
}

#[test]
fn every_port_reads_the_rows_of_all_ports() {
    let world = World::new(1);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    put(&b, "m", 100..200, 0);
    assert_eq!(all(&a), expected("m", 0..200), "nothing is handed over");
    a.hand_over().unwrap();
    assert_eq!(all(&b), expected("m", 0..200), "a has handed over");
    b.hand_over().unwrap();
    for port in [&a, &b] {
        assert_eq!(all(port), expected("m", 0..200), "both have");
    }
    // The source has one number, because b learned it from a.
    put(&a, "m", 200..300, 0);
    assert_eq!(all(&b), expected("m", 0..300));
    // Sources that only another port knows have a number, and can be written to.
    let foreign = b.sources(&Selector::parse("m").unwrap()).unwrap();
    assert_eq!(foreign.len(), 1);
    assert!(b.source_key(foreign[0]).unwrap().is_some());
}

#[test]
fn a_port_that_restarts_loses_nothing_and_repeats_nothing() {
    let world = World::new(2);
    let a = world.port("a");
    put(&a, "m", 0..100, 0);
    a.hand_over().unwrap();
    put(&a, "m", 100..200, 0);
    world.crash("a", a);
    let a = world.port("a");
    assert_eq!(all(&a), expected("m", 0..200));
    assert_eq!(a.counts().samples, 100, "the start handed the rest over");
    a.close().unwrap();
    let a = world.port("a");
    assert_eq!(all(&a), expected("m", 0..200));
    assert_eq!(a.counts().samples, 0);
}

#[test]
fn the_rows_of_a_dead_port_are_read_at_once_and_finished_by_another() {
    let world = World::new(3);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    a.hand_over().unwrap();
    put(&a, "m", 100..200, 0);
    world.crash("a", a);
    assert_eq!(
        all(&b),
        expected("m", 0..200),
        "from the replicas of its journal"
    );
    world.run(30, &[&b]);
    assert_eq!(b.counts().takeovers, 1);
    assert_eq!(all(&b), expected("m", 0..200), "from bundles");
    // The port returns with its disk: its rows are handed over again and count once.
    let a = world.port("a");
    assert_eq!(all(&a), expected("m", 0..200));
    put(&a, "m", 200..300, 0);
    assert_eq!(all(&b), expected("m", 0..300));
}

#[test]
fn a_port_that_returns_without_its_disk_loses_nothing() {
    let world = World::new(4);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    world.crash("a", a);
    world.lose_disk("a");
    let a = world.port("a");
    put(&a, "m", 100..200, 0);
    for port in [&a, &b] {
        assert_eq!(all(port), expected("m", 0..200));
    }
    world.run(30, &[&a, &b]);
    assert_eq!(a.counts().takeovers + b.counts().takeovers, 1);
    for port in [&a, &b] {
        assert_eq!(all(port), expected("m", 0..200));
    }
}

#[test]
fn a_paused_port_begins_a_new_journal_and_keeps_its_rows() {
    let world = World::new(5);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    // Only b runs, and takes the journal of a over.
    world.run(30, &[&b]);
    assert_eq!(b.counts().takeovers, 1);
    assert_eq!(all(&b), expected("m", 0..100));
    // Now a continues. Its lease has ended, so it begins a new journal before it acknowledges anything.
    world.run(5, &[&a, &b]);
    put(&a, "m", 100..200, 0);
    for port in [&a, &b] {
        assert_eq!(all(port), expected("m", 0..200));
    }
    a.hand_over().unwrap();
    assert_eq!(all(&b), expected("m", 0..200));
    assert_eq!(a.trouble(), None);
}

/// The catalog is a part of a journal that begins again.
#[test]
fn a_journal_that_began_again_is_finished_after_the_loss_of_its_port() {
    let world = World::new(50);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    world.run(30, &[&b]);
    world.run(5, &[&a, &b]);
    put(&a, "m", 100..200, 0);
    world.crash("a", a);
    world.lose_disk("a");
    assert_eq!(all(&b), expected("m", 0..200), "from the replicas");
    world.run(30, &[&b]);
    assert_eq!(all(&b), expected("m", 0..200), "from bundles");
}

/// A takeover has a higher stamp than the handovers of the failed port.
#[test]
fn a_sample_overwritten_after_a_handover_survives_the_loss_of_its_port() {
    let world = World::new(51);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..10, 5);
    world.clock.advance(SECOND as u64);
    a.hand_over().unwrap();
    put(&a, "m", 0..10, 0);
    world.crash("a", a);
    world.lose_disk("a");
    assert_eq!(all(&b), expected("m", 0..10), "from the replicas");
    world.run(30, &[&b]);
    assert_eq!(all(&b), expected("m", 0..10), "from bundles");
}

#[test]
fn a_port_that_returns_after_a_delete_does_not_restore_the_deleted_rows() {
    let world = World::new(52);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..10, 0);
    world.crash("a", a);
    let everything = Selector::parse("m").unwrap();
    b.delete(&everything, Interval::ALL).unwrap();
    world.run(30, &[&b]);
    assert_eq!(b.counts().takeovers, 1);
    let a = world.port("a");
    for port in [&a, &b] {
        assert_eq!(all(port), BTreeMap::new());
    }
    put(&a, "m", 3..5, 0);
    for port in [&a, &b] {
        assert_eq!(all(port), expected("m", 3..5));
    }
}

/// A delete without an answer of a port must not delete the rows that the port accepts later.
#[test]
fn rows_after_a_delete_survive_the_takeover_of_a_port_that_was_not_reached() {
    let world = World::new(53);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..10, 0);
    world.crash("a", a);
    b.delete(&Selector::parse("m").unwrap(), Interval::ALL)
        .unwrap();
    let a = world.port("a");
    put(&a, "m", 5..10, 0);
    world.crash("a", a);
    world.lose_disk("a");
    assert_eq!(all(&b), expected("m", 5..10), "from the replicas");
    world.run(30, &[&b]);
    assert_eq!(all(&b), expected("m", 5..10), "from bundles");
}

#[test]
fn later_handovers_replace_earlier_samples() {
    let world = World::new(6);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..10, 5);
    a.hand_over().unwrap();
    put(&b, "m", 0..10, 0);
    assert_eq!(
        all(&a),
        expected("m", 0..10),
        "rows of a port are later than bundles"
    );
    b.hand_over().unwrap();
    assert_eq!(all(&a), expected("m", 0..10), "b handed over later");
}

#[test]
fn a_delete_hides_earlier_rows_of_all_ports_and_no_later_ones() {
    let world = World::new(7);
    let (a, b, c) = (world.port("a"), world.port("b"), world.port("c"));
    put(&a, "m", 0..10, 0);
    a.hand_over().unwrap();
    put(&b, "m", 10..20, 0);
    put(&c, "m", 20..30, 0);
    world.crash("c", c);
    let everything = Selector::parse("m").unwrap();
    let deleted = a.delete(
        &everything,
        Interval::new(START + 5 * SECOND, START + 24 * SECOND),
    );
    assert_eq!(deleted.unwrap(), 1);
    let mut left = expected("m", 0..5);
    left.get_mut("m")
        .unwrap()
        .extend((25..30).map(|time| (time, time)));
    for port in [&a, &b] {
        assert_eq!(all(port), left);
    }
    b.hand_over().unwrap();
    world.run(30, &[&a, &b]);
    assert_eq!(all(&b), left, "after a handover and a takeover");
    put(&a, "m", 7..8, 0);
    left.get_mut("m").unwrap().insert(5, (7, 7));
    assert_eq!(all(&b), left, "a later row at a deleted time");
    a.hand_over().unwrap();
    assert_eq!(all(&b), left);
}

#[test]
fn two_ports_with_one_name_are_rejected() {
    let world = World::new(8);
    let a = world.port("a");
    world.lose_disk("a");
    // The first port beats while the second one looks.
    let error = world
        .port_beside(world.options("a"), &a)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("a name of its own"), "{error}");
}

#[test]
fn local_acknowledgements_write_no_journal_rows() {
    let world = World::new(9);
    let mut options = world.options("a");
    options.acknowledge = Acknowledge::Local;
    let a = world.port_with(options);
    put(&a, "m", 0..100, 0);
    assert_eq!(world.rows.partitions("journal").unwrap().len(), 0);
    a.hand_over().unwrap();
    assert_eq!(all(&a), expected("m", 0..100));
    let replicated = world.port("b");
    put(&replicated, "m", 100..200, 0);
    assert!(!world.rows.partitions("journal").unwrap().is_empty());
    replicated.close().unwrap();
    assert_eq!(all(&a), expected("m", 0..200));
}

/// Returns what the first item of an answer states to be missing.
fn missing(port: &ClusterStore) -> Option<String> {
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    };
    match port.select(&query, None).unwrap().next() {
        Some(Err(error @ Error::Damage { .. })) => Some(error.to_string()),
        _ => None,
    }
}

/// Only the disk of a port with local acknowledgements has its latest rows.
#[test]
fn answers_state_that_the_rows_of_a_local_port_are_missing() {
    let world = World::new(13);
    let mut options = world.options("a");
    options.acknowledge = Acknowledge::Local;
    let (a, b) = (world.port_with(options.clone()), world.port("b"));
    put(&a, "m", 0..100, 0);
    assert_eq!(missing(&b), None);
    world.crash("a", a);
    assert!(missing(&b).unwrap().contains("port a"));
    // No other port can finish the journal.
    world.run(30, &[&b]);
    assert_eq!(b.counts().takeovers, 0);
    assert!(missing(&b).is_some());
    let a = world.port_with(options.clone());
    assert_eq!(missing(&b), None);
    assert_eq!(all(&b), expected("m", 0..100));
    // A start without the disk gives the rows up.
    put(&a, "m", 100..200, 0);
    world.crash("a", a);
    assert!(missing(&b).is_some());
    world.lose_disk("a");
    let _a = world.port_with(options);
    assert_eq!(all(&b), expected("m", 0..100));
}

#[test]
fn a_port_without_a_majority_states_its_trouble() {
    let mut world = World::new(14);
    let rows = Killed::after(world.rows.clone(), u64::MAX);
    world.rows = rows.clone();
    let a = world.port("a");
    put(&a, "m", 0..10, 0);
    world.run(5, &[&a]);
    assert_eq!(a.trouble(), None);
    rows.set_limit(0);
    world.run(5, &[&a]);
    let trouble = a.trouble().unwrap();
    assert!(trouble.contains("too few replicas"), "{trouble}");
    rows.set_limit(u64::MAX);
    world.run(5, &[&a]);
    assert_eq!(a.trouble(), None);
}

/// Replicas that do not answer for some seconds, at any moment of a start, delay it.
#[test]
fn a_port_starts_while_replicas_come_back() {
    let mut interrupted = 0;
    loop {
        let mut world = World::new(16);
        let rows = Killed::after(world.rows.clone(), u64::MAX);
        world.rows = rows.clone();
        let (a, b) = (world.port("a"), world.port("b"));
        put(&a, "m", 0..100, 0);
        world.crash("a", a);
        let interval = Interval::new(START, START + 9 * SECOND);
        b.delete(&Selector::all(), interval).unwrap();
        let before = rows.requests();
        rows.interrupt(interrupted, 3);
        let a = world
            .try_port("a")
            .unwrap_or_else(|error| panic!("at {interrupted}: {error}"));
        let requests = rows.requests() - before;
        rows.interrupt(0, 0);
        assert_eq!(all(&a), expected("m", 10..100), "at {interrupted}");
        if interrupted == requests {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 20, "{interrupted} requests");
}

#[test]
fn deletes_are_removed_when_all_classes_have_forgotten_their_times() {
    let world = World::new(15);
    let mut options = world.options("a");
    let day = Duration::from_secs(86_400);
    options.classes = Some(vec![Class {
        keep: Keep {
            age: Some(10 * day),
            ..Keep::default()
        },
        ..Class::forever()
    }]);
    let a = world.port_with(options);
    put(&a, "m", 0..100, 0);
    let interval = Interval::new(START, START + 9 * SECOND);
    a.delete(&Selector::all(), interval).unwrap();
    a.delete(&Selector::all(), Interval::ALL).unwrap();
    let deletes = || {
        world
            .rows
            .range(&RowRange::whole("deletes", b"deletes"), Level::Quorum)
    };
    assert_eq!(deletes().unwrap().len(), 4, "two deletes with a mark each");
    // A week after the samples.
    for (days, left) in [(16, 4), (2, 2)] {
        world.clock.advance(days * day.as_nanos() as u64);
        world.run(1, &[&a]);
        assert_eq!(deletes().unwrap().len(), left, "after {days} more days");
    }
}

/// The journal of a port stays as short as the rows that it has not handed over.
#[test]
fn handovers_remove_the_journal() {
    let world = World::new(10);
    let a = world.port("a");
    let mut most = 0;
    for round in 0..40 {
        put(&a, "m", round * 2000..(round + 1) * 2000, 0);
        a.hand_over().unwrap();
        world.run(3, &[&a]);
        most = most.max(world.rows.partitions("journal").unwrap().len());
    }
    assert!(most < 30, "{most} partitions");
    assert_eq!(all(&a), expected("m", 0..80_000));
}

/// The waits of a handover take longer than a lease.
#[test]
fn a_port_that_waits_for_its_replicas_keeps_its_lease() {
    let world = World::new(1);
    let b = world.port("b");
    let mut options = world.options("a");
    options.replica_sync = Duration::from_secs(40);
    let a = world.port_beside(options, &b).unwrap();
    put(&a, "m", 0..100, 0);
    a.hand_over().unwrap();
    put(&a, "m", 100..200, 0);
    a.close().unwrap();
    assert_eq!(b.counts().takeovers, 0);
    assert_eq!(all(&b), expected("m", 0..200));
}

/// The local disk takes longer than a lease, and less than the time after which others take a journal over.
#[test]
fn a_port_that_opens_slowly_keeps_its_lease() {
    let world = World::new(1);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    drop(a);
    let a = world.slow_port_beside("a", Duration::from_secs(12), &b);
    let a = a.unwrap();
    put(&a, "m", 100..200, 0);
    assert_eq!(all(&b), expected("m", 0..200));
    a.close().unwrap();
    assert_eq!(all(&b), expected("m", 0..200));
}

#[test]
fn a_port_whose_new_journal_is_taken_over_does_not_start_and_loses_nothing() {
    let world = World::new(1);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    drop(a);
    let error = world.slow_port_beside("a", Duration::from_secs(30), &b);
    let error = error.err().expect("the journal was taken over").to_string();
    assert!(error.contains("start the port again"), "{error}");
    world.run(60, &[&b]);
    assert_eq!(all(&b), expected("m", 0..100));
    let a = world.port("a");
    put(&a, "m", 100..200, 0);
    assert_eq!(all(&b), expected("m", 0..200));
}

/// Opens the port `a` whose replicas need a minute to sync: its rows stay in its journal.
fn start_slowly_synced(world: &World, acknowledge: Acknowledge) -> Arc<ClusterStore> {
    let mut options = world.options("a");
    options.replica_sync = Duration::from_secs(60);
    options.acknowledge = acknowledge;
    options.engine.segment_bytes = 64 << 10;
    options.engine.journal_bytes = 256 << 10;
    world.port_with(options)
}

/// Returns a port `b` that knows the journal of the failed port `a`, with 100 rows. When `b` asks for them next, `a` starts,
/// which moves the rows to a second journal, and fails again.
fn start_and_failure_when_asked(acknowledge: Acknowledge) -> (Arc<World>, Arc<ClusterStore>) {
    let world = Arc::new(World::new(1));
    let (a, b) = (start_slowly_synced(&world, acknowledge), world.port("b"));
    put(&a, "m", 0..100, 0);
    world.crash("a", a);
    let also = world.clone();
    world.when_asked(move || {
        let a = start_slowly_synced(&also, acknowledge);
        also.crash("a", a);
    });
    (world, b)
}

#[test]
fn a_port_that_starts_and_fails_during_a_query_hides_no_rows() {
    let replicated = Acknowledge::Replicated(Level::Quorum);
    let (_world, b) = start_and_failure_when_asked(replicated);
    assert_eq!(all(&b), expected("m", 0..100));
}

#[test]
fn a_local_port_that_starts_and_fails_during_a_query_is_reported() {
    let (_world, b) = start_and_failure_when_asked(Acknowledge::Local);
    assert!(missing(&b).is_some());
}

/// Returns the numbers of the journals of the port `a` that have rows.
fn journals(world: &World) -> Vec<u8> {
    let keys = world.rows.partitions("journal").unwrap().into_iter();
    let keys = keys.filter(|key| key.ends_with(b"names\0") && key[0] == b'a');
    keys.map(|key| key[key.len() - 7]).collect()
}

#[test]
fn an_earlier_journal_stays_until_its_rows_are_released() {
    let world = World::new(1);
    let replicated = Acknowledge::Replicated(Level::Quorum);
    let (a, b) = (start_slowly_synced(&world, replicated), world.port("b"));
    put(&a, "m", 0..100, 0);
    world.crash("a", a);
    let a = start_slowly_synced(&world, replicated);
    world.run(50, &[&a, &b]);
    assert_eq!(journals(&world), [1, 2]);
    assert_eq!(all(&b), expected("m", 0..100));
    world.run(100, &[&a, &b]);
    assert_eq!(journals(&world), [2]);
    assert_eq!(b.counts().takeovers, 0);
    assert_eq!(all(&b), expected("m", 0..100));
}

#[test]
fn rows_in_segments_survive_two_failures_of_their_port_and_the_loss_of_its_disk() {
    let world = World::new(1);
    let replicated = Acknowledge::Replicated(Level::Quorum);
    let (a, b) = (start_slowly_synced(&world, replicated), world.port("b"));
    for round in 0..40 {
        put(&a, "m", round * 10_000..(round + 1) * 10_000, 0);
        a.maintain();
    }
    world.crash("a", a);
    let a = start_slowly_synced(&world, replicated);
    world.crash("a", a);
    world.lose_disk("a");
    assert_eq!(all(&b), expected("m", 0..400_000));
    world.run(60, &[&b]);
    assert_eq!(all(&b), expected("m", 0..400_000));
}

#[test]
fn ports_list_each_others_sources_before_a_handover() {
    let world = World::new(12);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..10, 0);
    world.run(1, &[&a, &b]);
    assert_eq!(b.measurements().unwrap(), ["m"]);
    assert_eq!(b.fields(&Selector::all()).unwrap().len(), 1);
    assert_eq!(all(&b), expected("m", 0..10));
}

#[test]
fn ports_publish_their_load() {
    let world = World::new(11);
    let (a, b) = (world.port("a"), world.port("b"));
    for round in 0..10 {
        put(&a, "m", round * 100..(round + 1) * 100, 0);
        world.run(1, &[&a, &b]);
    }
    let ports = b.ports().unwrap();
    let names: Vec<&str> = ports.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["a", "b"]);
    let rate = ports[0].samples_per_second;
    assert!((50.0..150.0).contains(&rate), "{rate}");
    assert!(ports[0].unflushed_rows > 0);
    let mean = rate / 2.0;
    assert!(ports[0].weight(mean) < ports[1].weight(mean));
    a.close().unwrap();
    assert_eq!(b.ports().unwrap().len(), 1);
}
