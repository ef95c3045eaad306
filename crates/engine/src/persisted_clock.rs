//! Persisted clock: stores the time on the disk, so that no start accepts a clock that is behind it.
//!
//! Data that is hidden by age must stay hidden after a crash, even if the clock is set back in the
//! meantime. Before age hides data by a certain time, a later time is therefore written to the
//! disk. That time is some way ahead, and a start after a crash accepts no earlier time. A store
//! that is closed writes its present time. `docs/format/clock.md` specifies the bytes.

use crate::aside::move_aside;
use crate::bytes::Cursor;
use crate::error::{Error, io_error, sync_error};
use seiner_codec::checksum;
use seiner_platform::{Disk, File};
use std::io;
use std::sync::Arc;

/// Name of the file.
pub const NAME: &str = "clock";
/// Report of a file that is missing, or blank, although rules with an age are stored.
pub const MISSING: &str = "it is missing; the time of the latest segment counts, and samples that were hidden for their age may be shown \
     again";
const MAGIC: &[u8; 8] = b"SEINCLCK";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 8 + 4 + 8 * 3 + 4;
/// Offsets of the two slots. A torn write destroys at most one of them.
const SLOTS: [u64; 2] = [0, 4096];

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredTime {
    /// Number of times that were written before.
    turn: u64,
    /// Wall time, ns.
    time: i64,
}

/// Writer of the file `clock`.
pub struct PersistedClock {
    disk: Arc<dyn Disk>,
    store: u64,
    /// File, if it exists.
    file: Option<Arc<dyn File>>,
    turn: u64,
}

impl PersistedClock {
    /// Reads the time that was written last, if there is one.
    ///
    /// # Errors
    /// If the disk fails. The inner [`Error::Damage`] if both slots are damaged: the file is then
    /// set aside, and the next write creates a new file.
    pub fn open(
        disk: Arc<dyn Disk>,
        store: u64,
    ) -> Result<(PersistedClock, Result<Option<i64>, Error>), Error> {
        let context = || format!("reading {NAME}");
        let mut clock = PersistedClock {
            disk,
            store,
            file: None,
            turn: 0,
        };
        let file = match clock.disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((clock, Ok(None))),
            Err(error) => return Err(io_error(context)(error)),
        };
        // Readable is not durable.
        file.sync().map_err(sync_error(context))?;
        let last = match read(&*file, store) {
            Err(damage @ Error::Damage { .. }) => {
                move_aside(&*clock.disk, NAME)?;
                return Ok((clock, Err(damage)));
            }
            last => last?,
        };
        clock.turn = last.map_or(0, |stored| stored.turn);
        clock.file = Some(file);
        Ok((clock, Ok(last.map(|stored| stored.time))))
    }

    /// Writes a time. Durable on return.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn write(&mut self, time: i64) -> Result<(), Error> {
        let context = || format!("writing {NAME}");
        let turn = self.turn + 1;
        let bytes = encode(StoredTime { turn, time }, self.store);
        let (file, new) = match &self.file {
            Some(file) => (file.clone(), false),
            None => (self.disk.create(NAME).map_err(io_error(context))?, true),
        };
        file.write_at(SLOTS[turn as usize % 2], &bytes)
            .map_err(io_error(context))?;
        file.sync().map_err(sync_error(context))?;
        if new {
            self.disk.sync_names().map_err(sync_error(context))?;
        }
        (self.file, self.turn) = (Some(file), turn);
        Ok(())
    }
}

/// Returns the time that is stored on the disk of a store, ns. Returns `None` if none is stored.
///
/// # Errors
/// If there is no store, the file is damaged, or the disk fails.
pub fn stored_time(disk: &dyn Disk) -> Result<Option<i64>, Error> {
    let store = store_of(disk)?;
    match disk.open(NAME) {
        Ok(file) => Ok(read(&*file, store)?.map(|stored| stored.time)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(|| format!("reading {NAME}"))(error)),
    }
}

/// Sets the stored time of a store, forward or back. Data that was dropped for its age does not
/// return.
///
/// # Errors
/// As [`stored_time`].
pub fn set_stored_time(disk: Arc<dyn Disk>, time: i64) -> Result<(), Error> {
    let store = store_of(&*disk)?;
    let (mut clock, _) = PersistedClock::open(disk, store)?;
    clock.write(time)
}

fn store_of(disk: &dyn Disk) -> Result<u64, Error> {
    let read = crate::catalog::read(disk)?;
    read.map(|catalog| catalog.store)
        .ok_or_else(|| Error::Options("there is no store here: it has no catalog".to_string()))
}

/// Reads the file for a check. `needed` is true if the stored rules need the file.
///
/// # Errors
/// [`Error::Damage`], also if the file is needed and missing, or when the disk fails.
pub fn check(disk: &dyn Disk, store: u64, needed: bool) -> Result<(), Error> {
    let stored = match disk.open(NAME) {
        Ok(file) => read(&*file, store)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error(|| format!("reading {NAME}"))(error)),
    };
    match stored.is_none() && needed {
        true => Err(Error::Damage {
            file: NAME.to_string(),
            offset: 0,
            what: MISSING.to_string(),
        }),
        false => Ok(()),
    }
}

/// Reads the last written time.
fn read(file: &dyn File, store: u64) -> Result<Option<StoredTime>, Error> {
    let context = || format!("reading {NAME}");
    let len = file.len().map_err(io_error(context))?;
    let mut bytes = vec![0; len.min(SLOTS[1] + SLOT_BYTES as u64) as usize];
    file.read_at(0, &mut bytes).map_err(io_error(context))?;
    let slots = SLOTS.map(|at| bytes.get(at as usize..at as usize + SLOT_BYTES));
    let stored = slots.into_iter().flatten();
    let last = stored
        .filter_map(|slot| decode(slot, store))
        .max_by_key(|stored| stored.turn);
    // A slot that was never written completely was torn by the first write.
    let written = |slot: Option<&[u8]>| slot.is_some_and(|slot| slot.iter().any(|&byte| byte != 0));
    match last.is_none() && slots.into_iter().all(written) {
        true => Err(Error::Damage {
            file: NAME.to_string(),
            offset: 0,
            what: "neither of its two times can be read; that of the latest segment counts"
                .to_string(),
        }),
        false => Ok(last),
    }
}

fn encode(stored: StoredTime, store: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SLOT_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for word in [store, stored.turn, stored.time as u64] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

fn decode(slot: &[u8], store: u64) -> Option<StoredTime> {
    let (body, sum) = slot.split_at(SLOT_BYTES - 4);
    let mut cursor = Cursor(body);
    let sound = Cursor(sum).u32().ok()? == checksum(body)
        && cursor.take(8).ok()? == MAGIC
        && cursor.u32().ok()? == VERSION
        && cursor.u64().ok()? == store;
    let turn = cursor.u64().ok()?;
    let time = cursor.u64().ok()? as i64;
    sound.then_some(StoredTime { turn, time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_platform::sim::SimDisk;

    fn stored(disk: &SimDisk) -> Option<i64> {
        let (_, stored) = PersistedClock::open(Arc::new(disk.clone()), 7).unwrap();
        stored.unwrap()
    }

    #[test]
    fn the_last_written_time_is_read_and_a_torn_write_leaves_the_time_before() {
        let disk = SimDisk::new(1);
        assert_eq!(stored(&disk), None);
        let (mut clock, _) = PersistedClock::open(Arc::new(disk.clone()), 7).unwrap();
        // The last written time need not be the latest time.
        for time in [5, 90, 40] {
            clock.write(time).unwrap();
            assert_eq!(stored(&disk), Some(time));
        }
        let (mut clock, _) = PersistedClock::open(Arc::new(disk.clone()), 7).unwrap();
        clock.write(50).unwrap();
        let disk = disk.crash();
        assert_eq!(stored(&disk), Some(50));
        // First the bytes that the next write would overwrite, then the bytes before.
        let flip = |byte: u64| assert!(disk.flip_bit(NAME, byte * 8));
        flip(30);
        assert_eq!(stored(&disk), Some(40));
        flip(4096 + 30);
        let (mut clock, stored) = PersistedClock::open(Arc::new(disk.clone()), 7).unwrap();
        assert!(matches!(stored, Err(Error::Damage { .. })));
        assert!(disk.list().unwrap().contains(&"clock.damaged".to_string()));
        clock.write(60).unwrap();
        assert!(
            PersistedClock::open(Arc::new(disk), 8)
                .unwrap()
                .1
                .unwrap()
                .is_none()
        );
    }
}
