//! Retention: two classes of sources with different retention rules, and a disk budget that is never exceeded.
//!
//! `cargo run --release -p seiner-engine --example retention -- DIRECTORY`

use seiner_engine::{
    Class, Classes, Column, Columns, Engine, FieldColumn, Interval, Options, Query, Selector,
    SourceKey,
};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.unwrap_or_else(|| std::env::temp_dir().join("seiner-retention"));

    // Samples of the measurement `debug` expire after an hour. Every other source keeps its latest thousand rows.
    let mut debug = Class::forever();
    debug.name = "debug".to_string();
    debug.sources = "debug{}".to_string();
    debug.keep.age = Some(Duration::from_secs(3600));
    let mut usual = Class::forever();
    usual.keep.rows = Some(1000);
    let engine = Engine::open_directory(
        &path,
        Options {
            disk: Some(1 << 30),
            classes: Classes::new(vec![debug, usual])?,
            ..Options::default()
        },
    )?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
    for (measurement, ages) in [("debug", vec![7200, 60]), ("boiler", vec![7200, 60])] {
        let source = engine.register(&SourceKey::new(measurement, [("house", "7")])?)?;
        let rows = Columns {
            times: ages.iter().map(|age| now - age * SECOND).collect(),
            fields: vec![FieldColumn {
                present: None,
                values: Column::F64(vec![1.0; ages.len()]),
            }],
        };
        let receipt = engine.append_columns(source, &["value"], &rows)?;
        for (row, reason) in receipt.rejected {
            println!("{measurement}: row {row} was rejected: {reason}");
        }
    }
    let query = Query {
        selector: Selector::all(),
        fields: None,
        interval: Interval::new(0, now),
    };
    for series in engine.select(&query)? {
        let series = series?;
        println!(
            "{}: {} rows are kept",
            series.key.measurement(),
            series.times.len()
        );
    }
    for class in engine.classes() {
        println!("class {}: {} sources", class.class.name, class.sources);
    }
    engine.close()?;
    Ok(())
}
