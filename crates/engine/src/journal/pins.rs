//! Pins: the journal files that blocks outside sealed segments still need.

use std::collections::VecDeque;

/// Journal files, with the number of blocks that pin each of them.
#[derive(Default)]
pub struct Pins {
    files: VecDeque<Pinned>,
    current: u32,
}

struct Pinned {
    number: u32,
    bytes: u64,
    /// Number of blocks that begin in the file and are not in a sealed segment.
    blocks: u64,
}

impl Pins {
    /// Creates an empty list whose next file is `number`.
    pub fn new(number: u32) -> Pins {
        Pins {
            files: VecDeque::new(),
            current: number,
        }
    }

    /// Returns the number of the file that receives rows staged now.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Advances to a file during a replay.
    pub fn advance(&mut self, number: u32) {
        self.current = number;
    }

    /// Directs rows staged from now on to the next file if the current file has been written to.
    /// File numbers have no gaps.
    pub fn rotate(&mut self) {
        if self
            .files
            .back()
            .is_some_and(|last| last.number == self.current && last.bytes > 0)
        {
            self.current += 1;
        }
    }

    fn file(&mut self, number: u32) -> &mut Pinned {
        if self.files.back().is_none_or(|last| last.number < number) {
            self.files.push_back(Pinned {
                number,
                bytes: 0,
                blocks: 0,
            });
        }
        self.files
            .iter_mut()
            .rev()
            .find(|file| file.number == number)
            .expect("files with pins are listed")
    }

    /// Pins the file in which a block begins.
    #[inline]
    pub fn pin(&mut self, number: u32) {
        if let Some(last) = self.files.back_mut()
            && last.number == number
        {
            last.blocks += 1;
            return;
        }
        self.file(number).blocks += 1;
    }

    /// Releases the pins of `blocks` blocks that began in a file and are now in a sealed segment.
    pub fn unpin(&mut self, number: u32, blocks: u64) {
        // Without a journal, blocks do not begin in any file.
        if let Some(file) = self.files.iter_mut().find(|file| file.number == number) {
            file.blocks = file
                .blocks
                .checked_sub(blocks)
                .expect("a block is unpinned once");
        }
    }

    /// Adds to the size of a file.
    pub fn grow(&mut self, number: u32, bytes: u64) {
        self.file(number).bytes += bytes;
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the oldest file, if a block pins it.
    pub fn oldest(&self) -> Option<u32> {
        self.files.front().map(|file| file.number)
    }

    /// Returns the last of the oldest files that no block pins and that receive no more rows.
    pub fn last_free(&self) -> Option<u32> {
        let free = |file: &&Pinned| file.blocks == 0 && file.number < self.current;
        let last = self.files.iter().take_while(free).last();
        last.map(|file| file.number)
    }

    /// Removes the oldest file from the list and returns its number, if the number is at most
    /// `last`.
    pub fn take_free(&mut self, last: u32) -> Option<u32> {
        self.files.front().filter(|front| front.number <= last)?;
        self.files.pop_front().map(|file| file.number)
    }
}
