//! Guide: a runnable example for each group of methods of [`Engine`](crate::Engine).
//!
//! The examples use a store in a temporary directory. The example with a crash uses a simulated disk in memory.
//!
//! # Open, append, query
//!
//! [`Engine::open_directory`](crate::Engine::open_directory) creates the directory if it is missing and starts the
//! background threads. [`Engine::append_columns`](crate::Engine::append_columns) appends rows of one source,
//! [`Engine::append_samples`](crate::Engine::append_samples) one value to each of many sources, and
//! [`Engine::append`](crate::Engine::append) rows that name their sources.
//!
//! ```
//! use seiner_engine::{Batch, Cell, Engine, KeyError, Notation, Options, SourceKey, Value};
//!
//! /// Names of the form `measurement/house`.
//! struct Houses;
//!
//! impl Notation for Houses {
//!     fn id(&self) -> u32 {
//!         7
//!     }
//!
//!     fn source_key(&self, name: &[u8]) -> Result<SourceKey, KeyError> {
//!         let name = String::from_utf8_lossy(name);
//!         let (measurement, house) = name.split_once('/').unwrap_or((&name, "none"));
//!         SourceKey::new(measurement, [("house", house)])
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let engine = Engine::open_directory(folder.path(), Options::default())?;
//! let mut batch = Batch::new();
//! let cell = |value| Cell { field: b"temperature", value: Value::F64(value) };
//! batch.push(b"boiler/7", 1_000, [cell(60.5)]);
//! batch.push(b"boiler/8", 1_000, [cell(58.0)]);
//! let receipt = engine.append(&Houses, &batch)?;
//! assert_eq!((receipt.rows, receipt.rejected.len()), (2, 0));
//!
//! // One value for each of two sources.
//! let houses = ["7", "8"].map(|house| SourceKey::new("boiler", [("house", house)]));
//! let [seven, eight] = houses;
//! let sources = [engine.register(&seven?)?, engine.register(&eight?)?];
//! engine.append_samples("temperature", &sources, &[2_000, 2_000], &[60.7, 58.1])?;
//! assert_eq!(engine.status().sources, 2);
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Options and durability
//!
//! [`Options`](crate::Options) are plain data with defaults. With [`Durability::Sync`](crate::Durability::Sync), an
//! append is durable when [`Engine::wait_durable`](crate::Engine::wait_durable) returns.
//!
//! ```
//! use seiner_engine::{Durability, Engine, Options, SourceKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let options = Options {
//!     durability: Durability::Sync,
//!     memory: 64 << 20,
//!     disk: Some(1 << 30),
//!     ..Options::default()
//! };
//! options.check()?; // without opening a store
//! let engine = Engine::open_directory(folder.path(), options)?;
//! let pump = engine.register(&SourceKey::new("pump", [("hall", "3")])?)?;
//! let receipt = engine.append_samples("pressure", &[pump], &[1_000], &[4.2])?;
//! engine.wait_durable(receipt.position)?;
//! assert!(engine.is_durable(receipt.position));
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Queries
//!
//! | method | result |
//! |---|---|
//! | [`Engine::scan`](crate::Engine::scan) | columns in pieces of bounded size, for any interval |
//! | [`Engine::select`](crate::Engine::select) | whole series |
//! | [`Engine::aggregate`](crate::Engine::aggregate) | buckets with count, sum, min, max, first and last |
//! | [`Store::latest`](crate::Store::latest) | the latest sample of each series |
//! | [`Engine::time_range`](crate::Engine::time_range) | first and last time, for display |
//!
//! Each [`Error::Damage`](crate::Error::Damage) among the items stands for a block that cannot be read. The other items
//! are valid.
//!
//! ```
//! use seiner_engine::{Engine, Interval, Options, Query, Selector, SourceKey, Step, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let engine = Engine::open_directory(folder.path(), Options::default())?;
//! let meter = engine.register(&SourceKey::new("meter", [("number", "42")])?)?;
//! for second in 0..60 {
//!     engine.append_samples("power", &[meter], &[second * 1_000_000_000], &[second as f64])?;
//! }
//! let query = Query {
//!     selector: Selector::parse(r#"meter{number=~"4."}"#)?,
//!     fields: Some(vec!["power".to_string()]),
//!     interval: Interval::new(0, 59_000_000_000),
//! };
//!
//! let mut rows = 0;
//! for piece in engine.scan(&query) {
//!     rows += piece?.times.len();
//! }
//! assert_eq!(rows, 60);
//!
//! let series = engine.select(&query)?.next().expect("one series")?;
//! assert_eq!(series.times[59], 59_000_000_000);
//!
//! let summary = engine.aggregate(&query, Step::Every(20_000_000_000))?.next().expect("one series")?;
//! let means: Vec<f64> = summary.buckets.iter().map(|bucket| bucket.mean()).collect();
//! assert_eq!(means, [9.5, 29.5, 49.5]);
//!
//! let latest = engine.latest(&query, None)?.next().expect("one series")?;
//! assert_eq!(latest.time, 59_000_000_000);
//! assert_eq!(engine.time_range(&query, 1), Some(query.interval));
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Names
//!
//! ```
//! use seiner_engine::{Engine, Options, Selector, SourceKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let engine = Engine::open_directory(folder.path(), Options::default())?;
//! for house in ["7", "8"] {
//!     let source = engine.register(&SourceKey::new("boiler", [("house", house)])?)?;
//!     engine.append_samples("temperature", &[source], &[1_000], &[60.0])?;
//! }
//! let all = Selector::all();
//! assert_eq!(engine.measurements()?, ["boiler"]);
//! assert_eq!(engine.tag_names(&all)?, ["house"]);
//! assert_eq!(engine.tag_values(&all, "house", 10)?, ["7", "8"]);
//! assert_eq!(engine.sources(&all)?.len(), 2);
//! assert_eq!(engine.fields(&all)?[0].0, "temperature");
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Retention
//!
//! A [`Class`](crate::Class) contains the sources that its selector matches, and the rules for their samples. The first
//! class that matches a source applies. Sources without a class are kept for ever. The rules are stored with the data.
//! A later start that would delete data sooner fails, unless
//! [`Options::apply_retention`](crate::Options::apply_retention) confirms the new rules.
//!
//! ```
//! use seiner_engine::{Class, Classes, Engine, Options, Reason, SourceKey, parse_levels};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! // Samples of the last hour.
//! let mut debug = Class::forever();
//! debug.name = "debug".to_string();
//! debug.sources = "debug{}".to_string();
//! debug.keep.age = Some(Duration::from_secs(3600));
//! // Samples of the last day, then a row per minute for 30 days.
//! let mut motors = Class::forever();
//! motors.name = "motors".to_string();
//! motors.sources = "motor{}".to_string();
//! motors.keep.age = Some(Duration::from_secs(86_400));
//! motors.rollup = parse_levels("1m for 30d")?;
//! // The latest thousand rows of every other source.
//! let mut other = Class::forever();
//! other.keep.rows = Some(1000);
//! let options = Options { classes: Classes::new(vec![debug, motors, other])?, ..Options::default() };
//! let engine = Engine::open_directory(folder.path(), options)?;
//!
//! let debug = engine.register(&SourceKey::new("debug", [("level", "info")])?)?;
//! let receipt = engine.append_samples("value", &[debug], &[1_000], &[1.0])?; // in the year 1970
//! assert!(matches!(receipt.rejected[..], [(0, Reason::TooOld { .. })]));
//! assert_eq!(engine.classes()[0].sources, 1);
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Delete
//!
//! A delete hides samples that were accepted before the call. The delete is durable when the call returns. Disk space
//! is freed later.
//!
//! ```
//! use seiner_engine::{Engine, Interval, Options, Query, Selector, SourceKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let engine = Engine::open_directory(folder.path(), Options::default())?;
//! let pump = engine.register(&SourceKey::new("pump", [("hall", "3")])?)?;
//! for time in [1_000, 2_000, 3_000] {
//!     engine.append_samples("pressure", &[pump], &[time], &[4.2])?;
//! }
//! let selector = Selector::parse("pump{}")?;
//! assert_eq!(engine.delete(&selector, Interval::new(1_000, 2_000))?, 1); // sources
//! let query = Query { selector, fields: None, interval: Interval::ALL };
//! let series = engine.select(&query)?.next().expect("one series")?;
//! assert_eq!(series.times, [3_000]);
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Crash and reopen
//!
//! [`Engine::open`](crate::Engine::open) takes a disk and a clock and starts no threads: the caller calls
//! [`Engine::commit`](crate::Engine::commit) and [`Engine::step`](crate::Engine::step). With the simulated disk of
//! [`sim`](crate::sim), a test can crash a store.
//!
//! ```
//! use seiner_engine::{Engine, Interval, Options, Query, Selector, SourceKey};
//! use seiner_engine::sim::{SimClock, SimDisk};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk = SimDisk::new(42);
//! let engine = Engine::open(Arc::new(disk.clone()), Arc::new(SimClock::new(0)), Options::default())?;
//! let pump = engine.register(&SourceKey::new("pump", [("hall", "3")])?)?;
//! engine.append_samples("pressure", &[pump], &[1_000], &[4.2])?;
//! engine.commit()?; // durable from here on
//! engine.append_samples("pressure", &[pump], &[2_000], &[4.3])?; // accepted, not durable
//!
//! let after = disk.crash(); // loses what was not synced
//! drop(engine);
//! let engine = Engine::open(Arc::new(after), Arc::new(SimClock::new(0)), Options::default())?;
//! let query = Query { selector: Selector::all(), fields: None, interval: Interval::ALL };
//! let series = engine.select(&query)?.next().expect("one series")?;
//! assert_eq!(series.times, [1_000]);
//! assert!(engine.losses().is_empty());
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Read and check without a lock
//!
//! [`Engine::open_to_read`](crate::Engine::open_to_read) and [`check_directory`](crate::check_directory) change nothing
//! in the directory, and work while another process writes to the directory.
//!
//! ```
//! use seiner_engine::{Engine, Options, SourceKey, check_directory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let engine = Engine::open_directory(folder.path(), Options::default())?;
//! let pump = engine.register(&SourceKey::new("pump", [("hall", "3")])?)?;
//! engine.append_samples("pressure", &[pump], &[1_000], &[4.2])?;
//! engine.commit()?;
//!
//! let reader = Engine::open_to_read(folder.path(), Options::default())?;
//! assert_eq!(reader.measurements()?, ["pump"]);
//! let report = check_directory(folder.path(), &mut |_done, _bytes| ())?;
//! assert_eq!(report.damaged, 0);
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
