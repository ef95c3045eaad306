//! Reader of blktrace files: records of 48 bytes, each followed by optional data, in either byte
//! order.

use super::{Operation, Origin, Statistics};
use anyhow::{Context, anyhow};
use std::path::Path;

/// Magic number of a record, without the version in the low byte.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;

/// Action in the low half of the word: the operation was issued to the device.
const ISSUE: u32 = 7;
/// Category bits in the high half of the action word.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// Returns the statistics of a trace. The trace is one file per processor, or one file joined by
/// blkparse.
///
/// # Errors
/// A file cannot be read or is not a trace. The error contains the offset of the mistake.
pub fn read(files: &[impl AsRef<Path>]) -> anyhow::Result<Statistics> {
    let mut issued = Vec::new();
    for file in files {
        let file = file.as_ref();
        let bytes =
            std::fs::read(file).with_context(|| format!("{} was not read", file.display()))?;
        records(&bytes, &mut issued)
            .with_context(|| format!("{} is not a trace", file.display()))?;
    }
    let first = issued.iter().map(|(time, _)| *time).min().unwrap_or(0);
    let mut statistics = Statistics::new(Origin::Blktrace);
    for (time, operation) in &issued {
        statistics.add(operation, ((time - first) / 1_000_000_000) as usize);
    }
    Ok(statistics)
}

/// Appends the issued operations of a file to `issued`, with their times in ns.
fn records(bytes: &[u8], issued: &mut Vec<(u64, Operation)>) -> anyhow::Result<()> {
    let is_swapped = match bytes.get(..4) {
        None if bytes.is_empty() => return Ok(()),
        Some(magic) if word(magic, false) & !0xff == MAGIC => false,
        Some(magic) if word(magic, true) & !0xff == MAGIC => true,
        _ => return Err(anyhow!("it does not begin with blktrace's magic number")),
    };
    let mut offset = 0;
    while offset < bytes.len() {
        let record = bytes.get(offset..offset + RECORD_BYTES).ok_or_else(|| {
            anyhow!("offset {offset}: a record of {RECORD_BYTES} bytes is cut off")
        })?;
        let at = |place: usize| word(&record[place..place + 4], is_swapped);
        let magic = at(0);
        if magic != MAGIC | VERSION {
            return Err(anyhow!(
                "offset {offset}: {magic:#x} found, {:#x} expected",
                MAGIC | VERSION
            ));
        }
        let action = at(28);
        if action & 0xffff == ISSUE && action >> 16 & NOTIFY == 0 {
            let operation = Operation {
                kind: letters(action >> 16, at(24)),
                sector: long(&record[16..24], is_swapped),
                bytes: u64::from(at(24)),
            };
            issued.push((long(&record[8..16], is_swapped), operation));
        }
        let more = [record[46], record[47]];
        let more = if is_swapped != cfg!(target_endian = "big") {
            u16::from_be_bytes(more)
        } else {
            u16::from_le_bytes(more)
        };
        offset += RECORD_BYTES + usize::from(more);
    }
    Ok(())
}

fn word(bytes: &[u8], is_swapped: bool) -> u32 {
    let bytes = bytes.try_into().expect("four bytes");
    let word = u32::from_ne_bytes(bytes);
    if is_swapped { word.swap_bytes() } else { word }
}

fn long(bytes: &[u8], is_swapped: bool) -> u64 {
    let bytes = bytes.try_into().expect("eight bytes");
    let long = u64::from_ne_bytes(bytes);
    if is_swapped { long.swap_bytes() } else { long }
}

/// Returns the RWBS letters of an operation, as blkparse prints them.
fn letters(category: u32, bytes: u32) -> String {
    let has = |bit: u32| category & bit != 0;
    let mut letters = String::new();
    if has(FLUSH) {
        letters.push('F');
    }
    letters.push(match () {
        () if has(DISCARD) => 'D',
        () if has(WRITE) => 'W',
        () if bytes > 0 => 'R',
        () => 'N',
    });
    for (bit, letter) in [(FUA, 'F'), (AHEAD, 'A'), (SYNC, 'S'), (META, 'M')] {
        if has(bit) {
            letters.push(letter);
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(action: u32, sector: u64, bytes: u32, time: u64, more: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend((MAGIC | VERSION).to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(time.to_le_bytes());
        record.extend(sector.to_le_bytes());
        record.extend(bytes.to_le_bytes());
        record.extend(action.to_le_bytes());
        record.extend([0; 12]);
        record.extend([0; 2]);
        record.extend((more.len() as u16).to_le_bytes());
        record.extend(more);
        record
    }

    #[test]
    fn only_issued_operations_are_counted() {
        let mut bytes = record(
            (WRITE | SYNC | META) << 16 | ISSUE,
            8,
            4096,
            5_000_000_000,
            b"",
        );
        bytes.extend(record(
            (WRITE | SYNC) << 16 | 1,
            8,
            4096,
            5_000_000_000,
            b"",
        ));
        bytes.extend(record(NOTIFY << 16, 0, 0, 5_500_000_000, b"process name"));
        bytes.extend(record(ISSUE, 800, 8192, 7_100_000_000, b"xy"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let statistics = read(&[file.path()]).unwrap();
        assert_eq!(statistics.types.len(), 2);
        assert_eq!(statistics.mean_kib("WSM"), Some(4.0));
        assert_eq!(statistics.read_bytes, 8192);
        assert_eq!(statistics.seconds.len(), 3);
    }

    #[test]
    fn letters_are_those_of_the_papers() {
        assert_eq!(letters(WRITE, 4096), "W");
        assert_eq!(letters(WRITE | SYNC, 4096), "WS");
        assert_eq!(letters(FLUSH | WRITE | FUA | SYNC, 4096), "FWFS");
        assert_eq!(letters(META | AHEAD, 4096), "RAM");
        assert_eq!(letters(DISCARD | WRITE | SYNC, 4096), "DS");
        assert_eq!(letters(SYNC, 0), "NS");
    }

    #[test]
    fn foreign_and_truncated_files_are_rejected() {
        let mut issued = Vec::new();
        let error = records(b"PK\x03\x04 and so on", &mut issued).unwrap_err();
        assert!(error.to_string().contains("magic"));
        let mut cut = record(ISSUE, 0, 512, 0, b"");
        cut.extend(record(ISSUE, 0, 512, 0, b"").split_at(20).0);
        let error = records(&cut, &mut issued).unwrap_err();
        assert!(error.to_string().contains("offset 48"), "{error}");
    }
}
