//! Lists of the files of a backup in a bucket. `docs/format/backup.md` has the format.

use crate::error::Error;
use seiner_engine::inspect::FileKind;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Version of the format.
pub const VERSION: u32 = 1;
/// Folder of the segments.
pub const SEGMENTS: &str = "segments";
/// End of the key of a manifest.
const END: &str = ".json";

/// Files of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub version: u32,
    /// Number of the store, 16 hexadecimal digits.
    pub store: String,
    /// Objects by the name of the file.
    pub files: BTreeMap<String, Entry>,
}

/// Object with the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Key of the object.
    pub object: String,
    /// Length in bytes.
    pub bytes: u64,
}

impl Manifest {
    /// Creates the manifest of a store.
    pub fn new(store: u64, files: BTreeMap<String, Entry>) -> Manifest {
        Manifest {
            version: VERSION,
            store: digits(store),
            files,
        }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// If it was written by a newer version, or is malformed.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<Manifest, Error> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let malformed = |problem: String| {
            Error::Request(format!(
                "{key} is not the list of a backup: {problem}; restore another backup"
            ))
        };
        let Version { version } =
            serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        if version != VERSION {
            return Err(Error::Request(format!(
                "{key} has version {version} of the format, and this program reads version {VERSION}; use a program \
                 as new as the one that made the backup"
            )));
        }
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        match { manifest.files.keys() }.find(|name| FileKind::of(name) == FileKind::Other) {
            Some(name) => Err(malformed(format!("{name:?} is no file of a store"))),
            None => Ok(manifest),
        }
    }

    /// Returns the bytes of the manifest.
    ///
    /// # Errors
    /// Never, for names of files.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_vec_pretty(self);
        text.map_err(|error| Error::Request(format!("writing the list of a backup: {error}")))
    }
}

/// Returns the number of a store as a manifest has it.
pub fn digits(store: u64) -> String {
    format!("{store:016x}")
}

/// Returns the key of the manifest of a backup.
pub fn key(name: &str) -> String {
    format!("{name}{END}")
}

/// Returns the name of the backup whose manifest has a key.
pub fn name_of(key: &str) -> Option<&str> {
    key.strip_suffix(END)
        .filter(|name| crate::name::is_name(name))
}

/// Returns the key of a file that belongs to one backup only.
pub fn own_key(backup: &str, file: &str) -> String {
    format!("{backup}/{file}")
}

/// Returns the key of a sealed segment: the same for the same segment, and another one for a segment of another store or
/// another time. `stem` is the part of its name that never changes, `tail` are its last bytes with the trailer.
pub fn segment_key(stem: &str, length: u64, tail: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(length.to_le_bytes());
    hash.update(tail);
    let digest = hash.finalize();
    let digits: String = { digest.iter().take(16) }
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{SEGMENTS}/{stem}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../../../golden/backup/v1/2026-11-27T18-02-03Z.json");

    #[test]
    fn the_golden_manifest_is_read_and_written_again() {
        let manifest = Manifest::decode("k", GOLDEN).unwrap();
        assert_eq!(manifest.store, "00000000000000ab");
        assert_eq!(manifest.files.len(), 3);
        let segment = &manifest.files["segment-00000001.log"];
        assert_eq!(
            segment.object,
            segment_key("segment-00000001", 8192, b"tail")
        );
        assert_eq!(segment.bytes, 8192);
        assert_eq!(manifest.encode().unwrap(), GOLDEN.trim_ascii_end());
    }

    #[test]
    fn other_texts_are_rejected_with_the_reason() {
        let newer = br#"{"version": 2, "lists": []}"#;
        let error = Manifest::decode("k", newer).unwrap_err().to_string();
        assert!(
            error.contains("version 2") && error.contains("reads version 1"),
            "{error}"
        );
        let text = String::from_utf8(GOLDEN.to_vec()).unwrap();
        for (from, to) in [("\"ledger\"", "\"../ledger\""), ("8192", "-1"), ("{", "[")] {
            let error = Manifest::decode("k", text.replace(from, to).as_bytes());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("not the list of a backup"), "{error}");
        }
    }

    #[test]
    fn keys_of_manifests_have_the_name_of_the_backup() {
        let key = key("2026-11-27T18-02-03Z");
        assert_eq!(name_of(&key), Some("2026-11-27T18-02-03Z"));
        assert_eq!(name_of("notes.json"), None);
    }
}
