//! Removal of old backups from a bucket.

use crate::bucket::client::{Client, Listed};
use crate::bucket::manifest::{self, Manifest};
use crate::error::Error;
use crate::name::is_name;
use std::collections::BTreeSet;

/// Age in s, at the time of the newest backup, from which objects that no backup lists are removed. Younger ones may
/// belong to a run that was interrupted, or that is not over.
const GRACE: i64 = 7 * 86_400;

/// Removes the oldest backups but the latest `keep`, and what no backup needs any more. Returns the names of the removed
/// backups. A run that is interrupted leaves objects that a later one removes.
///
/// # Errors
/// If a request fails.
pub fn remove_old(client: &Client, keep: usize) -> Result<Vec<String>, Error> {
    let (objects, folders) = client.top()?;
    let mut manifests: Vec<(&str, &Listed)> = { objects.iter() }
        .filter_map(|object| Some((manifest::name_of(&object.key)?, object)))
        .collect();
    manifests.sort_by_key(|(name, _)| *name);
    let Some((_, newest)) = manifests.last() else {
        return Ok(Vec::new());
    };
    let due = newest.written - GRACE;
    let kept = manifests.split_off(manifests.len().saturating_sub(keep));
    let listed = objects_of(client, kept.iter().map(|(name, _)| *name))?;
    let released = objects_of(client, manifests.iter().map(|(name, _)| *name))?;
    for (_, object) in &manifests {
        client.remove(&object.key)?;
    }
    let kept: BTreeSet<&str> = kept.iter().map(|(name, _)| *name).collect();
    let removed: BTreeSet<&str> = manifests.iter().map(|(name, _)| *name).collect();
    for folder in { folders.iter() }.filter(|name| is_name(name) && !kept.contains(name.as_str())) {
        let is_removed = removed.contains(folder.as_str());
        for object in client.list(folder)? {
            if is_removed || object.written < due {
                client.remove(&object.key)?;
            }
        }
    }
    for object in client.list(manifest::SEGMENTS)? {
        let is_due = released.contains(&object.key) || object.written < due;
        if is_due && !listed.contains(&object.key) {
            client.remove(&object.key)?;
        }
    }
    Ok({ manifests.iter() }
        .map(|(name, _)| (*name).to_string())
        .collect())
}

/// Returns the keys of all objects of some backups.
fn objects_of<'a>(
    client: &Client,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeSet<String>, Error> {
    let mut keys = BTreeSet::new();
    for name in names {
        let key = manifest::key(name);
        if let Some(bytes) = client.get(&key)? {
            let files = Manifest::decode(&key, &bytes)?.files;
            keys.extend(files.into_values().map(|entry| entry.object));
        }
    }
    Ok(keys)
}
