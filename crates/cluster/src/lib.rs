//! A store of samples on a distributed store of rows.
//!
//! Every node of a cluster runs a *port*: a server whose store keeps new samples in a local engine, replicates their
//! journal, and hands them over to the distributed store as bundles. [`rows`] is the interface of the distributed store.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod memory;
pub mod rows;

pub use memory::MemoryRows;
pub use rows::{Level, Range, Row, Rows, RowsError, Swap, TableSpec};
