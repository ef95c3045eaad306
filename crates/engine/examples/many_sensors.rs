//! Ingest from many sensors: one value per sensor and second, with a fixed memory budget.
//!
//! `cargo run --release -p seiner-engine --example many_sensors -- DIRECTORY`

use seiner_engine::{Durability, Engine, Options, Query, Selector, SourceId, SourceKey, Step};
use seiner_engine::{Error, Interval};
use std::path::PathBuf;

const SENSORS: u32 = 10_000;
const SECOND: i64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.unwrap_or_else(|| std::env::temp_dir().join("seiner-many-sensors"));
    let engine = Engine::open_directory(
        &path,
        Options {
            durability: Durability::Sync,
            memory: 64 << 20,
            ..Options::default()
        },
    )?;
    let key = |sensor: u32| SourceKey::new("meter", [("number", sensor.to_string())]);
    let keys: Vec<SourceKey> = (0..SENSORS).map(key).collect::<Result<_, _>>()?;
    let found = engine.register_all(&keys.iter().collect::<Vec<_>>())?;
    let sensors: Vec<SourceId> = found.into_iter().collect::<Result<_, _>>()?;

    for second in 0..60 {
        let times = vec![second * SECOND; sensors.len()];
        let values: Vec<f64> = (0..SENSORS)
            .map(|sensor| f64::from(sensor) + second as f64 / 10.0)
            .collect();
        let receipt = engine.append_samples("power", &sensors, &times, &values)?;
        // With `Durability::Sync`, the batch survives a power cut when this returns.
        engine.wait_durable(receipt.position)?;
        if !receipt.rejected.is_empty() {
            println!(
                "{} rows were rejected. The first reason: {}",
                receipt.rejected_total, receipt.rejected[0].1
            );
        }
    }

    let query = Query {
        selector: Selector::parse(r#"meter{number="42"}"#)?,
        fields: Some(vec!["power".to_string()]),
        interval: Interval::new(0, 60 * SECOND),
    };
    for series in engine.aggregate(&query, Step::Every(20 * SECOND))? {
        match series {
            Ok(series) => {
                for bucket in series.buckets {
                    println!(
                        "from second {}: {} samples, mean {:.2}",
                        bucket.start / SECOND,
                        bucket.count,
                        bucket.mean()
                    );
                }
            }
            // A block that cannot be read is missing from the answer; the rest follows.
            Err(damage @ Error::Damage { .. }) => println!("{damage}"),
            Err(error) => return Err(error.into()),
        }
    }
    let status = engine.status();
    println!(
        "{} sources use {} of {} bytes of memory",
        status.sources, status.memory_used, status.memory_budget
    );
    engine.close()?;
    Ok(())
}
