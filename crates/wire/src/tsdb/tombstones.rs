//! Tombstones of a block: the file with the deletes that were not applied yet.

use super::TsdbError;
use super::cursor::Cursor;

/// Begin of the file: a magic number, and version 1.
const HEADER: [u8; 5] = [0x01, 0x30, 0xba, 0x30, 1];

/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

/// A delete of samples of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Reference to the series: its position in the index, in units of
    /// [`SERIES_ALIGNMENT`](super::index::SERIES_ALIGNMENT).
    pub series: u64,
    /// Time of the first deleted sample, in ms since 1970.
    pub first_ms: i64,
    /// Time of the last deleted sample.
    pub last_ms: i64,
}

/// Divides the file into the bytes that the checksum covers, and the CRC-32C that the file states.
///
/// # Errors
/// If the file does not contain tombstones.
pub fn parse(file: &[u8]) -> Result<(&[u8], u32), TsdbError> {
    let error = |what| TsdbError { at: 0, what };
    let rest = file.strip_prefix(&HEADER);
    let rest = rest.ok_or_else(|| error("the file does not begin as tombstones of version 1"))?;
    let (covered, checksum) = rest
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| error("the file ends too early"))?;
    Ok((covered, u32::from_be_bytes(*checksum)))
}

/// Decodes the tombstones in the bytes that the checksum covers.
///
/// # Errors
/// If the bytes end too early.
pub fn decode(covered: &[u8]) -> Result<Vec<Tombstone>, TsdbError> {
    let mut cursor = Cursor::new(covered);
    let mut tombstones = Vec::new();
    while cursor.left() > 0 {
        tombstones.push(Tombstone {
            series: cursor.uvarint()?,
            first_ms: cursor.varint()?,
            last_ms: cursor.varint()?,
        });
    }
    Ok(tombstones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_is_decoded() {
        let file = [&HEADER[..], &[0x81, 1, 1, 200, 1, 5, 0, 0], &[1, 2, 3, 4]].concat();
        let (covered, checksum) = parse(&file).unwrap();
        assert_eq!(checksum, 0x0102_0304);
        let found = decode(covered).unwrap();
        let one = |series, first_ms, last_ms| Tombstone {
            series,
            first_ms,
            last_ms,
        };
        assert_eq!(found, [one(129, -1, 100), one(5, 0, 0)]);
        assert!(decode(&covered[..4]).is_err());
        assert!(parse(&file[..8]).is_err());
        assert!(parse(b"no tombstones").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&bytes);
            if let Ok(found) = decode(&bytes) {
                prop_assert!(found.len() * 3 <= bytes.len());
            }
        }
    }
}
