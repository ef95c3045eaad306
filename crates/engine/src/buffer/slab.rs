//! Slab: memory for buffers, in slots of fixed size classes carved from pages.
//!
//! A buffer grows from one cache line up to B by moving to the next class. A page serves one class.
//! When its last slot is freed, the page is idle and may serve another class or be returned to the
//! system. [`Slab::page_bytes`] is the memory cost of all buffers.

use crate::prefetch::prefetch;

/// Bytes of the smallest slot: one cache line.
pub const SMALLEST: usize = 64;
const PAGE: usize = 64 << 10;
/// Bits of a handle that store the start of a slot in its page, in units of the smallest slot.
const INDEX_BITS: u32 = 10;
const _: () = assert!(PAGE / SMALLEST == 1 << INDEX_BITS);
/// Number of size classes: 64 bytes to 2 MiB.
const CLASSES: usize = 16;
/// Bytes of the largest slot.
pub const LARGEST: usize = SMALLEST << (CLASSES - 1);

/// Handle of a slot: the number of the page, and the position in the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferSlot(u32);

impl BufferSlot {
    /// Handle that refers to no slot.
    pub const NONE: BufferSlot = BufferSlot(u32::MAX);

    fn new(page: u32, index: u32, class: u8) -> BufferSlot {
        // A slot larger than a page has a page of its own and begins at 0.
        BufferSlot(page << INDEX_BITS | index << class)
    }

    fn page(self) -> usize {
        (self.0 >> INDEX_BITS) as usize
    }

    /// Returns the start of the slot in its page.
    fn start(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize * SMALLEST
    }
}

/// Returns the bytes of a slot of a class.
pub fn class_bytes(class: u8) -> usize {
    SMALLEST << class
}

/// Returns the smallest class whose slots contain at least `bytes` bytes.
pub fn class_for(bytes: usize) -> u8 {
    let class = bytes
        .div_ceil(SMALLEST)
        .next_power_of_two()
        .trailing_zeros() as u8;
    assert!((class as usize) < CLASSES, "no class holds {bytes} bytes");
    class
}

struct SlabPage {
    bytes: Box<[u8]>,
    class: u8,
    live: u16,
    /// Slots handed out so far. Free slots below this number are in `free`.
    carved: u16,
    free: Vec<u16>,
    /// True if the page is in its class's list of pages with free slots.
    listed: bool,
}

impl SlabPage {
    fn capacity(&self) -> u16 {
        (self.bytes.len() / class_bytes(self.class)) as u16
    }
}

/// Memory of all buffers.
#[derive(Default)]
pub struct Slab {
    pages: Vec<SlabPage>,
    /// Pages of each class that may have a free slot.
    free_pages: [Vec<u32>; CLASSES],
    /// Pages of the usual size that serve no class at present.
    idle: Vec<u32>,
    /// Numbers of pages whose memory was returned.
    vacant: Vec<u32>,
    page_bytes: usize,
    live_bytes: usize,
}

impl Slab {
    /// Takes a slot of a class. Its contents are undefined.
    pub fn take(&mut self, class: u8) -> BufferSlot {
        let page_number = self.page_with_free_slot(class);
        let page = &mut self.pages[page_number as usize];
        page.live += 1;
        let index = match page.free.pop() {
            Some(index) => index,
            None => {
                page.carved += 1;
                page.carved - 1
            }
        };
        if page.free.is_empty() && page.carved == page.capacity() {
            page.listed = false;
            let last = self.free_pages[class as usize].pop();
            debug_assert_eq!(
                last,
                Some(page_number),
                "the page of the last allocation is the last in the list"
            );
        }
        self.live_bytes += class_bytes(class);
        BufferSlot::new(page_number, u32::from(index), class)
    }

    fn page_with_free_slot(&mut self, class: u8) -> u32 {
        let list = &mut self.free_pages[class as usize];
        while let Some(&page) = list.last() {
            // A page that became idle in the meantime may serve another class.
            if self.pages[page as usize].listed && self.pages[page as usize].class == class {
                return page;
            }
            list.pop();
        }
        let number = match (class_bytes(class) <= PAGE)
            .then(|| self.idle.pop())
            .flatten()
        {
            Some(number) => number,
            None => self.new_page(class_bytes(class).max(PAGE)),
        };
        let page = &mut self.pages[number as usize];
        page.class = class;
        page.carved = 0;
        page.free = Vec::new();
        page.listed = true;
        self.free_pages[class as usize].push(number);
        number
    }

    fn new_page(&mut self, len: usize) -> u32 {
        self.page_bytes += len;
        let bytes = vec![0; len].into_boxed_slice();
        if let Some(number) = self.vacant.pop() {
            self.pages[number as usize].bytes = bytes;
            return number;
        }
        self.pages.push(SlabPage {
            bytes,
            class: 0,
            live: 0,
            carved: 0,
            free: Vec::new(),
            listed: false,
        });
        (self.pages.len() - 1) as u32
    }

    /// Returns the memory of idle pages to the system.
    pub fn release_idle(&mut self) {
        for number in self.idle.drain(..) {
            self.page_bytes -= PAGE;
            self.pages[number as usize].bytes = Box::default();
            self.vacant.push(number);
        }
    }

    /// Frees a slot.
    pub fn free(&mut self, slot: BufferSlot) {
        let page = &mut self.pages[slot.page()];
        let class = page.class;
        page.live -= 1;
        self.live_bytes -= class_bytes(class);
        if page.live == 0 && page.bytes.len() == PAGE {
            page.listed = false;
            page.free = Vec::new();
            self.idle.push(slot.page() as u32);
            return;
        }
        page.free.push((slot.start() / class_bytes(class)) as u16);
        if !page.listed {
            page.listed = true;
            self.free_pages[class as usize].push(slot.page() as u32);
        }
    }

    /// Moves the first `len` bytes of a slot into a slot of the next class.
    pub fn grow(&mut self, slot: BufferSlot, len: usize) -> BufferSlot {
        let class = self.pages[slot.page()].class;
        let grown = self.take(class + 1);
        let (from, to) = (slot.page(), grown.page());
        assert_ne!(from, to, "pages serve one class");
        let [source, target] = self
            .pages
            .get_disjoint_mut([from, to])
            .expect("two different pages");
        let (at, to_at) = (slot.start(), grown.start());
        target.bytes[to_at..to_at + len].copy_from_slice(&source.bytes[at..at + len]);
        self.free(slot);
        grown
    }

    /// Returns the bytes of a slot.
    #[inline]
    pub fn bytes(&self, slot: BufferSlot) -> &[u8] {
        let page = &self.pages[slot.page()];
        let size = class_bytes(page.class);
        &page.bytes[slot.start()..][..size]
    }

    /// Prefetches a position in a slot, if the position exists.
    #[inline(always)]
    pub fn prefetch(&self, slot: BufferSlot, at: usize) {
        if let Some(page) = self.pages.get(slot.page())
            && let Some(byte) = page.bytes.get(slot.start() + at)
        {
            prefetch(byte);
        }
    }

    /// Returns `N` mutable bytes of a slot from a position on, or `None` if the slot ends
    /// earlier.
    #[inline(always)]
    pub fn window_mut<const N: usize>(
        &mut self,
        slot: BufferSlot,
        at: usize,
    ) -> Option<&mut [u8; N]> {
        let page = &mut self.pages[slot.page()];
        if at + N > class_bytes(page.class) {
            return None;
        }
        page.bytes.get_mut(slot.start() + at..)?.first_chunk_mut()
    }

    /// Returns the bytes of a slot, mutably.
    #[inline]
    pub fn bytes_mut(&mut self, slot: BufferSlot) -> &mut [u8] {
        let page = &mut self.pages[slot.page()];
        let size = class_bytes(page.class);
        &mut page.bytes[slot.start()..][..size]
    }

    /// Returns the bytes of all pages.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the bytes of the slots in use.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    #[cfg(test)]
    fn idle_bytes(&self) -> usize {
        self.idle.len() * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_map_to_slot_classes() {
        assert_eq!(class_for(1), 0);
        assert_eq!(class_for(64), 0);
        assert_eq!(class_for(65), 1);
        assert_eq!(class_bytes(class_for(4096)), 4096);
    }

    #[test]
    fn slots_keep_their_bytes_and_pages_are_used_again() {
        let mut slab = Slab::default();
        let mut slots: Vec<(BufferSlot, u8)> = (0..5000u32)
            .map(|n| (slab.take((n % 3) as u8), n as u8))
            .collect();
        for &(slot, mark) in &slots {
            slab.bytes_mut(slot).fill(mark);
        }
        for (slot, mark) in slots.iter_mut().filter(|(_, mark)| mark % 2 == 0) {
            *slot = slab.grow(*slot, 64);
            assert!(slab.bytes(*slot)[..64].iter().all(|byte| byte == mark));
        }
        for &(slot, mark) in &slots {
            assert!(slab.bytes(slot)[..64].iter().all(|&byte| byte == mark));
        }
        let pages = slab.page_bytes();
        slots.iter().for_each(|&(slot, _)| slab.free(slot));
        assert_eq!(slab.live_bytes(), 0);
        assert_eq!(slab.idle_bytes(), pages);
        (0..1000).for_each(|_| {
            slab.take(5);
        });
        assert!(slab.page_bytes() > pages && slab.idle_bytes() == 0);
        let slot = slab.take(2);
        slab.free(slot);
        assert!(slab.idle_bytes() > 0);
        let before = slab.page_bytes();
        slab.release_idle();
        assert!(slab.idle_bytes() == 0 && slab.page_bytes() < before);
        let slot = slab.take(3);
        slab.bytes_mut(slot).fill(1);
    }

    #[test]
    fn slots_larger_than_a_page_have_their_own() {
        let mut slab = Slab::default();
        let slot = slab.take(class_for(200_000));
        slab.bytes_mut(slot)[199_999] = 7;
        assert_eq!(slab.bytes(slot)[199_999], 7);
        slab.free(slot);
        let again = slab.take(class_for(200_000));
        assert_eq!(slab.page_bytes(), 256 << 10);
        slab.free(again);
    }
}
