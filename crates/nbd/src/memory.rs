//! Export in memory, for tests and measurements.

use crate::export::{Command, Completion, Export, ExportShape};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes under one lock.
const PART: u64 = 256 << 10;

/// An export of zeroes in memory, whose space is allocated on the first write.
pub struct Memory {
    shape: ExportShape,
    /// Parts of [`PART`] bytes; an empty part is all zeroes.
    parts: Vec<Mutex<Vec<u8>>>,
}

impl Memory {
    /// Creates `bytes` bytes in blocks of `block`: a power of two up to 64 KiB that divides `bytes`.
    pub fn new(bytes: u64, block: u32) -> Memory {
        Memory {
            shape: ExportShape {
                bytes,
                block,
                preferred: block.max(4096),
                read_only: false,
                trims: true,
                zeroes: true,
            },
            parts: (0..bytes.div_ceil(PART))
                .map(|_| Mutex::default())
                .collect(),
        }
    }

    /// Changes the shape, for example to read-only or without trims.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ExportShape)) -> Memory {
        change(&mut self.shape);
        self
    }

    fn part(&self, index: u64) -> MutexGuard<'_, Vec<u8>> {
        let part = &self.parts[index as usize];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, offset: u64, length: u64, completion: Completion) {
        // The bytes are copied first, because the completion may submit a command that needs the same locks.
        let mut bytes = Vec::with_capacity(length as usize);
        for (index, begin, end) in slices(offset, length) {
            let part = self.part(index);
            match part.is_empty() {
                true => bytes.resize(bytes.len() + end - begin, 0),
                false => bytes.extend_from_slice(&part[begin..end]),
            }
        }
        completion.data(&bytes);
    }

    fn write(&self, offset: u64, mut data: &[u8]) {
        for (index, begin, end) in slices(offset, data.len() as u64) {
            let (here, rest) = data.split_at(end - begin);
            data = rest;
            let mut part = self.part(index);
            if part.is_empty() {
                part.resize(PART as usize, 0);
            }
            part[begin..end].copy_from_slice(here);
        }
    }

    fn clear(&self, offset: u64, length: u64) {
        for (index, begin, end) in slices(offset, length) {
            let mut part = self.part(index);
            match end - begin == PART as usize {
                true => *part = Vec::new(),
                false if part.is_empty() => {}
                false => part[begin..end].fill(0),
            }
        }
    }
}

/// Divides a range by parts: index of the part, and start and end within the part.
fn slices(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length;
    (offset / PART..end.div_ceil(PART)).map(move |index| {
        let base = index * PART;
        let from = offset.max(base) - base;
        let to = end.min(base + PART) - base;
        (index, from as usize, to as usize)
    })
}

impl Export for Memory {
    fn shape(&self) -> ExportShape {
        self.shape
    }

    fn submit(&self, command: Command<'_>, completion: Completion) {
        match command {
            Command::Read { offset, length } => return self.read(offset, length, completion),
            Command::Write { offset, data, .. } => self.write(offset, data),
            Command::Flush => {}
            Command::Trim { offset, length, .. } | Command::Zero { offset, length, .. } => {
                self.clear(offset, length);
            }
        }
        completion.done();
    }
}
