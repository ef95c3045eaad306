//! Names of the catalog and of the journal, read ahead of their registration.
//!
//! With millions of sources, the place of a name in the table of names is not in the cache. A start reads some names,
//! begins to fetch their places, and only then registers them.

use super::frame::Name;
use crate::bytes::{Cursor, Short};
use crate::dictionary::names::{NameHash, Names, hash_name};
use memchr::{memchr, memchr_iter};
use seiner_model::SourceKey;
use std::ops::Range;

/// Names that are read at a time. Their places in the table fit in the first cache.
const AHEAD: u32 = 128;

/// Names of a stream that were read and are not yet registered.
#[derive(Default)]
pub struct NamesAhead<'a> {
    canonical: Vec<u8>,
    waiting: Vec<Waiting<'a>>,
}

struct Waiting<'a> {
    /// Stream from the name on.
    stored: &'a [u8],
    /// Canonical name in `canonical`. Empty if the name has a form that needs its key.
    range: Range<usize>,
    hash: NameHash,
}

/// Reader of a name: [`super::get_name`], or a stricter one.
pub type ReadName = fn(&mut Cursor<'_>) -> Result<Name, Short>;

impl<'a> NamesAhead<'a> {
    /// Reads up to `count` names of a stream, and prefetches their places. Returns how many were read.
    ///
    /// # Errors
    /// [`Short`] if a name is malformed. [`NamesAhead::names`] returns those before it.
    pub fn read(
        &mut self,
        names: &Names,
        stream: &mut Cursor<'a>,
        count: u32,
        read: ReadName,
    ) -> Result<u32, Short> {
        self.canonical.clear();
        self.waiting.clear();
        let count = count.min(AHEAD);
        for _ in 0..count {
            let (stored, start) = (stream.0, self.canonical.len());
            if !put_canonical(stream, &mut self.canonical)? {
                self.canonical.truncate(start);
                stream.0 = stored;
                read(stream)?;
            }
            let range = start..self.canonical.len();
            let name = &self.canonical[range.clone()];
            let hash = hash_name(names.seed(), SourceKey::NOTATION, name);
            names.prefetch(hash);
            self.waiting.push(Waiting {
                stored,
                range,
                hash,
            });
        }
        Ok(count)
    }

    /// Returns the names that were read: the stream from the name on, the canonical name, and its hash. The canonical
    /// name is empty if it cannot be had without the key.
    pub fn names(&self) -> impl Iterator<Item = (&'a [u8], &[u8], NameHash)> {
        let name = |one: &Waiting<'a>| (one.stored, &self.canonical[one.range.clone()], one.hash);
        self.waiting.iter().map(name)
    }
}

/// Reads a key, and appends it as a canonical name. Returns false for a number without a name, and for a key with
/// texts that are escaped in a name.
fn put_canonical(stream: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<bool, Short> {
    let start = out.len();
    out.extend_from_slice(text(stream)?);
    if out.len() == start {
        return Ok(false);
    }
    let tags = stream.count(SourceKey::MAX_BYTES)?;
    for _ in 0..tags {
        out.push(b',');
        out.extend_from_slice(text(stream)?);
        out.push(b'=');
        out.extend_from_slice(text(stream)?);
    }
    let name = &out[start..];
    Ok(memchr(b'\\', name).is_none() && memchr_iter(b',', name).count() == tags)
}

fn text<'a>(stream: &mut Cursor<'a>) -> Result<&'a [u8], Short> {
    let len = stream.count(stream.0.len())?;
    stream.take(len)
}
