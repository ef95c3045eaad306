//! A small store with one file replaced by any bytes. The store is checked, opened, read and sealed without a panic.
//! The first byte chooses the file. The second byte chooses whether checksums are corrected.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_engine::{Engine, Error, Options, Query, Step, check, fuzzing};
use seiner_model::{Interval, Selector};
use seiner_platform::Disk;
use seiner_platform::sim::{SimClock, SimDisk};
use std::sync::Arc;

macro_rules! golden {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../golden/engine/v1/store/", $name)).as_slice())),*]
    };
}

/// Returns the files of a store with sealed, buffered and journaled rows.
const FILES: [(&str, &[u8]); 6] = golden!(
    "catalog",
    "catalog.copy",
    "segment-00000001.log",
    "segment-00000002.log",
    "journal-00000003",
    "journal-00000004"
);

fuzz_target!(|bytes: &[u8]| {
    let Some((&[file, how], rest)) = bytes.split_first_chunk::<2>() else { return };
    let file = FILES[usize::from(file) % FILES.len()].0;
    let mut hostile = rest.to_vec();
    if how & 1 == 1 {
        fuzzing::mend(file, &mut hostile);
    }
    let disk = SimDisk::new(1);
    for (name, golden) in FILES {
        // An intact copy would repair the catalog.
        let replaced = name == file || (file == "catalog" && name == "catalog.copy");
        let written = disk.create(name).expect("the disk has no faults");
        written
            .write_at(0, if replaced { &hostile } else { golden })
            .expect("the disk has space");
    }
    let _ = check(&disk, &mut |_, _| {});
    let _ = read(disk);
});

/// Opens the store, reads all rows, and seals them.
fn read(disk: SimDisk) -> Result<(), Error> {
    let options = Options {
        memory: 8 << 20,
        block_bytes: 512,
        segment_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = Engine::open(Arc::new(disk), Arc::new(SimClock::new(0)), options)?;
    let query = Query { selector: Selector::all(), fields: None, interval: Interval::ALL };
    engine.select(&query)?.for_each(drop);
    engine.aggregate(&query, Step::Every(1 << 40))?.for_each(drop);
    engine.flush()?;
    engine.select(&query)?.for_each(drop);
    engine.close()
}
