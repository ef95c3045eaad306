//! Variable-length integers: LEB128, signed ones as zigzag.

use crate::DecodeError;
use crate::reader::consume;

/// Appends a number in 1 to 10 bytes: 7 bits per byte, lowest first.
pub fn put_u64(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number as zigzag: 0, −1, 1, −2 … become 0, 1, 2, 3 …
pub fn put_i64(value: i64, out: &mut Vec<u8>) {
    put_u64(zigzag(value), out);
}

/// Reads a number written by [`put_u64`].
///
/// # Errors
/// The bytes end within the number, or the number exceeds 64 bits.
#[inline]
pub fn get_u64(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    // Most numbers are small.
    if let [byte @ 0..0x80, rest @ ..] = bytes {
        *bytes = rest;
        return Ok(u64::from(*byte));
    }
    get_long(bytes)
}

fn get_long(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    consume(bytes, 0, |reader| reader.varint("a variable-length number"))
}

/// Reads a number written by [`put_i64`].
///
/// # Errors
/// The bytes end within the number, or the number exceeds 64 bits.
#[inline]
pub fn get_i64(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    get_u64(bytes).map(unzigzag)
}

/// Maps signed numbers near zero to small unsigned ones.
#[inline(always)]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverts [`zigzag`].
#[inline(always)]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_round_trip() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_i64(value, &mut bytes);
            put_u64(value as u64, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(get_i64(&mut rest), Ok(value));
            assert_eq!(get_u64(&mut rest), Ok(value as u64));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn overlong_and_truncated_numbers_are_rejected() {
        assert!(matches!(
            get_u64(&mut &[0x80u8, 0x80][..]),
            Err(DecodeError::Truncated { .. })
        ));
        assert!(matches!(
            get_u64(&mut &[0xffu8; 10][..]),
            Err(DecodeError::Invalid { .. })
        ));
    }
}
