//! State of a file: its units, its length, and the window over the unit that is being written.

use super::window::Window;
use crate::blocks::BLOCK;
use crate::disk::Shared;
use crate::format::Extent;
use std::io;
use std::ops::Range;

/// State of a file.
pub struct FileState {
    pub(super) len: u64,
    pub(super) extents: Vec<Extent>,
    /// Units that the file no longer uses but that the table on the volume still lists.
    pub(super) loose: Vec<Extent>,
    /// Units for parts that the current write must not change in place, all taken before the write begins.
    pub(super) spare: Vec<Extent>,
    pub(super) window: Option<Window>,
    /// Length in the table, if it is greater than the file's: the bytes before it still count.
    pub(super) synced: u64,
    /// True if the file was cut to its length and is unlikely to be continued.
    pub(super) ended: bool,
    /// True if the table has another length or other extents than the file.
    pub(super) is_changed: bool,
}

impl FileState {
    fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.units).sum()
    }

    /// Takes units until the file has space for `bytes`, all or none.
    pub(super) fn cover(&mut self, shared: &Shared, bytes: u64) -> io::Result<()> {
        let (wanted, units) = (bytes.div_ceil(shared.layout.unit_bytes()), self.units());
        if wanted <= units {
            return Ok(());
        }
        let taken = shared.grow(self.extents.last().copied(), wanted - units)?;
        taken.into_iter().for_each(|extent| self.add(extent));
        Ok(())
    }

    /// Takes the units for a write, all or none, and writes.
    pub(super) fn reserve_and_write(
        &mut self,
        shared: &Shared,
        range: Range<u64>,
        write: impl FnOnce(&mut FileState) -> io::Result<()>,
    ) -> io::Result<()> {
        self.cover(shared, range.end)?;
        if shared.blocks.is_whole() {
            return write(self);
        }
        let first = range.start.min(self.len) / shared.layout.unit_bytes();
        self.drop_other_window(shared, first * shared.layout.unit_bytes())?;
        let moved = self.moved_by(shared, range);
        if moved > 0 {
            self.spare = shared.replace(moved)?;
        }
        let written = write(self);
        shared.release(&std::mem::take(&mut self.spare));
        written
    }

    /// Writes out and drops the window, unless it is on the unit at `start`, in which a write begins. A later window
    /// would be written out in the middle of that write and need a unit that was not counted.
    fn drop_other_window(&mut self, shared: &Shared, start: u64) -> io::Result<()> {
        if self
            .window
            .as_ref()
            .is_some_and(|window| window.start != start)
        {
            self.write_out(shared)?;
            self.window = None;
        }
        Ok(())
    }

    /// Returns the number of units that a write must not change in place. A write beyond the end starts at the end of
    /// the file.
    fn moved_by(&self, shared: &Shared, range: Range<u64>) -> u64 {
        let unit = shared.layout.unit_bytes();
        let from = range.start.min(self.len);
        let starts = (from / unit..range.end.div_ceil(unit)).map(|index| index * unit);
        let is_moved = |&start: &u64| self.holds(shared, start, from.saturating_sub(start));
        starts.filter(is_moved).count() as u64
    }

    /// Returns whether the volume has data of the unit at `start`, in the stripe of offset `inside` or behind it.
    fn holds(&self, shared: &Shared, start: u64, inside: u64) -> bool {
        let window = self.window.as_ref().filter(|window| window.start == start);
        let fresh = window.map_or_else(|| self.fresh(shared, start), |window| window.fresh);
        inside < fresh as u64
    }

    /// Returns the offset in the unit at `start` from which on nothing was ever written, as far as the lengths show.
    fn fresh(&self, shared: &Shared, start: u64) -> usize {
        let there = self.valid_end().saturating_sub(start);
        let there = there.min(shared.layout.unit_bytes()) as usize;
        there.next_multiple_of(shared.layout.shape.stripe_blocks as usize * BLOCK)
    }

    /// Returns the end of the bytes that count: the length of the file, or that in the table if it is greater.
    fn valid_end(&self) -> u64 {
        self.len.max(self.synced)
    }

    /// Returns the byte ranges on the volume (offset, length) that hold a range of the file, in order.
    pub(super) fn places(&self, shared: &Shared, mut range: Range<u64>) -> Vec<(u64, u64)> {
        let unit = shared.layout.unit_bytes();
        let (mut places, mut before) = (Vec::new(), 0);
        for extent in &self.extents {
            let end = before + extent.units * unit;
            if range.start < end && range.start < range.end {
                let len = range.end.min(end) - range.start;
                let base = shared.layout.block(extent.start) * BLOCK as u64;
                places.push((base + range.start - before, len));
                range.start += len;
            }
            before = end;
        }
        places
    }

    /// Writes whole blocks of the file.
    fn write_blocks(&self, shared: &Shared, start: u64, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        for (at, len) in self.places(shared, start..start + bytes.len() as u64) {
            let (now, later) = rest.split_at(len as usize);
            shared.blocks.write(at / BLOCK as u64, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Reads whole blocks of the file.
    fn read_blocks(&self, shared: &Shared, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_places(
            shared,
            &self.places(shared, start..start + buffer.len() as u64),
            buffer,
        )
    }

    /// Writes the dirty bytes of the window to the volume.
    pub(super) fn write_out(&mut self, shared: &Shared) -> io::Result<()> {
        let Some(mut window) = self.window.take() else {
            return Ok(());
        };
        if !window.dirty.is_empty() {
            let stripe = shared.layout.shape.stripe_blocks as usize * BLOCK;
            let mut range = window.range_to_write(stripe);
            // Happens only if a member was lost after the write. If there is no free unit, writing in place is better
            // than not writing.
            if range.start < window.fresh
                && !shared.blocks.is_whole()
                && let Ok(taken) = shared.replace(1)
            {
                self.relocate(shared, window.start, taken[0]);
                range = 0..window.bytes.len();
            }
            let start = window.start + range.start as u64;
            let written = self.write_blocks(shared, start, &window.bytes[range.clone()]);
            if written.is_ok() {
                window.fresh = window.fresh.max(range.end);
                window.dirty = 0..0;
            }
            self.window = Some(window);
            return written;
        }
        self.window = Some(window);
        Ok(())
    }

    /// Drops the window if the volume has all its bytes.
    pub(super) fn forget_window(&mut self) {
        self.window.take_if(|window| window.dirty.is_empty());
    }

    /// Replaces the unit at `start` by the unit `new`. The caller writes all its bytes.
    fn relocate(&mut self, shared: &Shared, start: u64, new: Extent) {
        let index = start / shared.layout.unit_bytes();
        let mut before = 0;
        for extent in std::mem::take(&mut self.extents) {
            let inside = index.wrapping_sub(before);
            before += extent.units;
            if inside >= extent.units {
                self.add(extent);
                continue;
            }
            let (old, end) = (extent.start + inside, extent.start + extent.units);
            self.add(Extent {
                start: extent.start,
                units: inside,
            });
            self.add(new);
            self.add(Extent {
                start: old + 1,
                units: end - old - 1,
            });
            self.loose.push(Extent {
                start: old,
                units: 1,
            });
        }
        self.is_changed = true;
    }

    /// Takes one of the units reserved for this write.
    fn take_spare(&mut self) -> Option<Extent> {
        let last = self.spare.last_mut()?;
        last.units -= 1;
        let start = last.start + last.units;
        self.spare.pop_if(|last| last.units == 0);
        Some(Extent { start, units: 1 })
    }

    /// Appends units to the file.
    fn add(&mut self, extent: Extent) {
        match self.extents.last_mut() {
            _ if extent.units == 0 => {}
            Some(last) if last.start + last.units == extent.start => last.units += extent.units,
            _ => self.extents.push(extent),
        }
    }

    /// Moves the window to the unit that begins at `start`.
    fn move_window(&mut self, shared: &Shared, start: u64) -> io::Result<&mut Window> {
        if self
            .window
            .as_ref()
            .is_none_or(|window| window.start != start)
        {
            self.write_out(shared)?;
            let mut bytes = vec![0; shared.layout.unit_bytes() as usize];
            // Bytes that were cut off must stay until the table has the new length: a rewritten block still contains
            // them.
            let there = self
                .valid_end()
                .saturating_sub(start)
                .min(bytes.len() as u64) as usize;
            let read = there.next_multiple_of(BLOCK);
            self.read_blocks(shared, start, &mut bytes[..read])?;
            // Bytes behind that do not belong to the file.
            bytes[there..].fill(0);
            self.window = Some(Window {
                start,
                bytes,
                dirty: 0..0,
                fresh: self.fresh(shared, start),
            });
        }
        Ok(self.window.as_mut().expect("the window was just set"))
    }

    /// Writes bytes into the file, which has the units for them.
    pub(super) fn put(&mut self, shared: &Shared, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let unit = shared.layout.unit_bytes();
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let start = at / unit * unit;
            let inside = (at - start) as usize;
            let (now, later) = rest.split_at(rest.len().min(unit as usize - inside));
            if now.len() as u64 == unit {
                let holds = self.holds(shared, start, 0);
                if self
                    .window
                    .as_ref()
                    .is_some_and(|window| window.start == start)
                {
                    self.window = None;
                }
                if holds && let Some(new) = self.take_spare() {
                    self.relocate(shared, start, new);
                }
                self.write_blocks(shared, start, now)?;
            } else {
                self.put_part(shared, start, inside, now)?;
            }
            at += now.len() as u64;
            rest = later;
            if at > self.len {
                self.len = at;
                self.is_changed = true;
            }
        }
        Ok(())
    }

    /// Writes bytes into the unit that begins at `start`.
    fn put_part(
        &mut self,
        shared: &Shared,
        start: u64,
        inside: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        let window = self.move_window(shared, start)?;
        let (holds, is_last) = (
            inside < window.fresh,
            inside + bytes.len() == window.bytes.len(),
        );
        window.put(inside, bytes);
        if holds && let Some(new) = self.take_spare() {
            self.relocate(shared, start, new);
            self.move_window(shared, start)?.mark_all_dirty();
        }
        match is_last {
            true => self.write_out(shared),
            false => Ok(()),
        }
    }

    /// Extends the file with zeroes.
    pub(super) fn lengthen(&mut self, shared: &Shared, len: u64) -> io::Result<()> {
        let zeroes = vec![0; shared.layout.unit_bytes() as usize];
        while self.len < len {
            let unit = zeroes.len() as u64;
            let next = len.min((self.len / unit + 1) * unit);
            self.put(shared, self.len, &zeroes[..(next - self.len) as usize])?;
        }
        Ok(())
    }

    /// Shortens the file and releases the units that it no longer needs.
    pub(super) fn shorten(&mut self, shared: &Shared, len: u64) {
        let unit = shared.layout.unit_bytes();
        let mut left = len.div_ceil(unit);
        let loose = &mut self.loose;
        self.extents.retain_mut(|extent| {
            let kept = extent.units.min(left);
            left -= kept;
            if kept < extent.units {
                loose.push(Extent {
                    start: extent.start + kept,
                    units: extent.units - kept,
                });
                self.is_changed = true;
            }
            extent.units = kept;
            kept > 0
        });
        self.is_changed |= len != self.len;
        self.len = len;
        self.ended = true;
        match &mut self.window {
            Some(window) if window.start < len.next_multiple_of(unit) => {
                window.cut((len - window.start) as usize)
            }
            window => *window = None,
        }
    }
}

/// Reads byte ranges of the volume, one after the other, into `buffer`.
pub(super) fn read_places(
    shared: &Shared,
    places: &[(u64, u64)],
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut rest = buffer;
    for &(at, len) in places {
        let (now, later) = rest.split_at_mut(len as usize);
        read_bytes(shared, at, now)?;
        rest = later;
    }
    Ok(())
}

/// Reads any byte range of the volume.
fn read_bytes(shared: &Shared, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    let block = BLOCK as u64;
    let (first, end) = (at / block, (at + buffer.len() as u64).div_ceil(block));
    if at.is_multiple_of(block) && buffer.len().is_multiple_of(BLOCK) {
        return shared.blocks.read(first, buffer);
    }
    let mut whole = vec![0; ((end - first) * block) as usize];
    shared.blocks.read(first, &mut whole)?;
    let skip = (at - first * block) as usize;
    buffer.copy_from_slice(&whole[skip..skip + buffer.len()]);
    Ok(())
}
