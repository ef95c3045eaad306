//! Terms of an open file, one after the other, with the lists of their sources.

use crate::bytes::parse_set;
use crate::cache::{Page, PageCache};
use crate::error::Error;
use crate::page::{Entries, PageRef};
use crate::parts::Parts;
use crate::terms::{Place, TermsCursor};
use roaring::RoaringBitmap;
use std::borrow::Cow;

/// Place of a reader among the terms of a file.
pub struct Terms<'f> {
    file: &'f Parts,
    cache: &'f PageCache,
    /// Index of the current page.
    index: usize,
    page: Option<Page>,
    /// Latest term.
    pub cursor: TermsCursor,
}

impl<'f> Terms<'f> {
    /// Returns a reader whose latest term is the first one that is not less than a tag and a value; `None` if there
    /// is no such term.
    pub fn seek(
        file: &'f Parts,
        cache: &'f PageCache,
        tag: u32,
        value: &[u8],
    ) -> Result<Option<Terms<'f>>, Error> {
        let part = &file.directory.terms;
        let mut terms = Terms {
            file,
            cache,
            index: part.find(|(first, text)| (*first, &**text) <= (tag, value)),
            page: None,
            cursor: TermsCursor::default(),
        };
        let Some(page_ref) = part.pages.get(terms.index) else {
            return Ok(None);
        };
        let page = file.page(cache, page_ref)?;
        let cursor = &mut terms.cursor;
        let found = Entries::of(&page).and_then(|entries| cursor.seek(&entries, tag, value));
        let found = found.map_err(|error| file.malformed(page_ref, error))?;
        terms.page = Some(page);
        let found = found || terms.next()?;
        Ok(found.then_some(terms))
    }

    /// Returns a reader whose latest term has a tag and a value; `None` if there is no such term.
    pub fn find(
        file: &'f Parts,
        cache: &'f PageCache,
        tag: u32,
        value: &[u8],
    ) -> Result<Option<Terms<'f>>, Error> {
        let found = Terms::seek(file, cache, tag, value)?;
        Ok(found.filter(|term| term.cursor.cmp(tag, value).is_eq()))
    }

    /// Moves to the next term. Returns false at the end.
    pub fn next(&mut self) -> Result<bool, Error> {
        let pages = &self.file.directory.terms.pages;
        while let Some(page_ref) = pages.get(self.index) {
            let page = match self.page.take() {
                Some(page) => page,
                None => {
                    self.cursor = TermsCursor::default();
                    self.file.page(self.cache, page_ref)?
                }
            };
            let cursor = &mut self.cursor;
            let found = Entries::of(&page).and_then(|entries| cursor.next(&entries));
            if found.map_err(|error| self.file.malformed(page_ref, error))? {
                self.page = Some(page);
                return Ok(true);
            }
            self.index += 1;
        }
        Ok(false)
    }

    /// Returns the set of the sources of the latest term; `None` if the term has numbers.
    pub fn set(&self) -> Result<Option<RoaringBitmap>, Error> {
        let page = self.page.as_ref().map_or(&[][..], |page| page);
        let at = &self.file.directory.terms.pages[self.index];
        term_set(self.file, &self.cursor, page, at)
    }

    /// Returns the sources of the latest term.
    pub fn sources(&self) -> Result<RoaringBitmap, Error> {
        let set = self.set()?;
        Ok(set.unwrap_or_else(|| self.cursor.numbers.iter().copied().collect()))
    }

    /// Adds the sources of the latest term to a set.
    pub fn add_to(&self, listed: &mut RoaringBitmap) -> Result<(), Error> {
        match self.set()? {
            Some(set) => *listed |= set,
            // Much faster than `extend`, which unites sets.
            None => self.cursor.numbers.iter().for_each(|number| {
                listed.insert(*number);
            }),
        }
        Ok(())
    }

    /// Returns whether the latest term has a source that is in a set.
    pub fn meets(&self, among: &RoaringBitmap) -> Result<bool, Error> {
        Ok(match self.set()? {
            Some(set) => !set.is_disjoint(among),
            None => self
                .cursor
                .numbers
                .iter()
                .any(|number| among.contains(*number)),
        })
    }

    /// Returns the value of the latest term as text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.cursor.value)
    }
}

/// Returns the set of a term on a page; `None` if the term has numbers.
pub fn term_set(
    file: &Parts,
    cursor: &TermsCursor,
    page: &[u8],
    at: &PageRef,
) -> Result<Option<RoaringBitmap>, Error> {
    let Some(set) = &cursor.set else {
        return Ok(None);
    };
    let found = match &set.place {
        Place::File(extent) => file.set(extent)?,
        Place::Page(range) => {
            let bytes = Entries::of(page).map(|entries| &entries.body[range.clone()]);
            let found = bytes.and_then(parse_set);
            found.map_err(|error| file.malformed(at, error))?
        }
    };
    if found.len() != set.count {
        let what = format!(
            "a list has {} sources, {} were written",
            found.len(),
            set.count
        );
        return Err(file.reader.damage(at.offset, what));
    }
    Ok(Some(found))
}
