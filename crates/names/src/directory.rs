//! Directory: the first entry and the place of every page, the tags, and the numbers of all sources. It is in memory
//! while a file is open.

use crate::bytes::{Cursor, Malformed, parse_set, put_bytes, set_bytes};
use crate::page::{PAGE_LIMIT, PageRef};
use crate::reader::Extent;
use crate::terms::{TermStart, parse_extent, put_extent};
use roaring::RoaringBitmap;
use seiner_codec::varint;

/// Minimum bytes of an entry of a names page.
const LEAST_NAME: u64 = 4;

/// Pages of one kind, in order.
#[derive(Debug, PartialEq)]
pub struct Part<K> {
    /// Places of the pages.
    pub pages: Vec<PageRef>,
    /// First entry of each page, or a lower bound that is greater than the entries before.
    pub firsts: Vec<K>,
}

impl<K> Default for Part<K> {
    fn default() -> Part<K> {
        Part {
            pages: Vec::new(),
            firsts: Vec::new(),
        }
    }
}

impl<K> Part<K> {
    pub fn push(&mut self, first: K, page: PageRef) {
        self.pages.push(page);
        self.firsts.push(first);
    }

    /// Returns the index of the last page whose first entry meets a condition that no later one meets; 0 if there is
    /// none.
    pub fn find(&self, is_before: impl Fn(&K) -> bool) -> usize {
        self.firsts.partition_point(is_before).saturating_sub(1)
    }

    /// Appends the pages. `end` is the end of the page before.
    fn encode(&self, end: &mut u64, out: &mut Vec<u8>, put: impl Fn(&K, &mut Vec<u8>)) {
        varint::put_u64(self.pages.len() as u64, out);
        for (page, first) in self.pages.iter().zip(&self.firsts) {
            varint::put_u64(page.offset - *end, out);
            varint::put_u64(page.stored.into(), out);
            varint::put_u64((page.plain - page.stored).into(), out);
            out.extend_from_slice(&page.sum.to_le_bytes());
            put(first, out);
            *end = page.offset + u64::from(page.stored);
        }
    }

    /// Reads pages within the first `limit` bytes of the file. `end` is the end of the page before.
    fn parse<'a>(
        rest: &mut Cursor<'a>,
        end: &mut u64,
        limit: u64,
        get: impl Fn(&mut Cursor<'a>) -> Result<K, Malformed>,
    ) -> Result<Part<K>, Malformed> {
        // A page takes at least eight bytes of the directory.
        let count = rest.count(rest.0.len() / 8)?;
        let mut part = Part {
            pages: Vec::with_capacity(count),
            firsts: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let offset = end.checked_add(rest.varint()?).ok_or(Malformed)?;
            let stored = rest.count(PAGE_LIMIT)?;
            let plain = stored + rest.count(PAGE_LIMIT - stored)?;
            let page = PageRef {
                offset,
                stored: stored as u32,
                plain: plain as u32,
                sum: rest.u32()?,
            };
            part.push(get(rest)?, page);
            *end = offset.checked_add(stored as u64).ok_or(Malformed)?;
        }
        (*end <= limit).then_some(part).ok_or(Malformed)
    }
}

/// A tag of the sources of a file. The measurement is the tag with an empty name.
#[derive(Debug, PartialEq)]
pub struct Tag {
    /// Name of the tag.
    pub name: Box<[u8]>,
    /// Number of distinct values.
    pub values: u64,
    /// Place of the set of the sources with the tag.
    pub sources: Extent,
}

/// First entries and places of all pages.
#[derive(Debug, Default, PartialEq)]
pub struct Directory {
    /// Numbers of all sources.
    pub sources: RoaringBitmap,
    /// Names pages, by number.
    pub names: Part<u32>,
    /// Terms pages, by index of the tag and value.
    pub terms: Part<TermStart>,
    /// Hash pages, by the stored bits of a hash.
    pub hashes: Part<u64>,
    /// Tags, sorted by name.
    pub tags: Vec<Tag>,
}

impl Directory {
    /// Returns the bytes of the directory. `start` is the end of the header.
    pub fn encode(&mut self, start: u64) -> Vec<u8> {
        let (mut out, mut end) = (Vec::new(), start);
        put_bytes(&set_bytes(&mut self.sources), &mut out);
        let put_number = |first: &u32, out: &mut Vec<u8>| varint::put_u64((*first).into(), out);
        self.names.encode(&mut end, &mut out, put_number);
        self.terms.encode(&mut end, &mut out, |(tag, value), out| {
            varint::put_u64((*tag).into(), out);
            put_bytes(value, out);
        });
        let put_hash = |first: &u64, out: &mut Vec<u8>| varint::put_u64(*first, out);
        self.hashes.encode(&mut end, &mut out, put_hash);
        varint::put_u64(self.tags.len() as u64, &mut out);
        for tag in &self.tags {
            put_bytes(&tag.name, &mut out);
            varint::put_u64(tag.values, &mut out);
            put_extent(&tag.sources, &mut out);
        }
        out
    }

    /// Decodes a directory of pages between `start` and `limit`, and checks that the parts are in order.
    pub fn parse(bytes: &[u8], start: u64, limit: u64) -> Result<Directory, Malformed> {
        let (mut rest, mut end) = (Cursor(bytes), start);
        let directory = Directory {
            sources: parse_set(rest.bytes()?)?,
            names: Part::parse(&mut rest, &mut end, limit, |rest| rest.number())?,
            terms: Part::parse(&mut rest, &mut end, limit, |rest| {
                Ok((rest.number()?, rest.bytes()?.into()))
            })?,
            hashes: Part::parse(&mut rest, &mut end, limit, |rest| rest.varint())?,
            tags: parse_tags(&mut rest, limit)?,
        };
        let is_ordered = rest.is_empty()
            && directory.names.firsts.is_sorted_by(|a, b| a < b)
            && directory.terms.firsts.is_sorted_by(|a, b| a < b)
            && directory.hashes.firsts.is_sorted()
            && directory.tags.is_sorted_by(|a, b| a.name < b.name);
        let names = directory.names.pages.iter();
        let most = names.map(|page| u64::from(page.plain)).sum::<u64>() / LEAST_NAME;
        // Sources without pages would be an answer of any length.
        let is_complete = directory.sources.len() <= most;
        (is_ordered && is_complete)
            .then_some(directory)
            .ok_or(Malformed)
    }

    /// Returns the index of a tag.
    pub fn tag(&self, name: &[u8]) -> Option<u32> {
        let found = self.tags.binary_search_by(|tag| (*tag.name).cmp(name));
        found.ok().map(|index| index as u32)
    }

    /// Returns the memory used, in bytes, about.
    pub fn memory(&self) -> usize {
        let pages = self.names.pages.capacity()
            + self.terms.pages.capacity()
            + self.hashes.pages.capacity();
        let terms = self.terms.firsts.iter();
        let terms: usize = terms.map(|(_, value)| value.len() + 24).sum();
        let tags: usize = self.tags.iter().map(|tag| tag.name.len() + 56).sum();
        self.sources.serialized_size()
            + pages * size_of::<PageRef>()
            + self.names.firsts.capacity() * 4
            + self.hashes.firsts.capacity() * 8
            + terms
            + tags
    }
}

fn parse_tags(rest: &mut Cursor<'_>, limit: u64) -> Result<Vec<Tag>, Malformed> {
    // A tag takes at least eight bytes.
    let count = rest.count(rest.0.len() / 8)?;
    let tags = (0..count).map(|_| {
        let tag = Tag {
            name: rest.bytes()?.into(),
            values: rest.varint()?,
            sources: parse_extent(rest)?,
        };
        tag.sources.end(limit)?;
        Ok(tag)
    });
    tags.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_returns_and_wrong_ones_are_rejected() {
        let page = |offset| PageRef {
            offset,
            stored: 100,
            plain: 400,
            sum: 9,
        };
        let mut directory = Directory {
            sources: (0..150).collect(),
            ..Directory::default()
        };
        directory.names.push(0, page(32));
        directory.names.push(70, page(132));
        directory.terms.push((0, (*b"a").into()), page(500));
        directory.hashes.push(5, page(600));
        directory.hashes.push(5, page(700));
        for name in ["", "host"] {
            directory.tags.push(Tag {
                name: name.as_bytes().into(),
                values: 3,
                sources: Extent {
                    offset: 300,
                    len: 50,
                    sum: 1,
                },
            });
        }
        let bytes = directory.encode(32);
        assert_eq!(Directory::parse(&bytes, 32, 800).as_ref(), Ok(&directory));
        assert_eq!(Directory::parse(&bytes, 32, 799), Err(Malformed));
        assert_eq!(directory.names.find(|first| *first <= 69), 0);
        assert_eq!(directory.names.find(|first| *first <= 70), 1);
        assert_eq!(
            (directory.tag(b"host"), directory.tag(b"x")),
            (Some(1), None)
        );
        for len in 0..bytes.len() {
            assert!(Directory::parse(&bytes[..len], 32, 800).is_err());
        }
        directory.sources.insert_range(0..1000);
        let bytes = directory.encode(32);
        assert_eq!(Directory::parse(&bytes, 32, 800), Err(Malformed));
    }
}
