//! Check of a whole file: checksums, order, and agreement of the parts.
//!
//! Names, terms and hashes are read once. They agree if names and terms have the same pairs of term and source, and
//! names and hashes the same pairs of hash and source. Sums of hashes of these pairs are compared, which takes no
//! memory.

use crate::error::Error;
use crate::hashes::{hash_name, stored_bits};
use crate::name::parse_name;
use crate::parts::Parts;
use crate::stream::{HashStream, NameStream, Stream, TermStream};
use foldhash::fast::FixedState;
use roaring::RoaringBitmap;
use std::hash::{BuildHasher, Hash};

/// Sum of the hashes of some entries, in any order.
struct Sum {
    state: FixedState,
    sum: u64,
    entries: u64,
}

impl Sum {
    fn new(file: &Parts) -> Sum {
        Sum {
            state: FixedState::with_seed(file.origin.seed),
            sum: 0,
            entries: 0,
        }
    }

    fn add(&mut self, entry: impl Hash) {
        self.sum = self.sum.wrapping_add(self.state.hash_one(entry));
        self.entries += 1;
    }

    fn is_same(&self, other: &Sum) -> bool {
        (self.sum, self.entries) == (other.sum, other.entries)
    }
}

/// Reads everything. Verifies all checksums, and that every source is found by its name, its number and its tags.
pub fn check(file: &Parts) -> Result<(), Error> {
    let (pairs, names) = sum_names(file)?;
    let mut listed = Sum::new(file);
    sum_terms(file, &mut listed, pairs.entries)?;
    if !pairs.is_same(&listed) {
        return Err(disagreement(file, "the terms and the names disagree"));
    }
    let mut hashes = Sum::new(file);
    let mut stream = HashStream::new(file, None);
    while stream.next()? {
        hashes.add(stream.entry);
    }
    match hashes.is_same(&names) {
        true => Ok(()),
        false => Err(disagreement(file, "the hashes and the names disagree")),
    }
}

/// Returns the error of parts that disagree.
fn disagreement(file: &Parts, what: &str) -> Error {
    file.reader.damage(0, what)
}

/// Returns the sums of the pairs of term and source, and of hash and source.
fn sum_names(file: &Parts) -> Result<(Sum, Sum), Error> {
    let (mut pairs, mut names) = (Sum::new(file), Sum::new(file));
    let mut stream = NameStream::new(file, None);
    let mut numbers = file.sources().iter();
    let mut canonical = Vec::new();
    while stream.next()? {
        let number = stream.cursor.number;
        let name = &stream.cursor.name;
        if numbers.next() != Some(number) {
            return Err(disagreement(file, "the names are not those of the sources"));
        }
        let key = parse_name(name);
        let key = key.filter(|key| {
            canonical.clear();
            key.put_name(&mut canonical);
            canonical == *name
        });
        let what = "the name of a source is not canonical";
        let key = key.ok_or_else(|| disagreement(file, what))?;
        pairs.add((&b""[..], key.measurement().as_bytes(), number));
        for (tag, value) in key.tags() {
            pairs.add((tag.as_bytes(), value.as_bytes(), number));
        }
        let hash = stored_bits(hash_name(file.origin.seed, name));
        if !file.filter.may_have(hash) {
            return Err(disagreement(file, "the filter does not have a name"));
        }
        names.add((hash, number));
    }
    match numbers.next() {
        None => Ok((pairs, names)),
        Some(_) => Err(disagreement(file, "a source has no name")),
    }
}

/// Adds the pairs of term and source, at most `limit`, and compares the terms with the tags of the directory.
fn sum_terms(file: &Parts, listed: &mut Sum, limit: u64) -> Result<(), Error> {
    let mut stream = TermStream::new(file, None);
    let mut has_term = stream.next()?;
    for (index, tag) in file.directory.tags.iter().enumerate() {
        let (mut values, mut sources) = (0, RoaringBitmap::new());
        while has_term && stream.cursor.tag as usize == index {
            let value = stream.cursor.value.as_slice();
            let numbers = stream.cursor.numbers.iter().copied();
            let set = stream.set()?.unwrap_or_else(|| numbers.collect());
            // Hostile lists may have far more numbers than the file has bytes.
            if set.len() > limit - listed.entries {
                return Err(disagreement(
                    file,
                    "the terms have more sources than the names",
                ));
            }
            set.iter()
                .for_each(|number| listed.add((&*tag.name, value, number)));
            sources |= set;
            values += 1;
            has_term = stream.next()?;
        }
        if values != tag.values || sources != file.set(&tag.sources)? {
            return Err(disagreement(file, "a tag and its values disagree"));
        }
    }
    Ok(())
}
