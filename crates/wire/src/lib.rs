//! Formats on the socket: parses line protocol, remote write and OTLP into batches, writes answers as JSON, CSV and
//! Arrow.
//!
//! This crate depends on the types of `seiner-model` only. It contains no stores, sockets or files.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod answer;
pub mod line;
pub mod otlp;
mod protobuf;
pub mod remote_write;
