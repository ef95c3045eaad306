//! Byte-granular access to an export of blocks.
//!
//! A write to a part of a block is a read-modify-write. Meanwhile [`Ranges`] blocks all other changes of the block,
//! so no acknowledged byte beside the new ones is lost.

use crate::export::{Command, Completion, Export, ExportShape, Fault, Pieces, wrong_length};
use crate::ranges::{RangeGuard, Ranges, Span};
use crate::zeroing;
use std::sync::{Arc, Mutex, PoisonError};

/// Adapter from byte ranges to the whole blocks of an export.
pub(crate) struct Blockwise {
    inner: Arc<dyn Export>,
    shape: ExportShape,
    ranges: Arc<Ranges>,
}

/// A write to parts of blocks, in progress.
struct Patch {
    /// Offset of `bytes` in the export.
    begin: u64,
    /// Whole blocks: the new bytes and the old bytes around them.
    bytes: Vec<u8>,
    /// Range of the new bytes within `bytes`.
    new: std::ops::Range<usize>,
    /// Offsets within `bytes` of the blocks that must still be read.
    missing: Vec<usize>,
    durable: bool,
    completion: Completion,
    guard: RangeGuard,
}

/// Completion of a command that was split; it is called when the last part is dropped.
struct Join {
    completion: Option<Completion>,
    fault: Option<Fault>,
}

impl Blockwise {
    pub fn new(inner: Arc<dyn Export>) -> Arc<Blockwise> {
        Arc::new(Blockwise {
            shape: inner.shape(),
            inner,
            ranges: Arc::default(),
        })
    }

    pub fn shape(&self) -> &ExportShape {
        &self.shape
    }

    /// Starts a command. Its range must be within the export and not empty.
    pub fn submit(self: &Arc<Self>, command: Command<'_>, completion: Completion) {
        match command {
            Command::Flush => self.inner.submit(command, completion),
            Command::Read { offset, length } => self.read(offset, length, completion),
            _ if self.shape.block == 1 && self.shape.zeroes && self.shape.trims => {
                self.inner.submit(command, completion);
            }
            Command::Write {
                offset,
                data,
                durable,
            } => self.write(offset, data, durable, completion),
            Command::Trim {
                offset,
                length,
                durable,
            } => self.trim(offset, length, durable, completion),
            Command::Zero {
                offset,
                length,
                durable,
                may_trim,
            } => self.zero(offset, length, (durable, may_trim), completion),
        }
    }

    /// Returns the range of the blocks that the bytes touch: first byte and exclusive end.
    fn around(&self, offset: u64, length: u64) -> (u64, u64) {
        let block = u64::from(self.shape.block);
        (
            offset / block * block,
            (offset + length).next_multiple_of(block),
        )
    }

    /// Returns the range of the blocks that the bytes cover wholly; its end may be before its start.
    fn within(&self, offset: u64, length: u64) -> (u64, u64) {
        let block = u64::from(self.shape.block);
        (
            offset.next_multiple_of(block),
            (offset + length) / block * block,
        )
    }

    fn read(&self, offset: u64, length: u64, completion: Completion) {
        let (begin, end) = self.around(offset, length);
        let outer = Command::Read {
            offset: begin,
            length: end - begin,
        };
        if (begin, end) == (offset, offset + length) {
            return self.inner.submit(outer, completion);
        }
        let step = move |result: Result<Pieces<'_, '_>, Fault>| {
            let outer = result.and_then(|pieces| counted(pieces, end - begin));
            match outer {
                Ok(pieces) => completion.pieces(cut(&pieces, offset - begin, length)),
                Err(fault) => completion.fail(fault),
            }
        };
        self.inner.submit(outer, Completion::then(step));
    }

    fn write(self: &Arc<Self>, offset: u64, data: &[u8], durable: bool, completion: Completion) {
        let (begin, end) = self.around(offset, data.len() as u64);
        if (begin, end) != (offset, offset + data.len() as u64) {
            return self.patch(offset, data, durable, completion);
        }
        let span = whole(begin, end);
        match self.ranges.try_enter(span) {
            Some(guard) => self.write_whole(offset, data, durable, completion, guard),
            None => {
                let (this, data) = (Arc::clone(self), data.to_vec());
                self.ranges.enter(span, move |guard| {
                    this.write_whole(offset, &data, durable, completion, guard);
                });
            }
        }
    }

    fn write_whole(
        &self,
        offset: u64,
        data: &[u8],
        durable: bool,
        completion: Completion,
        guard: RangeGuard,
    ) {
        let command = Command::Write {
            offset,
            data,
            durable,
        };
        self.inner.submit(command, leaving(guard, completion));
    }

    fn patch(self: &Arc<Self>, offset: u64, data: &[u8], durable: bool, completion: Completion) {
        let (begin, end) = self.around(offset, data.len() as u64);
        let block = self.shape.block as usize;
        let first = (offset - begin) as usize;
        let new = first..first + data.len();
        let mut bytes = vec![0; (end - begin) as usize];
        bytes[new.clone()].copy_from_slice(data);
        let last = bytes.len() - block;
        let mut missing = Vec::new();
        if !new.end.is_multiple_of(block) {
            missing.push(last);
        }
        if !new.start.is_multiple_of(block) && missing != [0] {
            missing.push(0);
        }
        let span = Span {
            begin,
            end,
            partial: true,
        };
        let this = Arc::clone(self);
        self.ranges.enter(span, move |guard| {
            this.fill(Patch {
                begin,
                bytes,
                new,
                missing,
                durable,
                completion,
                guard,
            });
        });
    }

    /// Reads the missing blocks around a patch one by one, then writes the patch.
    fn fill(self: Arc<Self>, mut patch: Patch) {
        let Some(place) = patch.missing.pop() else {
            let Patch { begin, bytes, .. } = patch;
            return self.write_whole(begin, &bytes, patch.durable, patch.completion, patch.guard);
        };
        let read = Command::Read {
            offset: patch.begin + place as u64,
            length: u64::from(self.shape.block),
        };
        let this = Arc::clone(&self);
        let step = move |result: Result<Pieces<'_, '_>, Fault>| match result
            .and_then(|pieces| patch.lay_under(place, pieces, this.shape.block))
        {
            Ok(()) => this.fill(patch),
            Err(fault) => {
                drop(patch.guard);
                patch.completion.fail(fault);
            }
        };
        self.inner.submit(read, Completion::then(step));
    }

    fn trim(&self, offset: u64, length: u64, durable: bool, completion: Completion) {
        let (begin, end) = self.within(offset, length);
        if begin >= end || !self.shape.trims {
            return completion.done();
        }
        let inner = Arc::clone(&self.inner);
        self.ranges.enter(whole(begin, end), move |guard| {
            let command = Command::Trim {
                offset: begin,
                length: end - begin,
                durable,
            };
            inner.submit(command, leaving(guard, completion));
        });
    }

    fn zero(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        (durable, may_trim): (bool, bool),
        completion: Completion,
    ) {
        let (begin, end) = self.within(offset, length);
        if begin >= end {
            // The range covers no whole block.
            return self.patch(offset, &vec![0; length as usize], durable, completion);
        }
        let join = Arc::new(Mutex::new(Join {
            completion: Some(completion),
            fault: None,
        }));
        for (from, to) in [(offset, begin), (end, offset + length)] {
            if from < to {
                let zeroes = vec![0; (to - from) as usize];
                self.patch(from, &zeroes, durable, part(&join));
            }
        }
        let (inner, last, zeroes) = (Arc::clone(&self.inner), part(&join), self.shape.zeroes);
        drop(join);
        self.ranges.enter(whole(begin, end), move |guard| {
            let completion = leaving(guard, last);
            let (offset, length) = (begin, end - begin);
            if zeroes {
                let command = Command::Zero {
                    offset,
                    length,
                    durable,
                    may_trim,
                };
                inner.submit(command, completion);
            } else {
                zeroing::write(&inner, offset, length, durable, completion);
            }
        });
    }
}

impl Patch {
    /// Copies the block that was read at `place` to both sides of the new bytes.
    fn lay_under(&mut self, place: usize, pieces: Pieces<'_, '_>, block: u32) -> Result<(), Fault> {
        let old = counted(pieces, block.into())?.concat();
        let before = place.max(self.new.start).min(place + old.len());
        let after = self.new.end.max(place).min(place + old.len());
        self.bytes[place..before].copy_from_slice(&old[..before - place]);
        self.bytes[after..place + old.len()].copy_from_slice(&old[after - place..]);
        Ok(())
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            match self.fault.take() {
                Some(fault) => completion.fail(fault),
                None => completion.done(),
            }
        }
    }
}

fn whole(begin: u64, end: u64) -> Span {
    Span {
        begin,
        end,
        partial: false,
    }
}

/// Returns a completion that first drops the guard, so that others may change the blocks.
fn leaving(guard: RangeGuard, completion: Completion) -> Completion {
    Completion::then(move |result| {
        drop(guard);
        match result {
            Ok(pieces) => completion.pieces(pieces),
            Err(fault) => completion.fail(fault),
        }
    })
}

/// Returns the completion of one part of a split command. The first failure decides the result.
fn part(join: &Arc<Mutex<Join>>) -> Completion {
    let join = Arc::clone(join);
    Completion::then(move |result| {
        if let Err(fault) = result {
            let mut join = join.lock().unwrap_or_else(PoisonError::into_inner);
            join.fault.get_or_insert(fault);
        }
    })
}

/// Collects the pieces. Fails if their bytes do not add up to `length`.
fn counted<'a>(pieces: Pieces<'_, 'a>, length: u64) -> Result<Vec<&'a [u8]>, Fault> {
    let pieces: Vec<&[u8]> = pieces.collect();
    let found: usize = pieces.iter().map(|piece| piece.len()).sum();
    match found as u64 == length {
        true => Ok(pieces),
        false => Err(wrong_length()),
    }
}

/// Returns `length` bytes of the pieces, after the first `skip` bytes.
fn cut<'a>(pieces: &[&'a [u8]], skip: u64, length: u64) -> impl Iterator<Item = &'a [u8]> {
    let (mut skip, mut left) = (skip as usize, length as usize);
    pieces.iter().map(move |piece| {
        let begin = skip.min(piece.len());
        let end = (begin + left).min(piece.len());
        skip -= begin;
        left -= end - begin;
        &piece[begin..end]
    })
}
