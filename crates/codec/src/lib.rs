//! Columns of samples to bytes and back, exactly.
//!
//! Encoders append to a buffer; decoders consume from the front of a slice, are told how many
//! values to expect, and answer hostile bytes with a [`DecodeError`]: they never panic and never
//! allocate more than the count justifies. What goes in comes out bit for bit, NaN payloads and
//! −0.0 included. The bytes are described in `docs/format/codecs.md`.
//!
//! This crate knows nothing of blocks, sources or disks.

mod ans;
mod binned;
mod bitmap;
mod bits;
mod booleans;
mod checksum;
mod choose;
mod decimals;
mod dictionary;
mod entropy;
mod error;
mod floats;
mod integers;
mod packed;
mod reader;
mod real;
mod texts;
mod times;
mod tokens;
pub mod varint;

pub use bitmap::{decode_bitmap, encode_bitmap};
pub use checksum::checksum;
pub use choose::{Effort, decode_column, encode_column, encode_decimals};
pub use error::{DecodeError, MAX_COUNT};
pub use times::{decode_times, encode_times};
