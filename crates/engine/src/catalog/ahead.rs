//! Names of the catalog and of the journal, read ahead of their registration.
//!
//! With millions of sources, the place of a name in the table of names is not in the cache. A start reads some names,
//! begins to fetch their places, and only then registers them. Reading names needs no table, so another thread can do
//! it.

use crate::bytes::{Cursor, Short};
use crate::dictionary::names::{NameHash, hash_name};
use crate::dictionary::spelling::{Piece, Spelling};
use memchr::{memchr, memchr_iter};
use seiner_model::SourceKey;
use std::ops::Range;

/// Names whose places are fetched at a time. The places fit in the first cache.
pub const AHEAD: usize = 128;

/// Names at the beginning of a stream that were read and are not yet registered.
#[derive(Default)]
pub struct NamesAhead {
    canonical: Vec<u8>,
    waiting: Vec<Waiting>,
    /// Pieces of all names that the name before does not have.
    pieces: Vec<Piece>,
    spelling: Spelling,
    /// Bytes of the stream that the names take.
    bytes: usize,
}

/// Name that was read.
pub struct Waiting {
    /// Hash of the canonical name.
    pub hash: NameHash,
    /// Start of the name in the stream.
    stored: usize,
    /// Canonical name in `canonical`. Empty if the name has a form that needs its key.
    range: Range<usize>,
    /// Number of its pieces that the name before has, and the others in `pieces`. `None` if the name needs its key.
    spelled: Option<(usize, Range<usize>)>,
}

impl NamesAhead {
    /// Reads the first names of a stream, up to `count`, and hashes them with a seed. `pass` reads a name that needs its
    /// key.
    ///
    /// # Errors
    /// [`Short`] if a name is malformed. The names before it were read.
    pub fn read(
        &mut self,
        seed: u64,
        stream: &[u8],
        count: u32,
        pass: impl Fn(&mut Cursor<'_>) -> Result<(), Short>,
    ) -> Result<(), Short> {
        self.canonical.clear();
        self.waiting.clear();
        self.pieces.clear();
        self.bytes = 0;
        let mut rest = Cursor(stream);
        for _ in 0..count {
            let start = self.canonical.len();
            if !put_canonical(&mut rest, &mut self.canonical)? {
                self.canonical.truncate(start);
                rest.0 = &stream[self.bytes..];
                pass(&mut rest)?;
            }
            let range = start..self.canonical.len();
            let hash = hash_name(seed, SourceKey::NOTATION, &self.canonical[start..]);
            let spelled = self.spell(start);
            self.waiting.push(Waiting {
                hash,
                stored: self.bytes,
                spelled,
                range,
            });
            self.bytes = stream.len() - rest.0.len();
        }
        Ok(())
    }

    /// Splits the canonical name that begins at `start` into its pieces.
    fn spell(&mut self, start: usize) -> Option<(usize, Range<usize>)> {
        let name = &self.canonical[start..];
        let Some(kept) = self.spelling.read(name) else {
            // The next name has the pieces of another name in the dictionary, which registers this name by its key.
            self.spelling = Spelling::default();
            return None;
        };
        let first = self.pieces.len();
        self.pieces.extend_from_slice(self.spelling.fresh());
        Some((kept, first..self.pieces.len()))
    }

    /// Returns the names that were read.
    pub fn names(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Returns the canonical form of a name. It is empty if it cannot be had without the key.
    pub fn canonical(&self, name: &Waiting) -> &[u8] {
        &self.canonical[name.range.clone()]
    }

    /// Returns the number of pieces that a canonical name has in common with the name before, and its other pieces.
    /// Returns `None` for a name that needs its key.
    pub fn spelled(&self, name: &Waiting) -> Option<(usize, &[Piece])> {
        let (kept, pieces) = name.spelled.as_ref()?;
        Some((*kept, &self.pieces[pieces.clone()]))
    }

    /// Returns the stream from a name on.
    pub fn stored<'s>(&self, name: &Waiting, stream: &'s [u8]) -> Cursor<'s> {
        Cursor(&stream[name.stored..])
    }

    /// Returns the bytes of the stream that the names take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Reads a key, and appends it as a canonical name. Returns false for a number without a name, and for a key with
/// texts that are escaped in a name.
fn put_canonical(stream: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<bool, Short> {
    let start = out.len();
    out.extend_from_slice(stream.bytes()?);
    if out.len() == start {
        return Ok(false);
    }
    let tags = stream.count(SourceKey::MAX_BYTES)?;
    for _ in 0..tags {
        out.push(b',');
        out.extend_from_slice(stream.bytes()?);
        out.push(b'=');
        out.extend_from_slice(stream.bytes()?);
    }
    let name = &out[start..];
    Ok(memchr(b'\\', name).is_none() && memchr_iter(b',', name).count() == tags)
}
