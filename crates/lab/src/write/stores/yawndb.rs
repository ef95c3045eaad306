//! A store that keeps samples in rings in memory, and writes a log for recovery.

use super::{Portion, Store};
use crate::error::Result;
use crate::write::{FILL, SAMPLE_BYTES, Write};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Model of YAWNDB: rings in memory (Z = S), and a record for each sample in a Bitcask (F = 1, M =
/// 1).
pub struct Recovery {
    directory: PathBuf,
    current: Mutex<Current>,
    rings: Vec<AtomicU64>,
    space_bytes: u64,
    is_synced: bool,
}

/// File that is being appended to.
struct Current {
    file: File,
    number: u64,
    bytes: u64,
}

/// Bytes of a record before the sample: 14 for checksum, time, and the sizes of key and value; 8
/// for the key.
const RECORD_HEAD: usize = 14 + 8;
/// Bytes at which Bitcask rotates a file, R.
const ROTATE_AT: u64 = 1 << 30;
/// Samples per ring.
const RING: u64 = 8;

impl Recovery {
    /// Makes the store.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn make(settings: &Write, sensors: u64, directories: &[PathBuf]) -> Result<Recovery> {
        let directory = directories[0].clone();
        let file = File::create(directory.join("0"))?;
        Ok(Recovery {
            directory,
            current: Mutex::new(Current {
                file,
                number: 0,
                bytes: 0,
            }),
            rings: (0..sensors * RING).map(|_| AtomicU64::new(0)).collect(),
            space_bytes: (settings.space_bytes as f64 * FILL) as u64,
            is_synced: settings.is_synced,
        })
    }
}

impl Store for Recovery {
    fn put(&self, portion: &Portion<'_>) -> Result<u64> {
        let sample = &portion.contents[portion.content..portion.content + SAMPLE_BYTES as usize];
        let value = u64::from_le_bytes(sample[8..16].try_into().expect("eight bytes"));
        self.rings[(portion.first * RING + portion.turn % RING) as usize]
            .store(value, Ordering::Relaxed);
        let mut record = [0; RECORD_HEAD + SAMPLE_BYTES as usize];
        record[14..22].copy_from_slice(&portion.first.to_le_bytes());
        record[22..].copy_from_slice(sample);
        let mut current = self
            .current
            .lock()
            .expect("no thread panics while it holds the file");
        if current.bytes >= ROTATE_AT.min(self.space_bytes / 3) {
            let number = current.number + 1;
            *current = Current {
                file: File::create(self.directory.join(number.to_string()))?,
                number,
                bytes: 0,
            };
            // The model assumes that the samples of file `number - 2` are overwritten in memory
            // by now.
            if number >= 2 {
                fs::remove_file(self.directory.join((number - 2).to_string()))?;
            }
        }
        current.file.write_all(&record)?;
        current.bytes += record.len() as u64;
        if self.is_synced {
            current.file.sync_data()?;
        }
        Ok(SAMPLE_BYTES)
    }

    fn lap_bytes(&self) -> u64 {
        self.rings.len() as u64 / RING * SAMPLE_BYTES
    }
}
