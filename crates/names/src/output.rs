//! Output: pages, sets, directory and filter of a names file, in the order in which they are written.
//!
//! Entries arrive in the order of the file: all names, then all terms, then all hashes. Memory holds one page and the
//! set of the sources of one tag.

use crate::bytes::set_bytes;
use crate::directory::{Directory, Tag};
use crate::filter::Filter;
use crate::hashes::{HASH_ENTRIES, encode_hashes};
use crate::layout::{HEADER_BYTES, Header, Origin, Trailer};
use crate::names::NamesWriter;
use crate::page::{PageRef, pack};
use crate::reader::Extent;
use crate::terms::{INLINE_BYTES, List, NUMBERS, TermsWriter};
use roaring::RoaringBitmap;
use seiner_codec::checksum;
use seiner_platform::File;
use std::io;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of a file in ascending order.
struct Sink<'f> {
    file: &'f dyn File,
    offset: u64,
    pending: Vec<u8>,
}

impl Sink<'_> {
    /// Appends bytes and returns their place.
    fn put(&mut self, bytes: &[u8]) -> io::Result<Extent> {
        if self.pending.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        let extent = Extent {
            offset: self.offset + self.pending.len() as u64,
            len: bytes.len() as u64,
            sum: checksum(bytes),
        };
        self.pending.extend_from_slice(bytes);
        Ok(extent)
    }

    /// Compresses and appends a page, and returns its place.
    fn put_page(&mut self, plain: &[u8]) -> io::Result<PageRef> {
        let packed = pack(plain);
        let extent = self.put(packed.as_deref().unwrap_or(plain))?;
        Ok(PageRef {
            offset: extent.offset,
            stored: extent.len as u32,
            plain: plain.len() as u32,
            sum: extent.sum,
        })
    }

    /// Writes the pending bytes.
    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.offset, &self.pending)?;
        self.offset += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// A names file that is being written.
pub struct Output<'f> {
    sink: Sink<'f>,
    directory: Directory,
    filter: Filter,
    names: NamesWriter,
    terms: TermsWriter,
    hashes: Vec<(u64, u32)>,
    /// Tag of the latest term: name, number of values, sources.
    tag: Option<(Box<[u8]>, u64, RoaringBitmap)>,
}

impl<'f> Output<'f> {
    /// Begins a file of some sources.
    pub fn new(file: &'f dyn File, origin: &Origin, sources: RoaringBitmap) -> Output<'f> {
        Output {
            sink: Sink {
                file,
                offset: 0,
                pending: Header::encode(origin),
            },
            filter: Filter::new(sources.len()),
            directory: Directory {
                sources,
                ..Directory::default()
            },
            names: NamesWriter::default(),
            terms: TermsWriter::default(),
            hashes: Vec::with_capacity(HASH_ENTRIES),
            tag: None,
        }
    }

    /// Adds a source with its canonical name.
    pub fn name(&mut self, number: u32, name: &[u8]) -> io::Result<()> {
        self.names.push(number, name);
        match self.names.is_full() {
            true => self.end_names_page(),
            false => Ok(()),
        }
    }

    fn end_names_page(&mut self) -> io::Result<()> {
        if let Some((first, page)) = self.names.finish() {
            let page = self.sink.put_page(&page)?;
            self.directory.names.push(first, page);
        }
        Ok(())
    }

    /// Adds a term with few sources, at least one, ascending.
    pub fn term_of_numbers(&mut self, tag: &[u8], value: &[u8], numbers: &[u32]) -> io::Result<()> {
        let sources = self.begin_term(tag)?;
        numbers.iter().for_each(|number| {
            sources.insert(*number);
        });
        self.term(value, &List::Numbers(numbers))
    }

    /// Adds a term with the set of its sources.
    pub fn term_of_set(
        &mut self,
        tag: &[u8],
        value: &[u8],
        mut set: RoaringBitmap,
    ) -> io::Result<()> {
        if set.len() <= NUMBERS as u64 {
            let numbers: Vec<u32> = set.iter().collect();
            return self.term_of_numbers(tag, value, &numbers);
        }
        *self.begin_term(tag)? |= &set;
        let bytes = set_bytes(&mut set);
        if bytes.len() <= INLINE_BYTES {
            return self.term(value, &List::Inline(set.len(), &bytes));
        }
        let extent = self.sink.put(&bytes)?;
        self.term(value, &List::Stored(set.len(), extent))
    }

    /// Begins a term, and its tag if the tag is new. Returns the sources of the tag.
    fn begin_term(&mut self, tag: &[u8]) -> io::Result<&mut RoaringBitmap> {
        if self.tag.as_ref().is_some_and(|(name, ..)| **name != *tag) {
            self.end_tag()?;
        }
        let new = || (tag.into(), 0, RoaringBitmap::new());
        let (_, values, sources) = self.tag.get_or_insert_with(new);
        *values += 1;
        Ok(sources)
    }

    fn term(&mut self, value: &[u8], list: &List<'_>) -> io::Result<()> {
        let tag = self.directory.tags.len() as u32;
        self.terms.push(tag, value, list);
        match self.terms.is_full() {
            true => self.end_terms_page(),
            false => Ok(()),
        }
    }

    fn end_terms_page(&mut self) -> io::Result<()> {
        if let Some((first, page)) = self.terms.finish() {
            let page = self.sink.put_page(&page)?;
            self.directory.terms.push(first, page);
        }
        Ok(())
    }

    /// Writes the sources of the tag.
    fn end_tag(&mut self) -> io::Result<()> {
        if let Some((name, values, mut sources)) = self.tag.take() {
            self.directory.tags.push(Tag {
                name,
                values,
                sources: self.sink.put(&set_bytes(&mut sources))?,
            });
        }
        Ok(())
    }

    /// Ends the names.
    pub fn end_names(&mut self) -> io::Result<()> {
        self.end_names_page()
    }

    /// Ends the terms.
    pub fn end_terms(&mut self) -> io::Result<()> {
        self.end_terms_page()?;
        self.end_tag()
    }

    /// Adds the stored bits of a hash.
    pub fn hash(&mut self, hash: u64, number: u32) -> io::Result<()> {
        self.filter.insert(hash);
        self.hashes.push((hash, number));
        match self.hashes.len() == HASH_ENTRIES {
            true => self.end_hash_page(),
            false => Ok(()),
        }
    }

    fn end_hash_page(&mut self) -> io::Result<()> {
        if let Some(&(first, _)) = self.hashes.first() {
            let page = self.sink.put_page(&encode_hashes(&self.hashes))?;
            self.directory.hashes.push(first, page);
            self.hashes.clear();
        }
        Ok(())
    }

    /// Writes the rest of the file and returns its length.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end_hash_page()?;
        let plain = self.directory.encode(HEADER_BYTES as u64);
        let packed = pack(&plain);
        let directory = self.sink.put(packed.as_deref().unwrap_or(&plain))?;
        let filter = self.sink.put(&self.filter.bytes())?;
        let mut trailer = Trailer {
            directory,
            plain: plain.len() as u64,
            filter,
            len: 0,
            sum: 0,
        };
        let end = filter.offset + filter.len;
        trailer.len = end + trailer.encode().len() as u64;
        self.sink.put(&trailer.encode())?;
        self.sink.flush()?;
        Ok(self.sink.offset)
    }
}
