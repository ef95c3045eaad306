//! A file of a volume: runs of units, and a *window* in memory over the unit that is being written.
//!
//! The window collects bytes until the unit is full or the file is synced. So a file that is written from start to
//! end is written in whole stripes. A stripe is also written whole if nothing was written to it before, or if a good
//! part of it is new: the bytes behind the end of the file belong to no file, and nothing has to be read. Smaller
//! writes go to the volume as they are, which merges them with neighbouring writes.
//!
//! While the volume is not whole, no stripe that holds data is written. A unit with data on the volume is written to
//! another place instead, and the table is updated. A write takes the units for this before it begins: if there is no
//! space, the write fails and not the sync.

mod state;
mod window;

use crate::disk::Shared;
use crate::format::Extent;
use crate::table::{FileContents, FileId};
use seiner_platform::File;
use state::{FileState, read_places};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file, independent of its name.
pub struct Inode {
    id: FileId,
    state: Mutex<FileState>,
    /// Held during a sync, from the first write to the record in the table.
    syncing: Mutex<()>,
}

impl Inode {
    /// Creates a file with the contents recorded in the table.
    pub fn new(id: FileId, durable: FileContents) -> Inode {
        let state = FileState {
            len: durable.len,
            synced: durable.len,
            ended: false,
            extents: durable.extents,
            loose: Vec::new(),
            spare: Vec::new(),
            window: None,
            is_changed: false,
        };
        Inode {
            id,
            state: Mutex::new(state),
            syncing: Mutex::new(()),
        }
    }

    /// Returns all units that belong to the file, or did until the next sync.
    pub fn all_extents(&self) -> Vec<Extent> {
        let state = self.state();
        state.extents.iter().chain(&state.loose).copied().collect()
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        // Changes that a panic leaves are not durable, and the store does not continue with them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open handle of a file.
pub struct OpenFile {
    shared: Arc<Shared>,
    inode: Arc<Inode>,
    /// Name of the file when it was opened.
    name: String,
}

impl OpenFile {
    /// Creates a handle. The directory has already counted it.
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
        self.inode.state().forget_window();
        self.shared.close(self.inode.id);
    }
}

impl File for OpenFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.inode.state();
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|&end| end <= state.len);
        let Some(end) = end else {
            let text = format!(
                "{}: {} bytes at {offset} of a file of {}",
                self.name,
                buffer.len(),
                state.len
            );
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        };
        // Bytes in the window are copied now; the rest is read after the lock is released.
        let held = match &state.window {
            Some(window) => {
                let there = window.start..window.start + window.bytes.len() as u64;
                offset.max(there.start).min(end)..end.min(there.end).max(offset)
            }
            None => end..end,
        };
        if let (Some(window), false) = (&state.window, held.is_empty()) {
            let from = (held.start - window.start) as usize;
            let len = (held.end - held.start) as usize;
            buffer[(held.start - offset) as usize..][..len]
                .copy_from_slice(&window.bytes[from..from + len]);
        }
        let outside = match held.is_empty() {
            true => [offset..end, end..end],
            false => [offset..held.start, held.end..end],
        };
        let places = outside.map(|range| (range.clone(), state.places(&self.shared, range)));
        drop(state);
        for (range, places) in places {
            let piece = &mut buffer[(range.start - offset) as usize..(range.end - offset) as usize];
            read_places(&self.shared, &places, piece).map_err(|error| self.at(error))?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.inode.state();
        let end = offset + bytes.len() as u64;
        let shared = &self.shared;
        let written = state.reserve_and_write(shared, offset..end, |state| {
            state.lengthen(shared, offset)?;
            state.put(shared, offset, bytes)
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
            let (changed, loose) = {
                let mut state = self.inode.state();
                state.write_out(shared)?;
                let durable = FileContents {
                    len: state.len,
                    extents: state.extents.clone(),
                };
                if std::mem::take(&mut state.ended) {
                    state.forget_window();
                }
                let changed = std::mem::take(&mut state.is_changed).then_some(durable);
                state.synced = state.synced.max(state.len);
                (changed, std::mem::take(&mut state.loose))
            };
            // The bytes must be durable before the length that covers them.
            shared.flush()?;
            match changed {
                Some(durable) => {
                    let len = durable.len;
                    shared.commit(Some((self.inode.id, durable)), loose)?;
                    self.inode.state().synced = len;
                    Ok(())
                }
                None => shared.check(),
            }
        };
        sync().map_err(|error| self.at(error))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.inode.state();
        let shared = &self.shared;
        let set = match len > state.len {
            true => state.reserve_and_write(shared, len..len, |state| state.lengthen(shared, len)),
            false => {
                state.shorten(shared, len);
                Ok(())
            }
        };
        set.map_err(|error| self.at(error))
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let mut state = self.inode.state();
        state
            .cover(&self.shared, len)
            .map_err(|error| self.at(error))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.state().len)
    }
}
