//! Parts of an open file: directory and filter in memory, and look-ups that read a page or two.

use crate::bytes::{Malformed, parse_set};
use crate::cache::{Page, PageCache};
use crate::directory::Directory;
use crate::error::Error;
use crate::filter::Filter;
use crate::hashes::{HashPage, hash_name, stored_bits};
use crate::layout::{HEADER_BYTES, Header, MAGIC, Origin, TRAILER_BYTES, Trailer, VERSION};
use crate::name::parse_name;
use crate::names::NamesCursor;
use crate::page::{Entries, PageRef};
use crate::reader::{Extent, Reader};
use roaring::RoaringBitmap;
use seiner_model::SourceKey;
use seiner_platform::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of an open names file.
pub struct Parts {
    pub reader: Reader,
    pub origin: Origin,
    pub directory: Directory,
    pub filter: Filter,
    /// Length of the file in bytes.
    pub len: u64,
    /// Number of this file among all that were opened, for the cache.
    pub id: u64,
}

impl Parts {
    /// Opens a file. Reads header, trailer, directory and filter only.
    pub fn open(name: &str, file: Arc<dyn File>) -> Result<Parts, Error> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let reader = Reader {
            name: name.to_string(),
            file,
        };
        let len = reader.file.len().map_err(|error| reader.io(error))?;
        if len < (HEADER_BYTES + TRAILER_BYTES) as u64 {
            return Err(reader.damage(0, format!("the file has {len} bytes, too few")));
        }
        let header = read_header(&reader)?;
        let trailer = read_trailer(&reader, len)?;
        let directory = read_directory(&reader, &trailer)?;
        let filter = reader.extent(&trailer.filter, "the filter")?;
        let filter = Filter::parse(&filter).ok_or_else(|| {
            reader.damage(trailer.filter.offset, "the filter has no whole blocks")
        })?;
        Ok(Parts {
            reader,
            directory,
            filter,
            origin: header.origin,
            len,
            id: OPENED.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Returns the numbers of all sources in the file.
    pub fn sources(&self) -> &RoaringBitmap {
        &self.directory.sources
    }

    /// Returns the number of the source with a canonical name.
    pub fn find(&self, cache: &PageCache, name: &[u8]) -> Result<Option<u32>, Error> {
        let hash = stored_bits(hash_name(self.origin.seed, name));
        if !self.filter.may_have(hash) {
            return Ok(None);
        }
        let part = &self.directory.hashes;
        // Entries with the same hash may be on several pages.
        let first = part.find(|first| *first < hash);
        let mut cursor = NamesCursor::default();
        for (page_ref, least) in part.pages.iter().zip(&part.firsts).skip(first) {
            if *least > hash {
                break;
            }
            let page = self.page(cache, page_ref)?;
            let hashes = HashPage::of(&page).map_err(|error| self.malformed(page_ref, error))?;
            for index in hashes.lower_bound(hash)..hashes.len() {
                if hashes.hash(index) != hash {
                    return Ok(None);
                }
                let number = hashes.number(index);
                let number = number.map_err(|error| self.malformed(page_ref, error))?;
                if !self.seek(cache, number, &mut cursor)? {
                    let what = format!("a hash has source {number}, which the file does not have");
                    return Err(self.reader.damage(page_ref.offset, what));
                }
                if cursor.name == name {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Returns the key of a source; `None` if the file does not have the source.
    pub fn key(&self, cache: &PageCache, source: u32) -> Result<Option<SourceKey>, Error> {
        if !self.sources().contains(source) {
            return Ok(None);
        }
        let mut cursor = NamesCursor::default();
        self.key_with(cache, source, &mut cursor).map(Some)
    }

    /// Returns the key of a source of the file. Reads with a cursor that may be used again.
    pub fn key_with(
        &self,
        cache: &PageCache,
        source: u32,
        cursor: &mut NamesCursor,
    ) -> Result<SourceKey, Error> {
        let key = match self.seek(cache, source, cursor)? {
            true => parse_name(&cursor.name),
            false => None,
        };
        key.ok_or_else(|| {
            let part = &self.directory.names;
            let page = part.pages.get(part.find(|first| *first <= source));
            let offset = page.map_or(0, |page| page.offset);
            let what = format!("the page has no valid name of source {source}");
            self.reader.damage(offset, what)
        })
    }

    /// Moves a cursor to a source. Returns whether the names page has the source.
    fn seek(
        &self,
        cache: &PageCache,
        source: u32,
        cursor: &mut NamesCursor,
    ) -> Result<bool, Error> {
        let part = &self.directory.names;
        let Some(page_ref) = part.pages.get(part.find(|first| *first <= source)) else {
            return Ok(false);
        };
        let page = self.page(cache, page_ref)?;
        let found = Entries::of(&page).and_then(|entries| cursor.find(&entries, source));
        found.map_err(|error| self.malformed(page_ref, error))
    }

    /// Returns a decompressed page, and adds it to the cache.
    pub fn page(&self, cache: &PageCache, page: &PageRef) -> Result<Page, Error> {
        let id = (self.id, page.offset);
        if let Some(found) = cache.get(id) {
            return Ok(found);
        }
        let found = Arc::new(self.reader.page(page)?);
        cache.insert(id, &found);
        Ok(found)
    }

    /// Reads a set of sources. The directory or a page has its place.
    pub fn set(&self, extent: &Extent) -> Result<RoaringBitmap, Error> {
        extent.end(self.len).map_err(|Malformed| {
            self.reader
                .damage(extent.offset, "a list is outside the file")
        })?;
        let bytes = self.reader.extent(extent, "a list of sources")?;
        parse_set(&bytes)
            .map_err(|Malformed| self.reader.damage(extent.offset, "a list is malformed"))
    }

    /// Returns the error of a page with a valid checksum that cannot be decoded.
    pub fn malformed(&self, page: &PageRef, _: Malformed) -> Error {
        self.reader.damage(page.offset, "a page is malformed")
    }
}

fn read_header(reader: &Reader) -> Result<Header, Error> {
    let bytes = reader.read(0, HEADER_BYTES)?;
    let header = Header::parse(&bytes).map_err(|Malformed| {
        let magic = String::from_utf8_lossy(MAGIC);
        reader.damage(0, format!("the file does not begin with {magic}"))
    })?;
    if header.version != VERSION {
        return Err(Error::Version {
            file: reader.name.clone(),
            found: header.version,
        });
    }
    reader.verify(0, &bytes[..HEADER_BYTES - 4], header.sum, "the header")?;
    Ok(header)
}

fn read_trailer(reader: &Reader, len: u64) -> Result<Trailer, Error> {
    let offset = len - TRAILER_BYTES as u64;
    let bytes = reader.read(offset, TRAILER_BYTES)?;
    let trailer = Trailer::parse(&bytes, len).map_err(|Malformed| {
        let what = format!("there is no trailer of a file of {len} bytes");
        reader.damage(offset, what)
    })?;
    let body = &bytes[..TRAILER_BYTES - MAGIC.len() - 4];
    reader.verify(offset, body, trailer.sum, "the trailer")?;
    Ok(trailer)
}

fn read_directory(reader: &Reader, trailer: &Trailer) -> Result<Directory, Error> {
    let stored = reader.extent(&trailer.directory, "the directory")?;
    let offset = trailer.directory.offset;
    let plain = if trailer.directory.len == trailer.plain {
        stored
    } else {
        // Memory is allocated as the bytes arrive, not as the trailer demands.
        let mut plain = Vec::new();
        zstd::stream::read::Decoder::new(stored.as_slice())
            .and_then(|decoder| decoder.take(trailer.plain).read_to_end(&mut plain))
            .map_err(|_| reader.damage(offset, "the directory cannot be decompressed"))?;
        plain
    };
    if plain.len() as u64 != trailer.plain {
        let what = format!(
            "the directory has {} bytes, {} were written",
            plain.len(),
            trailer.plain
        );
        return Err(reader.damage(offset, what));
    }
    Directory::parse(&plain, HEADER_BYTES as u64, offset)
        .map_err(|Malformed| reader.damage(offset, "the directory is malformed"))
}
