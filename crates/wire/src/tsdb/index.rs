//! The index of a block: the table of contents, symbols and series.

use super::TsdbError;
use super::cursor::Cursor;

/// Bytes at the begin of an index.
pub const HEADER_BYTES: usize = 5;

/// Begin of an index: a magic number.
const MAGIC: [u8; 4] = [0xba, 0xaa, 0xd7, 0];

/// Bytes of the table of contents without its checksum. It is at the end of the file.
pub const CONTENTS_BYTES: usize = 48;

/// Bytes of the lengths before the symbols: the length of the section, and the number of symbols.
pub const SYMBOLS_HEADER_BYTES: usize = 8;

/// Number of bytes to which a series is aligned. A reference to a series is its position in this unit.
pub const SERIES_ALIGNMENT: u64 = 16;

/// Maximum bytes of the length of a symbol or series.
pub const MAX_LENGTH_BYTES: usize = 10;

/// Minimum bytes of a label and of a chunk.
const MIN_LABEL_BYTES: usize = 2;
const MIN_CHUNK_BYTES: usize = 3;

/// Positions of the parts of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Begin of the symbols.
    pub symbols: u64,
    /// Begin of the series.
    pub series: u64,
    /// End of the series.
    pub series_end: u64,
}

/// A series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Numbers of the symbols of names and values.
    pub labels: Vec<(u32, u32)>,
    /// Chunks, by their times.
    pub chunks: Vec<ChunkMeta>,
}

/// Interval and place of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Time of the first sample, in ms since 1970.
    pub first_ms: i64,
    /// Time of the last sample.
    pub last_ms: i64,
    /// Number of the file in the folder `chunks`, from 0.
    pub file: u32,
    /// Position in the file.
    pub offset: u32,
}

/// Checks the first [`HEADER_BYTES`] of an index.
///
/// # Errors
/// If they are others, or of another version than 2.
pub fn check_header(bytes: &[u8]) -> Result<(), TsdbError> {
    let what = match (bytes.starts_with(&MAGIC), bytes.get(4)) {
        (true, Some(2)) => return Ok(()),
        (true, Some(1)) => {
            "the index has version 1, of Prometheus before 2.2; only version 2 is supported"
        }
        (true, _) => "the index has another version than 2",
        (false, _) => "the file does not begin as an index of Prometheus",
    };
    Err(TsdbError { at: 0, what })
}

/// Decodes the table of contents. `end` is its position in the file.
///
/// # Errors
/// If the positions are impossible.
pub fn decode_contents(bytes: &[u8], end: u64) -> Result<Contents, TsdbError> {
    let mut cursor = Cursor::new(bytes);
    let (symbols, series) = (cursor.be64()?, cursor.be64()?);
    let mut series_end = end;
    while cursor.left() >= 8 {
        let next = cursor.be64()?;
        // 0 is a part that does not exist.
        if next > series {
            series_end = series_end.min(next);
        }
    }
    // An index without series has no such parts.
    if (symbols, series) == (0, 0) {
        series_end = 0;
    } else if symbols < HEADER_BYTES as u64 || series < symbols || series > series_end {
        return Err(TsdbError {
            at: 0,
            what: "the positions in the table of contents are impossible",
        });
    }
    Ok(Contents {
        symbols,
        series,
        series_end,
    })
}

/// Decodes the [`SYMBOLS_HEADER_BYTES`]. Returns the bytes of the section after the first 4, and the number of symbols.
///
/// # Errors
/// If the bytes end too early.
pub fn decode_symbols_header(bytes: &[u8]) -> Result<(u32, u32), TsdbError> {
    let mut cursor = Cursor::new(bytes);
    Ok((cursor.be32()?, cursor.be32()?))
}

/// Decodes the length of a symbol or series. Returns the length, and the number of bytes in which it is encoded.
/// [`MAX_LENGTH_BYTES`] are sufficient.
///
/// # Errors
/// If the bytes are no number.
pub fn decode_length(bytes: &[u8]) -> Result<(u64, usize), TsdbError> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.uvarint()?;
    Ok((length, cursor.at()))
}

/// Decodes a series, without its length and checksum.
///
/// # Errors
/// If the bytes end too early.
pub fn decode_series(bytes: &[u8]) -> Result<Series, TsdbError> {
    let mut cursor = Cursor::new(bytes);
    let labels = count(&mut cursor, MIN_LABEL_BYTES)?;
    let mut series = Series {
        labels: Vec::with_capacity(labels),
        chunks: Vec::new(),
    };
    for _ in 0..labels {
        let label = (symbol(&mut cursor)?, symbol(&mut cursor)?);
        series.labels.push(label);
    }
    let chunks = count(&mut cursor, MIN_CHUNK_BYTES)?;
    series.chunks.reserve_exact(chunks);
    let (mut last_ms, mut reference) = (0i64, 0u64);
    for number in 0..chunks {
        // Later chunks begin after the end of the one before.
        let first_ms = match number {
            0 => cursor.varint()?,
            _ => last_ms.wrapping_add(cursor.uvarint()? as i64),
        };
        last_ms = first_ms.wrapping_add(cursor.uvarint()? as i64);
        reference = match number {
            0 => cursor.uvarint()?,
            _ => reference.wrapping_add_signed(cursor.varint()?),
        };
        series.chunks.push(ChunkMeta {
            first_ms,
            last_ms,
            file: (reference >> 32) as u32,
            offset: reference as u32,
        });
    }
    Ok(series)
}

/// Reads a number of items that have a minimum size.
fn count(cursor: &mut Cursor<'_>, min_bytes: usize) -> Result<usize, TsdbError> {
    let count = cursor.uvarint()?;
    let most = cursor.left() / min_bytes;
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(cursor.error("the series ends too early")),
    }
}

fn symbol(cursor: &mut Cursor<'_>) -> Result<u32, TsdbError> {
    let number = cursor.uvarint()?;
    u32::try_from(number).map_err(|_| cursor.error("the number of a symbol has more than 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_series_is_decoded() {
        // Two labels; chunks from -1 to 99 at byte 8 of file 0, and from 100 to 100 at byte 5 of file 1.
        let mut bytes = vec![2, 1, 2, 0x83, 1, 4, 2, 1, 100, 8, 1, 0];
        let delta = (1u64 << 32) + 5 - 8;
        let mut zigzag = delta << 1;
        while zigzag >= 0x80 {
            bytes.push(zigzag as u8 | 0x80);
            zigzag >>= 7;
        }
        bytes.push(zigzag as u8);
        let series = decode_series(&bytes).unwrap();
        assert_eq!(series.labels, [(1, 2), (131, 4)]);
        let places = series.chunks.iter().map(|chunk| {
            let ChunkMeta {
                first_ms,
                last_ms,
                file,
                offset,
            } = *chunk;
            (first_ms, last_ms, file, offset)
        });
        let places: Vec<_> = places.collect();
        assert_eq!(places, [(-1, 99, 0, 8), (100, 100, 1, 5)]);
        for length in 0..bytes.len() {
            assert!(decode_series(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_series_end_where_the_next_part_begins() {
        let contents = |numbers: [u64; 6]| {
            let bytes = numbers.map(u64::to_be_bytes).concat();
            decode_contents(&bytes, 1000)
                .map(|found| (found.symbols, found.series, found.series_end))
        };
        assert_eq!(contents([5, 100, 500, 900, 600, 950]), Ok((5, 100, 500)));
        assert_eq!(contents([5, 100, 0, 0, 600, 950]), Ok((5, 100, 600)));
        assert_eq!(contents([5, 100, 0, 0, 0, 0]), Ok((5, 100, 1000)));
        assert_eq!(contents([0; 6]), Ok((0, 0, 0)));
        for numbers in [
            [0, 100, 0, 0, 0, 0],
            [5, 4, 0, 0, 0, 0],
            [5, 1001, 0, 0, 0, 0],
        ] {
            assert!(contents(numbers).is_err(), "{numbers:?}");
        }
    }

    #[test]
    fn other_files_are_errors() {
        assert!(check_header(b"\xba\xaa\xd7\0\x02").is_ok());
        for header in [
            &b"\xba\xaa\xd7\0\x01"[..],
            b"\xba\xaa\xd7\0\x03",
            b"\xba\xaa\xd7\0",
            b"PAR1\x02",
            b"",
        ] {
            assert!(check_header(header).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), end: u64) {
            if let Ok(series) = decode_series(&bytes) {
                prop_assert!(series.labels.len() * 2 + series.chunks.len() * 3 <= bytes.len());
            }
            if let Ok(contents) = decode_contents(&bytes, end) {
                prop_assert!(contents.series <= contents.series_end && contents.series_end <= end);
            }
            let _ = (decode_symbols_header(&bytes), decode_length(&bytes), check_header(&bytes));
        }
    }
}
