//! Exact encoding of columns of samples.
//!
//! Encoders append to a byte vector. Decoders consume from the front of a slice, given the number of
//! values. Hostile bytes cause a [`DecodeError`]: decoders never panic and never allocate more than the
//! count justifies. Values return bit for bit, NaN payloads and −0.0 included. `docs/format/codecs.md`
//! describes the bytes.
//!
//! This crate does not depend on blocks, sources or disks.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ans;
mod binned;
mod bitmap;
pub mod bits;
mod booleans;
mod checksum;
mod choose;
pub mod decimals;
mod dictionary;
mod entropy;
mod error;
mod floats;
mod integers;
mod packed;
pub mod reader;
mod real;
mod texts;
mod times;
mod tokens;
pub mod varint;

pub use bitmap::{decode_bitmap, encode_bitmap};
pub use checksum::checksum;
pub use choose::{Effort, decode_column, decode_texts, encode_column, encode_decimals};
pub use error::{DecodeError, MAX_COUNT};
pub use real::Real;
pub use times::{decode_times, encode_times};
