//! Changes of the grid while ports run: shelves and periods of later bundles.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod samples;
mod world;

use samples::{SECOND, START, put};
use seiner_cluster::{ClusterStore, Grid, GridChange, change_grid, grids};
use seiner_model::{Column, Interval, Selector};
use seiner_store::{Query, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use world::World;

/// Grid of the change: more shelves, and shorter periods.
const NEXT: Grid = Grid {
    shelves: 7,
    period_ns: 60_000_000_000,
};

fn everything() -> Query {
    Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::ALL,
    }
}

/// Returns the values by measurement and time in seconds.
fn all(port: &ClusterStore) -> BTreeMap<(String, i64), i64> {
    let mut found = BTreeMap::new();
    for series in port.select(&everything(), None).unwrap() {
        let series = series.unwrap();
        let Column::I64(values) = series.values else {
            panic!("the values are integers");
        };
        for (time, value) in series.times.iter().zip(values) {
            let name = series.key.measurement().to_string();
            let before = found.insert((name, (time - START) / SECOND), value);
            assert!(before.is_none(), "a sample is returned twice");
        }
    }
    found
}

fn expected(name: &str, times: Range<i64>) -> BTreeMap<(String, i64), i64> {
    times.map(|time| ((name.to_string(), time), time)).collect()
}

/// Returns the partitions of directories, by the number of their grid.
fn cells(world: &World) -> BTreeMap<u16, BTreeSet<Vec<u8>>> {
    let mut cells: BTreeMap<u16, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for partition in world.rows.partitions("directories_default").unwrap() {
        if partition[..2] == [0, 1] {
            let grid = u16::from_be_bytes([partition[2], partition[3]]);
            cells.entry(grid).or_default().insert(partition);
        }
    }
    cells
}

#[test]
fn old_rows_stay_readable_and_new_rows_use_the_new_grid() {
    let world = World::new(1);
    let a = world.port("a");
    put(&a, "m", 0..200, 0);
    a.hand_over().unwrap();
    let before = cells(&world);
    assert_eq!(change_grid(&*world.rows, NEXT), Ok(GridChange::Stored(1)));
    assert_eq!(all(&a), expected("m", 0..200), "the old grid");
    put(&a, "m", 200..500, 0);
    a.hand_over().unwrap();
    assert_eq!(all(&a), expected("m", 0..500), "both grids");
    let after = cells(&world);
    assert_eq!(after[&0], before[&0], "nothing moves");
    assert!(after[&1].len() >= 5, "one cell a minute: {after:?}");
    // A port that starts later knows both grids, whatever its settings are.
    a.close().unwrap();
    let a = world.port("a");
    assert_eq!(all(&a), expected("m", 0..500));
    assert_eq!(grids(&*world.rows).unwrap().len(), 2);
    let source = Selector::parse("m").unwrap();
    let times = Interval::new(START + 100 * SECOND, START + 299 * SECOND);
    a.delete(&source, times).unwrap();
    let mut kept = expected("m", 0..100);
    kept.extend(expected("m", 300..500));
    assert_eq!(all(&a), kept, "a delete hides rows in both grids");
}

#[test]
fn ports_switch_one_after_the_other_and_read_each_other() {
    let world = World::new(2);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    put(&b, "n", 0..100, 0);
    a.hand_over().unwrap();
    b.hand_over().unwrap();
    put(&a, "m", 100..200, 0);
    put(&b, "n", 100..200, 0);
    let mut rows = expected("m", 0..200);
    rows.extend(expected("n", 0..200));
    let check = |when: &str| {
        for port in [&a, &b] {
            assert_eq!(all(port), rows, "{when}");
        }
    };
    change_grid(&*world.rows, NEXT).unwrap();
    check("the grid is stored, and no port has used it");
    a.hand_over().unwrap();
    // b has not handed over since the change, and reads the grid for its query.
    check("a has switched");
    b.hand_over().unwrap();
    check("both have switched");
    assert!(cells(&world)[&1].len() > 1);
}

#[test]
fn the_later_of_two_equal_times_counts_in_whatever_grid_it_is() {
    let world = World::new(3);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    a.hand_over().unwrap();
    change_grid(&*world.rows, NEXT).unwrap();
    put(&b, "m", 0..100, 1000);
    b.hand_over().unwrap();
    for port in [&a, &b] {
        let found = all(port);
        assert_eq!(found.len(), 100);
        let latest = found.iter().all(|((_, time), value)| *value == time + 1000);
        assert!(latest, "{found:?}");
    }
}

#[test]
fn a_takeover_uses_the_new_grid() {
    let world = World::new(4);
    let (a, b) = (world.port("a"), world.port("b"));
    put(&a, "m", 0..100, 0);
    a.hand_over().unwrap();
    put(&a, "m", 100..300, 0);
    world.crash("a", a);
    change_grid(&*world.rows, NEXT).unwrap();
    assert_eq!(all(&b), expected("m", 0..300), "from the journal");
    world.run(30, &[&b]);
    assert_eq!(b.counts().takeovers, 1);
    assert_eq!(all(&b), expected("m", 0..300), "from bundles");
    assert!(cells(&world)[&1].len() > 2);
}

#[test]
fn a_query_under_way_finds_rows_that_move_to_a_new_grid() {
    let world = World::new(5);
    let a = world.port("a");
    for name in ["m", "n", "o"] {
        put(&a, name, 0..100, 0);
    }
    let query = everything();
    let mut scan = a.scan(&query, None).unwrap();
    let first = scan.next().unwrap().unwrap();
    assert_eq!(first.times.len(), 100);
    change_grid(&*world.rows, NEXT).unwrap();
    a.hand_over().unwrap();
    let rest = scan.map(|piece| piece.unwrap().times.len()).sum::<usize>();
    assert_eq!(rest, 200, "the rows left the port during the query");
}
