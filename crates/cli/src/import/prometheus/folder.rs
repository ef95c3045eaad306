//! Folders of blocks: the data of a Prometheus, a snapshot, or a single block.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum bytes of a `meta.json`.
const META_BYTES: u64 = 16 << 20;

/// Ends of the names of folders that Prometheus is writing or deleting.
const UNFINISHED: [&str; 3] = [".tmp-for-creation", ".tmp-for-deletion", ".tmp"];

/// A block as its `meta.json` describes it.
#[derive(Clone, Debug)]
pub struct Described {
    pub path: PathBuf,
    pub meta: Meta,
}

/// Contents of `meta.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Meta {
    version: u32,
    /// Time of the first sample, in ms since 1970.
    #[serde(rename = "minTime")]
    pub first_ms: i64,
    /// Time after the last sample.
    #[serde(rename = "maxTime")]
    pub end_ms: i64,
    #[serde(default)]
    pub stats: Stats,
}

/// Numbers of the parts of a block.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stats {
    pub num_samples: u64,
    pub num_series: u64,
    pub num_chunks: u64,
}

/// Returns the blocks in a folder, or the folder itself if it is a block.
///
/// # Errors
/// If the folder cannot be read.
pub fn blocks(folder: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("{} cannot be read", folder.display());
    if folder.join("meta.json").exists() {
        return Ok(vec![folder.to_path_buf()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_unfinished = UNFINISHED.iter().any(|end| name.ends_with(end));
        if !is_unfinished && path.join("meta.json").exists() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Reads the description of a block.
///
/// # Errors
/// If `meta.json` is damaged or of another version.
pub fn describe(path: &Path) -> Result<Described> {
    let file = path.join("meta.json");
    let read = || -> Result<Meta> {
        let bytes = fs::metadata(&file)?.len();
        ensure!(bytes <= META_BYTES, "the file has {bytes} bytes");
        let meta: Meta = serde_json::from_slice(&fs::read(&file)?)?;
        ensure!(
            meta.version == 1,
            "version {} is not supported",
            meta.version
        );
        Ok(meta)
    };
    Ok(Described {
        path: path.to_path_buf(),
        meta: read().context("the file meta.json is damaged")?,
    })
}

/// Returns true if a folder has samples that are in no block yet.
pub fn has_head(folder: &Path) -> bool {
    let mut entries = match fs::read_dir(folder.join("wal")) {
        Ok(entries) => entries.flatten(),
        Err(_) => return false,
    };
    entries.any(|entry| {
        entry.path().is_dir() || entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
    })
}

/// Divides blocks into groups of at most `most`, in the order of their times. Blocks of one group overlap, directly or
/// through others. Within a group, the order is that of the names, and so of the times when the blocks were written.
pub fn groups(mut blocks: Vec<Described>, most: usize) -> Vec<Vec<Described>> {
    blocks
        .sort_by(|one, next| (one.meta.first_ms, &one.path).cmp(&(next.meta.first_ms, &next.path)));
    let mut groups: Vec<Vec<Described>> = Vec::new();
    let mut end = i64::MIN;
    for block in blocks {
        match groups.last_mut() {
            Some(group) if block.meta.first_ms < end && group.len() < most => {
                end = end.max(block.meta.end_ms);
                group.push(block);
            }
            _ => {
                end = block.meta.end_ms;
                groups.push(vec![block]);
            }
        }
    }
    for group in &mut groups {
        group.sort_by(|one, next| one.path.file_name().cmp(&next.path.file_name()));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_blocks_are_one_group() {
        let block = |name: &str, first_ms, end_ms| Described {
            path: PathBuf::from(name),
            meta: Meta {
                version: 1,
                first_ms,
                end_ms,
                stats: Stats::default(),
            },
        };
        let blocks = vec![
            block("c", 0, 10),
            block("b", 10, 20),
            block("d", 30, 60),
            block("a", 15, 25),
            block("e", 24, 30),
        ];
        let names = |most: usize| -> Vec<String> {
            let groups = groups(blocks.clone(), most).into_iter();
            let name = |block: &Described| block.path.display().to_string();
            groups
                .map(|group| group.iter().map(name).collect())
                .collect()
        };
        assert_eq!(names(9), ["c", "abe", "d"]);
        assert_eq!(names(2), ["c", "ab", "e", "d"]);
    }
}
