//! Bundles: blocks that hold few rows each of very many sources.
//!
//! A *bundle* is a *directory* and *data*. The data is a sequence of *chunks*, each with the rows of some
//! neighbouring sources. A chunk is decoded alone, with the directory, which contains tables of
//! frequencies that all chunks share. So a source with ten rows takes hardly more bytes per sample than
//! one with thousands. `docs/format/bundle.md` describes the bytes.
//!
//! Rows return bit for bit, NaN payloads and −0.0 included. Hostile bytes cause a [`BundleError`]:
//! decoders never panic and never allocate more than the counts justify.
//!
//! This crate does not depend on stores or disks.
//!
//! ```
//! use std::sync::Arc;
//! use seiner_bundle::{BundleWriter, Directory, Layout, Options};
//! use seiner_model::{Column, Columns, FieldColumn, FieldType};
//!
//! let layout = Arc::new(Layout::new([("temperature", FieldType::F64)]));
//! let rows = Columns {
//!     times: vec![0, 10_000_000_000],
//!     fields: vec![FieldColumn { present: None, values: Column::F64(vec![21.5, 21.6]) }],
//! };
//! let mut writer = BundleWriter::new(Options::default());
//! for id in 0..1000 {
//!     writer.push(id, &layout, &rows)?;
//! }
//! let bundle = writer.finish();
//! let directory = Directory::parse(&bundle.directory)?;
//! for chunk in directory.find(42) {
//!     let bytes = &bundle.data[chunk.start..chunk.end];
//!     let source = directory.decode_source(chunk.index, bytes, 42)?;
//!     assert_eq!(source.map(|source| source.rows), Some(rows.clone()));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ans;
mod buffer;
mod choose_times;
mod chunk;
mod classes;
mod column;
mod column_reader;
mod cut;
mod directory;
mod entries;
mod error;
mod estimate;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod group;
mod histogram;
#[cfg(test)]
mod hostile;
mod kinds;
mod layout;
mod limits;
mod lists;
mod model;
mod model_bytes;
mod orders;
mod parsed_group;
mod sink;
mod states;
mod table;
mod times;
mod token;
mod writer;

pub use chunk::{ChunkRows, SourceRows};
pub use directory::{ChunkInfo, Directory};
pub use error::{BundleError, PushError};
pub use layout::Layout;
pub use writer::{Bundle, BundleWriter, Options};
