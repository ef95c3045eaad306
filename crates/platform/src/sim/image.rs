//! One simulated file: its live image, and its image after a power cut.

use seiner_random::Rng;
use std::io;

/// A change of a file that is not synced yet.
#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

/// Outcome of a change that was not synced before a power cut.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Kept,
    Lost,
    Torn,
}

/// Treatment of all unsynced changes by one power cut. Some power cuts keep all changes or none, because
/// independent choices alone would make these two cases rare.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mood {
    KeepAll,
    LoseAll,
    Mixed,
}

impl Mood {
    pub(super) fn draw(rng: &mut Rng) -> Mood {
        match rng.below(8) {
            0 => Mood::KeepAll,
            1 | 2 => Mood::LoseAll,
            _ => Mood::Mixed,
        }
    }

    pub(super) fn fate(self, rng: &mut Rng) -> Fate {
        match self {
            Mood::KeepAll => Fate::Kept,
            Mood::LoseAll => Fate::Lost,
            Mood::Mixed => *rng.pick(&[Fate::Kept, Fate::Lost, Fate::Torn]),
        }
    }
}

/// Live image and durable image of a file, and the changes between them.
#[derive(Clone, Default)]
pub(super) struct Image {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    reserved: u64,
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.live.len() as u64
    }

    /// Returns the number of bytes that the file occupies on the disk.
    pub(super) fn allocated(&self) -> u64 {
        self.reserved.max(self.len())
    }

    pub(super) fn reserve(&mut self, len: u64) {
        self.reserved = self.reserved.max(len);
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.live.get(start..end));
        match bytes {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{} bytes at {offset} of a file of {}",
                    buffer.len(),
                    self.live.len()
                ),
            )),
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        put(&mut self.live, offset, bytes);
        self.pending.push(Change::Write {
            offset,
            bytes: bytes.to_vec(),
        });
    }

    /// Writes to the live image only. No sync makes the bytes durable.
    pub(super) fn write_into_the_void(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.live, offset as usize, bytes);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.live.resize(len as usize, 0);
        self.reserved = self.reserved.min(len);
        self.pending.push(Change::SetLen(len as usize));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }

    /// Chooses at random which pending changes become durable. The others are lost.
    pub(super) fn scatter(&mut self, mood: Mood, sector: usize, rng: &mut Rng) {
        // A file system writes the length separately: it may be ahead of the bytes or behind them.
        let mut lengths = vec![self.durable.len()];
        for change in std::mem::take(&mut self.pending) {
            match mood.fate(rng) {
                Fate::Kept => change.apply(&mut self.durable),
                Fate::Lost => {}
                Fate::Torn => change.apply_torn(&mut self.durable, sector, rng),
            }
            match change {
                Change::Write { offset, bytes } => {
                    lengths.push(lengths[lengths.len() - 1].max(offset + bytes.len()))
                }
                Change::SetLen(_) => lengths = vec![self.durable.len()],
            }
        }
        if mood == Mood::Mixed && rng.chance(1, 2) {
            self.durable.resize(*rng.pick(&lengths), 0);
        }
    }

    /// Cuts the power: keeps a random choice of the pending changes, then resets the live image to the durable
    /// one.
    pub(super) fn crash(&mut self, mood: Mood, sector: usize, rng: &mut Rng) {
        self.scatter(mood, sector, rng);
        self.live.clone_from(&self.durable);
    }

    /// Flips a bit at rest. Returns whether the file is long enough to have that bit.
    pub(super) fn flip(&mut self, bit: u64) -> bool {
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let mut found = false;
        for image in [&mut self.live, &mut self.durable] {
            if let Some(byte) = image.get_mut(at) {
                *byte ^= mask;
                found = true;
            }
        }
        found
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => put(image, *offset, bytes),
            Change::SetLen(len) => image.resize(*len, 0),
        }
    }

    /// Applies part of this change: a write either up to a random sector or in a random choice of sectors, a
    /// new length with probability 1/2.
    fn apply_torn(&self, image: &mut Vec<u8>, sector: usize, rng: &mut Rng) {
        let Change::Write { offset, bytes } = self else {
            if rng.chance(1, 2) {
                self.apply(image);
            }
            return;
        };
        let end = offset + bytes.len();
        let sectors = (end.div_ceil(sector) - offset / sector) as u64;
        let prefix = rng.chance(1, 2).then(|| rng.below(sectors.max(1)));
        let mut at = *offset;
        for index in 0..sectors {
            let next = ((at / sector + 1) * sector).min(end);
            if prefix.map_or_else(|| rng.chance(1, 2), |kept| index < kept) {
                put(image, at, &bytes[at - offset..next - offset]);
            }
            at = next;
        }
    }
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}
