//! Store for the samples of very many sensors, embedded in a program: durable, queryable, in one directory.
//!
//! [`Engine`] has all operations. A *source* is a measurement with its tags ([`SourceKey`]), such as `boiler` with
//! `house=7`. A *sample* is the value of one field of a source at one time in ns since 1970.
//!
//! ```
//! use seiner_engine::{Column, Columns, Engine, FieldColumn, Interval, Options, Query, Selector, SourceKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sensors");
//! let engine = Engine::open_directory(&path, Options::default())?;
//! let boiler = engine.register(&SourceKey::new("boiler", [("house", "7")])?)?;
//!
//! // Three rows of one field.
//! let rows = Columns {
//!     times: vec![1_000, 2_000, 3_000],
//!     fields: vec![FieldColumn { present: None, values: Column::F64(vec![60.5, 61.0, 61.2]) }],
//! };
//! let receipt = engine.append_columns(boiler, &["temperature"], &rows)?;
//! assert_eq!(receipt.rows, 3);
//! engine.wait_durable(receipt.position)?; // on the disk from here on
//!
//! let query = Query {
//!     selector: Selector::parse(r#"boiler{house="7"}"#)?,
//!     fields: None,
//!     interval: Interval::new(2_000, 9_000),
//! };
//! for series in engine.select(&query)? {
//!     let series = series?;
//!     assert_eq!(series.times, [2_000, 3_000]);
//! }
//! engine.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The [`guide`] has an example for each group of methods. The folder `examples` contains complete programs: ingest
//! from many sensors, retention, and a crash.
//!
//! # How it works
//!
//! A row passes through the `head` (accept, buffer, stage), the `journal` (durability), a `block`
//! (sealed, compressed) and a segment of the `log` (written, indexed). A `query` returns it.
//! `ARCHITECTURE.md` in the repository follows one sample through the files. The engine is
//! synchronous and uses no sockets. Disk, clock and memory are accessed through `seiner-platform`,
//! so the simulator runs the same code with power cuts.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod ahead;
mod aside;
mod background;
mod backpressure;
mod block;
mod buffer;
mod bundle;
mod bytes;
mod catalog;
mod check;
mod closing;
mod commit;
mod core;
mod counters;
mod delete;
mod dictionary;
mod embedded;
mod engine;
mod error;
mod exchange;
mod extents;
// The decoders are private. The fuzz targets, in a crate of their own, reach them through this
// module.
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod guide;
mod handover;
mod head;
mod health;
mod holds;
pub mod inspect;
mod intake;
mod jobs;
mod journal;
mod ledger;
mod levels;
#[allow(clippy::disallowed_methods, reason = "measures holds for reports")]
mod locks;
mod log;
mod maps;
mod members;
mod memory;
mod names;
mod opened;
mod opening;
mod options;
mod persisted_clock;
mod prefetch;
mod query;
mod reading;
mod recall;
mod recover;
mod report;
mod retention;
mod rules;
#[allow(clippy::disallowed_methods, reason = "the threads of a running store")]
mod scheduler;
mod sealer;
mod sealing;
mod segment;
mod space;
mod status;
mod trace;
mod trouble;
mod volume;
mod writers;

use seiner_store::answer;

pub use answer::{Bucket, Exact, LevelSpan, Query, SeriesData, SeriesSummary, Step};
pub use check::{CheckReport, Damage, Note, Scope, check, check_within};
pub use engine::Engine;
pub use error::{Error, Reason, Receipt, Relief};
pub use handover::Cut;
pub use holds::Holds;
pub use jobs::merging::memory::DecisionRecord;
pub use options::{Bundling, Durability, Filing, Options};
pub use persisted_clock::{set_stored_time, stored_time};
pub use query::aggregate::Aggregates;
pub use query::latest::LatestSamples;
pub use query::parts::ScanParts;
pub use query::scan::{Piece, PieceField, Pieces, Scan, SourceScan};
pub use query::select::Select;
pub use reading::{Reading, check_directory, read_directory};
pub use retention::class::{Class, Classes, Keep, Level, WhenFull, levels_text, parse_levels};
pub use rules::{Change, Given, Outlook, Rule, read as stored_rules};
pub use seiner_merge as merge;
pub use seiner_merge::MergePolicy;
pub use seiner_model::{
    Batch, Bitmap, Cell, Column, Columns, FieldColumn, FieldType, Interval, KeyError, Notation,
    Selector, SelectorError, SourceId, SourceKey, Strings, Value,
};
pub use seiner_platform::{Clock, Disk, sim};
pub use seiner_store::IsOver;
pub use seiner_store::Store;
pub use seiner_store::{MAX_FIELDS, MAX_TEXT_BYTES};
pub use status::{ClassStatus, LogStatus, Loss, Recovery, SegmentInfo, SegmentStatus, Status};
pub use trace::trace;
pub use trouble::Trouble;

/// Example of the crate's README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
