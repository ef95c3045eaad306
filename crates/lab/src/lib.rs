//! The papers' experiments, on the user's own disks.
//!
//! A [`job::Job`] is a saved description of an experiment, with a seed. An experiment consists of
//! cells. A cell is one measurement. A run
//!
//! 1. records each resource outside its own directory in the [`registry`], then creates it;
//! 2. measures one cell after the other and appends each to `cells.jsonl` at once, so that an
//!    interrupted run continues after the last cell;
//! 3. removes its resources. If the process is killed, the next run removes them;
//! 4. writes `results.json`, two CSV files and `report.html`.
//!
//! This crate opens no sockets, and the engine does not depend on it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod align;
pub mod backend;
pub mod bench;
pub mod blocks;
pub mod cell;
pub mod check;
pub mod disk;
mod error;
pub mod experiment;
pub mod files;
mod group;
pub mod guest;
mod interrupt;
pub mod job;
pub mod location;
pub mod machine;
pub mod merge;
mod native;
pub mod papers;
mod progress;
pub mod registry;
pub mod report;
pub mod resource;
pub mod results;
pub mod runner;
mod sensors;
mod time;
mod tool;
pub mod trace;
mod tree;
pub mod write;

pub use error::{Error, Result, refuse};
pub use interrupt::Interrupt;
pub use native::obstacle as fresh_obstacle;
