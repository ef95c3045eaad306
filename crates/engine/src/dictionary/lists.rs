//! Pair lists: the numbers of the pairs of each source, compressed.
//!
//! Sources are usually registered host by host, so a source has most pairs in common with the source before. Lists
//! are stored in blocks of [`BLOCK`] sources, and a list consists of the pairs that differ from the list before. For
//! sources with three pairs this takes 3 to 4 bytes instead of 16.
//!
//! Form of a list in a block: a varint, which is
//! - odd if the list has as many pairs as the list before: the other bits select the places at which the pairs differ.
//!   The differences follow, as zigzag varints;
//! - even otherwise: half of it is the number of pairs. The pairs follow, as varints.

use crate::bytes::Cursor;
use seiner_codec::varint;
use std::borrow::Cow;
use std::ops::Range;

/// Sources per block. Reading a list decodes those before it in its block.
const BLOCK: usize = 32;
/// Blocks per page.
const PAGE: usize = 32;
/// Maximum number of pairs whose places fit in the first varint.
const MOST_PLACES: usize = 63;
/// Fills the places of a list that are not used. No list ends with it.
const PAD: u32 = u32::MAX;

/// Lists of pairs by source. Each list keeps its places: a later list with its number has at most as many pairs.
#[derive(Default)]
pub struct PairLists {
    /// Blocks of lists that are complete.
    pages: Vec<Page>,
    /// Heap bytes of the pages.
    bytes: usize,
    /// Lists behind the last block.
    open: Plain,
    /// Block whose lists were replaced last, and its lists: often the next list that is replaced is in the same block.
    /// The block in its page is as it was before.
    edited: Option<(usize, Plain)>,
}

/// Lists that are not encoded, one after the other.
#[derive(Default)]
struct Plain {
    pairs: Vec<u32>,
    ends: Vec<u32>,
}

impl Plain {
    fn decode(block: &[u8]) -> Plain {
        let mut decoder = Decoder::new(block);
        let mut lists = Plain::default();
        for _ in 0..BLOCK {
            decoder.step();
            lists.push(&decoder.list);
        }
        lists
    }

    fn encode(&self) -> Vec<u8> {
        encode((0..self.ends.len()).map(|index| self.get(index)))
    }

    fn push(&mut self, list: &[u32]) {
        self.pairs.extend_from_slice(list);
        self.ends.push(self.pairs.len() as u32);
    }

    fn get(&self, index: usize) -> &[u32] {
        &self.pairs[range(&self.ends, index)]
    }

    /// Replaces a list by another list, which fits in its places.
    fn replace(&mut self, index: usize, list: &[u32]) {
        let places = &mut self.pairs[range(&self.ends, index)];
        places[..list.len()].copy_from_slice(list);
        places[list.len()..].fill(PAD);
    }

    fn clear(&mut self) {
        self.pairs.clear();
        self.ends.clear();
    }

    fn memory(&self) -> usize {
        (self.pairs.capacity() + self.ends.capacity()) * 4
    }
}

/// Blocks that follow each other. One piece of heap memory for each block would leave gaps between others.
#[derive(Default)]
struct Page {
    /// Ends of the blocks.
    ends: Vec<u32>,
    blocks: Vec<u8>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.ends.len() == PAGE
    }

    fn push(&mut self, block: &[u8]) {
        self.blocks.extend_from_slice(block);
        let end = u32::try_from(self.blocks.len());
        self.ends.push(end.expect("a page has less than 4 GiB"));
        if self.is_full() {
            self.ends.shrink_to_fit();
            self.blocks.shrink_to_fit();
        }
    }

    fn replace(&mut self, block: usize, bytes: &[u8]) {
        let range = range(&self.ends, block);
        let before = range.len() as u32;
        self.blocks.splice(range, bytes.iter().copied());
        for end in &mut self.ends[block..] {
            *end = *end - before + bytes.len() as u32;
        }
        if self.is_full() && self.blocks.len() < self.blocks.capacity() / 4 * 3 {
            self.blocks.shrink_to_fit();
        }
    }

    fn memory(&self) -> usize {
        self.ends.capacity() * 4 + self.blocks.capacity()
    }
}

impl PairLists {
    /// Returns the number of lists.
    pub fn len(&self) -> usize {
        self.blocks() * BLOCK + self.open.ends.len()
    }

    /// Returns the number of complete blocks.
    fn blocks(&self) -> usize {
        match self.pages.last() {
            Some(last) => (self.pages.len() - 1) * PAGE + last.ends.len(),
            None => 0,
        }
    }

    /// Returns a complete block.
    fn block(&self, block: usize) -> &[u8] {
        let page = &self.pages[block / PAGE];
        &page.blocks[range(&page.ends, block % PAGE)]
    }

    /// Appends a list.
    pub fn push(&mut self, list: &[u32]) {
        self.open.push(list);
        if self.open.ends.len() == BLOCK {
            let block = self.open.encode();
            self.push_block(&block);
            self.open.clear();
        }
    }

    fn push_block(&mut self, block: &[u8]) {
        if self.pages.last().is_none_or(Page::is_full) {
            self.pages.push(Page::default());
        }
        let page = self.pages.last_mut().expect("a page was added");
        self.bytes -= page.memory();
        page.push(block);
        self.bytes += page.memory();
    }

    /// Returns the list with a number. An open list is borrowed.
    ///
    /// # Panics
    /// If the list does not exist.
    pub fn get(&self, source: u32) -> Cow<'_, [u32]> {
        match self.whole(source) {
            Cow::Borrowed(list) => Cow::Borrowed(trimmed(list)),
            Cow::Owned(mut list) => {
                list.truncate(trimmed(&list).len());
                Cow::Owned(list)
            }
        }
    }

    /// Returns the number of pairs that the list with a number may have.
    pub fn capacity(&self, source: u32) -> usize {
        self.whole(source).len()
    }

    /// Returns the lists of a block, if they are not encoded.
    fn plain(&self, block: usize) -> Option<&Plain> {
        match &self.edited {
            Some((edited, lists)) if *edited == block => Some(lists),
            _ => (block == self.blocks()).then_some(&self.open),
        }
    }

    /// Returns a list with the places that are not used.
    fn whole(&self, source: u32) -> Cow<'_, [u32]> {
        let (block, index) = (source as usize / BLOCK, source as usize % BLOCK);
        if let Some(lists) = self.plain(block) {
            return Cow::Borrowed(lists.get(index));
        }
        let mut decoder = Decoder::new(self.block(block));
        (0..=index).for_each(|_| decoder.step());
        Cow::Owned(decoder.list)
    }

    /// Replaces the list with a number by another list, which fits in its places.
    pub fn replace(&mut self, source: u32, list: &[u32]) {
        let (block, index) = (source as usize / BLOCK, source as usize % BLOCK);
        if block == self.blocks() {
            return self.open.replace(index, list);
        }
        if self
            .edited
            .as_ref()
            .is_none_or(|(edited, _)| *edited != block)
        {
            self.end_edit();
            self.edited = Some((block, Plain::decode(self.block(block))));
        }
        if let Some((_, lists)) = &mut self.edited {
            lists.replace(index, list);
        }
    }

    /// Encodes the block whose lists were replaced last.
    fn end_edit(&mut self) {
        let Some((block, lists)) = self.edited.take() else {
            return;
        };
        let page = &mut self.pages[block / PAGE];
        self.bytes -= page.memory();
        page.replace(block % PAGE, &lists.encode());
        self.bytes += page.memory();
    }

    /// Returns a reader for lists in about the order of their numbers.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            lists: self,
            block: usize::MAX,
            index: 0,
            decoder: Decoder::new(&[]),
        }
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        let edited = self.edited.as_ref().map_or(0, |(_, lists)| lists.memory());
        self.pages.capacity() * size_of::<Page>() + self.bytes + self.open.memory() + edited
    }
}

/// Reader that decodes no list twice, if lists are read in the order of their numbers.
pub struct Reader<'l> {
    lists: &'l PairLists,
    block: usize,
    /// Place in the block of the list that was decoded last, plus one.
    index: usize,
    decoder: Decoder<'l>,
}

impl Reader<'_> {
    /// Returns the list with a number.
    ///
    /// # Panics
    /// If the list does not exist.
    pub fn read(&mut self, source: u32) -> &[u32] {
        let (block, index) = (source as usize / BLOCK, source as usize % BLOCK);
        if let Some(lists) = self.lists.plain(block) {
            return trimmed(lists.get(index));
        }
        if block != self.block || index + 1 < self.index {
            self.decoder = Decoder::new(self.lists.block(block));
            (self.block, self.index) = (block, 0);
        }
        while self.index <= index {
            self.decoder.step();
            self.index += 1;
        }
        trimmed(&self.decoder.list)
    }
}

/// Decoder of a block.
struct Decoder<'b> {
    rest: Cursor<'b>,
    /// List that was decoded last.
    list: Vec<u32>,
}

/// Blocks are in memory only, and the encoder writes no other.
const ENCODED: &str = "blocks contain what was encoded";

impl<'b> Decoder<'b> {
    fn new(block: &'b [u8]) -> Decoder<'b> {
        Decoder {
            rest: Cursor(block),
            list: Vec::new(),
        }
    }

    /// Decodes the next list.
    fn step(&mut self) {
        let head = self.rest.varint().expect(ENCODED);
        if head & 1 == 0 {
            self.list.clear();
            for _ in 0..head / 2 {
                let pair = self.rest.varint().expect(ENCODED);
                self.list.push(pair as u32);
            }
            return;
        }
        let mut places = head >> 1;
        while places != 0 {
            let change = varint::unzigzag(self.rest.varint().expect(ENCODED));
            let pair = &mut self.list[places.trailing_zeros() as usize];
            *pair = (i64::from(*pair) + change) as u32;
            places &= places - 1;
        }
    }
}

/// Encodes the lists of a block.
fn encode<'a>(lists: impl Iterator<Item = &'a [u32]>) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK * 8);
    let mut before: &[u32] = &[];
    for list in lists {
        if list.len() == before.len() && list.len() <= MOST_PLACES {
            let differ = |&place: &usize| list[place] != before[place];
            let places = (0..list.len()).filter(differ);
            let head = places.clone().fold(1, |head, place| head | 2_u64 << place);
            varint::put_u64(head, &mut block);
            for place in places {
                let change = i64::from(list[place]) - i64::from(before[place]);
                varint::put_u64(varint::zigzag(change), &mut block);
            }
        } else {
            varint::put_u64(list.len() as u64 * 2, &mut block);
            for &pair in list {
                varint::put_u64(u64::from(pair), &mut block);
            }
        }
        before = list;
    }
    block
}

/// Returns the range of a piece among pieces that follow each other, by their ends.
fn range(ends: &[u32], index: usize) -> Range<usize> {
    let start = match index {
        0 => 0,
        _ => ends[index - 1],
    };
    start as usize..ends[index] as usize
}

/// Returns a list without the places that are not used.
fn trimmed(mut list: &[u32]) -> &[u32] {
    while let [before @ .., PAD] = list {
        list = before;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists of hosts with ten sources, of several lengths, and some that are empty.
    fn list(source: u32) -> Vec<u32> {
        match source % 97 {
            96 => Vec::new(),
            95 => (0..source % 200).map(|pair| pair * source).collect(),
            94 => vec![PAD - 1; 63],
            93 => (0..63).map(|pair| pair * (source % 7 + 1)).collect(),
            other => vec![0, 1 + source / 10 * 3, 2 + other % 10],
        }
    }

    fn lists(count: u32) -> PairLists {
        let mut lists = PairLists::default();
        (0..count).for_each(|source| lists.push(&list(source)));
        lists
    }

    #[test]
    fn lists_are_read_in_any_order() {
        let all = lists(3_000);
        assert_eq!(all.len(), 3_000);
        let mut reader = all.reader();
        for source in (0..3_000).chain((0..3_000).rev()).chain([999, 5, 5, 7, 3]) {
            assert_eq!(*all.get(source), list(source), "{source}");
            assert_eq!(reader.read(source), list(source), "{source}");
            assert_eq!(all.capacity(source), list(source).len());
        }
    }

    #[test]
    fn a_list_that_is_replaced_keeps_its_places() {
        let mut all = lists(3_000);
        for source in (0..3_000).step_by(3) {
            let places = list(source).len();
            all.replace(source, &[]);
            assert!(all.get(source).is_empty());
            assert_eq!(all.capacity(source), places);
            all.replace(source, &vec![7; places / 2]);
        }
        for source in 0..3_000 {
            let expected = match source % 3 {
                0 => vec![7; list(source).len() / 2],
                _ => list(source),
            };
            assert_eq!(*all.get(source), expected, "{source}");
            assert_eq!(all.capacity(source), list(source).len());
        }
        assert_eq!(all.bytes, all.pages.iter().map(Page::memory).sum::<usize>());
    }

    #[test]
    fn similar_lists_take_few_bytes() {
        let mut all = PairLists::default();
        for source in 0..100_000 {
            all.push(&[0, 20 + source / 10 * 2, 1 + source % 10]);
        }
        assert!(all.memory() < 400_000, "{}", all.memory());
    }
}
