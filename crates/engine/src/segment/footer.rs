//! Footers: the index of a sealed segment, sorted by source and block number.
//!
//! Entries are stored in *pages* of a few hundred, each compressed separately, so that a look-up
//! reads one page. The *sparse index* lists the first source of each page and stays in memory. The
//! *trailer*, at the very end, contains the position of the sparse index. `docs/format/segment.md`
//! specifies the bytes.

use super::{ALIGNMENT, Entry};
use crate::bytes::{COUNT_LIMIT, Cursor, Short};
use seiner_codec::{checksum, varint};
use seiner_model::Interval;
use seiner_platform::critical::assert_outside;

const MAGIC: &[u8; 8] = b"SEINSEGM";
/// Version of new segments.
const VERSION: u32 = 3;
/// Entries per page: few enough to decode for one source, enough to compress well.
const PAGE_ENTRIES: usize = 256;
/// Entries per page of an index with bundles, whose entries take a fraction of a byte.
const BUNDLED_PAGE_ENTRIES: usize = 1024;
/// Maximum bytes of an uncompressed page.
const PAGE_LIMIT: usize = BUNDLED_PAGE_ENTRIES * 104;
const SPARSE_INDEX_LIMIT: usize = 256 << 20;
/// Compression level of pages.
const LEVEL: i32 = 3;
/// Length of the trailer in bytes.
pub const TRAILER_BYTES: usize = 8 + 4 + 8 * 12 + 4 * 6;

/// Sparse index entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Source of the first entry.
    pub first_source: u32,
    /// Offset of the page in the segment, in bytes.
    pub offset: u32,
    /// Length of the page in bytes.
    pub len: u32,
    /// Checksum of the page.
    pub sum: u32,
}

/// Trailer: figures about a segment as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of the segment.
    pub number: u64,
    /// Identity of the store.
    pub store: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of rows in the blocks.
    pub rows: u64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// Interval of the times in the blocks.
    pub span: Interval,
    /// Highest block number in the segment.
    pub last_block: u64,
    /// Sequence of the journal when the segment was closed. Older records contain no rows newer
    /// than the segment.
    pub sequence: u64,
    /// Number of sources in the store. The catalog must contain at least as many.
    pub sources: u32,
    /// Number of layouts in the store. The catalog must contain at least as many.
    pub layouts: u32,
    /// Offset of the sparse index in the segment, in bytes.
    pub sparse_index_offset: u64,
    /// Length of the sparse index in bytes.
    pub sparse_index_len: u32,
    /// Checksum of the sparse index.
    pub sparse_index_sum: u32,
    /// Number of the lane that the segment belongs to.
    pub lane: u32,
    /// Time of writing: wall time in ns.
    pub born: i64,
    /// End of the previous checkpoint, for the trailer of a checkpoint: 0 for the first checkpoint. 0 for a
    /// whole segment.
    pub previous: u64,
}

/// Sorts entries and appends pages, sparse index and trailer to a segment that ends at `offset`. With
/// them, the segment ends at a multiple of [`ALIGNMENT`].
pub fn encode(
    entries: &mut [Entry],
    offset: u64,
    mut trailer: Trailer,
    out: &mut Vec<u8>,
) -> (Vec<PageEntry>, Trailer) {
    assert_outside("encoding an index");
    entries.sort_unstable_by_key(|entry| (entry.source, entry.number));
    let start = out.len();
    let page_entries = match entries.iter().any(Entry::is_bundled) {
        true => BUNDLED_PAGE_ENTRIES,
        false => PAGE_ENTRIES,
    };
    let mut pages = Vec::with_capacity(entries.len().div_ceil(page_entries));
    let mut plain = Vec::new();
    for entries in entries.chunks(page_entries) {
        plain.clear();
        encode_page(entries, &mut plain);
        let at = out.len();
        varint::put_u64(plain.len() as u64, out);
        out.extend(pack(&plain));
        pages.push(PageEntry {
            first_source: entries[0].source,
            offset: (offset as usize + at - start) as u32,
            len: (out.len() - at) as u32,
            sum: checksum(&out[at..]),
        });
    }
    let sparse_index_at = out.len();
    for page in &pages {
        for word in [page.first_source, page.offset, page.len, page.sum] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    trailer.sparse_index_offset = offset + (sparse_index_at - start) as u64;
    trailer.sparse_index_len = (out.len() - sparse_index_at) as u32;
    trailer.sparse_index_sum = checksum(&out[sparse_index_at..]);
    let bare = offset as usize + out.len() - start + TRAILER_BYTES;
    out.resize(out.len() + bare.next_multiple_of(ALIGNMENT) - bare, 0);
    trailer.encode(out);
    (pages, trailer)
}

fn encode_page(entries: &[Entry], out: &mut Vec<u8>) {
    varint::put_u64(entries.len() as u64, out);
    let blank = Entry {
        number: entries[0].number,
        ..Entry::default()
    };
    varint::put_u64(blank.number, out);
    let column = |out: &mut Vec<u8>, value: fn(&Entry, &Entry) -> i64| {
        let mut before = &blank;
        for entry in entries {
            varint::put_i64(value(entry, before), out);
            before = entry;
        }
    };
    column(out, |entry, before| {
        i64::from(entry.source) - i64::from(before.source)
    });
    column(out, |entry, before| {
        entry.number.wrapping_sub(before.number) as i64
    });
    column(out, |entry, before| entry.first.wrapping_sub(before.first));
    column(out, |entry, _| entry.last.wrapping_sub(entry.first));
    column(out, |entry, before| {
        i64::from(entry.offset) - i64::from(before.offset)
    });
    column(out, |entry, _| i64::from(entry.len));
    column(out, |entry, _| i64::from(entry.rows));
    column(out, |entry, before| {
        entry.ordinal.wrapping_sub(before.ordinal) as i64
    });
    // Most pages have no coalesced block and omit these columns.
    fn rows(entry: &Entry) -> u64 {
        entry.ordinal.wrapping_sub(entry.before)
    }
    let bundled = entries.iter().any(Entry::is_bundled);
    let late = bundled || entries.iter().any(|entry| entry.late);
    let coalesced =
        |entry: &Entry| entry.since != entry.number || rows(entry) != u64::from(entry.rows);
    if !late && !entries.iter().any(coalesced) {
        return;
    }
    column(out, |entry, _| {
        entry.number.wrapping_sub(entry.since) as i64
    });
    column(out, |entry, _| {
        rows(entry).wrapping_sub(u64::from(entry.rows)) as i64
    });
    if late {
        column(out, |entry, _| i64::from(entry.late));
    }
    if bundled {
        column(out, |entry, before| {
            i64::from(entry.bundle) - i64::from(before.bundle)
        });
    }
}

/// Checks and decodes a page with these bytes.
pub fn decode_page(page: &PageEntry, bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let found = checksum(bytes);
    if found != page.sum {
        return Err(format!(
            "a footer page's checksum is {found:08x}, {:08x} was written",
            page.sum
        ));
    }
    parse_page(bytes).map_err(|Short| "a footer page is malformed".to_string())
}

/// Decodes a page with a valid checksum.
pub fn parse_page(bytes: &[u8]) -> Result<Vec<Entry>, Short> {
    let mut cursor = Cursor(bytes);
    let plain = cursor.count(PAGE_LIMIT)?;
    parse_entries(&unpack(cursor.0, plain)?)
}

/// Decodes the uncompressed contents of a page.
pub fn parse_entries(plain: &[u8]) -> Result<Vec<Entry>, Short> {
    let mut cursor = Cursor(plain);
    let count = cursor.count(BUNDLED_PAGE_ENTRIES)?;
    let base = cursor.varint()?;
    let blank = Entry {
        number: base,
        ..Entry::default()
    };
    let mut entries = vec![blank; count];
    let all = &mut entries[..];
    column(all, &mut cursor, 0, |entry, before, step| {
        entry.source = i64::from(before).wrapping_add(step) as u32;
        entry.source
    })?;
    column(all, &mut cursor, base, |entry, before, step| {
        entry.number = before.wrapping_add(step as u64);
        entry.number
    })?;
    column(all, &mut cursor, 0, |entry, before: i64, step| {
        entry.first = before.wrapping_add(step);
        entry.first
    })?;
    column(all, &mut cursor, (), |entry, (), span| {
        entry.last = entry.first.wrapping_add(span);
    })?;
    column(all, &mut cursor, 0, |entry, before, step| {
        entry.offset = i64::from(before).wrapping_add(step) as u32;
        entry.offset
    })?;
    column(all, &mut cursor, (), |entry, (), len| {
        entry.len = len as u32;
    })?;
    column(all, &mut cursor, (), |entry, (), rows| {
        entry.rows = rows as u32;
    })?;
    column(all, &mut cursor, 0, |entry, before: u64, step| {
        entry.ordinal = before.wrapping_add(step as u64);
        entry.ordinal
    })?;
    for entry in &mut entries {
        entry.since = entry.number;
        entry.before = entry.ordinal.wrapping_sub(u64::from(entry.rows));
    }
    if cursor.is_empty() {
        return Ok(entries);
    }
    let all = &mut entries[..];
    column(all, &mut cursor, (), |entry, (), blocks| {
        entry.since = entry.number.wrapping_sub(blocks as u64);
    })?;
    column(all, &mut cursor, (), |entry, (), rows| {
        entry.before = entry.before.wrapping_sub(rows as u64);
    })?;
    if !cursor.is_empty() {
        column(all, &mut cursor, (), |entry, (), late| {
            entry.late = late != 0;
        })?;
    }
    if !cursor.is_empty() {
        column(all, &mut cursor, 0, |entry, before, step| {
            entry.bundle = i64::from(before).wrapping_add(step) as u32;
            entry.bundle
        })?;
    }
    Ok(entries)
}

/// Sets a field of each entry. `set` receives the entry, its result for the previous entry, and the stored number. It is
/// a type parameter, so that each field has a loop without calls: a start decodes the entries of millions of blocks.
fn column<T>(
    entries: &mut [Entry],
    cursor: &mut Cursor<'_>,
    first: T,
    set: impl Fn(&mut Entry, T, i64) -> T,
) -> Result<(), Short> {
    let mut before = first;
    for entry in entries {
        before = set(entry, before, cursor.signed()?);
    }
    Ok(())
}

/// Compresses with a context that is kept per thread: creating one costs more than compressing a
/// page.
fn pack(plain: &[u8]) -> Vec<u8> {
    thread_local! {
        static CONTEXT: std::cell::RefCell<zstd::bulk::Compressor<'static>> =
            std::cell::RefCell::new(zstd::bulk::Compressor::new(LEVEL).expect("the level exists"));
    }
    CONTEXT
        .with_borrow_mut(|context| context.compress(plain))
        .expect("zstd allocates a large enough output buffer")
}

/// Decompresses with a context that is kept per thread: creating one costs more than decompressing
/// a page.
fn unpack(bytes: &[u8], plain: usize) -> Result<Vec<u8>, Short> {
    thread_local! {
        static CONTEXT: std::cell::RefCell<zstd::bulk::Decompressor<'static>> =
            std::cell::RefCell::new(zstd::bulk::Decompressor::new().expect("a context without a dictionary"));
    }
    CONTEXT
        .with_borrow_mut(|context| context.decompress(bytes, plain))
        .map_err(|_| Short)
}

/// Checks and decodes a sparse index with these bytes.
pub fn decode_sparse_index(trailer: &Trailer, bytes: &[u8]) -> Result<Vec<PageEntry>, String> {
    let found = checksum(bytes);
    if found != trailer.sparse_index_sum {
        return Err(format!(
            "the sparse index's checksum is {found:08x}, {:08x} was written",
            trailer.sparse_index_sum
        ));
    }
    Ok(parse_sparse_index(bytes))
}

/// Decodes a sparse index with a valid checksum.
pub fn parse_sparse_index(bytes: &[u8]) -> Vec<PageEntry> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    bytes
        .chunks_exact(16)
        .map(|page| PageEntry {
            first_source: word(&page[..4]),
            offset: word(&page[4..8]),
            len: word(&page[8..12]),
            sum: word(&page[12..]),
        })
        .collect()
}

impl Trailer {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for word in [
            self.number,
            self.store,
            self.blocks,
            self.rows,
            self.block_bytes,
            self.span.start as u64,
            self.span.end as u64,
            self.last_block,
            self.sequence,
            self.sparse_index_offset,
            self.previous,
            self.born as u64,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [
            self.sources,
            self.layouts,
            self.sparse_index_len,
            self.sparse_index_sum,
            self.lane,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&checksum(&out[start..]).to_le_bytes());
    }

    /// Decodes the last [`TRAILER_BYTES`] of a segment of `len` bytes.
    pub fn decode(bytes: &[u8], len: u64) -> Result<Trailer, String> {
        let (body, sum) = bytes.split_at(TRAILER_BYTES - 4);
        let stored = u32::from_le_bytes(sum.try_into().expect("four bytes"));
        let found = checksum(body);
        if found != stored {
            return Err(format!(
                "the trailer's checksum is {found:08x}, {stored:08x} was written"
            ));
        }
        let trailer = Trailer::parse(body).map_err(|Short| {
            "the trailer is of a version that this program cannot read".to_string()
        })?;
        let sparse_index_end = trailer
            .sparse_index_offset
            .checked_add(u64::from(trailer.sparse_index_len));
        if trailer.last_block.max(trailer.sequence) > COUNT_LIMIT {
            return Err(
                "the trailer counts more blocks or records than a store can have".to_string(),
            );
        }
        if trailer.sparse_index_len as usize > SPARSE_INDEX_LIMIT
            || sparse_index_end.is_none_or(|end| end > len)
        {
            return Err("the trailer points outside the segment".to_string());
        }
        Ok(trailer)
    }

    /// Decodes a trailer without its checksum, which was valid.
    pub fn parse(body: &[u8]) -> Result<Trailer, Short> {
        let mut cursor = Cursor(body);
        if cursor.take(8)? != MAGIC {
            return Err(Short);
        }
        if !(1..=VERSION).contains(&cursor.u32()?) {
            return Err(Short);
        }
        Ok(Trailer {
            number: cursor.u64()?,
            store: cursor.u64()?,
            blocks: cursor.u64()?,
            rows: cursor.u64()?,
            block_bytes: cursor.u64()?,
            span: Interval::new(cursor.u64()? as i64, cursor.u64()? as i64),
            last_block: cursor.u64()?,
            sequence: cursor.u64()?,
            sparse_index_offset: cursor.u64()?,
            previous: cursor.u64()?,
            born: cursor.u64()? as i64,
            sources: cursor.u32()?,
            layouts: cursor.u32()?,
            sparse_index_len: cursor.u32()?,
            sparse_index_sum: cursor.u32()?,
            lane: cursor.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the segment before the footer.
    const OFFSET: usize = 8200;

    #[test]
    fn a_footer_is_decoded_as_it_was_encoded() {
        let mut entries: Vec<Entry> = (0..1000u32)
            .map(|n| Entry {
                source: (n * 7919) % 300,
                number: u64::from(n) + (1 << 40),
                first: i64::from(n) * 1_000_000_007 - 5,
                last: i64::from(n) * 1_000_000_007 + 55,
                offset: n * 100,
                len: 100 + n % 3,
                rows: n % 500 + 1,
                ordinal: u64::from(n) * 31 + (1 << 35),
                since: u64::from(n - n % 2 * n.min(9)) + (1 << 40),
                before: u64::from(n) * 31 + (1 << 35) - u64::from(n % 500 + 1 + n % 3),
                late: n % 700 == 3,
                bundle: u32::from(n % 5 == 2) * (n + 9),
            })
            .collect();
        let blank = Trailer {
            number: 9,
            store: 77,
            blocks: 1000,
            rows: 3,
            block_bytes: 100_000,
            span: Interval::new(i64::MIN, i64::MAX),
            last_block: 1 << 41,
            sequence: 5,
            sources: 300,
            layouts: 2,
            sparse_index_offset: 0,
            sparse_index_len: 0,
            sparse_index_sum: 0,
            lane: 31,
            previous: 4096,
            born: -1,
        };
        let mut out = Vec::new();
        let (pages, trailer) = encode(&mut entries, OFFSET as u64, blank, &mut out);
        let len = (OFFSET + out.len()) as u64;
        assert_eq!(len % ALIGNMENT as u64, 0);
        assert_eq!(
            Trailer::decode(&out[out.len() - TRAILER_BYTES..], len).unwrap(),
            trailer
        );
        let at = trailer.sparse_index_offset as usize - OFFSET;
        let sparse_index =
            decode_sparse_index(&trailer, &out[at..at + trailer.sparse_index_len as usize])
                .unwrap();
        assert_eq!(sparse_index, pages);
        let read: Vec<Entry> = pages
            .iter()
            .flat_map(|page| {
                decode_page(
                    page,
                    &out[page.offset as usize - OFFSET..][..page.len as usize],
                )
                .unwrap()
            })
            .collect();
        assert_eq!(read, entries);
        let endless = Trailer {
            last_block: u64::MAX,
            ..trailer.clone()
        };
        let mut bytes = Vec::new();
        endless.encode(&mut bytes);
        assert!(Trailer::decode(&bytes, len).is_err());
        let last = out.len() - 30;
        out[last] ^= 1;
        assert!(Trailer::decode(&out[out.len() - TRAILER_BYTES..], len).is_err());
    }

    #[test]
    fn steps_that_leave_the_range_of_sources_and_offsets_wrap() {
        let mut plain = Vec::new();
        varint::put_u64(2, &mut plain);
        varint::put_u64(0, &mut plain);
        for _ in 0..8 {
            varint::put_i64(i64::MAX, &mut plain);
            varint::put_i64(i64::MAX, &mut plain);
        }
        let entries = parse_entries(&plain).unwrap();
        assert_eq!(
            (entries[0].source, entries[1].source),
            (u32::MAX, u32::MAX - 1)
        );
    }
}
