//! Lists that grow by pages. Pages never move: growth copies at most one page, however long the
//! list is.

use std::ops::Range;

/// Items per page.
const PAGE: usize = 16 << 10;
/// Initial capacity of the first page, in items. It doubles up to a page.
const FIRST: usize = 64;

/// List with one item per number.
pub struct Pages<T> {
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages {
            pages: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Pages<T> {
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an item.
    #[inline]
    pub fn push(&mut self, item: T) {
        let index = self.len / PAGE;
        if index == self.pages.len() {
            self.pages.push(new_page(index == 0));
        }
        let page = &mut self.pages[index];
        reserve(page, 1);
        page.push(item);
        self.len += 1;
    }

    /// Returns the item with a number.
    ///
    /// # Panics
    ///
    /// If the list is shorter.
    #[inline]
    pub fn get(&self, number: usize) -> &T {
        &self.pages[number / PAGE][number % PAGE]
    }

    /// Returns the item with a number, mutably.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.pages[number / PAGE][number % PAGE]
    }

    /// Returns all items, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }

    /// Returns the memory used, in bytes, without the heap memory of the items.
    pub fn memory(&self) -> usize {
        paged(&self.pages)
    }
}

/// Fills the places behind a run that are not used. No run ends with it.
const PAD: u8 = 0;

/// Runs of bytes by number. Each run is contiguous within a page, and keeps its places: a later run
/// with its number has at most as many bytes.
#[derive(Default)]
pub struct Runs {
    /// End of each run, as if all pages were full.
    ends: Pages<u32>,
    pages: Vec<Vec<u8>>,
}

impl Runs {
    /// Maximum number of bytes in a run.
    pub const LONGEST: usize = PAGE;
    /// Pages of all runs together, and those of them that are kept for the runs of a batch.
    const MOST: usize = (1 << 32) / PAGE;
    const SPARE: usize = Self::MOST / 8;

    /// Returns whether few more runs can be added. They are then too long for the numbers of their ends.
    pub fn is_full(&self) -> bool {
        self.pages.len() >= Self::MOST - Self::SPARE
    }

    /// Appends a run.
    ///
    /// # Panics
    ///
    /// If the run is longer than [`Runs::LONGEST`], or all runs together exceed 2³² bytes.
    pub fn push(&mut self, run: &[u8]) {
        assert!(run.len() <= Self::LONGEST, "a run is no longer than a page");
        if self
            .pages
            .last()
            .is_none_or(|page| page.len() + run.len() > PAGE)
        {
            self.pages.push(new_page(self.pages.is_empty()));
        }
        let index = self.pages.len() - 1;
        let page = &mut self.pages[index];
        reserve(page, run.len());
        page.extend_from_slice(run);
        let end = u32::try_from(index * PAGE + page.len());
        self.ends.push(end.expect("runs have fewer than 2³² bytes"));
    }

    /// Returns the run with a number.
    ///
    /// # Panics
    ///
    /// If the run does not exist.
    #[inline]
    pub fn get(&self, number: u32) -> &[u8] {
        let (page, places) = self.places(number);
        let mut run = match places.is_empty() {
            true => &[],
            false => &self.pages[page][places],
        };
        while let [before @ .., PAD] = run {
            run = before;
        }
        run
    }

    /// Returns the number of bytes that the run with a number may have.
    pub fn capacity(&self, number: u32) -> usize {
        self.places(number).1.len()
    }

    /// Replaces the run with a number by another run, which fits in its places.
    pub fn replace(&mut self, number: u32, run: &[u8]) {
        let (page, places) = self.places(number);
        if !places.is_empty() {
            let places = &mut self.pages[page][places];
            places[..run.len()].copy_from_slice(run);
            places[run.len()..].fill(PAD);
        }
    }

    /// Returns the page of a run, and its places in the page.
    #[inline]
    fn places(&self, number: u32) -> (usize, Range<usize>) {
        let end = *self.ends.get(number as usize) as usize;
        let before = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before as usize) as usize,
            None => 0,
        };
        if before == end {
            return (0, 0..0);
        }
        // A run that does not fit behind the previous run begins its page.
        let page = (end - 1) / PAGE;
        let start = before.max(page * PAGE);
        (page, start - page * PAGE..end - page * PAGE)
    }

    /// Returns the memory used, in bytes.
    pub fn memory(&self) -> usize {
        self.ends.memory() + paged(&self.pages)
    }
}

/// Creates a page with capacity for all its items. The first page of a list starts small.
fn new_page<T>(is_first: bool) -> Vec<T> {
    match is_first {
        true => Vec::new(),
        false => Vec::with_capacity(PAGE),
    }
}

/// Reserves space for more items in a page that is not full.
#[inline]
fn reserve<T>(page: &mut Vec<T>, items: usize) {
    if page.capacity() - page.len() < items {
        let capacity = (page.len() + items).next_power_of_two().clamp(FIRST, PAGE);
        page.reserve_exact(capacity - page.len());
    }
}

fn paged<T>(pages: &Vec<Vec<T>>) -> usize {
    let full = pages.len().saturating_sub(1) * PAGE;
    (full + pages.last().map_or(0, Vec::capacity)) * size_of::<T>()
        + pages.capacity() * size_of::<Vec<T>>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_address_when_a_list_grows() {
        let mut list = Pages::default();
        list.push(0u32);
        let small = list.memory();
        assert!(small < 1024, "{small}");
        let count = 5 * PAGE as u32 + 7;
        let mut first = std::ptr::null();
        for number in 1..count {
            list.push(number);
            match number as usize {
                PAGE => first = list.get(0),
                _ => assert!(first.is_null() || std::ptr::eq(first, list.get(0))),
            }
        }
        *list.get_mut(70_000) += 1;
        assert!(
            list.iter()
                .copied()
                .eq((0..count).map(|number| number + u32::from(number == 70_000)))
        );
        assert_eq!(list.len(), count as usize);
        assert!(list.memory() >= 6 * PAGE * 4 && list.memory() < 6 * PAGE * 4 + 1024);
    }

    #[test]
    fn runs_are_full_before_their_ends_overflow() {
        let mut runs = Runs::default();
        runs.pages.resize_with((7 << 29) / PAGE - 1, Vec::new);
        runs.push(&[1; PAGE]);
        assert!(!runs.is_full());
        runs.push(&[1; PAGE]);
        assert!(runs.is_full());
        (0..1000).for_each(|_| runs.push(&[1; PAGE]));
        assert_eq!(runs.get(1000), [1; PAGE]);
    }

    #[test]
    fn runs_of_up_to_a_page_are_returned() {
        let mut runs = Runs::default();
        let fill = |number: usize| (number % 255) as u8 + 1;
        let length = |number: usize| match number % 50 {
            49 => PAGE,
            7 => 0,
            other => number % 997 * other % 1500,
        };
        for number in 0..500 {
            runs.push(&vec![fill(number); length(number)]);
        }
        for number in 0..500 {
            let run = runs.get(number as u32);
            assert_eq!(run, vec![fill(number); length(number)], "{number}");
        }
        for number in (0..500).step_by(3) {
            let capacity = runs.capacity(number as u32);
            assert_eq!(capacity, length(number), "{number}");
            runs.replace(number as u32, &vec![7; capacity / 2]);
        }
        for number in 0..500 {
            let expected = match number % 3 {
                0 => vec![7; length(number) / 2],
                _ => vec![fill(number); length(number)],
            };
            assert_eq!(runs.get(number as u32), expected, "{number}");
        }
    }
}
