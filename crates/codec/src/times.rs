//! Time columns: integers that usually ascend, often by equal steps.
//!
//! A column of equal steps takes a header, the first time and the step.

use crate::reader::consume;
use crate::{DecodeError, Effort, integers};

/// Appends times in nanoseconds, in any order. Equal steps take no bytes per time.
pub fn encode_times(times: &[i64], out: &mut Vec<u8>) {
    integers::encode(times, Effort::Fast, out);
}

/// Reads `count` times and appends them to `out`. On an error `out` is unchanged.
///
/// # Errors
/// The bytes are not the encoding of `count` times.
pub fn decode_times(
    bytes: &mut &[u8],
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), DecodeError> {
    consume(bytes, count, |reader| {
        integers::decode_with(reader, count, |times| out.extend_from_slice(times))
    })
}
