//! The log-structured store, embedded: durable, queryable samples in one directory.
//!
//! [`Engine`] is the door. A row goes through the `head` (accept, buffer, stage), the `journal`
//! (the promise), a `block` (sealed, compressed), a segment of the `log` (written, indexed), and comes back
//! through a `query`. `ARCHITECTURE.md` tours one sample through the files.
//!
//! The engine is synchronous and knows no sockets. Everything outside comes through
//! `seiner-platform`, so the simulator runs the same code with power cuts.

mod aside;
mod background;
mod backpressure;
mod block;
mod buffer;
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
// The decoders are private; the fuzz targets, a crate of their own, reach them through this.
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
mod health;
mod holds;
pub mod inspect;
mod intake;
mod jobs;
mod journal;
mod ledger;
mod levels;
mod locks;
mod log;
mod members;
mod memory;
mod opened;
mod opening;
mod options;
mod prefetch;
mod query;
mod reading;
mod recover;
mod report;
mod retention;
mod rules;
mod scheduler;
mod sealer;
mod sealing;
mod segment;
mod space;
mod status;
mod timekeeper;
mod trace;
mod trouble;
mod turns;
mod volume;

use seiner_store::answer;

pub use answer::{Bucket, Exact, LevelSpan, Query, SeriesData, SeriesSummary, Step};
pub use check::{CheckReport, Damage, Note, check};
pub use engine::Engine;
pub use error::{Error, Reason, Receipt, Relief};
pub use holds::Holds;
pub use jobs::merging::memory::Record;
pub use options::{Durability, Options};
pub use query::aggregate::Aggregates;
pub use query::scan::{Piece, PieceField, Pieces, Scan, SourceScan};
pub use query::select::Select;
pub use reading::{Reading, check_directory, read_directory};
pub use retention::class::{Class, Classes, Keep, Level, WhenFull, levels_text, parse_levels};
pub use rules::{Change, Given, Outlook, Rule, read as stored_rules};
pub use seiner_merge as merge;
pub use seiner_merge::Kind as MergePolicy;
pub use seiner_store::IsOver;
pub use seiner_store::{MAX_FIELDS, MAX_TEXT_BYTES};
pub use status::{ClassStatus, LogStatus, Loss, Recovery, SegmentInfo, SegmentStatus, Status};
pub use timekeeper::{set_stored_time, stored_time};
pub use trace::trace;
pub use trouble::Trouble;
