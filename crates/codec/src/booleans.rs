//! Boolean columns, encoded as bitmaps.

use seiner_model::Bitmap;

use crate::reader::Reader;
use crate::{DecodeError, bitmap};

/// Appends booleans.
pub(crate) fn encode(values: &[bool], out: &mut Vec<u8>) {
    let bits: Bitmap = values.iter().copied().collect();
    bitmap::encode(&bits, out);
}

/// Reads `count` booleans.
pub(crate) fn decode(reader: &mut Reader<'_>, count: usize) -> Result<Vec<bool>, DecodeError> {
    Ok(bitmap::decode(reader, count)?.iter().collect())
}
