//! Names: sources by their tags and keys, whether their names are in memory or in names files.
//!
//! Files are read without a lock: a slow disk delays the reader alone. A reader that finds damage has the names read from
//! the catalog.

use crate::core::Core;
use crate::dictionary::Dictionary;
use crate::dictionary::filed::Filed;
use crate::error::Error;
use crate::jobs::filing::mend;
use crate::jobs::writing::Writing;
use roaring::RoaringBitmap;
use seiner_model::{Selector, SourceKey};
use seiner_names::{Cache, NamesFile};

/// Reads something in memory, and returns it with the sources in names files at that moment.
fn at_once<T>(core: &Core, read: impl FnOnce(&Dictionary) -> T) -> (T, Filed) {
    core.dictionary(|dictionary| (read(dictionary), dictionary.filed().clone()))
}

/// Reads names again if a names file was damaged: they are in memory then. No job must be running in the caller.
fn or_mend<T>(core: &Core, read: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    or_mend_by(read, || mend(core, &core.writing()))
}

fn or_mend_by<T>(
    read: impl Fn() -> Result<T, Error>,
    mend: impl FnOnce() -> Result<bool, Error>,
) -> Result<T, Error> {
    match read() {
        Err(Error::Damage { .. }) => {
            mend()?;
            read()
        }
        result => result,
    }
}

/// Returns the numbers of the sources that match a selector, without levels.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn select(core: &Core, selector: &Selector) -> Result<RoaringBitmap, Error> {
    or_mend(core, || select_once(core, selector))
}

/// Does the same as [`select`], for a caller that runs a job.
pub(crate) fn select_in_job(
    core: &Core,
    writing: &Writing,
    selector: &Selector,
) -> Result<RoaringBitmap, Error> {
    or_mend_by(|| select_once(core, selector), || mend(core, writing))
}

fn select_once(core: &Core, selector: &Selector) -> Result<RoaringBitmap, Error> {
    let (found, filed) = at_once(core, |dictionary| dictionary.select(selector));
    Ok(found | filed.select(selector)?)
}

/// Returns the key of a source, or `None` if the number is free.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn key(core: &Core, source: u32) -> Result<Option<SourceKey>, Error> {
    or_mend(core, || key_once(core, source))
}

fn key_once(core: &Core, source: u32) -> Result<Option<SourceKey>, Error> {
    let (key, filed) = at_once(core, |dictionary| dictionary.key(source));
    match key {
        Some(key) => Ok(Some(key)),
        None => filed.key(source),
    }
}

/// Returns the key of a registered source, for a caller that runs a job: damage is an error.
pub(crate) fn known_key(core: &Core, source: u32) -> Result<SourceKey, Error> {
    key_once(core, source)?.ok_or(Error::UnknownSource(source))
}

/// Returns the keys of registered sources, in their order.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn keys(
    core: &Core,
    sources: impl Iterator<Item = u32> + Clone,
) -> Result<Vec<SourceKey>, Error> {
    or_mend(core, || {
        let read = |dictionary: &Dictionary| {
            let mut names = dictionary.reader();
            let keys = sources.clone().map(|source| (source, names.key(source)));
            keys.collect::<Vec<_>>()
        };
        let (keys, filed) = at_once(core, read);
        let keys = keys.into_iter().map(|(source, key)| match key {
            Some(key) => Ok(key),
            None => filed.key(source)?.ok_or(Error::UnknownSource(source)),
        });
        keys.collect()
    })
}

/// Returns all measurements, sorted.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn measurements(core: &Core) -> Result<Vec<String>, Error> {
    or_mend(core, || {
        let (found, filed) = at_once(core, Dictionary::measurements);
        let all = filed.sources();
        with_filed(found, &filed, |file, cache| file.measurements(cache, all))
    })
}

/// Returns the names of the tags of the selected sources, sorted.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn tag_names(core: &Core, selector: &Selector) -> Result<Vec<String>, Error> {
    or_mend(core, || {
        let (found, filed) = at_once(core, |dictionary| dictionary.tag_names(selector));
        let among = filed.select(selector)?;
        with_filed(found, &filed, |file, cache| file.tag_names(cache, &among))
    })
}

/// Returns the first `limit` values of a tag among the selected sources, sorted.
///
/// # Errors
/// If names can be read neither from a file nor from the catalog.
pub(crate) fn tag_values(
    core: &Core,
    selector: &Selector,
    tag: &str,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let mut values = or_mend(core, || {
        let (found, filed) = at_once(core, |dictionary| {
            dictionary.tag_values(selector, tag, limit)
        });
        if Dictionary::is_hidden_tag(tag) {
            return Ok(found);
        }
        let among = filed.select(selector)?;
        with_filed(found, &filed, |file, cache| {
            file.tag_values(cache, tag, &among, limit)
        })
    })?;
    values.truncate(limit);
    core.request_trim();
    Ok(values)
}

/// Adds the texts of filed sources to sorted texts of others. Each text is returned once.
fn with_filed(
    mut texts: Vec<String>,
    filed: &Filed,
    read: impl Fn(&NamesFile, &Cache) -> Result<Vec<String>, seiner_names::Error>,
) -> Result<Vec<String>, Error> {
    if !filed.sources().is_empty() {
        texts.append(&mut filed.texts(read)?);
        texts.sort_unstable();
        texts.dedup();
    }
    Ok(texts)
}
