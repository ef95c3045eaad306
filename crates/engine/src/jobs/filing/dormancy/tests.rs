//! Tests of dormant sources on a small store.

use super::dormant;
use crate::dictionary::filed::is_names;
use crate::intake::{register, register_all};
use crate::jobs::filing::memory::Dormancy;
use crate::jobs::filing::tests::{SOME, check, files, found, name, write};
use crate::jobs::forgetting::forget;
use crate::jobs::step;
use crate::jobs::testing::{World, options};
use crate::options::{Filing, Options};
use crate::retention::class::{Class, Classes};
use seiner_model::{SourceId, SourceKey};
use seiner_platform::Disk;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Options with which all filed sources without rows become dormant at once.
fn always() -> Options {
    Options {
        filing: Filing::Always,
        ..options()
    }
}

/// Returns a store whose first sources are dormant.
fn asleep(options: Options) -> World {
    let world = World::new(options);
    write(&world, 0..SOME, 0);
    world.run_all();
    assert_eq!(dormant(&world.core), u64::from(SOME));
    assert!(world.core.may_recall.load(Ordering::Relaxed));
    world
}

#[test]
fn a_dormant_source_is_found_when_it_gets_a_row() {
    let world = asleep(always());
    check(&world, SOME);
    // Others are new.
    write(&world, 7..SOME + 100, 1);
    assert_eq!(world.core.head().sources(), SOME + 100);
    assert_eq!(dormant(&world.core), 7);
    world.run_all();
    assert_eq!(dormant(&world.core), u64::from(SOME) + 100);
    assert_eq!(world.core.head().names().sources(), 0);
    // Names are found in both orders of their tags.
    let other = |number: u32| {
        let m = ["cpu", "mem"][number as usize % 2];
        format!("{m},pod=p-{number},host=h{}", number / 10)
    };
    for _ in 0..3 {
        let names: Vec<String> = (0..SOME).step_by(3).map(other).collect();
        world.append_named(&names, 2);
        assert_eq!(world.core.head().sources(), SOME + 100);
    }
    world.run_all();
    assert_eq!(dormant(&world.core), u64::from(SOME) + 100);
    check(&world, SOME + 100);
    assert_eq!(world.rows() as u32, SOME + SOME + 93 + SOME.div_ceil(3));
}

#[test]
fn a_dormant_source_is_found_by_its_key() {
    let world = asleep(always());
    let key = |number: u32| {
        let (host, pod) = (format!("h{}", number / 10), format!("p-{number}"));
        let measurement = ["cpu", "mem"][number as usize % 2];
        SourceKey::new(measurement, [("host", host), ("pod", pod)]).unwrap()
    };
    let keys: Vec<SourceKey> = [3, 900, SOME, 3].map(key).into();
    let found = register_all(&world.core, &keys.iter().collect::<Vec<_>>()).unwrap();
    let found: Vec<u32> = found.into_iter().map(|source| source.unwrap().0).collect();
    assert_eq!(found, [3, 900, SOME, 3]);
    world.run_all();
    assert_eq!(register(&world.core, &key(900)).unwrap(), SourceId(900));
    assert_eq!(world.core.head().sources(), SOME + 1);
}

#[test]
fn a_dormant_source_is_forgotten_and_comes_back_as_a_new_one() {
    let mut class = Class::forever();
    class.keep.age = Some(Duration::from_secs(3600));
    let hourly = Options {
        classes: Classes::new(vec![class]).unwrap(),
        ..always()
    };
    let world = asleep(hourly.clone());
    world.wait(3000);
    write(&world, 0..100, 3000);
    world.wait(3000);
    world.run_all();
    world.run(forget);
    assert_eq!(world.core.head().counters.forgotten, u64::from(SOME) - 100);
    assert!(found(&world, "").into_iter().eq(0..100));
    write(&world, 0..200, 6000);
    world.run_all();
    assert_eq!(dormant(&world.core), 200);
    assert_eq!(world.rows(), 300);
    let world = world.reopen(hourly);
    assert_eq!(dormant(&world.core), 200);
    write(&world, 0..200, 6001);
    assert_eq!(dormant(&world.core), 0);
    assert_eq!(world.core.head().members().sources(), 200);
    assert_eq!(world.rows(), 500);
}

/// A start has no space for the names of all sources in files.
#[test]
fn dormant_sources_stay_dormant_at_a_start() {
    let world = asleep(always());
    write(&world, 100..200, 1);
    let world = world.reopen(always());
    assert_eq!(dormant(&world.core), u64::from(SOME));
    assert!(world.core.may_recall.load(Ordering::Relaxed));
    check(&world, SOME);
    write(&world, 0..SOME + 1, 2);
    assert_eq!(world.core.head().sources(), SOME + 1);
    assert_eq!(world.rows() as u32, 2 * SOME + 101);
    let report = crate::check(&*world.disk, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// A damaged names file is set aside, and its names are read from the catalog.
#[test]
fn a_dormant_source_in_a_damaged_file_is_found() {
    let world = asleep(always());
    let name = files(&world).remove(0);
    let file = world.disk.open(&name).unwrap();
    let len = file.len().unwrap() as usize;
    // All pages of names: they are first.
    let mut bytes = vec![0; len / 3];
    file.read_at(100, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    file.write_at(100, &bytes).unwrap();
    write(&world, 0..SOME + 5, 1);
    assert_eq!(world.core.head().sources(), SOME + 5);
    assert_eq!(world.rows() as u32, 2 * SOME + 5);
    check(&world, SOME + 5);
    assert!(world.disk.open(&format!("{name}.damaged")).is_ok());
    world.run_all();
    assert!(
        files(&world)
            .iter()
            .all(|other| is_names(other) && *other != name)
    );
    assert_eq!(dormant(&world.core), u64::from(SOME) + 5);
}

/// Several writers find the same dormant sources, while these are filed and become dormant again.
#[test]
fn writers_that_compete_for_a_dormant_source_find_the_same() {
    const WRITERS: u32 = 3;
    /// Minimum and maximum number of rounds of a writer.
    const ROUNDS: (u32, u32) = (4, 400);
    let world = asleep(always());
    let (running, rounds) = (AtomicU32::new(WRITERS), AtomicU32::new(0));
    let is_found_twice = || world.core.head().counters.recalled > u64::from(SOME);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (world, running, rounds) = (&world, &running, &rounds);
            scope.spawn(move || {
                for round in 0..ROUNDS.1 {
                    if round >= ROUNDS.0 && is_found_twice() {
                        break;
                    }
                    let time = 1 + i64::from(writer * ROUNDS.1 + round);
                    let all = 0..2 * SOME;
                    let names = all.map(|number| name((number * 7 + writer) % (2 * SOME)));
                    let names: Vec<String> = names.collect();
                    let batches = names.chunks(100);
                    batches.for_each(|names| world.append_named(names, time));
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            world.core.finish_sealing().unwrap();
            step(&world.core).unwrap();
        }
    });
    world.run_all();
    assert_eq!(world.core.head().sources(), 2 * SOME);
    assert!(is_found_twice());
    let rows = SOME + rounds.load(Ordering::Relaxed) * 2 * SOME;
    assert_eq!(world.rows() as u32, rows);
}

/// A search takes processor time, and has no use while all sources send rows.
#[test]
fn a_search_that_found_nothing_is_not_repeated_at_once() {
    let world = World::new(options());
    let mut parts = 0;
    while !world.core.head().should_idle_leave() {
        write(&world, parts * SOME..(parts + 1) * SOME, 0);
        world.run_all();
        parts += 1;
    }
    world.run_all();
    let dormancy = || world.writing().filing.dormancy;
    assert!(matches!(dormancy(), Dormancy::Waiting { .. }));
    for part in 0..parts {
        write(&world, part * SOME..(part + 1) * SOME, 1);
    }
    world.wait(601);
    world.run_all();
    assert_eq!(dormant(&world.core), 0);
    let now = world.core.clock.monotonic();
    assert!(matches!(dormancy(), Dormancy::Off { until } if until > now));
    // All are idle from now on.
    world.wait(61);
    world.run_all();
    assert!(matches!(dormancy(), Dormancy::Waiting { .. }));
    world.wait(601);
    world.run_all();
    assert!(dormant(&world.core) > 0);
}

/// Tags that sources share take little memory, and are not filed for their own sake.
#[test]
fn sources_with_shared_tags_become_dormant() {
    let world = World::new(options());
    let name = |number: u32| format!("m,host=h{},sensor=s{}", number / 50, number % 50);
    let write = |part: u32, time: i64| {
        let names: Vec<String> = (part * SOME..(part + 1) * SOME).map(name).collect();
        world.append_named(&names, time);
        world.run_all();
    };
    let mut parts = 0;
    while !world.core.head().should_idle_leave() {
        write(parts, 0);
        parts += 1;
    }
    assert_eq!(world.core.head().filed_sources(), (0, 0));
    // The first sources are in use.
    world.wait(400);
    write(0, 1);
    world.wait(400);
    world.run_all();
    let head = world.core.head();
    let (filed, dormant) = head.filed_sources();
    assert!(dormant > u64::from(2 * SOME), "{dormant} of {filed} filed");
    assert!(!head.should_more_leave());
    assert!((0..SOME).all(|source| head.names().has_canonical(source)));
    drop(head);
    for part in 0..2 * parts {
        write(part, 2);
        world.wait(200);
    }
    assert_eq!(world.core.head().sources(), 2 * parts * SOME);
    assert_eq!(world.rows() as u32, (3 * parts + 1) * SOME);
}

/// Sources that send nothing for ten minutes leave space to new ones, and are found although no space is left for them.
#[test]
fn memory_limits_the_sources_that_send_rows() {
    let world = World::new(options());
    let mut part = 0;
    let mut awake = 0;
    while dormant(&world.core) == 0 {
        write(&world, part * SOME..(part + 1) * SOME, 0);
        world.run_all();
        part += 1;
        if world.core.head().should_idle_leave() && awake == 0 {
            awake = part;
            world.wait(601);
        }
        assert!(part < 100, "none becomes dormant");
    }
    assert!(awake > 0);
    for _ in 0..10 {
        write(&world, part * SOME..(part + 1) * SOME, 0);
        world.run_all();
        world.wait(60);
        part += 1;
    }
    assert!(!world.core.head().is_registry_full());
    let sources = part * SOME;
    assert_eq!(world.core.head().sources(), sources);
    assert!(world.core.head().memory() < options().memory as usize);
    // More of them send rows than have space.
    for at in 0..part {
        write(&world, at * SOME..(at + 1) * SOME, 1);
    }
    assert_eq!(world.core.head().sources(), sources);
    assert!(world.core.head().memory() < options().memory as usize);
    assert_eq!(world.rows() as u32, 2 * sources);
    let world = world.reopen(options());
    let asleep = dormant(&world.core);
    assert!(asleep > u64::from(sources / 4), "{asleep} are dormant");
    // The table has the size for those in it.
    let (bytes, names) = {
        let head = world.core.head();
        (head.names().memory(), head.names().sources())
    };
    assert!(bytes < names as usize * 24, "{bytes} for {names} names");
    check(&world, sources);
    assert!(world.core.head().memory() < options().memory as usize);
}
