//! Names files at a start: sources in them do not stay in memory.

use crate::aside::{move_aside, remove_if_present};
use crate::catalog::Catalog;
use crate::dictionary::filed::{NEW, number_of, open};
use crate::error::{Error, io_error};
use crate::head::Head;
use crate::status::Recovery;
use seiner_names::NamesFile;
use seiner_platform::Disk;
use std::sync::Arc;

/// Opens the names files of a store. A damaged file is set aside, and one that is newer than the catalog is removed: the
/// catalog contains the names of both. Returns the files, oldest first.
///
/// # Errors
/// If the disk fails.
pub(super) fn open_files(
    disk: &dyn Disk,
    catalog: &Catalog,
    recovery: &mut Recovery,
) -> Result<Vec<Arc<NamesFile>>, Error> {
    let listing = || "listing names files".to_string();
    let names = disk.list().map_err(io_error(listing))?;
    let mut found: Vec<(u64, String)> = names
        .into_iter()
        .filter_map(|name| Some((number_of(&name)?, name)))
        .collect();
    found.sort_unstable();
    remove_if_present(disk, NEW)?;
    let mut files = Vec::new();
    for (_, name) in found {
        match open(disk, &name, catalog.store) {
            Ok(file) if moment(&file) > catalog.moment() => remove_if_present(disk, &name)?,
            Ok(file) => files.push(Arc::new(file)),
            Err(Error::Damage { offset, what, .. }) => {
                let aside = move_aside(disk, &name)?;
                let what = format!("offset {offset}: {what}; its names were read from the catalog");
                recovery.set_aside.push((aside, what));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

fn moment(file: &NamesFile) -> (u32, u64) {
    (file.origin().generation, file.origin().position)
}

/// Puts all names into memory, as the catalog contains them. Rules that change are applied to each source by its name,
/// and a level is found by the name of its source.
///
/// # Errors
/// If the disk fails.
pub(super) fn unfile_all(disk: &dyn Disk, head: &mut Head, catalog: &Catalog) -> Result<(), Error> {
    let dictionary = head.dictionary().read();
    let dictionary = dictionary.expect("no panic while the dictionary is locked");
    let sources = dictionary.filed().sources().clone();
    drop(dictionary);
    match sources.is_empty() {
        true => Ok(()),
        false => catalog.each_key(disk, &sources, |source, key| head.unfile(&[(source, key)])),
    }
}
