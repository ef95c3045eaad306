//! Tests that run the program.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod import;
mod import_forms;
mod program;
mod server;
mod settings;
mod store;
