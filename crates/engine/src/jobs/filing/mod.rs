//! Filing: moves names and tags of sources from memory to names files, so that the memory does not limit the number
//! of sources with tags of their own.
//!
//! The job begins when the registry has used most of its share of the memory. It writes the names of the sources with
//! the lowest numbers to a file, and removes their tags from memory when the file is durable. The catalog contains the
//! same names: a names file that is damaged or lost is written anew. Files with few sources, and files with sources
//! that are not filed any more, are merged.
//!
//! The names of sources that get no rows for a while leave memory, too, if the registry is nearly full ([`dormancy`]).
//!
//! Stores with roll-up keep all names in memory: a level is found by the name of its source.

mod dormancy;
mod file;
pub(crate) mod memory;

use crate::aside::{move_aside, remove_if_present};
use crate::catalog::LOST;
use crate::core::Core;
use crate::dictionary::filed::{Filed, read_error};
use crate::error::{Error, sync_error};
use crate::jobs::filing::dormancy::make_dormant;
use crate::jobs::filing::file::{
    AT_ONCE, MOST, file, filed, has_space, origin, replace_files, write,
};
use crate::jobs::free::count_set_aside;
use crate::jobs::writing::Writing;
use roaring::RoaringBitmap;
use seiner_names::{NamesFile, Origin};
use seiner_platform::Disk;
use std::sync::Arc;

/// Bytes of tags without sources from which on the others are stored anew, and the maximum number of sources in memory
/// then. New sources wait meanwhile, about 0.5 µs for each of them.
const LEAST_SPARE: usize = 256 << 10;
const MOST_LEFT: u64 = 1 << 16;
/// Number of files with few sources from which on they are merged.
const MANY: usize = 4;

/// Performs a step: files names, or merges files. Returns whether anything was done.
pub(super) fn file_names(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    if core.health.writable().is_err() {
        return Ok(false);
    }
    if mend(core, writing)? || merge_files(core, writing)? {
        return Ok(true);
    }
    // Writers may wait for names to be filed, but not for sources to become dormant.
    let more = make_dormant(core, writing)?;
    let wants_filing = core.head().wants_filing();
    if !wants_filing && !writing.filing.is_under_way {
        return Ok(more);
    }
    // All sources in the catalog are filed one after the other: few are left then, and the memory of the others is free.
    let filed = file_some(core, writing)?;
    writing.filing.is_under_way = filed;
    core.head().note_filing(filed);
    if !filed {
        rebuild_pairs(core);
    }
    Ok(filed || more)
}

/// Frees the memory of the tags that were filed, if few are left in memory.
fn rebuild_pairs(core: &Core) {
    let dictionary = core.head().dictionary().clone();
    let is_worthwhile = {
        let dictionary = dictionary
            .read()
            .expect("no panic while the dictionary is locked");
        let spare = dictionary.spare();
        spare > LEAST_SPARE && spare > dictionary.pair_bytes() && dictionary.unfiled() <= MOST_LEFT
    };
    if is_worthwhile {
        dictionary
            .write()
            .expect("no panic while the dictionary is locked")
            .rebuild_pairs();
        core.request_trim();
    }
}

/// Files the sources with the lowest numbers. Returns false if there are too few.
fn file_some(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let filed = file(core, writing, |_, sources| sources, |_, some| some)?;
    Ok(!filed.is_empty())
}

/// Merges files with few sources, and rewrites files with many sources that are not filed any more. Returns whether
/// there were any.
fn merge_files(core: &Core, writing: &mut Writing) -> Result<bool, Error> {
    let filed = filed(core);
    let counts: Vec<Counts> = filed
        .files()
        .iter()
        .map(|file| Counts::of(file, &filed))
        .collect();
    let chosen = choose(&counts);
    if chosen.is_empty() {
        return Ok(false);
    }
    let seed = filed.files()[chosen[0]].origin().seed;
    // A store has files of different seeds if one that was removed comes back after a crash.
    let chosen = chosen.into_iter();
    let chosen: Vec<usize> = chosen
        .filter(|&at| filed.files()[at].origin().seed == seed)
        .collect();
    let old: Vec<Arc<NamesFile>> = chosen.iter().map(|&at| filed.files()[at].clone()).collect();
    let left: u64 = chosen.iter().map(|&at| counts[at].filed).sum();
    let new = match left {
        0 => None,
        _ => {
            let bytes = old.iter().map(|file| file.len()).sum();
            let Some((_, origin)) = origin(core).filter(|_| has_space(core, bytes)) else {
                return Ok(false);
            };
            let files: Vec<&NamesFile> = old.iter().map(|file| &**file).collect();
            let origin = Origin { seed, ..origin };
            let merged = write(core, writing, bytes, |file| {
                seiner_names::merge(origin, &files, filed.sources(), filed.cache(), file)
                    .map_err(merge_error)
            });
            match merged {
                Err(Error::Damage { file, .. }) if filed.note_damaged(&file) => return Ok(true),
                merged => Some(Arc::new(merged?)),
            }
        }
    };
    // A number may be used again as soon as no file in the list has it, so files leave the list when they have left the
    // disk for good.
    replace_files(core, &[], new);
    remove(&*writing.space.disk(), &old)?;
    replace_files(core, &old, None);
    Ok(true)
}

/// Converts the error of a merge. The disk may have failed to read a file or to write the new one.
fn merge_error(error: seiner_names::Error) -> Error {
    match error {
        seiner_names::Error::Io { source, .. } => Error::Io {
            context: "merging names files".to_string(),
            error: source,
        },
        error => read_error(error),
    }
}

fn remove(disk: &dyn Disk, files: &[Arc<NamesFile>]) -> Result<(), Error> {
    for file in files {
        // An earlier attempt may have removed some of the files.
        remove_if_present(disk, file.name())?;
    }
    let context = || "removing names files".to_string();
    disk.sync_names().map_err(sync_error(context))
}

/// Number of sources in a file.
#[derive(Clone, Copy)]
struct Counts {
    all: u64,
    /// Those that are filed.
    filed: u64,
}

impl Counts {
    fn of(file: &NamesFile, filed: &Filed) -> Counts {
        Counts {
            all: file.sources().len(),
            filed: file.sources().intersection_len(filed.sources()),
        }
    }

    fn is_sparse(self) -> bool {
        self.filed < self.all / 4 * 3
    }

    fn is_small(self) -> bool {
        self.filed <= MOST / MANY as u64
    }
}

/// Chooses the files to merge, by index: small files if there are many of them, or else a file with many sources that
/// are not filed any more.
fn choose(files: &[Counts]) -> Vec<usize> {
    let small = (0..files.len()).filter(|&at| files[at].is_small());
    let mut chosen: Vec<usize> = Vec::new();
    let mut sources = 0;
    for at in small {
        sources += files[at].filed;
        if sources > MOST {
            break;
        }
        chosen.push(at);
    }
    match chosen.len() >= MANY {
        true => chosen,
        false => (0..files.len())
            .filter(|&at| files[at].is_sparse())
            .take(1)
            .collect(),
    }
}

/// Puts the names of some sources into memory again.
///
/// # Errors
/// If a names file is damaged, or the disk fails.
pub(crate) fn unfile(core: &Core, sources: &RoaringBitmap) -> Result<(), Error> {
    let filed = filed(core);
    let sources: Vec<u32> = (sources & filed.sources()).iter().collect();
    for some in sources.chunks(AT_ONCE) {
        let keys = some.iter().map(|&source| {
            let key = filed.key(source)?;
            Ok((source, key.ok_or(Error::UnknownSource(source))?))
        });
        let keys = keys.collect::<Result<Vec<_>, Error>>()?;
        core.head().unfile(&keys);
    }
    Ok(())
}

/// Sets files aside in which a reader found damage, and puts their names into memory again: the catalog contains them.
/// Names that are damaged there, too, are lost. Returns whether there were any files.
pub(crate) fn mend(core: &Core, writing: &Writing) -> Result<bool, Error> {
    let filed = filed(core);
    let damaged = filed.take_damaged();
    for file in &damaged {
        let mut keys = Vec::new();
        let mut lost = file.sources() & filed.sources();
        core.each_key_in_catalog(&lost.clone(), |source, key| {
            lost.remove(source);
            keys.push((source, key));
            if keys.len() == AT_ONCE {
                core.head().unfile(&keys);
                keys.clear();
            }
        })?;
        core.head().unfile(&keys);
        core.head().unfile_lost(&lost);
        let (disk, name) = (writing.space.disk(), file.name());
        let aside = move_aside(&*disk, name)?;
        replace_files(core, std::slice::from_ref(file), None);
        count_set_aside(core, &*disk)?;
        tracing::warn!(
            "{name} is damaged; its names were read from the catalog, and it is {aside} now"
        );
        if !lost.is_empty() {
            let count = lost.len();
            tracing::error!("the catalog is damaged, too: {count} names stand under {LOST}");
        }
    }
    Ok(!damaged.is_empty())
}

#[cfg(test)]
mod tests;
