//! Names of many sources, read one after the other.

use super::Dictionary;
use super::lists::Reader;
use seiner_model::SourceKey;

/// Reader of the names of many sources. Sources in the order of their numbers take less time than with
/// [`Dictionary::key`] and [`Dictionary::texts`].
pub struct NameReader<'d> {
    dictionary: &'d Dictionary,
    members: Reader<'d>,
}

impl<'d> NameReader<'d> {
    /// Creates a reader.
    pub(super) fn new(dictionary: &'d Dictionary) -> NameReader<'d> {
        NameReader {
            dictionary,
            members: dictionary.members.reader(),
        }
    }

    /// Returns the key of a source, or `None` if the number is free.
    ///
    /// # Panics
    /// If the number does not exist.
    pub fn key(&mut self, source: u32) -> Option<SourceKey> {
        self.dictionary.key_of(self.members.read(source))
    }

    /// Does the same as [`Dictionary::texts`].
    pub fn texts(
        &mut self,
        source: u32,
    ) -> (
        &'d [u8],
        impl ExactSizeIterator<Item = (&'d [u8], &'d [u8])>,
    ) {
        let pairs = &self.dictionary.pairs;
        let members = self.members.read(source);
        let tags = members[1..].iter().map(|&pair| pairs.bytes(pair));
        (pairs.bytes(members[0]).1, tags)
    }
}
