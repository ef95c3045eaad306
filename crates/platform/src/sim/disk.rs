//! The simulated disk.

use super::faults::Faults;
use super::image::{Image, Mood};
use super::names::{FileId, Names};
use crate::critical::assert_outside;
use crate::{Disk, File};
use rustix::io::Errno;
use seiner_random::Rng;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Allocation unit of a file, in bytes.
const BLOCK: u64 = 4096;

/// A disk in memory, deterministic from a seed. Clones share the same disk.
///
/// It keeps exactly the guarantees of [`Disk`] and no more. A power cut ([`SimDisk::crash`], or one scheduled
/// by [`SimDisk::crash_after`]) invalidates all handles.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Number of the boot of the machine in which this value was created.
    boot: u64,
}

#[derive(Clone)]
struct State {
    rng: Rng,
    names: Names,
    files: BTreeMap<FileId, Image>,
    next_id: FileId,
    faults: Faults,
    capacity: Option<u64>,
    most_used: u64,
    boot: u64,
    operations: u64,
    cut_at: Option<u64>,
    off: bool,
    trace: u64,
}

/// Power supply during an operation.
#[derive(Clone, Copy, PartialEq)]
enum Power {
    On,
    Failing,
}

impl SimDisk {
    /// Creates an empty disk without faults and without a limit of capacity.
    pub fn new(seed: u64) -> SimDisk {
        let state = State {
            rng: Rng::new(seed),
            names: Names::default(),
            files: BTreeMap::new(),
            next_id: 0,
            faults: Faults::default(),
            capacity: None,
            most_used: 0,
            boot: 0,
            operations: 0,
            cut_at: None,
            off: false,
            trace: 0,
        };
        SimDisk {
            state: Arc::new(Mutex::new(state)),
            boot: 0,
        }
    }

    /// Cuts the power and restores it. The seed chooses which unsynced changes survive. All earlier handles
    /// become invalid. Returns the disk after the restart, with the same faults and capacity.
    pub fn crash(&self) -> SimDisk {
        let mut state = self.state();
        state.crash();
        SimDisk {
            state: self.state.clone(),
            boot: state.boot,
        }
    }

    /// Kills the program but not the machine. All earlier handles become invalid. Written bytes stay as they
    /// were seen, and unsynced changes stay unsynced. Returns the disk after the restart.
    pub fn restart(&self) -> SimDisk {
        let mut state = self.state();
        state.restart();
        SimDisk {
            state: self.state.clone(),
            boot: state.boot,
        }
    }

    /// Creates an independent copy of this disk, unsynced changes included, with its own random numbers. The
    /// copy shows what *would* be left if the power failed now.
    pub fn fork(&self, seed: u64) -> SimDisk {
        let mut state = self.state().clone();
        state.rng = Rng::new(seed);
        SimDisk {
            state: Arc::new(Mutex::new(state)),
            boot: self.boot,
        }
    }

    /// Schedules a failure of the `operations`-th operation from now; 1 is the next one. That operation fails,
    /// possibly with some effect. All later operations fail until [`SimDisk::crash`] (the power failed) or
    /// [`SimDisk::restart`] (the program was killed). `None` cancels the schedule.
    pub fn crash_after(&self, operations: Option<u64>) {
        let mut state = self.state();
        state.cut_at = operations.map(|operations| state.operations + operations);
    }

    /// Returns whether the failure scheduled by [`SimDisk::crash_after`] has occurred.
    pub fn is_off(&self) -> bool {
        self.state().off
    }

    /// Sets the faults for subsequent operations.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Sets the capacity in bytes, `None` for no limit. Lengths and reservations of files count.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.state().capacity = capacity;
    }

    /// Returns the number of bytes that files with a name occupy.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Returns the maximum of [`SimDisk::used`] so far, sampled after each change.
    pub fn most_used(&self) -> u64 {
        self.state().most_used
    }

    /// Returns the names of all files and their lengths in bytes, sorted by name.
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.state();
        state
            .names
            .live()
            .iter()
            .map(|(name, id)| (name.clone(), state.files[id].len()))
            .collect()
    }

    /// Flips one bit of a file at rest; `bit` counts from the beginning of the file. Returns whether there is
    /// such a bit.
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let mut state = self.state();
        let id = state.names.get(name);
        id.and_then(|id| state.files.get_mut(&id))
            .is_some_and(|image| image.flip(bit))
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns a digest of all operations, their arguments and the bytes written. Two runs with the same
    /// operations have equal digests.
    pub fn trace(&self) -> u64 {
        self.state().trace
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the state consistent: every method changes it in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, id: FileId, name: &str) -> Arc<dyn File> {
        Arc::new(SimFile {
            disk: self.clone(),
            id,
            name: name.to_string(),
        })
    }
}

impl State {
    /// Counts an operation and adds it to the digest.
    fn begin(&mut self, boot: u64, kind: &str, name: &str, numbers: [u64; 2]) -> io::Result<Power> {
        assert_outside(kind);
        if self.off || boot != self.boot {
            return Err(power_cut());
        }
        self.operations += 1;
        self.note(kind.as_bytes());
        self.note(name.as_bytes());
        numbers
            .iter()
            .for_each(|number| self.note(&number.to_le_bytes()));
        if self.cut_at == Some(self.operations) {
            self.off = true;
            return Ok(Power::Failing);
        }
        Ok(Power::On)
    }

    fn note(&mut self, bytes: &[u8]) {
        let mut mix = |word: u64| {
            self.trace = (self.trace ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        mix(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(u64::from_le_bytes(word));
        }
    }

    fn crash(&mut self) {
        let mood = Mood::draw(&mut self.rng);
        let sector = *self.rng.pick(&[512, 4096]);
        self.names.crash(mood, &mut self.rng);
        self.files.retain(|&id, _| self.names.may_need(id));
        for image in self.files.values_mut() {
            image.crash(mood, sector, &mut self.rng);
        }
        self.restart();
    }

    fn restart(&mut self) {
        self.boot += 1;
        self.off = false;
        self.cut_at = None;
    }

    /// Returns the bytes that all named files occupy, in whole blocks, as file systems allocate them.
    fn used(&self) -> u64 {
        let allocated = |id| self.allocated(id);
        self.names.live().values().copied().map(allocated).sum()
    }

    fn allocated(&self, id: FileId) -> u64 {
        self.files[&id].allocated().next_multiple_of(BLOCK)
    }

    fn note_used(&mut self) {
        self.most_used = self.most_used.max(self.used());
    }

    /// Returns the length up to which a file can grow, at most `len` bytes.
    fn grown(&self, id: FileId, len: u64) -> u64 {
        let allocated = self.allocated(id);
        let free = self
            .capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()));
        len.min(allocated.saturating_add(free))
    }

    fn image(&mut self, id: FileId) -> &mut Image {
        self.files
            .get_mut(&id)
            .expect("an open file stays until the next crash")
    }

    /// Applies a change. A fault prevents the change. The power may fail before or after the change, as
    /// [`State::crash`] decides.
    fn change(&mut self, power: Power, change: impl FnOnce(&mut State)) -> io::Result<()> {
        match power {
            Power::On if self.faults.change_error.strikes(&mut self.rng) => Err(Errno::IO.into()),
            Power::On => {
                change(self);
                self.note_used();
                Ok(())
            }
            Power::Failing => {
                change(self);
                self.note_used();
                Err(power_cut())
            }
        }
    }

    fn write(&mut self, power: Power, id: FileId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(bytes);
        let end = offset + bytes.len() as u64;
        let fits = (self.grown(id, end).saturating_sub(offset) as usize).min(bytes.len());
        if power == Power::Failing || self.faults.write_error.strikes(&mut self.rng) {
            let written = self.interrupted(offset, fits);
            self.image(id).write(offset, &bytes[..written]);
            let error = Errno::IO.into();
            return Err(if power == Power::Failing {
                power_cut()
            } else {
                error
            });
        }
        if self.faults.lost_write.strikes(&mut self.rng) {
            self.image(id).write_into_the_void(offset, &bytes[..fits]);
        } else {
            self.image(id).write(offset, &bytes[..fits]);
        }
        self.note_used();
        if fits < bytes.len() {
            Err(Errno::NOSPC.into())
        } else {
            Ok(())
        }
    }

    /// Returns the number of bytes of an interrupted write that were written: all `len`, or up to a boundary of
    /// pages.
    fn interrupted(&mut self, offset: u64, len: usize) -> usize {
        const PAGE: u64 = 512;
        let end = offset + len as u64;
        if self.rng.chance(1, 2) {
            return len;
        }
        let stop = (offset + self.rng.below(len as u64 + 1)) / PAGE * PAGE;
        (stop.clamp(offset, end) - offset) as usize
    }

    /// Syncs a file, or the names if `id` is `None`. A sync that fails has made a random part of the changes
    /// durable and discards the rest, because the kernel marks the pages clean.
    fn sync(&mut self, power: Power, id: Option<FileId>) -> io::Result<()> {
        let error: io::Error = match power {
            // The crash decides which changes survive.
            Power::Failing => return Err(power_cut()),
            Power::On if self.faults.sync_error.strikes(&mut self.rng) => Errno::IO.into(),
            Power::On => {
                match id {
                    Some(id) => self.image(id).sync(),
                    None => self.names.sync(),
                }
                return Ok(());
            }
        };
        let mood = Mood::draw(&mut self.rng);
        let State {
            rng, names, files, ..
        } = self;
        match id {
            Some(id) => files
                .get_mut(&id)
                .expect("an open file stays")
                .scatter(mood, 512, rng),
            None => names.scatter(mood, rng),
        }
        Err(error)
    }
}

fn power_cut() -> io::Error {
    io::Error::other("simulated power cut")
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{name}: no such file on the simulated disk"),
    )
}

/// Puts the file's name before the message of an error, as the real directory does.
fn at<T>(name: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        match state.begin(self.boot, "list", "", [0; 2])? {
            Power::Failing => Err(power_cut()),
            Power::On => Ok(state.names.live().keys().cloned().collect()),
        }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let power = state.begin(self.boot, "open", name, [0; 2])?;
        let id = state.names.get(name).ok_or_else(|| not_found(name))?;
        if power == Power::Failing {
            Err(power_cut())
        } else {
            Ok(self.handle(id, name))
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let power = state.begin(self.boot, "create", name, [0; 2])?;
        let existing = state.names.get(name);
        let id = existing.unwrap_or(state.next_id);
        at(
            name,
            state.change(power, |state| match existing {
                Some(id) => state.image(id).set_len(0),
                None => {
                    state.next_id += 1;
                    state.files.insert(id, Image::default());
                    state.names.create(name, id);
                }
            }),
        )?;
        Ok(self.handle(id, name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let power = state.begin(self.boot, "remove", name, [0; 2])?;
        let id = state.names.get(name).ok_or_else(|| not_found(name))?;
        at(name, state.change(power, |state| state.names.remove(id)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let power = state.begin(self.boot, "rename", from, [0; 2])?;
        state.note(to.as_bytes());
        let id = state.names.get(from).ok_or_else(|| not_found(from))?;
        at(
            from,
            state.change(power, |state| state.names.rename(to, id)),
        )
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        let power = state.begin(self.boot, "sync_names", "", [0; 2])?;
        state.sync(power, None)
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let state = self.state();
        let free = |capacity: u64| capacity.saturating_sub(state.used());
        Ok(state.capacity.map(free))
    }
}

/// An open file of a [`SimDisk`]. The handle stays usable after the file is removed, and becomes invalid after
/// a power cut.
struct SimFile {
    disk: SimDisk,
    id: FileId,
    name: String,
}

impl SimFile {
    /// Runs an operation on the state. Puts the file's name before the message of an error.
    fn run<T>(
        &self,
        kind: &str,
        numbers: [u64; 2],
        operation: impl FnOnce(&mut State, Power) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        let power = state.begin(self.disk.boot, kind, &self.name, numbers)?;
        at(&self.name, operation(&mut state, power))
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.run("read", [offset, buffer.len() as u64], |state, power| {
            if power == Power::Failing {
                return Err(power_cut());
            }
            if state.faults.read_error.strikes(&mut state.rng) {
                return Err(Errno::IO.into());
            }
            state.image(self.id).read(offset, buffer)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.run("write", [offset, bytes.len() as u64], |state, power| {
            state.write(power, self.id, offset, bytes)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.run("sync", [0; 2], |state, power| {
            state.sync(power, Some(self.id))
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run("set_len", [len, 0], |state, power| {
            if state.grown(self.id, len) < len {
                return Err(Errno::NOSPC.into());
            }
            state.change(power, |state| state.image(self.id).set_len(len))
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.run("reserve", [len, 0], |state, power| {
            if state.grown(self.id, len) < len {
                return Err(Errno::NOSPC.into());
            }
            state.change(power, |state| state.image(self.id).reserve(len))
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.run("len", [0; 2], |state, power| match power {
            Power::Failing => Err(power_cut()),
            Power::On => Ok(state.image(self.id).len()),
        })
    }
}

#[cfg(test)]
mod tests;
