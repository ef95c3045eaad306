//! A real server on a port of its own, asked over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod limits;
mod lines;
mod memory;
mod metrics;
mod plans;
mod queries;
mod retention;
mod site;
mod stops;
mod writes;
