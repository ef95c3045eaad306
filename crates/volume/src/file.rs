//! A file of a volume: runs of units, and a *window* in memory on the unit that is being written.
//!
//! Bytes are gathered in the window until the unit is full or the file is synced, so that a file that is written from one
//! end to the other is written in whole stripes. A stripe of which nothing was written before, or of which a good part is
//! new, is written whole even if it is not full: what is behind the end of the file is nobody's, and nothing has to be read
//! for it. Anything smaller is left to the volume, which merges it with what comes beside it.
//!
//! While the volume is not whole, no stripe is written that holds anything: a unit of which something is on the volume is
//! written anew in another place, and the table told of it. A write takes the units for that before it begins, so that it
//! is the write that fails where there is no room, and not the sync.

use crate::blocks::BLOCK;
use crate::disk::Shared;
use crate::format::Extent;
use crate::table::{Durable, FileId};
use seiner_platform::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stripe is written whole if at least this part of it is new.
const WORTH_A_STRIPE: usize = 4;

/// A file, whatever its name.
pub struct Inode {
    id: FileId,
    body: Mutex<Body>,
    /// Held while the file is synced, from the first write to the record in the table.
    syncing: Mutex<()>,
}

struct Body {
    len: u64,
    extents: Vec<Extent>,
    /// What the table on the volume still counts as the file's.
    loose: Vec<Extent>,
    /// Units for what the write under way may not change in place: it finds all of them before it begins.
    spare: Vec<Extent>,
    window: Option<Window>,
    /// The length that the table has, if it is more than the file's: what is before it counts.
    synced: u64,
    /// Whether the file was cut to its length, and is not likely to be continued.
    ended: bool,
    /// Whether the table has to be told of the length or the extents.
    is_news: bool,
}

/// The contents of a unit, in memory.
struct Window {
    /// Where it begins in the file.
    start: u64,
    bytes: Vec<u8>,
    /// What is not on the volume.
    dirty: Range<usize>,
    /// From here on nothing was ever written to it.
    fresh: usize,
}

impl Inode {
    /// A file with what the table says that it has.
    pub fn new(id: FileId, durable: Durable) -> Inode {
        let body = Body {
            len: durable.len,
            synced: durable.len,
            ended: false,
            extents: durable.extents,
            loose: Vec::new(),
            spare: Vec::new(),
            window: None,
            is_news: false,
        };
        Inode {
            id,
            body: Mutex::new(body),
            syncing: Mutex::new(()),
        }
    }

    /// All units that are the file's, or were.
    pub fn all_extents(&self) -> Vec<Extent> {
        let body = self.body();
        body.extents.iter().chain(&body.loose).copied().collect()
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        // What a panic leaves is not durable; the store refuses to go on with it.
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle.
pub struct OpenFile {
    shared: Arc<Shared>,
    inode: Arc<Inode>,
    /// What it was called when it was opened.
    name: String,
}

impl OpenFile {
    /// A handle that the directory has counted.
    pub fn new(shared: Arc<Shared>, inode: Arc<Inode>, name: String) -> OpenFile {
        OpenFile {
            shared,
            inode,
            name,
        }
    }

    fn at(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.name))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.inode.body().forget_window();
        self.shared.close(self.inode.id);
    }
}

impl Body {
    fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.units).sum()
    }

    /// Gives the file units for so many bytes, all or none.
    fn cover(&mut self, shared: &Shared, bytes: u64) -> io::Result<()> {
        let (wanted, units) = (bytes.div_ceil(shared.layout.unit_bytes()), self.units());
        if wanted <= units {
            return Ok(());
        }
        let taken = shared.grow(self.extents.last().copied(), wanted - units)?;
        taken.into_iter().for_each(|extent| self.add(extent));
        Ok(())
    }

    /// Finds room for a write, all or none, and writes.
    fn change(
        &mut self,
        shared: &Shared,
        range: Range<u64>,
        write: impl FnOnce(&mut Body) -> io::Result<()>,
    ) -> io::Result<()> {
        self.cover(shared, range.end)?;
        if shared.blocks.is_whole() {
            return write(self);
        }
        let first = range.start.min(self.len) / shared.layout.unit_bytes();
        self.leave_window(shared, first * shared.layout.unit_bytes())?;
        let moved = self.moved_by(shared, range);
        if moved > 0 {
            self.spare = shared.replace(moved)?;
        }
        let written = write(self);
        shared.give_back(&std::mem::take(&mut self.spare));
        written
    }

    /// Ends the window unless it is on the unit at `start`, where a write begins: one further on would be written out in the
    /// middle of the write, and need a unit that was not counted.
    fn leave_window(&mut self, shared: &Shared, start: u64) -> io::Result<()> {
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

    /// How many units a write is not to change in place. It begins at the end where it is beyond it.
    fn moved_by(&self, shared: &Shared, range: Range<u64>) -> u64 {
        let unit = shared.layout.unit_bytes();
        let from = range.start.min(self.len);
        let starts = (from / unit..range.end.div_ceil(unit)).map(|index| index * unit);
        let is_moved = |&start: &u64| self.holds(shared, start, from.saturating_sub(start));
        starts.filter(is_moved).count() as u64
    }

    /// Whether the volume has something of the unit at `start` in the stripe `inside` or behind.
    fn holds(&self, shared: &Shared, start: u64, inside: u64) -> bool {
        let window = self.window.as_ref().filter(|window| window.start == start);
        let fresh = window.map_or_else(|| self.fresh(shared, start), |window| window.fresh);
        inside < fresh as u64
    }

    /// From where on nothing was ever written to the unit at `start`, as far as the lengths tell.
    fn fresh(&self, shared: &Shared, start: u64) -> usize {
        let there = self.counts().saturating_sub(start);
        let there = there.min(shared.layout.unit_bytes()) as usize;
        there.next_multiple_of(shared.layout.shape.stripe_blocks as usize * BLOCK)
    }

    /// Bytes before this are the file's, or the table still says so.
    fn counts(&self) -> u64 {
        self.len.max(self.synced)
    }

    /// Where bytes of the file lie: runs of bytes on the volume, in order.
    fn places(&self, shared: &Shared, mut range: Range<u64>) -> Vec<(u64, u64)> {
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

    /// Writes out what the window has and the volume has not.
    fn write_out(&mut self, shared: &Shared) -> io::Result<()> {
        let Some(mut window) = self.window.take() else {
            return Ok(());
        };
        if !window.dirty.is_empty() {
            let stripe = shared.layout.shape.stripe_blocks as usize * BLOCK;
            let mut range = window.worth_writing(stripe);
            // Only if a member was lost after the write; where there is no room, in place is better than not at all.
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

    /// Lets go of the window if the volume has what is in it.
    fn forget_window(&mut self) {
        self.window.take_if(|window| window.dirty.is_empty());
    }

    /// Gives the file another unit in the place of the one at `start`, whose bytes are all to be written.
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
        self.is_news = true;
    }

    /// One of the units that were taken for this write.
    fn take_spare(&mut self) -> Option<Extent> {
        let last = self.spare.last_mut()?;
        last.units -= 1;
        let start = last.start + last.units;
        self.spare.pop_if(|last| last.units == 0);
        Some(Extent { start, units: 1 })
    }

    /// Adds units at the end.
    fn add(&mut self, extent: Extent) {
        match self.extents.last_mut() {
            _ if extent.units == 0 => {}
            Some(last) if last.start + last.units == extent.start => last.units += extent.units,
            _ => self.extents.push(extent),
        }
    }

    /// Brings the window to the unit that begins at `start`.
    fn look_at(&mut self, shared: &Shared, start: u64) -> io::Result<&mut Window> {
        if self
            .window
            .as_ref()
            .is_none_or(|window| window.start != start)
        {
            self.write_out(shared)?;
            let mut bytes = vec![0; shared.layout.unit_bytes() as usize];
            // What was cut off stays as it is as long as the table has it: a block that is written again has it too.
            let there = self.counts().saturating_sub(start).min(bytes.len() as u64) as usize;
            let read = there.next_multiple_of(BLOCK);
            self.read_blocks(shared, start, &mut bytes[..read])?;
            // Whatever is behind that is not the file's.
            bytes[there..].fill(0);
            self.window = Some(Window {
                start,
                bytes,
                dirty: 0..0,
                fresh: self.fresh(shared, start),
            });
        }
        Ok(self.window.as_mut().expect("it was brought there"))
    }

    /// Puts bytes into the file, for which it has units.
    fn put(&mut self, shared: &Shared, offset: u64, bytes: &[u8]) -> io::Result<()> {
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
                self.is_news = true;
            }
        }
        Ok(())
    }

    /// Puts bytes into the unit that begins at `start`.
    fn put_part(
        &mut self,
        shared: &Shared,
        start: u64,
        inside: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        let window = self.look_at(shared, start)?;
        let (holds, is_last) = (
            inside < window.fresh,
            inside + bytes.len() == window.bytes.len(),
        );
        window.put(inside, bytes);
        if holds && let Some(new) = self.take_spare() {
            self.relocate(shared, start, new);
            self.look_at(shared, start)?.begin_anew();
        }
        match is_last {
            true => self.write_out(shared),
            false => Ok(()),
        }
    }

    /// Lengthens the file with zeroes.
    fn lengthen(&mut self, shared: &Shared, len: u64) -> io::Result<()> {
        let zeroes = vec![0; shared.layout.unit_bytes() as usize];
        while self.len < len {
            let unit = zeroes.len() as u64;
            let next = len.min((self.len / unit + 1) * unit);
            self.put(shared, self.len, &zeroes[..(next - self.len) as usize])?;
        }
        Ok(())
    }

    /// Shortens the file, and lets go of the units that it does not need.
    fn shorten(&mut self, shared: &Shared, len: u64) {
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
                self.is_news = true;
            }
            extent.units = kept;
            kept > 0
        });
        self.is_news |= len != self.len;
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

impl Window {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.bytes[at..end].copy_from_slice(bytes);
        self.dirty = match self.dirty.is_empty() {
            true => at..end,
            false => self.dirty.start.min(at)..self.dirty.end.max(end),
        };
    }

    /// All of it is to be written, where nothing is yet.
    fn begin_anew(&mut self) {
        self.dirty = 0..self.bytes.len();
        self.fresh = 0;
    }

    /// The file ends here now. What is behind stays: the table may still say that it is the file's.
    fn cut(&mut self, at: usize) {
        let at = at.min(self.bytes.len());
        self.dirty = self.dirty.start.min(at)..self.dirty.end.min(at);
    }

    /// What is written for what is dirty: whole blocks, and whole stripes where that pays.
    fn worth_writing(&self, stripe: usize) -> Range<usize> {
        let dirty = self.dirty.start / BLOCK * BLOCK..self.dirty.end.next_multiple_of(BLOCK);
        let is_worth = |start: usize| {
            let new = dirty.end.min(start + stripe) - dirty.start.max(start);
            start >= self.fresh || new * WORTH_A_STRIPE >= stripe
        };
        let first = dirty.start / stripe * stripe;
        let last = (dirty.end - 1) / stripe * stripe;
        let start = if is_worth(first) { first } else { dirty.start };
        let end = if is_worth(last) {
            last + stripe
        } else {
            dirty.end
        };
        start..end
    }
}

fn read_places(shared: &Shared, places: &[(u64, u64)], buffer: &mut [u8]) -> io::Result<()> {
    let mut rest = buffer;
    for &(at, len) in places {
        let (now, later) = rest.split_at_mut(len as usize);
        read_bytes(shared, at, now)?;
        rest = later;
    }
    Ok(())
}

/// Reads any bytes of the volume.
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

impl File for OpenFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let body = self.inode.body();
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|&end| end <= body.len);
        let Some(end) = end else {
            let text = format!(
                "{}: {} bytes at {offset} of a file of {}",
                self.name,
                buffer.len(),
                body.len
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        };
        // What the window has is copied; the rest is read when nobody has to wait for it.
        let held = match &body.window {
            Some(window) => {
                let there = window.start..window.start + window.bytes.len() as u64;
                offset.max(there.start).min(end)..end.min(there.end).max(offset)
            }
            None => end..end,
        };
        if let (Some(window), false) = (&body.window, held.is_empty()) {
            let from = (held.start - window.start) as usize;
            let len = (held.end - held.start) as usize;
            buffer[(held.start - offset) as usize..][..len]
                .copy_from_slice(&window.bytes[from..from + len]);
        }
        let outside = match held.is_empty() {
            true => [offset..end, end..end],
            false => [offset..held.start, held.end..end],
        };
        let places = outside.map(|range| (range.clone(), body.places(&self.shared, range)));
        drop(body);
        for (range, places) in places {
            let piece = &mut buffer[(range.start - offset) as usize..(range.end - offset) as usize];
            read_places(&self.shared, &places, piece).map_err(|error| self.at(error))?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut body = self.inode.body();
        let end = offset + bytes.len() as u64;
        let shared = &self.shared;
        let written = body.change(shared, offset..end, |body| {
            body.lengthen(shared, offset)?;
            body.put(shared, offset, bytes)
        });
        written.map_err(|error| self.at(error))
    }

    fn sync(&self) -> io::Result<()> {
        let _alone = self
            .inode
            .syncing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let shared = &self.shared;
        let sync = || {
            let (news, loose) = {
                let mut body = self.inode.body();
                body.write_out(shared)?;
                let durable = Durable {
                    len: body.len,
                    extents: body.extents.clone(),
                };
                if std::mem::take(&mut body.ended) {
                    body.forget_window();
                }
                let news = std::mem::take(&mut body.is_news).then_some(durable);
                body.synced = body.synced.max(body.len);
                (news, std::mem::take(&mut body.loose))
            };
            // What the length covers goes before the length.
            shared.flush()?;
            match news {
                Some(durable) => {
                    let len = durable.len;
                    shared.commit(Some((self.inode.id, durable)), loose)?;
                    self.inode.body().synced = len;
                    Ok(())
                }
                None => shared.check(),
            }
        };
        sync().map_err(|error| self.at(error))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut body = self.inode.body();
        let shared = &self.shared;
        let set = match len > body.len {
            true => body.change(shared, len..len, |body| body.lengthen(shared, len)),
            false => {
                body.shorten(shared, len);
                Ok(())
            }
        };
        set.map_err(|error| self.at(error))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let mut body = self.inode.body();
        body.cover(&self.shared, len)
            .map_err(|error| self.at(error))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.body().len)
    }
}
