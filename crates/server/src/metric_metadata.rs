//! Metadata of metrics in memory: types, help and units that senders report.

use seiner_wire::remote_write::Metadata;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Maximum number of bytes of all names and texts.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that an entry takes besides its texts, approximately.
const ENTRY_BYTES: usize = 128;
/// Maximum length of a help or unit in bytes. Longer texts are cut.
const MAX_TEXT: usize = 1024;

/// Metadata of the families of metrics, by name. Lost with the process; senders report them again.
#[derive(Default)]
pub struct MetricMetadata(Mutex<Known>);

#[derive(Default)]
struct Known {
    entries: BTreeMap<Box<str>, Entry>,
    bytes: usize,
}

struct Entry {
    kind: &'static str,
    help: Box<str>,
    unit: Box<str>,
}

impl MetricMetadata {
    /// Notes the metadata of a request. Returns the number of metadata that are invalid, or for which there is no space.
    pub fn note(&self, all: &[Metadata<'_>]) -> u64 {
        if all.is_empty() {
            return 0;
        }
        let mut known = self.known();
        let ignored = all.iter().filter(|metadata| !known.note(metadata));
        ignored.count() as u64
    }

    /// Returns the entries as the API of Prometheus lists them.
    pub fn entries(&self) -> Vec<(String, Value)> {
        let known = self.known();
        let entries = known.entries.iter().map(|(family, entry)| {
            let Entry { kind, help, unit } = entry;
            let entry = json!({ "type": kind, "help": help, "unit": unit });
            (family.to_string(), entry)
        });
        entries.collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0
            .lock()
            .expect("no thread panics while it holds the metadata")
    }
}

impl Known {
    fn note(&mut self, metadata: &Metadata<'_>) -> bool {
        let Ok(family) = std::str::from_utf8(metadata.family) else {
            return false;
        };
        if family.is_empty() || family.len() > MAX_TEXT {
            return false;
        }
        // Senders repeat their metadata in every request.
        let before = self.entries.get(family);
        if before.is_some_and(|entry| entry.is(metadata)) {
            return true;
        }
        let entry = Entry {
            kind: metadata.kind,
            help: text(metadata.help),
            unit: text(metadata.unit),
        };
        let size = |entry: &Entry| family.len() + ENTRY_BYTES + entry.help.len() + entry.unit.len();
        let bytes = self.bytes - before.map_or(0, size) + size(&entry);
        if bytes > MAX_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.entries.insert(family.into(), entry);
        true
    }
}

impl Entry {
    /// Returns whether the entry has the texts of metadata. Texts that are not UTF-8 count as others.
    fn is(&self, metadata: &Metadata<'_>) -> bool {
        self.kind == metadata.kind
            && self.help.as_bytes() == cut(metadata.help)
            && self.unit.as_bytes() == cut(metadata.unit)
    }
}

/// Returns a text for people, cut to [`MAX_TEXT`].
fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(cut(bytes)).into()
}

fn cut(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata<'a>(family: &'a str, kind: &'static str, help: &'a str) -> Metadata<'a> {
        Metadata {
            family: family.as_bytes(),
            kind,
            help: help.as_bytes(),
            unit: b"",
        }
    }

    #[test]
    fn the_last_metadata_of_a_family_count() {
        let known = MetricMetadata::default();
        assert_eq!(known.note(&[metadata("up", "gauge", "old")]), 0);
        assert_eq!(known.note(&[metadata("up", "gauge", "new")]), 0);
        let expected = json!({ "type": "gauge", "help": "new", "unit": "" });
        assert_eq!(known.entries(), [("up".to_string(), expected)]);
        assert_eq!(known.note(&[metadata("", "gauge", "")]), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let known = MetricMetadata::default();
        let help = "x".repeat(2 * MAX_TEXT);
        let ignored: u64 = (0..10_000)
            .map(|n| known.note(&[metadata(&format!("m{n}"), "counter", &help)]))
            .sum();
        let kept = known.entries().len() as u64;
        assert_eq!(kept + ignored, 10_000);
        assert!(kept * MAX_TEXT as u64 <= MAX_BYTES as u64 && ignored > 0);
    }
}
