//! The lab: the papers' experiments on the user's own disks.
//!
//! An experiment is a job (a saved description with a seed), cut into cells that are measured one
//! after the other and kept at once, so that a run can be interrupted and continued. What a run
//! creates outside its own directory stands in the registry before it exists, and is gone when the
//! run ends, however it ends. Every run answers `results.json`, CSV and a page of pictures.
//!
//! Nothing here listens to sockets, and the engine knows nothing of it.

pub mod align;
pub mod blocks;
pub mod check;
pub mod disk;
mod error;
pub mod files;
mod group;
pub mod guest;
mod interrupt;
pub mod job;
pub mod machine;
pub mod merge;
mod native;
pub mod papers;
pub mod place;
pub mod registry;
pub mod report;
pub mod results;
pub mod runner;
pub mod seed;
mod sensors;
mod tool;
pub mod trace;
mod tree;
pub mod write;

pub use error::{Error, Result, refuse};
pub use interrupt::Interrupt;
pub use native::obstacle as fresh_obstacle;
