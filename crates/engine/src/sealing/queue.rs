//! Queue of taken buffers that are not yet in the log.

use crate::buffer::slab::BufferSlot;
use crate::maps::HashMap;
use std::collections::VecDeque;

/// Buffer that was taken from its source and is not yet in the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    /// Source of the rows.
    pub source: u32,
    /// Number of the block that the rows become.
    pub number: u64,
    /// Number of the next block of the store when the buffer was taken.
    pub next: u64,
    /// Layout of the rows.
    pub layout: u32,
    /// Journal file in which the block begins.
    pub journal_file: u32,
    /// Number of rows, including rows that later rows of the block replace.
    pub rows: u32,
    /// Bytes of the encoded rows.
    pub bytes: u32,
    /// Rows of the source before this block, since the source was registered.
    pub before: u64,
    /// Rows of the source up to the end of this block, since the source was registered.
    pub ordinal: u64,
    /// Slot of the rows.
    pub slot: BufferSlot,
}

struct Link {
    taken: Taken,
    /// Position of the previously taken buffer of the same source.
    earlier: Option<u64>,
}

/// Taken buffers, in the order in which they were taken, with an index by source.
#[derive(Default)]
pub struct Queue {
    links: VecDeque<Link>,
    /// Position of the front: number of buffers that have left the queue.
    front: u64,
    /// Position of each source's latest buffer.
    latest: HashMap<u32, u64>,
    bytes: u64,
    slot_bytes: usize,
}

impl Queue {
    /// Adds a buffer whose slot has `slot_bytes` bytes.
    pub fn push(&mut self, taken: Taken, slot_bytes: usize) {
        let earlier = self.latest.insert(taken.source, self.end());
        self.bytes += u64::from(taken.bytes);
        self.slot_bytes += slot_bytes;
        self.links.push_back(Link { taken, earlier });
    }

    /// Removes the buffer at the front, whose slot has `slot_bytes` bytes.
    pub fn pop(&mut self, slot_bytes: usize) -> Option<Taken> {
        let Link { taken, .. } = self.links.pop_front()?;
        if self.latest.get(&taken.source) == Some(&self.front) {
            self.latest.remove(&taken.source);
        }
        self.front += 1;
        self.bytes -= u64::from(taken.bytes);
        self.slot_bytes -= slot_bytes;
        Some(taken)
    }

    /// Returns the buffers from the front on.
    pub fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.after(0)
    }

    /// Returns the buffers behind the first `count`.
    pub fn after(&self, count: usize) -> impl Iterator<Item = &Taken> {
        let links = self.links.iter().skip(count);
        links.map(|link| &link.taken)
    }

    /// Returns the buffers of a source with their positions, the latest first.
    pub fn of(&self, source: u32) -> impl Iterator<Item = (u64, &Taken)> {
        let mut next = self.latest.get(&source).copied();
        std::iter::from_fn(move || {
            // A buffer that has left the queue ends the chain.
            let position = next?;
            let at = position.checked_sub(self.front)?;
            let link = self.links.get(at as usize)?;
            next = link.earlier;
            Some((position, &link.taken))
        })
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns the position after the last buffer.
    pub fn end(&self) -> u64 {
        self.front + self.links.len() as u64
    }

    /// Returns the position of the front.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// Returns the bytes of the encoded rows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the slots of the rows.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Returns the bytes of memory of the queue itself.
    pub fn memory(&self) -> usize {
        // The table has an eighth more slots than it may fill.
        let latest = self.latest.capacity() / 7 * 8 * (size_of::<(u32, u64)>() + 1);
        self.links.capacity() * size_of::<Link>() + latest
    }

    /// Returns memory that the queue does not need to the allocator.
    pub fn shrink(&mut self) {
        self.links.shrink_to_fit();
        self.latest.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(source: u32, number: u64) -> Taken {
        Taken {
            source,
            number,
            next: number + 1,
            layout: 1,
            journal_file: 1,
            rows: 1,
            bytes: 10,
            before: 0,
            ordinal: 1,
            slot: BufferSlot::NONE,
        }
    }

    fn numbers<'a>(taken: impl Iterator<Item = &'a Taken>) -> Vec<u64> {
        taken.map(|one| one.number).collect()
    }

    fn of(queue: &Queue, source: u32) -> Vec<u64> {
        numbers(queue.of(source).map(|(_, taken)| taken))
    }

    #[test]
    fn buffers_leave_in_the_order_in_which_they_came() {
        let mut queue = Queue::default();
        for (source, number) in [(7, 1), (8, 2), (7, 3)] {
            queue.push(taken(source, number), 64);
        }
        assert_eq!(numbers(queue.iter()), [1, 2, 3]);
        assert_eq!((queue.bytes(), queue.slot_bytes()), (30, 192));
        assert_eq!((queue.front(), queue.end()), (0, 3));
        assert_eq!(queue.pop(64).unwrap().number, 1);
        assert_eq!((queue.front(), queue.end(), queue.len()), (1, 3, 2));
        assert_eq!(numbers(queue.iter()), [2, 3]);
    }

    #[test]
    fn a_source_finds_its_remaining_buffers() {
        let mut queue = Queue::default();
        for (source, number) in [(7, 1), (8, 2), (7, 3), (7, 4)] {
            queue.push(taken(source, number), 64);
        }
        assert_eq!(of(&queue, 7), [4, 3, 1]);
        let positions: Vec<u64> = queue.of(7).map(|(position, _)| position).collect();
        assert_eq!(positions, [3, 2, 0]);
        queue.pop(64);
        assert_eq!(of(&queue, 7), [4, 3]);
        assert_eq!(of(&queue, 8), [2]);
        queue.pop(64);
        assert_eq!(of(&queue, 8), []);
        while queue.pop(64).is_some() {}
        assert_eq!(of(&queue, 7), []);
        assert!(queue.latest.is_empty() && queue.bytes() == 0);
        queue.push(taken(7, 5), 64);
        assert_eq!(of(&queue, 7), [5]);
    }
}
