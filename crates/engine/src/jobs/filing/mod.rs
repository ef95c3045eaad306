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
pub(crate) mod memory;

use crate::aside::{move_aside, remove_if_present};
use crate::core::Core;
use crate::dictionary::filed::{Filed, NEW, disk_bytes, name_of, number_of, read_error};
use crate::error::{Error, io_error, sync_error};
use crate::jobs::filing::dormancy::make_dormant;
use crate::jobs::free::count_set_aside;
use crate::jobs::writing::Writing;
use crate::journal::DAMAGED;
use crate::options::Filing;
use crate::space::on_disk;
use roaring::RoaringBitmap;
use seiner_names::{NamesFile, Origin, Writer};
use seiner_platform::{Disk, File};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Sources whose names are copied, or removed from memory, under one lock.
const AT_ONCE: usize = 256;
/// Maximum number of sources in a file. A step of the job processes one file.
const MOST: u64 = 1 << 18;
/// Fraction of the memory for the names of a file that is being written, and its bounds in bytes. A file is written for
/// an eighth of these bytes or more.
const WRITER_SHARE: u64 = 64;
const WRITER_BYTES: (u64, u64) = (256 << 10, 32 << 20);
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
    if mend_found(core, writing)? || merge_files(core, writing)? {
        return Ok(true);
    }
    // Writers may wait for names to be filed, but not for sources to become dormant.
    let more = make_dormant(core, &mut writing.filing.dormancy);
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
    core.write_catalog()?;
    let Some((known, origin)) = origin(core) else {
        return Ok(false);
    };
    let sources = core.head().unfiled(known);
    let (least, most) = WRITER_BYTES;
    let limit = (core.options().memory / WRITER_SHARE).clamp(least, most) as usize;
    let mut writer = Writer::new(origin);
    let mut copied = RoaringBitmap::new();
    let sources: Vec<u32> = sources.iter().take(MOST as usize).collect();
    for some in sources.chunks(AT_ONCE) {
        if writer.memory() >= limit {
            break;
        }
        core.dictionary(|dictionary| {
            let mut names = dictionary.reader();
            for &source in some {
                let (measurement, tags) = names.texts(source);
                writer.push(source, measurement, tags);
            }
        });
        copied.extend(some);
    }
    let fewest = match core.options().filing {
        Filing::Always => 1,
        _ => limit / 8,
    };
    if copied.is_empty() || writer.memory() < fewest || !has_space(core, writer.memory() as u64) {
        return Ok(false);
    }
    let most = writer.memory() as u64;
    let file = write(core, writing, most, |file| {
        let context = || format!("writing {NEW}");
        writer.write(file).map_err(io_error(context))
    })?;
    replace_files(core, &[], Some(Arc::new(file)));
    let sources: Vec<u32> = copied.iter().collect();
    for some in sources.chunks(AT_ONCE) {
        let dictionary = core.head().dictionary().clone();
        let mut dictionary = dictionary
            .write()
            .expect("no panic while the dictionary is locked");
        some.iter().for_each(|source| dictionary.file(*source));
    }
    Ok(true)
}

/// Returns the number of sources in the catalog, and the origin of a file that is written now. `None` if the catalog
/// cannot be written.
fn origin(core: &Core) -> Option<(u32, Origin)> {
    let (known, generation, position) = core.catalogued()?;
    let filed = filed(core);
    let seed = match filed.files().first() {
        Some(file) => file.origin().seed,
        None => {
            let now = core.clock.now();
            foldhash::fast::FixedState::default().hash_one((core.store, now))
        }
    };
    let store = core.store;
    let origin = Origin {
        store,
        seed,
        generation,
        position,
    };
    Some((known, origin))
}

fn filed(core: &Core) -> Filed {
    core.dictionary(|dictionary| dictionary.filed().clone())
}

/// Returns whether the disk budget has space for a file of up to `bytes`.
fn has_space(core: &Core, bytes: u64) -> bool {
    let load = core.head().load();
    core.log().headroom(&load) >= bytes
}

/// Writes a names file of up to `most` bytes under the next number. Durable on return. The bytes count against the
/// budget from the beginning on, so writers do not use them.
fn write(
    core: &Core,
    writing: &mut Writing,
    most: u64,
    put: impl FnOnce(&dyn File) -> Result<u64, Error>,
) -> Result<NamesFile, Error> {
    let before = disk_bytes(filed(core).files(), core.unit);
    core.log()
        .space
        .note_names(before + on_disk(most, core.unit));
    let result = write_file(writing, put);
    if result.is_err() {
        // A file that is left is removed by the next start, or overwritten.
        let _ = writing.space.disk().remove(NEW);
        core.log().space.note_names(before);
    }
    result
}

fn write_file(
    writing: &mut Writing,
    put: impl FnOnce(&dyn File) -> Result<u64, Error>,
) -> Result<NamesFile, Error> {
    let disk = writing.space.disk();
    let number = match writing.filing.next {
        Some(number) => number,
        None => first_free(&*disk)?,
    };
    let name = name_of(number);
    let context = || format!("writing {NEW}");
    let file = disk.create(NEW).map_err(io_error(context))?;
    put(&*file)?;
    file.sync().map_err(sync_error(context))?;
    let context = || format!("renaming {NEW} to {name}");
    disk.rename(NEW, &name).map_err(io_error(context))?;
    disk.sync_names().map_err(sync_error(context))?;
    writing.filing.next = Some(number + 1);
    NamesFile::open(&name, file).map_err(read_error)
}

/// Returns the lowest number above those of all names files, including those that were set aside.
fn first_free(disk: &dyn Disk) -> Result<u64, Error> {
    let listing = || "listing names files".to_string();
    let names = disk.list().map_err(io_error(listing))?;
    let numbers = names.iter().filter_map(|name| {
        let name = name.strip_suffix(DAMAGED).unwrap_or(name);
        number_of(name)
    });
    Ok(numbers.max().map_or(1, |last| last + 1))
}

/// Replaces files by another in memory, and counts the bytes of all files.
fn replace_files(core: &Core, old: &[Arc<NamesFile>], new: Option<Arc<NamesFile>>) {
    let dictionary = core.head().dictionary().clone();
    let mut dictionary = dictionary
        .write()
        .expect("no panic while the dictionary is locked");
    dictionary.filed_mut().replace(old, new);
    let bytes = disk_bytes(dictionary.filed().files(), core.unit);
    drop(dictionary);
    core.log().space.note_names(bytes);
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

/// Does the same as [`mend`], as a job: if the catalog is damaged, too, the store goes on without these names.
fn mend_found(core: &Core, writing: &Writing) -> Result<bool, Error> {
    match mend(core, writing) {
        Err(error @ Error::Damage { .. }) => {
            tracing::error!("a damaged names file cannot be replaced: {error}");
            Ok(false)
        }
        result => result,
    }
}

/// Sets files aside in which a reader found damage, and puts their names into memory again: the catalog contains them.
/// Returns whether there were any.
pub(crate) fn mend(core: &Core, writing: &Writing) -> Result<bool, Error> {
    let filed = filed(core);
    let damaged = filed.take_damaged();
    for file in &damaged {
        let mut keys = Vec::new();
        core.each_key_in_catalog(&(file.sources() & filed.sources()), |source, key| {
            keys.push((source, key));
            if keys.len() == AT_ONCE {
                core.head().unfile(&keys);
                keys.clear();
            }
        })?;
        core.head().unfile(&keys);
        let (disk, name) = (writing.space.disk(), file.name());
        let aside = move_aside(&*disk, name)?;
        replace_files(core, std::slice::from_ref(file), None);
        count_set_aside(core, &*disk)?;
        tracing::warn!(
            "{name} is damaged; its names were read from the catalog, and it is {aside} now"
        );
    }
    Ok(!damaged.is_empty())
}

#[cfg(test)]
mod tests;
