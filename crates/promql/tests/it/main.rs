//! Tests of the public items: scripts of queries with their results, and properties of single queries.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod expectation;
mod memory;
mod names;
mod notation;
mod properties;
mod runner;
mod scripts;
mod threads;
