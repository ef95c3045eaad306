//! Shared buffers: a byte string for each group of sources, in pages without gaps.
//!
//! Strings of one size class are stored one after another. The last string moves into the place of
//! a removed string, so that pages at the end become free.

use crate::prefetch::prefetch;
use crate::retention::counts::Counts;
use std::ops::Range;

/// Sizes of the classes in bytes: small steps for short strings.
const SIZES: [usize; 26] = {
    let mut sizes = [0; 26];
    let (mut class, mut bytes) = (0, 0);
    while class < 26 {
        bytes += match class {
            0..8 => 32,
            8..16 => 64,
            _ => 128,
        };
        sizes[class] = bytes;
        class += 1;
    }
    sizes
};
/// Strings in a page, by class.
const STRINGS: [u32; SIZES.len()] = {
    let mut strings = [0; SIZES.len()];
    let mut class = 0;
    while class < strings.len() {
        strings[class] = (PAGE / SIZES[class]) as u32;
        class += 1;
    }
    strings
};
/// Bytes before a string: its group, and its length.
const HEAD: usize = 6;
/// Maximum bytes of a string.
pub const MOST: usize = SIZES[25] - HEAD;
/// Bytes of a page.
const PAGE: usize = 16 << 10;
/// Bits of a place that store the index of a string in its class.
const INDEX_BITS: u32 = 27;

/// Place of a string: its class, and its index in the class.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(u32);

impl Default for Place {
    fn default() -> Place {
        Place::NONE
    }
}

impl Place {
    const NONE: Place = Place(u32::MAX);

    fn new(class: usize, index: usize) -> Place {
        Place((class as u32) << INDEX_BITS | index as u32)
    }

    fn class(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    /// Returns the page of the string, and its range in the page.
    #[inline]
    fn range(self) -> (usize, Range<usize>) {
        let index = self.0 & ((1 << INDEX_BITS) - 1);
        let (bytes, strings) = (SIZES[self.class()], STRINGS[self.class()]);
        let start = (index % strings) as usize * bytes;
        ((index / strings) as usize, start..start + bytes)
    }
}

/// Strings of one size class.
#[derive(Default)]
struct Class {
    pages: Vec<Box<[u8]>>,
    len: usize,
}

/// Strings of all groups.
#[derive(Default)]
pub struct SharedBuffers {
    places: Counts<Place>,
    classes: [Class; SIZES.len()],
    page_bytes: usize,
    /// String that moves to a larger class.
    longer: Vec<u8>,
}

impl SharedBuffers {
    /// Adds a group with the next number, or a group that exists.
    pub fn add_group(&mut self, group: u32) {
        self.places.of(group);
    }

    /// Returns the string of a group, or an empty string.
    #[inline]
    pub fn get(&self, group: u32) -> &[u8] {
        let place = self.places.get(group);
        if place == Place::NONE {
            return &[];
        }
        let bytes = self.bytes(place);
        let len = u16::from_le_bytes([bytes[4], bytes[5]]) as usize;
        &bytes[HEAD..HEAD + len]
    }

    /// Stores the string of a group.
    ///
    /// # Panics
    /// If the string is longer than [`MOST`].
    pub fn put(&mut self, group: u32, string: &[u8]) {
        let class = SIZES.partition_point(|&bytes| bytes < HEAD + string.len());
        let mut place = self.places.get(group);
        if place == Place::NONE || place.class() != class {
            self.remove(group);
            let list = &mut self.classes[class];
            if list.len == list.pages.len() * strings(class) {
                list.pages.push(vec![0; PAGE].into_boxed_slice());
                self.page_bytes += PAGE;
            }
            place = Place::new(class, list.len);
            list.len += 1;
            *self.places.of(group) = place;
        }
        let bytes = self.bytes_mut(place);
        bytes[..4].copy_from_slice(&group.to_le_bytes());
        bytes[4..HEAD].copy_from_slice(&(string.len() as u16).to_le_bytes());
        bytes[HEAD..HEAD + string.len()].copy_from_slice(string);
    }

    /// Inserts bytes into the string of a group, which stays no longer than [`MOST`]. Returns the string.
    ///
    /// # Panics
    /// If the group has no string, or the position is behind its end.
    pub fn insert(&mut self, group: u32, at: usize, bytes: &[u8]) -> &mut [u8] {
        let mut place = self.places.get(group);
        let (mut page, mut range) = place.range();
        let all = &self.classes[place.class()].pages[page][range.clone()];
        let len = u16::from_le_bytes([all[4], all[5]]) as usize;
        let after = len + bytes.len();
        if HEAD + after > all.len() {
            self.longer.clear();
            self.longer.extend_from_slice(&all[HEAD..HEAD + len]);
            self.longer.resize(after, 0);
            let longer = std::mem::take(&mut self.longer);
            self.put(group, &longer);
            self.longer = longer;
            place = self.places.get(group);
            (page, range) = place.range();
        }
        let all = &mut self.classes[place.class()].pages[page][range];
        all[4..HEAD].copy_from_slice(&(after as u16).to_le_bytes());
        let string = &mut all[HEAD..HEAD + after];
        string.copy_within(at..len, at + bytes.len());
        string[at..at + bytes.len()].copy_from_slice(bytes);
        string
    }

    /// Removes the string of a group, if it has one.
    pub fn remove(&mut self, group: u32) {
        let place = self.places.get(group);
        if place == Place::NONE {
            return;
        }
        *self.places.of(group) = Place::NONE;
        let class = place.class();
        let last = Place::new(class, self.classes[class].len - 1);
        if place != last {
            let ((page, to), (last_page, from)) = (place.range(), last.range());
            let (pages, rest) = self.classes[class].pages.split_at_mut(last_page);
            match pages.get_mut(page) {
                Some(page) => page[to].copy_from_slice(&rest[0][from]),
                None => rest[0].copy_within(from, to.start),
            }
            let moved = self.bytes(place);
            let owner = u32::from_le_bytes([moved[0], moved[1], moved[2], moved[3]]);
            *self.places.of(owner) = place;
        }
        let list = &mut self.classes[class];
        list.len -= 1;
        // A free page is kept until half of the next is free, so that strings at the limit do not
        // allocate again and again.
        if list.len + strings(class) * 3 / 2 <= list.pages.len() * strings(class) {
            list.pages.pop();
            self.page_bytes -= PAGE;
        }
    }

    /// Frees the pages that no string uses.
    pub fn release_idle(&mut self) {
        for (class, list) in self.classes.iter_mut().enumerate() {
            let needed = list.len.div_ceil(strings(class));
            self.page_bytes -= (list.pages.len() - needed) * PAGE;
            list.pages.truncate(needed);
        }
    }

    /// Prefetches the place of a group.
    #[inline]
    pub fn prefetch_place(&self, group: u32) {
        prefetch(self.places.place(group));
    }

    /// Prefetches the string of a group.
    #[inline]
    pub fn prefetch(&self, group: u32) {
        let place = self.places.get(group);
        if place != Place::NONE {
            // The whole string is read and written.
            self.bytes(place).iter().step_by(64).for_each(prefetch);
        }
    }

    /// Returns the memory of all strings, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the permanent memory of all groups, in bytes.
    pub fn place_bytes(&self) -> usize {
        self.places.memory() + self.longer.capacity()
    }

    fn bytes(&self, place: Place) -> &[u8] {
        let (page, range) = place.range();
        &self.classes[place.class()].pages[page][range]
    }

    fn bytes_mut(&mut self, place: Place) -> &mut [u8] {
        let (page, range) = place.range();
        &mut self.classes[place.class()].pages[page][range]
    }
}

/// Returns the number of strings of a class in a page.
fn strings(class: usize) -> usize {
    STRINGS[class] as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Strings are stored, grow and are removed in a random order; each keeps its contents.
    #[test]
    fn strings_keep_their_contents_while_others_move() {
        let mut buffers = SharedBuffers::default();
        let mut known: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut random = 1u64;
        (0..4000).for_each(|group| buffers.add_group(group));
        for step in 0..60_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let group = (random >> 33) as u32 % 4000;
            if random >> 62 == 0 {
                known.remove(&group);
                buffers.remove(group);
            } else if let Some(string) = known.get_mut(&group)
                && random >> 62 == 1
            {
                let at = (random >> 40) as usize % (string.len() + 1);
                let bytes = vec![step as u8; (MOST - string.len()).min(random as usize >> 20 & 15)];
                string.splice(at..at, bytes.iter().copied());
                assert_eq!(buffers.insert(group, at, &bytes), string);
            } else {
                let string = vec![step as u8; (random >> 48) as usize % (MOST + 1)];
                buffers.put(group, &string);
                known.insert(group, string);
            }
        }
        for group in 0..4000 {
            let expected = known.get(&group).map_or(&[][..], |string| &string[..]);
            assert_eq!(buffers.get(group), expected, "group {group}");
        }
        let full = buffers.page_bytes();
        known.keys().for_each(|&group| buffers.remove(group));
        assert!(buffers.page_bytes() < full / 4);
        buffers.release_idle();
        assert_eq!(buffers.page_bytes(), 0);
    }
}
