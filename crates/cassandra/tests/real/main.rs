//! Tests on a real cluster of three nodes, which all tests share.
//!
//! If this machine cannot run the cluster, the tests print why and pass. With `SEINER_REQUIRE_CASSANDRA=1`, they fail.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod compaction;
mod connection;
mod faults;
mod rows;
mod spaces;
mod store;
