//! Mirror: a disk that repeats the changes of some files in the distributed store.

use super::{ANNOUNCED, COMPLETE, JournalId, ROW_BYTES, SET_LENGTH, TABLE, WRITE, is_mirrored};
use crate::keys::KeyBuilder;
use crate::locks::locked;
use crate::rows::{Level, Row, Rows, RowsError};
use seiner_platform::{Clock, Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pause before a failed write is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// Reason why a sync waits for a new journal.
const NO_LEASE: &str = "the lease of the journal has ended";

/// Reason why a sync fails while its port is being opened.
const LOST: &str =
    "another port has taken over the journal of this port during its start; start the port again";

/// Rules of a mirror.
pub(crate) struct Policy {
    /// Replicas that must have the rows before a sync returns.
    pub level: Level,
    /// Returns whether this port still owns its journal. A sync returns only while it does.
    pub ownership: Box<dyn Fn() -> Ownership + Send + Sync>,
}

/// State of a journal's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The port owns the journal.
    Held,
    /// The lease has ended. The port may prolong it, or begin a new journal.
    Ended,
    /// Another port has taken the journal over, and this port will not begin a new one.
    Lost,
}

/// Disk that repeats the changes of the journal and the catalog as rows.
///
/// A sync waits until the rows are on enough replicas, for as long as that takes. It fails only after
/// [`Mirror::close`].
pub(crate) struct Mirror {
    shared: Arc<Shared>,
}

struct Shared {
    local: Arc<dyn Disk>,
    rows: Arc<dyn Rows>,
    clock: Arc<dyn Clock>,
    table: Arc<str>,
    policy: Policy,
    state: Mutex<State>,
    /// Serialises attempts to write, so that the rows of a file are written in the order of its changes.
    syncing: Mutex<()>,
    is_closed: AtomicBool,
    is_stalled: AtomicBool,
}

struct State {
    journal: JournalId,
    next_file: u64,
    /// Mirrored files by name.
    files: BTreeMap<String, Copy>,
    /// Files that no longer exist on the local disk, in the order of their removal.
    removed: Vec<RemovedFile>,
}

/// Copy of a file in the distributed store.
struct Copy {
    number: u64,
    /// State of the name's row.
    name: NameRow,
    /// True if the file had contents when it got its name: the name counts when they are written.
    is_adopted: bool,
    /// Number of the next row.
    next: u64,
    /// Changes that are not written yet, in their order, as values of rows.
    changes: Vec<Vec<u8>>,
}

/// File that no longer exists on the local disk.
#[derive(Clone)]
struct RemovedFile {
    name: String,
    number: u64,
}

/// State of the row with a file's number and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameRow {
    /// Not written.
    Missing,
    /// Written, without effect: the contents are not complete.
    Announced,
    /// Written.
    Complete,
}

/// Position in the list of removed files of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemovedBefore(JournalId, usize);

impl Mirror {
    /// Creates a mirror of a local disk. The mirrored files that exist are written completely before the first sync
    /// returns.
    ///
    /// # Errors
    /// If the local disk fails.
    pub fn new(
        local: Arc<dyn Disk>,
        rows: Arc<dyn Rows>,
        clock: Arc<dyn Clock>,
        journal: JournalId,
        policy: Policy,
    ) -> io::Result<Mirror> {
        let mut state = State {
            journal,
            next_file: 0,
            files: BTreeMap::new(),
            removed: Vec::new(),
        };
        for name in local.list()?.into_iter().filter(|name| is_mirrored(name)) {
            state.adopt(&*local, &name)?;
        }
        Ok(Mirror {
            shared: Arc::new(Shared {
                local,
                rows,
                clock,
                table: TABLE.into(),
                policy,
                state: Mutex::new(state),
                syncing: Mutex::new(()),
                is_closed: AtomicBool::new(false),
                is_stalled: AtomicBool::new(false),
            }),
        })
    }

    /// Begins a new journal: all mirrored files are written again under its name.
    ///
    /// # Errors
    /// If the local disk fails.
    pub fn begin(&self, journal: JournalId) -> io::Result<()> {
        let _syncing = locked(&self.shared.syncing);
        let mut state = locked(&self.shared.state);
        let names: Vec<String> = state.files.keys().cloned().collect();
        *state = State {
            journal,
            next_file: 0,
            files: BTreeMap::new(),
            removed: Vec::new(),
        };
        for name in names {
            state.adopt(&*self.shared.local, &name)?;
        }
        Ok(())
    }

    /// Writes all changes.
    ///
    /// # Errors
    /// If the mirror was closed.
    pub fn write_all(&self) -> io::Result<()> {
        self.shared.write(None)
    }

    /// Returns the present end of the list of removed files.
    pub fn removed_so_far(&self) -> RemovedBefore {
        let state = locked(&self.shared.state);
        RemovedBefore(state.journal.clone(), state.removed.len())
    }

    /// Removes the copies of the files that were removed before a position, and of removed files for which `is_covered`
    /// returns true. Call this function when no row of these files is needed.
    ///
    /// # Errors
    /// If too few replicas answer. A later call removes the rest.
    pub fn forget(
        &self,
        before: RemovedBefore,
        is_covered: impl Fn(&str) -> bool,
    ) -> Result<(), RowsError> {
        let RemovedBefore(journal, count) = before;
        let removed: Vec<u64> = {
            let state = locked(&self.shared.state);
            // Another port finishes and removes a journal that was lost in the meantime.
            if state.journal != journal {
                return Ok(());
            }
            let removed = state.removed.iter().enumerate();
            let removed = removed.filter(|(nth, file)| *nth < count || is_covered(&file.name));
            removed.map(|(_, file)| file.number).collect()
        };
        let Shared { rows, policy, .. } = &*self.shared;
        for &number in &removed {
            // The name is removed last, so that a removal that was interrupted is completed.
            rows.remove(TABLE, &journal.file(number), None, policy.level)?;
            rows.remove(
                TABLE,
                &journal.names(),
                Some(&number.to_be_bytes()),
                policy.level,
            )?;
        }
        let mut state = locked(&self.shared.state);
        if state.journal == journal {
            state.removed.retain(|file| !removed.contains(&file.number));
        }
        Ok(())
    }

    /// Returns whether a sync waits for replicas at present.
    pub fn is_stalled(&self) -> bool {
        self.shared.is_stalled.load(Ordering::Relaxed)
    }

    /// Ends the waiting of syncs, which fail from now on.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
    }
}

impl State {
    /// Adds the copy of a file that exists on the local disk, with all its bytes as changes.
    fn adopt(&mut self, local: &dyn Disk, name: &str) -> io::Result<()> {
        let file = local.open(name)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        self.add(name);
        let copy = self.files.get_mut(name).expect("the copy was added");
        copy.is_adopted = true;
        copy.change(0, &bytes);
        Ok(())
    }

    /// Adds an empty copy. A copy that had the name is removed.
    fn add(&mut self, name: &str) {
        let copy = Copy {
            number: self.next_file,
            name: NameRow::Missing,
            is_adopted: false,
            next: 0,
            changes: Vec::new(),
        };
        self.next_file += 1;
        if let Some(old) = self.files.insert(name.to_string(), copy) {
            self.note_removed(name, old.number);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(copy) = self.files.remove(name) {
            self.note_removed(name, copy.number);
        }
    }

    fn note_removed(&mut self, name: &str, number: u64) {
        self.removed.push(RemovedFile {
            name: name.to_string(),
            number,
        });
    }
}

impl Copy {
    fn change(&mut self, offset: u64, bytes: &[u8]) {
        for (nth, part) in bytes.chunks(ROW_BYTES).enumerate() {
            let at = offset + (nth * ROW_BYTES) as u64;
            // Appended bytes extend the change before.
            if let Some(last) = self.changes.last_mut()
                && end_of_write(last) == Some(at)
                && last.len() + part.len() <= ROW_BYTES
            {
                last.extend_from_slice(part);
                continue;
            }
            let mut value = vec![WRITE];
            value.extend_from_slice(&at.to_be_bytes());
            value.extend_from_slice(part);
            self.changes.push(value);
        }
    }

    fn set_length(&mut self, length: u64) {
        let mut value = vec![SET_LENGTH];
        value.extend_from_slice(&length.to_be_bytes());
        self.changes.push(value);
    }
}

/// Returns the offset behind the bytes of a write.
fn end_of_write(value: &[u8]) -> Option<u64> {
    let (&[WRITE], rest) = value.split_first_chunk::<1>()? else {
        return None;
    };
    let (offset, bytes) = rest.split_first_chunk::<8>()?;
    Some(u64::from_be_bytes(*offset) + bytes.len() as u64)
}

impl Shared {
    /// Writes the changes of one file, or of all files, and the names. Repeats that until they are on enough replicas
    /// and this port owns its journal.
    fn write(&self, only: Option<&str>) -> io::Result<()> {
        loop {
            let failure = {
                let _syncing = locked(&self.syncing);
                match self.try_write(only) {
                    // Another port that took the journal over may not have read the rows.
                    Ok(()) if self.is_owner() => {
                        self.is_stalled.store(false, Ordering::Relaxed);
                        return Ok(());
                    }
                    Ok(()) => NO_LEASE.to_string(),
                    Err(RowsError::Rejected(text)) => return Err(io::Error::other(text)),
                    Err(RowsError::Unavailable(text)) => text,
                }
            };
            if (self.policy.ownership)() == Ownership::Lost {
                return Err(io::Error::other(LOST));
            }
            self.is_stalled.store(true, Ordering::Relaxed);
            if self.is_closed.load(Ordering::Relaxed) {
                let text = format!("the journal could not be replicated: {failure}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.clock.sleep(PAUSE);
        }
    }

    /// Lets a port that is being opened prolong its lease: recovery reads many files before it syncs one.
    fn keep_lease(&self) {
        self.is_owner();
    }

    fn is_owner(&self) -> bool {
        (self.policy.ownership)() == Ownership::Held
    }

    fn try_write(&self, only: Option<&str>) -> Result<(), RowsError> {
        let taken = self.take(only);
        // A number is known before the file has rows, so that the removal of the journal finds them.
        self.write_rows(taken.announcements)?;
        self.each(&taken.files, |copy, _| {
            copy.name = match copy.is_adopted {
                true if copy.name != NameRow::Complete => NameRow::Announced,
                _ => NameRow::Complete,
            };
        });
        self.write_rows(taken.rows)?;
        // The changes stay until they are written.
        self.each(&taken.files, |copy, changes| {
            copy.changes.drain(..changes);
            copy.next += changes as u64;
        });
        self.write_rows(taken.completions)?;
        self.each(&taken.files, |copy, _| copy.name = NameRow::Complete);
        Ok(())
    }

    fn write_rows(&self, rows: Vec<Row>) -> Result<(), RowsError> {
        // Rows that are written after a takeover would stay for ever.
        if !self.is_owner() {
            return Err(RowsError::Unavailable(NO_LEASE.to_string()));
        }
        match rows.is_empty() {
            true => Ok(()),
            false => self.rows.write(rows, self.policy.level),
        }
    }

    /// Changes the copies that were written and still exist, with their numbers of written changes.
    fn each(&self, files: &[(String, u64, usize)], mut change: impl FnMut(&mut Copy, usize)) {
        let mut state = locked(&self.state);
        for (name, number, changes) in files {
            let copy = state.files.get_mut(name);
            if let Some(copy) = copy.filter(|copy| copy.number == *number) {
                change(copy, *changes);
            }
        }
    }

    /// Returns the changes of one file, or of all files. Files without a complete name are always included: the rows
    /// of a journal need the catalog.
    fn take(&self, only: Option<&str>) -> Taken {
        let state = locked(&self.state);
        let row = |partition: Vec<u8>, key: Vec<u8>, value: Vec<u8>| Row {
            table: self.table.clone(),
            partition,
            key,
            value,
            life: None,
        };
        let mut taken = Taken::default();
        for (name, copy) in &state.files {
            let is_wanted = only.is_none_or(|only| only == name) || copy.name != NameRow::Complete;
            if !is_wanted {
                continue;
            }
            let name_row = |kind: u8| {
                let mut value = vec![kind];
                value.extend_from_slice(name.as_bytes());
                row(
                    state.journal.names(),
                    copy.number.to_be_bytes().to_vec(),
                    value,
                )
            };
            if copy.name == NameRow::Missing {
                taken.announcements.push(name_row(if copy.is_adopted {
                    ANNOUNCED
                } else {
                    COMPLETE
                }));
            }
            if copy.is_adopted && copy.name != NameRow::Complete {
                taken.completions.push(name_row(COMPLETE));
            }
            for (nth, change) in copy.changes.iter().enumerate() {
                let key = KeyBuilder::new().u64(copy.next + nth as u64).done();
                let partition = state.journal.file(copy.number);
                taken.rows.push(row(partition, key, change.clone()));
            }
            taken
                .files
                .push((name.clone(), copy.number, copy.changes.len()));
        }
        taken
    }
}

/// Changes that are about to be written.
#[derive(Default)]
struct Taken {
    /// Names of new files.
    announcements: Vec<Row>,
    /// Changes of files.
    rows: Vec<Row>,
    /// Names that count from now on.
    completions: Vec<Row>,
    /// Files: name, number, number of changes.
    files: Vec<(String, u64, usize)>,
}

impl Disk for Mirror {
    fn list(&self) -> io::Result<Vec<String>> {
        self.shared.keep_lease();
        self.shared.local.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.shared.keep_lease();
        let file = self.shared.local.open(name)?;
        Ok(self.file(name, file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.shared.local.create(name)?;
        if is_mirrored(name) {
            locked(&self.shared.state).add(name);
        }
        Ok(self.file(name, file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.shared.local.remove(name)?;
        locked(&self.shared.state).remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.shared.local.rename(from, to)?;
        let mut state = locked(&self.shared.state);
        state.remove(from);
        match is_mirrored(to) {
            // A spare of the journal: its old bytes have no meaning under the new name.
            true if from.starts_with("spare-") => state.add(to),
            true => state.adopt(&*self.shared.local, to)?,
            false => {}
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.local.sync_names()?;
        let replaces = |copy: &Copy| copy.is_adopted && copy.name != NameRow::Complete;
        let is_replaced = locked(&self.shared.state).files.values().any(replaces);
        match is_replaced {
            // The copy that had the name before may be removed from now on.
            true => self.shared.write(None),
            false => Ok(()),
        }
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.shared.local.free()
    }

    fn unit(&self) -> u64 {
        self.shared.local.unit()
    }
}

impl Mirror {
    fn file(&self, name: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        match is_mirrored(name) {
            true => Arc::new(MirroredFile {
                shared: self.shared.clone(),
                name: name.to_string(),
                file,
            }),
            false => file,
        }
    }
}

/// File whose changes are repeated.
struct MirroredFile {
    shared: Arc<Shared>,
    name: String,
    file: Arc<dyn File>,
}

impl MirroredFile {
    /// Changes the copy, if the file still has its name.
    fn change(&self, change: impl FnOnce(&mut Copy)) {
        if let Some(copy) = locked(&self.shared.state).files.get_mut(&self.name) {
            change(copy);
        }
    }
}

impl File for MirroredFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)?;
        self.change(|copy| copy.change(offset, bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        self.shared.write(Some(&self.name))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.change(|copy| copy.set_length(len));
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated(&self) -> io::Result<u64> {
        self.file.allocated()
    }
}
