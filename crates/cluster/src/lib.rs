//! A store of samples on a distributed store of rows.
//!
//! Every node of a cluster runs a *port*: a server whose store keeps new samples in a local engine, replicates their
//! journal, and hands them over to the distributed store as bundles. [`rows`] is the interface of the distributed store.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod balance;
mod blocks;
mod bundling;
mod check;
mod classes;
mod clocks;
mod columns;
pub mod conformance;
mod counts;
mod deletes;
mod earlier;
mod export;
mod failure;
mod handover;
mod import;
mod journal;
mod keys;
mod lease;
mod load;
mod locks;
#[cfg(test)]
mod lost_answers;
pub mod memory;
mod merge;
mod names;
mod opening;
mod patience;
mod peers;
mod placement;
mod places;
mod port;
mod ports;
mod progress;
mod publication;
mod release;
pub mod rows;
mod scan;
mod settings;
mod shelves;
mod stamps;
mod store;
mod strangers;
mod tables;
mod takeover;
pub mod wire;

pub use check::{ClusterCheck, check};
pub use classes::shortest_age;
pub use counts::PortCounts;
pub use export::Export;
pub use import::{ImportOptions, ImportReport, import};
pub use memory::MemoryRows;
pub use peers::{NoPeers, PeerError, Peers, PortRows, Unflushed};
pub use ports::PortInfo;
pub use progress::{Progress, Watch};
pub use rows::{Found, Level, Range, Reading, Row, Rows, RowsError, Selection, Swap, TableSpec};
pub use settings::{Acknowledge, PortOptions, SpareDisks, Surroundings};
pub use shelves::{Grid, GridChange, change_grid, grids};
pub use store::ClusterStore;
