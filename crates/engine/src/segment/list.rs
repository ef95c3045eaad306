//! List of the blocks of a segment that is being written.
//!
//! The list is kept in pages that never move, and the table of sources in parts. An addition
//! therefore takes about the same time however long the list is. Sources with neighbouring numbers
//! are in the same part: a flush seals sources in the order of their numbers, and the processor's
//! cache holds one part. A [`Listing`] shares the pages. It is created in constant time per page and
//! is read without the store's lock while the list grows.

use super::Entry;
use crate::maps::HashMap;
use std::sync::Arc;

/// Blocks of a page.
const PAGE: usize = 1024;
/// Parts of the table of sources: a part is rehashed at once when it is full.
const PARTS: usize = 64;
/// Consecutive sources of a part. The next sources belong to the next part.
const PART_SOURCES: usize = 1 << 13;
/// Index that refers to no block.
const NO_BLOCK: u32 = u32::MAX;

/// Block, and the index of the previous block of the same source.
#[derive(Clone, Copy)]
struct Link {
    entry: Entry,
    before: u32,
}

type ListPage = Arc<Vec<Link>>;

/// Blocks in the order in which they were added.
pub struct BlockList {
    pages: Vec<ListPage>,
    len: usize,
    /// Index of the latest block of each source.
    latest: Vec<HashMap<u32, u32>>,
    /// Bytes of the parts of `latest`.
    latest_bytes: usize,
    /// Lowest block number in the list.
    first_block: Option<u64>,
}

/// Snapshot of the blocks of a list.
#[derive(Clone)]
pub struct Listing {
    pages: Vec<ListPage>,
    from: usize,
    len: usize,
}

impl Default for BlockList {
    fn default() -> BlockList {
        BlockList {
            pages: Vec::new(),
            len: 0,
            latest: (0..PARTS).map(|_| HashMap::default()).collect(),
            latest_bytes: 0,
            first_block: None,
        }
    }
}

impl BlockList {
    /// Adds a block.
    pub fn push(&mut self, entry: Entry) {
        let part = &mut self.latest[part_of(entry.source)];
        let capacity = part.capacity();
        let before = part.insert(entry.source, self.len as u32);
        if part.capacity() != capacity {
            self.latest_bytes += table_bytes(part.capacity()) - table_bytes(capacity);
        }
        if self.len.is_multiple_of(PAGE) {
            self.pages.push(Arc::default());
        }
        let page = self.pages.last_mut().expect("a page was added");
        let page = Arc::make_mut(page);
        if page.len() == page.capacity() {
            // Most lists are short, so a page grows up to its full size.
            page.reserve_exact(page.len().max(16).min(PAGE - page.len()));
        }
        page.push(Link {
            entry,
            before: before.unwrap_or(NO_BLOCK),
        });
        self.len += 1;
        let first = self.first_block.unwrap_or(u64::MAX);
        self.first_block = Some(first.min(entry.number));
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let last = self.pages.last().map_or(0, |page| page.capacity());
        let full = self.pages.len().saturating_sub(1) * PAGE;
        let pages = self.pages.capacity() * size_of::<ListPage>();
        (full + last) * size_of::<Link>() + pages + self.latest_bytes
    }

    /// Returns the present blocks from an index on.
    pub fn listing(&self, from: usize) -> Listing {
        let first = from / PAGE;
        Listing {
            pages: self.pages[first.min(self.pages.len())..].to_vec(),
            from: from % PAGE,
            len: self.len - from,
        }
    }

    /// Returns the blocks of a source, the latest first.
    pub fn of(&self, source: u32) -> impl Iterator<Item = Entry> {
        let latest = self.latest[part_of(source)].get(&source);
        let mut next = latest.copied().unwrap_or(NO_BLOCK);
        std::iter::from_fn(move || {
            let page = self.pages.get(next as usize / PAGE)?;
            let link = page.get(next as usize % PAGE)?;
            next = link.before;
            Some(link.entry)
        })
    }

    /// Returns the lowest block number.
    pub fn first_block(&self) -> Option<u64> {
        self.first_block
    }
}

impl Listing {
    /// Returns the blocks.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let links = self.pages.iter().flat_map(|page| page.iter());
        let links = links.skip(self.from).take(self.len);
        links.map(|link| &link.entry)
    }

    /// Copies the blocks.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.len);
        entries.extend(self.iter().copied());
        entries
    }
}

/// Returns the part of the table in which a source is.
fn part_of(source: u32) -> usize {
    source as usize / PART_SOURCES % PARTS
}

/// Returns the approximate bytes of a hash table for `capacity` entries. A table has an eighth more
/// places than may be filled.
fn table_bytes(capacity: usize) -> usize {
    capacity / 7 * 8 * (size_of::<(u32, u32)>() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source: u32, number: u64) -> Entry {
        Entry {
            source,
            number,
            ..Entry::default()
        }
    }

    /// A page that a listing shares is copied without spare capacity, however few blocks it lacks.
    #[test]
    fn a_block_is_added_beside_a_listing_at_every_length_of_a_page() {
        for len in 1..=PAGE + 1 {
            let mut list = BlockList::default();
            for number in 1..=len as u64 {
                list.push(Entry {
                    number,
                    ..Entry::default()
                });
            }
            let listing = list.listing(0);
            list.push(Entry::default());
            assert_eq!((listing.entries().len(), list.len()), (len, len + 1));
        }
    }

    #[test]
    fn blocks_are_found_by_source_and_in_order_over_many_pages() {
        let mut list = BlockList::default();
        let count = 3 * PAGE as u64 + 5;
        for number in 0..count {
            list.push(entry(number as u32 % 7, 100 + number));
        }
        assert_eq!((list.len() as u64, list.first_block()), (count, Some(100)));
        let all: Vec<u64> = list.listing(0).iter().map(|entry| entry.number).collect();
        assert!(all.iter().copied().eq(100..100 + count));
        let of: Vec<u64> = list.of(3).map(|entry| entry.number).collect();
        let expected = (0..count).filter(|number| number % 7 == 3).rev();
        assert!(of.into_iter().eq(expected.map(|number| 100 + number)));
        assert_eq!(list.of(7).count(), 0);
        assert!(list.memory() >= list.len() * size_of::<Link>());
    }

    #[test]
    fn a_listing_stays_as_it_was_while_the_list_grows() {
        let mut list = BlockList::default();
        assert!(list.listing(0).entries().is_empty());
        for number in 0..PAGE as u64 + 10 {
            list.push(entry(1, number));
        }
        let (all, some) = (list.listing(0), list.listing(PAGE + 3));
        list.push(entry(1, 9999));
        assert_eq!(all.entries().len(), PAGE + 10);
        let found: Vec<u64> = some.iter().map(|entry| entry.number).collect();
        assert!(found.into_iter().eq(PAGE as u64 + 3..PAGE as u64 + 10));
        let none = list.listing(list.len());
        assert_eq!(none.iter().count(), 0);
    }
}
