//! Arrays with superblocks on members in memory.

use super::eventually;
use seiner_raid::{
    Array, ArraySettings, Creation, Level, Member, Merging, Ram, ShardSettings, create,
};
use std::sync::Arc;

/// Size of a strip in bytes.
pub const STRIP: u64 = 16 << 10;
/// Size of a member in bytes.
pub const MEMBER: u64 = 6 << 20;

/// Returns the parameters of a new array.
pub fn creation(level: Level) -> Creation {
    Creation {
        level,
        strip_bytes: STRIP,
        smallest: false,
        overwrite: false,
        zeroed: true,
        checksums: false,
    }
}

/// Returns the settings of a running array.
pub fn settings() -> ArraySettings {
    ArraySettings {
        shard: ShardSettings {
            merging: Merging::Adaptive,
            ..ShardSettings::default()
        },
        shards: 2,
        ..ArraySettings::default()
    }
}

/// Creates blank members in memory.
pub fn rams(count: usize) -> Vec<Arc<Ram>> {
    (0..count).map(|_| Arc::new(Ram::new(MEMBER))).collect()
}

/// Returns the members as devices.
pub fn members(rams: &[Arc<Ram>]) -> Vec<Arc<dyn Member>> {
    rams.iter()
        .map(|ram| ram.clone() as Arc<dyn Member>)
        .collect()
}

/// Creates an array on new members.
pub fn created(level: Level, count: usize) -> Vec<Arc<Ram>> {
    let rams = rams(count);
    create(&members(&rams), &creation(level)).unwrap();
    rams
}

/// Assembles an array. Members that are left out must be recorded as lost.
pub fn assemble(rams: &[Arc<Ram>]) -> Array {
    Array::assemble(members(rams), false, settings()).unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until no task is running.
pub fn wait_for_tasks(array: &Array) {
    eventually("tasks end", || {
        array.status().unwrap().tasks.iter().all(|task| task.over)
    });
}

/// Reads everything and compares data with syndromes.
pub fn assert_consistent(array: &Array) {
    wait_for_tasks(array);
    let before = array.status().unwrap().counters.repaired;
    array.scrub().unwrap();
    wait_for_tasks(array);
    let status = array.status().unwrap();
    let failures: Vec<_> = status
        .tasks
        .iter()
        .flat_map(|task| &task.failures)
        .collect();
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(status.counters.repaired, before);
}
