//! Bytes on the socket: line protocol into batches, answers into JSON, CSV and Arrow.
//!
//! Knows the nouns of the model and nothing of any store, socket or file.

pub mod answer;
pub mod line;
