//! Cache of directories, which queries share.
//!
//! A directory never changes, so an entry is never stale: a query lists the bundles first, and then looks them up here.

use super::reader::Opened;
use crate::locks::locked;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Directories by table, partition and row.
pub(crate) struct DirectoryCache {
    /// Bytes to keep at most.
    limit: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_row: HashMap<Vec<u8>, Entry>,
    bytes: usize,
    /// Number of the latest use.
    uses: u64,
}

struct Entry {
    opened: Arc<Opened>,
    bytes: usize,
    /// Number of the last use.
    used: u64,
}

impl DirectoryCache {
    /// Creates a cache of so many bytes.
    pub fn new(limit: usize) -> DirectoryCache {
        DirectoryCache {
            limit,
            entries: Mutex::default(),
        }
    }

    /// Returns the directory of a row.
    pub(super) fn get(&self, row: &[u8]) -> Option<Arc<Opened>> {
        let mut entries = locked(&self.entries);
        entries.uses += 1;
        let now = entries.uses;
        let entry = entries.by_row.get_mut(row)?;
        entry.used = now;
        Some(entry.opened.clone())
    }

    /// Keeps a directory. `bytes`: length of its row.
    pub(super) fn insert(&self, row: Vec<u8>, opened: Arc<Opened>, bytes: usize) {
        if bytes > self.limit / 4 {
            return;
        }
        let mut entries = locked(&self.entries);
        entries.uses += 1;
        let bytes = bytes + row.len() + size_of::<Entry>();
        let entry = Entry {
            opened,
            bytes,
            used: entries.uses,
        };
        if let Some(before) = entries.by_row.insert(row, entry) {
            entries.bytes -= before.bytes;
        }
        entries.bytes += bytes;
        if entries.bytes > self.limit {
            entries.forget_half();
        }
    }
}

impl Entries {
    /// Forgets the half of the entries whose last use is longest ago.
    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.by_row.values().map(|entry| entry.used).collect();
        let middle = uses.len() / 2;
        let (_, &mut oldest_kept, _) = uses.select_nth_unstable(middle);
        self.by_row.retain(|_, entry| entry.used >= oldest_kept);
        self.bytes = self.by_row.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_bundle::BundleWriter;
    use seiner_codec::varint;

    fn opened() -> Arc<Opened> {
        let bundle = BundleWriter::new(Default::default()).finish();
        let mut value = vec![super::super::writer::VERSION];
        varint::put_u64(7, &mut value);
        varint::put_u64(0, &mut value);
        value.extend(bundle.directory);
        let id = super::super::BundleId {
            port: "a".to_string(),
            handover: 1,
            nth: 0,
        };
        Arc::new(Opened::parse(&id.key(), &value).unwrap())
    }

    #[test]
    fn the_entries_used_last_stay_within_the_limit() {
        let cache = DirectoryCache::new(100_000);
        let opened = opened();
        for row in 0..200_u32 {
            cache.insert(row.to_be_bytes().to_vec(), opened.clone(), 1000);
            assert!(
                cache.get(&0_u32.to_be_bytes()).is_some(),
                "it is used all the time"
            );
            assert!(locked(&cache.entries).bytes <= cache.limit);
        }
        assert!(cache.get(&199_u32.to_be_bytes()).is_some());
        assert!(cache.get(&1_u32.to_be_bytes()).is_none());
        cache.insert(vec![9], opened, 30_000);
        assert!(
            cache.get(&[9]).is_none(),
            "one entry may not displace all others"
        );
    }
}
