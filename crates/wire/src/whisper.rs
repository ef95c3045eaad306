//! Whisper: files of Graphite with the samples of one metric.
//!
//! A file has archives of several resolutions, the finest first. Each is a ring of points; a point is a time in seconds
//! and a double. A slot of a ring that was not written in the last round contains a point of an earlier round. Such
//! points, and those of coarser archives where a finer one has samples, are left out.

use std::collections::BTreeMap;

const HEADER_BYTES: usize = 16;
const ARCHIVE_BYTES: usize = 12;
const POINT_BYTES: usize = 12;

/// Maximum number of archives of a file.
const MOST_ARCHIVES: usize = 64;

/// Begin of files in the compressed format of go-carbon.
const COMPRESSED: &[u8] = b"whisper_compressed";

/// Samples of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhisperFile {
    /// Times in seconds since 1970, strictly ascending, and values. No value is NaN.
    pub samples: Vec<(u32, f64)>,
    /// Archives, the finest first.
    pub archives: Vec<WhisperArchive>,
}

/// Archive of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhisperArchive {
    /// Seconds between points.
    pub step_s: u32,
    /// Number of slots.
    pub slots: u32,
    /// Number of samples that were taken from this archive.
    pub samples: usize,
}

/// Error for bytes that are no file of Whisper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhisperError {
    /// The file is in a format of other programs.
    #[error("the file is in the compressed format of go-carbon; convert it to Whisper first")]
    Compressed,
    /// The file ends within a part.
    #[error(
        "the file has {found} bytes, but its header requires {wanted}; it is damaged or not a file of Whisper"
    )]
    TooShort {
        /// Bytes that the header requires.
        wanted: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A number of the header is impossible.
    #[error("the header at byte {at} is not one of Whisper: {what}")]
    Header {
        /// Position in the file.
        at: usize,
        /// Description of the fault.
        what: &'static str,
    },
}

/// Decodes a file.
///
/// # Errors
/// If the bytes are no file of Whisper, or the file is damaged.
pub fn decode(bytes: &[u8]) -> Result<WhisperFile, WhisperError> {
    if bytes.starts_with(COMPRESSED) {
        return Err(WhisperError::Compressed);
    }
    let mut kept: BTreeMap<u32, f64> = BTreeMap::new();
    let mut file = WhisperFile::default();
    // First time that a finer archive covers.
    let mut covered_from = i64::MAX;
    for (archive, points) in archives(bytes)? {
        let ring = ring(archive, points);
        let step = i64::from(archive.step_s);
        let is_new = |time: u32| {
            let end = u32::try_from(i64::from(time) + step).unwrap_or(u32::MAX);
            i64::from(time) < covered_from || kept.range(time..end).next().is_none()
        };
        let new: Vec<(u32, f64)> = ring
            .iter()
            .copied()
            .filter(|point| is_new(point.0))
            .collect();
        if let Some((newest, _)) = ring.last() {
            let first = i64::from(*newest) - step * (i64::from(archive.slots) - 1);
            covered_from = covered_from.min(first);
        }
        file.archives.push(WhisperArchive {
            samples: new
                .iter()
                .filter(|point| !kept.contains_key(&point.0))
                .count(),
            ..archive
        });
        for (time, value) in new {
            kept.entry(time).or_insert(value);
        }
    }
    file.samples = kept.into_iter().collect();
    Ok(file)
}

/// Returns the archives with the bytes of their points.
fn archives(bytes: &[u8]) -> Result<Vec<(WhisperArchive, &[u8])>, WhisperError> {
    let too_short = |wanted: u64| WhisperError::TooShort {
        wanted,
        found: bytes.len() as u64,
    };
    let count = number(bytes, 12).ok_or_else(|| too_short(HEADER_BYTES as u64))? as usize;
    if count == 0 || count > MOST_ARCHIVES {
        let what = "the number of archives is not between 1 and 64";
        return Err(WhisperError::Header { at: 12, what });
    }
    let mut offset = HEADER_BYTES + count * ARCHIVE_BYTES;
    let mut found: Vec<(WhisperArchive, &[u8])> = Vec::with_capacity(count);
    for archive in 0..count {
        let at = HEADER_BYTES + archive * ARCHIVE_BYTES;
        let numbers = [at, at + 4, at + 8].map(|at| number(bytes, at));
        let [Some(start), Some(step_s), Some(slots)] = numbers else {
            return Err(too_short(offset as u64));
        };
        let header = |what: &'static str| Err(WhisperError::Header { at, what });
        if start as usize != offset {
            return header("an archive does not begin at the end of the one before");
        }
        if step_s == 0 || slots == 0 {
            return header("an archive has no points, or no time between them");
        }
        if found.last().is_some_and(|finer| finer.0.step_s >= step_s) {
            return header("an archive is not coarser than the one before");
        }
        let end = offset as u64 + u64::from(slots) * POINT_BYTES as u64;
        let points = usize::try_from(end).ok();
        let points = points.and_then(|end| bytes.get(offset..end));
        let points = points.ok_or_else(|| too_short(end))?;
        offset += points.len();
        let archive = WhisperArchive {
            step_s,
            slots,
            samples: 0,
        };
        found.push((archive, points));
    }
    Ok(found)
}

/// Returns the points of the last round of a ring, ascending.
fn ring(archive: WhisperArchive, points: &[u8]) -> Vec<(u32, f64)> {
    let mut ring: Vec<(u32, f64)> = points
        .chunks_exact(POINT_BYTES)
        .filter_map(|point| {
            let time = number(point, 0)?;
            let value = f64::from_be_bytes(point.get(4..12)?.try_into().ok()?);
            (time > 0 && !value.is_nan()).then_some((time, value))
        })
        .collect();
    ring.sort_unstable_by_key(|point| point.0);
    ring.dedup_by_key(|point| point.0);
    let newest = ring.last().map_or(0, |point| i64::from(point.0));
    let first = newest - i64::from(archive.step_s) * (i64::from(archive.slots) - 1);
    ring.retain(|point| i64::from(point.0) >= first);
    ring
}

/// Returns the number of 32 bits at a position, in network order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Builds a file of archives: step, and points in the order of the slots.
    fn file(archives: &[(u32, Vec<(u32, f64)>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [1, 1000, 0x3f00_0000, archives.len() as u32] {
            bytes.extend_from_slice(&u32::to_be_bytes(number));
        }
        let mut offset = (HEADER_BYTES + archives.len() * ARCHIVE_BYTES) as u32;
        for (step, points) in archives {
            for number in [offset, *step, points.len() as u32] {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            offset += (points.len() * POINT_BYTES) as u32;
        }
        for (time, value) in archives.iter().flat_map(|archive| &archive.1) {
            bytes.extend_from_slice(&time.to_be_bytes());
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn each_time_has_its_finest_sample() {
        // The fine ring has 4 slots of 10 s: its last round covers 90 to 120. The point at 50 is of an earlier round.
        let fine = vec![(120, 12.0), (90, 9.0), (50, 5.0), (110, 11.0)];
        let coarse = vec![
            (0, 0.5),
            (30, 3.5),
            (60, 6.5),
            (90, 9.5),
            (120, 12.5),
            (0, 0.0),
        ];
        let decoded = decode(&file(&[(10, fine), (30, coarse)])).unwrap();
        let expected = [(30, 3.5), (60, 6.5), (90, 9.0), (110, 11.0), (120, 12.0)];
        assert_eq!(decoded.samples, expected);
        let counts: Vec<usize> = decoded
            .archives
            .iter()
            .map(|archive| archive.samples)
            .collect();
        assert_eq!(counts, [3, 2]);
    }

    #[test]
    fn a_gap_of_the_fine_archive_is_filled() {
        let fine = vec![(100, 1.0), (0, 0.0), (0, 0.0), (130, 4.0)];
        let coarse = vec![(100, 1.5), (120, 3.5), (80, f64::NAN)];
        let decoded = decode(&file(&[(10, fine), (20, coarse)])).unwrap();
        assert_eq!(decoded.samples, [(100, 1.0), (130, 4.0)]);
        let coarse = vec![(100, 1.5), (110, 3.5)];
        let fine = vec![(100, 1.0), (0, 0.0), (0, 0.0), (130, 4.0)];
        let decoded = decode(&file(&[(10, fine), (15, coarse)])).unwrap();
        assert_eq!(decoded.samples, [(100, 1.0), (110, 3.5), (130, 4.0)]);
    }

    #[test]
    fn damaged_files_are_errors_with_a_place() {
        let whole = file(&[(10, vec![(10, 1.0), (20, 2.0)])]);
        assert!(decode(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(matches!(
                decode(&whole[..length]),
                Err(WhisperError::TooShort { .. })
            ));
        }
        for (at, byte) in [(15, 0), (12, 1), (19, 1), (23, 0), (27, 0)] {
            let mut bad = whole.clone();
            bad[at] = byte;
            assert!(
                matches!(decode(&bad), Err(WhisperError::Header { .. })),
                "{at}"
            );
        }
        assert_eq!(
            decode(b"whisper_compressed..."),
            Err(WhisperError::Compressed)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn samples_are_ascending(points in prop::collection::vec((any::<u32>(), any::<f64>()), 1..20), step in 1u32..) {
            let decoded = decode(&file(&[(step, points)])).unwrap();
            prop_assert!(decoded.samples.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}
