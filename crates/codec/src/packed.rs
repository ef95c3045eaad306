//! Residuals packed in groups, each with its own base and width.
//!
//! A group is a base (zigzag varint), a width (one byte) and the differences from the base. A short
//! column is one group with two or three bytes of overhead.

use crate::DecodeError;
use crate::bits::{self, BitWriter, PADDING, bytes_for, width};
use crate::reader::Reader;
use crate::varint::{put_i64, zigzag};

/// Number of residuals in a group.
pub(crate) const GROUP: usize = 128;

/// Returns the smallest and the largest value.
fn bounds(group: &[i64]) -> (i64, i64) {
    group
        .iter()
        .fold((i64::MAX, i64::MIN), |(low, high), &value| {
            (low.min(value), high.max(value))
        })
}

/// Returns the width of the largest difference from the smallest value.
fn span_width((low, high): (i64, i64)) -> u32 {
    width(high.wrapping_sub(low) as u64)
}

/// Returns the bytes that [`encode`] would append, and the smallest and largest of all residuals.
pub(crate) fn size(residuals: &[i64]) -> (usize, (i64, i64)) {
    let (mut bytes, mut low, mut high) = (0, i64::MAX, i64::MIN);
    for group in residuals.chunks(GROUP) {
        let bounds = bounds(group);
        let base_bits = crate::bits::width(zigzag(bounds.0)).max(1) as usize;
        let packed_bits = group.len() * span_width(bounds) as usize;
        bytes += base_bits.div_ceil(7) + 1 + bytes_for(packed_bits);
        (low, high) = (low.min(bounds.0), high.max(bounds.1));
    }
    (bytes, (low, high))
}

/// Appends the residuals.
pub(crate) fn encode(residuals: &[i64], out: &mut Vec<u8>) {
    for group in residuals.chunks(GROUP) {
        let bounds = bounds(group);
        let (base, width) = (bounds.0, span_width(bounds));
        put_i64(base, out);
        out.push(width as u8);
        let mut writer = BitWriter::new(out);
        for &value in group {
            writer.put(value.wrapping_sub(base) as u64, width);
        }
        writer.finish();
    }
}

/// Decodes into `residuals`.
pub(crate) fn decode(reader: &mut Reader<'_>, residuals: &mut [i64]) -> Result<(), DecodeError> {
    for group in residuals.chunks_mut(GROUP) {
        let base = reader.signed("a group's base")?;
        let width = u32::from(reader.byte("a group's width")?);
        if width > 64 {
            return Err(reader.invalid("a group's width exceeds 64 bits"));
        }
        let bytes = reader.take(bytes_for(group.len() * width as usize), "a packed group")?;
        unpack(bytes, base, width, group);
    }
    Ok(())
}

/// Unpacks one group from a padded copy of its bytes, so that no read passes the end.
fn unpack(bytes: &[u8], base: i64, width: u32, group: &mut [i64]) {
    let mut padded = [0; GROUP * 8 + PADDING];
    padded[..bytes.len()].copy_from_slice(bytes);
    for (index, value) in group.iter_mut().enumerate() {
        let packed = bits::get(&padded, index * width as usize, width);
        *value = base.wrapping_add(packed as i64);
    }
}
