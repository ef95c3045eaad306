//! Reading of all entries of a part of a file, page by page, with checks of their order.

use crate::bytes::Malformed;
use crate::cache::{Page, PageCache};
use crate::directory::Part;
use crate::error::Error;
use crate::hashes::{HASH_BITS, HashPage};
use crate::lists::term_set;
use crate::names::NamesCursor;
use crate::page::{Entries, PageRef};
use crate::parts::Parts;
use crate::terms::{TermStart, TermsCursor};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Pages of a part, one after the other. Pages in the cache are used, and no others are added to it.
struct Pages<'f, K> {
    file: &'f Parts,
    cache: Option<&'f PageCache>,
    part: &'f Part<K>,
    index: usize,
    page: Option<Page>,
    /// True before the first entry of a page.
    is_first: bool,
}

impl<'f, K> Pages<'f, K> {
    fn new(file: &'f Parts, cache: Option<&'f PageCache>, part: &'f Part<K>) -> Pages<'f, K> {
        Pages {
            file,
            cache,
            part,
            index: 0,
            page: None,
            is_first: true,
        }
    }

    /// Returns the current page; `None` at the end.
    fn current(&mut self) -> Result<Option<(&'f PageRef, Page)>, Error> {
        let Some(at) = self.part.pages.get(self.index) else {
            return Ok(None);
        };
        let page = match self.page.take() {
            Some(page) => page,
            None => match self
                .cache
                .and_then(|cache| cache.get((self.file.id, at.offset)))
            {
                Some(page) => page,
                None => Arc::new(self.file.reader.page(at)?),
            },
        };
        self.page = Some(page.clone());
        Ok(Some((at, page)))
    }

    /// Moves to the next page.
    fn advance(&mut self) {
        self.index += 1;
        self.page = None;
        self.is_first = true;
    }

    /// Moves a cursor to the next entry, on this page or a later one, and returns the page; `None` at the end.
    fn next_entry<C: Default>(
        &mut self,
        cursor: &mut C,
        next: impl Fn(&mut C, &Entries<'_>) -> Result<bool, Malformed>,
    ) -> Result<Option<&'f PageRef>, Error> {
        while let Some((at, page)) = self.current()? {
            let found = Entries::of(&page).and_then(|entries| next(cursor, &entries));
            if found.map_err(|error| self.file.malformed(at, error))? {
                return Ok(Some(at));
            }
            self.advance();
            *cursor = C::default();
        }
        Ok(None)
    }

    /// Returns the error of an entry that is not greater than the entry before, or less than the entry in the
    /// directory.
    fn disorder(&self, at: &PageRef) -> Error {
        let what = "the entries of a page are not in order";
        self.file.reader.damage(at.offset, what)
    }
}

/// Entries of a file in an order, each with the number of a source.
pub trait Stream {
    /// Moves to the next entry. Returns false at the end.
    fn next(&mut self) -> Result<bool, Error>;

    /// Returns the place of the latest entry in the order, which ends with the number of its source.
    fn place(&self) -> (u64, u32);
}

/// All sources of a file, by number.
pub struct NameStream<'f> {
    pages: Pages<'f, u32>,
    last: Option<u32>,
    /// Latest source.
    pub cursor: NamesCursor,
}

impl<'f> NameStream<'f> {
    pub fn new(file: &'f Parts, cache: Option<&'f PageCache>) -> NameStream<'f> {
        NameStream {
            pages: Pages::new(file, cache, &file.directory.names),
            last: None,
            cursor: NamesCursor::default(),
        }
    }
}

impl Stream for NameStream<'_> {
    fn next(&mut self) -> Result<bool, Error> {
        let Some(at) = self.pages.next_entry(&mut self.cursor, NamesCursor::next)? else {
            return Ok(false);
        };
        let number = self.cursor.number;
        let first = self.pages.part.firsts[self.pages.index];
        let is_ordered = self.last.is_none_or(|last| last < number);
        if !is_ordered || self.pages.is_first && number != first {
            return Err(self.pages.disorder(at));
        }
        self.last = Some(number);
        self.pages.is_first = false;
        Ok(true)
    }

    fn place(&self) -> (u64, u32) {
        (0, self.cursor.number)
    }
}

/// All terms of a file, by tag and value.
pub struct TermStream<'f> {
    pages: Pages<'f, TermStart>,
    last: Option<(u32, Vec<u8>)>,
    /// Latest term.
    pub cursor: TermsCursor,
}

impl<'f> TermStream<'f> {
    pub fn new(file: &'f Parts, cache: Option<&'f PageCache>) -> TermStream<'f> {
        TermStream {
            pages: Pages::new(file, cache, &file.directory.terms),
            last: None,
            cursor: TermsCursor::default(),
        }
    }

    /// Moves to the next term. Returns false at the end.
    pub fn next(&mut self) -> Result<bool, Error> {
        let Some(at) = self.pages.next_entry(&mut self.cursor, TermsCursor::next)? else {
            return Ok(false);
        };
        if !self.is_ordered() {
            return Err(self.pages.disorder(at));
        }
        let (tag, value) = self.last.get_or_insert_default();
        *tag = self.cursor.tag;
        value.clone_from(&self.cursor.value);
        self.pages.is_first = false;
        Ok(true)
    }

    /// Returns whether the latest term is greater than the term before, and its tag is known. The entry of the
    /// directory is between both terms.
    fn is_ordered(&self) -> bool {
        let cursor = &self.cursor;
        let (tag, value) = &self.pages.part.firsts[self.pages.index];
        let is_greater = |tag: u32, value: &[u8]| {
            let last = self.last.as_ref();
            last.is_none_or(|(last, text)| (*last, text.as_slice()) < (tag, value))
        };
        (cursor.tag as usize) < self.pages.file.directory.tags.len()
            && is_greater(cursor.tag, &cursor.value)
            && (!self.pages.is_first || is_greater(*tag, value) && cursor.cmp(*tag, value).is_ge())
    }

    /// Returns the name of the tag of the latest term.
    pub fn tag(&self) -> &'f [u8] {
        &self.pages.file.directory.tags[self.cursor.tag as usize].name
    }

    /// Returns the set of the sources of the latest term; `None` if the term has numbers.
    pub fn set(&self) -> Result<Option<RoaringBitmap>, Error> {
        let page = self.pages.page.as_ref().map_or(&[][..], |page| page);
        let at = &self.pages.part.pages[self.pages.index];
        term_set(self.pages.file, &self.cursor, page, at)
    }
}

/// All hashes of a file with the numbers of their sources.
pub struct HashStream<'f> {
    pages: Pages<'f, u64>,
    /// Number of entries of the current page that were read.
    read: usize,
    /// Latest entry.
    pub entry: (u64, u32),
    is_begun: bool,
}

impl<'f> HashStream<'f> {
    pub fn new(file: &'f Parts, cache: Option<&'f PageCache>) -> HashStream<'f> {
        HashStream {
            pages: Pages::new(file, cache, &file.directory.hashes),
            read: 0,
            entry: (0, 0),
            is_begun: false,
        }
    }
}

impl Stream for HashStream<'_> {
    fn next(&mut self) -> Result<bool, Error> {
        while let Some((at, page)) = self.pages.current()? {
            let file = self.pages.file;
            let hashes = HashPage::of(&page).map_err(|error| file.malformed(at, error))?;
            if self.read == hashes.len() {
                self.pages.advance();
                self.read = 0;
                continue;
            }
            let number = hashes.number(self.read);
            let number = number.map_err(|error| file.malformed(at, error))?;
            let entry = (hashes.hash(self.read), number);
            let is_listed = self.read > 0 || entry.0 == self.pages.part.firsts[self.pages.index];
            let is_greater = !self.is_begun || entry > self.entry;
            if !is_listed || !is_greater || entry.0 >> HASH_BITS != 0 {
                return Err(self.pages.disorder(at));
            }
            self.entry = entry;
            self.is_begun = true;
            self.read += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn place(&self) -> (u64, u32) {
        self.entry
    }
}
