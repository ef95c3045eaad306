//! Writes names files: those of names in memory, and others.

use crate::core::Core;
use crate::dictionary::filed::{Filed, NEW, disk_bytes, name_of, number_of, read_error};
use crate::error::{Error, io_error, sync_error};
use crate::head::Head;
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
pub(super) const AT_ONCE: usize = 256;
/// Maximum number of sources in a file. A step of the job processes one file.
pub(super) const MOST: u64 = 1 << 18;
/// Fraction of the memory for the names of a file that is being written, and its bounds in bytes. A file is written for
/// an eighth of these bytes or more.
const WRITER_SHARE: u64 = 64;
const WRITER_BYTES: (u64, u64) = (256 << 10, 32 << 20);

/// Files sources with the lowest numbers among those that `choose` selects, and that `keep` selects from some of them
/// later. Returns these sources, or none if there are too few.
pub(super) fn file(
    core: &Core,
    writing: &mut Writing,
    choose: impl FnOnce(&Head, RoaringBitmap) -> RoaringBitmap,
    keep: impl Fn(&mut Head, Vec<u32>) -> Vec<u32>,
) -> Result<RoaringBitmap, Error> {
    let nothing = RoaringBitmap::new();
    core.write_catalog()?;
    let Some((known, origin)) = origin(core) else {
        return Ok(nothing);
    };
    let sources = {
        let head = core.head();
        choose(&head, head.unfiled(known))
    };
    let (least, most) = WRITER_BYTES;
    let limit = (core.options().memory / WRITER_SHARE).clamp(least, most) as usize;
    let mut writer = Writer::new(origin);
    let mut copied = RoaringBitmap::new();
    let mut sources = sources.iter();
    while writer.memory() < limit && copied.len() < MOST {
        let some: Vec<u32> = sources.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        let some = keep(&mut core.head(), some);
        core.dictionary(|dictionary| {
            let mut names = dictionary.reader();
            for &source in &some {
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
        return Ok(nothing);
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
    Ok(copied)
}

/// Returns the number of sources in the catalog, and the origin of a file that is written now. `None` if the catalog
/// cannot be written.
pub(super) fn origin(core: &Core) -> Option<(u32, Origin)> {
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

pub(super) fn filed(core: &Core) -> Filed {
    core.dictionary(|dictionary| dictionary.filed().clone())
}

/// Returns whether the disk budget has space for a file of up to `bytes`.
pub(super) fn has_space(core: &Core, bytes: u64) -> bool {
    let load = core.head().load();
    core.log().headroom(&load) >= bytes
}

/// Writes a names file of up to `most` bytes under the next number. Durable on return. The bytes count against the
/// budget from the beginning on, so writers do not use them.
pub(super) fn write(
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
pub(super) fn replace_files(core: &Core, old: &[Arc<NamesFile>], new: Option<Arc<NamesFile>>) {
    let dictionary = core.head().dictionary().clone();
    let mut dictionary = dictionary
        .write()
        .expect("no panic while the dictionary is locked");
    dictionary.filed_mut().replace(old, new);
    let bytes = disk_bytes(dictionary.filed().files(), core.unit);
    drop(dictionary);
    core.log().space.note_names(bytes);
}
