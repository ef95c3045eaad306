//! Time columns: integers that usually ascend, often by equal steps.
//!
//! A regular clock costs a header, its first time and its step.

use crate::reader::consume;
use crate::{DecodeError, Effort, integers};

/// Appends times (in ns, any order; equal steps cost nothing).
pub fn encode_times(times: &[i64], out: &mut Vec<u8>) {
    integers::encode(times, Effort::Fast, out);
}

/// Reads `count` times and appends them to `out`, which on an error is as it was.
///
/// # Errors
/// The bytes are not what [`encode_times`] wrote for that count.
pub fn decode_times(
    bytes: &mut &[u8],
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    consume(bytes, count, |reader| {
        integers::decode_with(reader, count, |times| out.extend_from_slice(times))
    })
}
