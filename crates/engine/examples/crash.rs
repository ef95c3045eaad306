//! A crash and its losses: copies the directory of a running store, as a power cut would leave it, and opens the copy.
//!
//! `cargo run --release -p seiner-engine --example crash`

use seiner_engine::{
    Column, Columns, Durability, Engine, FieldColumn, Interval, Options, Query, Selector, SourceKey,
};
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (running, copy) = (folder.path().join("running"), folder.path().join("copy"));
    let engine = Engine::open_directory(
        &running,
        Options {
            durability: Durability::Sync,
            ..Options::default()
        },
    )?;
    let source = engine.register(&SourceKey::new("pump", [("hall", "3")])?)?;
    let append = |times: std::ops::Range<i64>| {
        let values = Column::F64(times.clone().map(|time| time as f64).collect());
        let fields = vec![FieldColumn {
            present: None,
            values,
        }];
        let times = times.collect();
        engine.append_columns(source, &["pressure"], &Columns { times, fields })
    };
    let durable = append(0..1000)?;
    engine.wait_durable(durable.position)?;
    append(1000..1010)?; // accepted, not durable

    copy_directory(&running, &copy)?;
    let after = Engine::open_directory(&copy, Options::default())?;
    println!("start: {}", after.recovery());
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::new(0, i64::MAX),
    };
    let mut rows = 0;
    for series in after.select(&query)? {
        rows += series?.times.len();
    }
    println!("{rows} rows are there; 1000 were acknowledged as durable");
    assert!(rows >= 1000);
    after.close()?;
    engine.close()?;
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // The lock belongs to the running process.
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
