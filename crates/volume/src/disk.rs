//! Directory of a volume: names, free space, and the path of changes to the table.

use crate::blocks::{BLOCK, Blocks, VolumeShape};
use crate::file::{Inode, OpenFile};
use crate::format::{self, Change, Extent, LONGEST_NAME, Layout};
use crate::space::Space;
use crate::table::{FileContents, FileId};
use crate::table_log::{TableError, TableLog};
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Bytes at the start of a volume that must be zero for a blank volume. File systems, partition tables and our own
/// superblock have their magic numbers there.
const CHECKED_BYTES: usize = 128 << 10;

/// Error: the volume cannot be used. Nothing was written to it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The volume failed.
    #[error("the volume cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The volume holds other data.
    #[error(
        "the volume contains data but no store; only a volume whose first 128 KiB are zeroes becomes a store: choose \
         another array, or clear this one, which destroys its contents"
    )]
    Foreign,
    /// The superblock is ours but damaged, of another version, or of another shape.
    #[error("the volume {0}")]
    Superblock(String),
    /// The volume has no space for a single file.
    #[error(
        "the volume has {blocks} blocks of 4 KiB in stripes of {stripe_blocks}, too few for a store: use larger members"
    )]
    TooSmall {
        /// Blocks of the volume.
        blocks: u64,
        /// Blocks of a stripe.
        stripe_blocks: u64,
    },
    /// The table of files is damaged.
    #[error("block {block} of the volume: {what}; restore the store from a copy")]
    Damage {
        /// Block number of the damage.
        block: u64,
        /// Description of the damage.
        what: String,
    },
}

impl From<TableError> for OpenError {
    fn from(why: TableError) -> OpenError {
        match why {
            TableError::Io(error) => OpenError::Io(error),
            TableError::Damage { block, what } => OpenError::Damage { block, what },
        }
    }
}

/// Files on a volume of blocks.
pub struct VolumeDisk {
    shared: Arc<Shared>,
}

/// State that all handles share. Lock order: a file's lock, then `table_log`, then `directory`.
pub struct Shared {
    /// Volume of blocks.
    pub blocks: Arc<dyn Blocks>,
    /// Division of the volume.
    pub layout: Layout,
    table_log: Mutex<TableLog>,
    directory: Mutex<Directory>,
    /// Signalled when units that were being freed are free.
    freed: Condvar,
}

/// Current files and names, and the changes that are not in the table on the volume yet.
struct Directory {
    names: BTreeMap<String, FileId>,
    files: BTreeMap<FileId, Entry>,
    next: FileId,
    space: Space,
    /// Changes that are not on the volume yet.
    pending: Vec<Change>,
    /// Units of removed files that are pending free: free once all of `pending` is durable.
    pending_free: Vec<Extent>,
    /// Number of units that a record in progress frees or that are being trimmed.
    being_freed: u64,
    /// Approximate size of a snapshot in bytes.
    weight: usize,
}

/// A file that has a name or an open handle.
struct Entry {
    inode: Arc<Inode>,
    name: Option<String>,
    /// Contents of the file in the table on the volume, including the record in progress.
    durable: Option<FileContents>,
    handles: usize,
}

impl Entry {
    /// Returns the bytes that the file takes in a snapshot.
    fn weight(&self) -> usize {
        let name = self.name.as_ref().map_or(0, String::len);
        let extents = self.durable.as_ref().map_or(0, |body| body.extents.len());
        64 + name + 16 * extents
    }
}

impl VolumeDisk {
    /// Opens the files of a volume. A blank volume is formatted first and gets the name `name`.
    ///
    /// # Errors
    /// The reason why the volume cannot be used.
    pub fn open(blocks: Arc<dyn Blocks>, name: [u8; 16]) -> Result<VolumeDisk, OpenError> {
        let shape = blocks.shape();
        let layout = Layout::new(name, shape).ok_or(OpenError::TooSmall {
            blocks: shape.blocks,
            stripe_blocks: shape.stripe_blocks,
        })?;
        let layout = match read_layout(&*blocks)? {
            Some(layout) => layout,
            None => {
                make(&blocks, layout)?;
                layout
            }
        };
        let (table_log, mut table) = TableLog::read(blocks.clone(), layout)?;
        let space = table
            .claim_units(&layout)
            .map_err(|what| OpenError::Damage {
                block: layout.table(0),
                what,
            })?;
        // The contents read may not be durable: a killed process may have written without flushing.
        blocks.flush()?;
        let mut files = BTreeMap::new();
        for (file, listed) in table.files {
            let entry = Entry {
                inode: Arc::new(Inode::new(file, listed.body.clone())),
                name: listed.name,
                durable: Some(listed.body),
                handles: 0,
            };
            files.insert(file, entry);
        }
        let directory = Directory {
            weight: files.values().map(Entry::weight).sum(),
            names: table.names,
            files,
            next: table.next,
            space,
            pending: Vec::new(),
            pending_free: Vec::new(),
            being_freed: 0,
        };
        let shared = Arc::new(Shared {
            blocks,
            layout,
            table_log: Mutex::new(table_log),
            directory: Mutex::new(directory),
            freed: Condvar::new(),
        });
        Ok(VolumeDisk { shared })
    }

    /// Returns the bytes that all files together can use, in whole units.
    pub fn capacity(&self) -> u64 {
        (self.shared.layout.units - self.shared.layout.kept()) * self.shared.layout.unit_bytes()
    }

    fn handle(&self, directory: &mut Directory, file: FileId) -> Arc<dyn File> {
        let entry = directory
            .files
            .get_mut(&file)
            .expect("named files are listed");
        entry.handles += 1;
        let name = entry.name.clone().unwrap_or_default();
        Arc::new(OpenFile::new(
            self.shared.clone(),
            entry.inode.clone(),
            name,
        ))
    }
}

/// Reads the layout from a superblock; `None` if the volume is blank.
fn read_layout(blocks: &dyn Blocks) -> Result<Option<Layout>, OpenError> {
    let shape = blocks.shape();
    let mut why = None;
    for block in Layout::superblocks(shape) {
        let mut bytes = vec![0; BLOCK];
        blocks.read(block, &mut bytes)?;
        match Layout::decode(&bytes, shape) {
            Ok(layout) => return Ok(Some(layout)),
            Err(text) if bytes.starts_with(format::MAGIC) => why = Some(text),
            Err(_) => {}
        }
    }
    let mut start = vec![0; CHECKED_BYTES];
    blocks.read(0, &mut start)?;
    match why {
        Some(why) => Err(OpenError::Superblock(why)),
        None if start.iter().all(|&byte| byte == 0) => Ok(None),
        None => Err(OpenError::Foreign),
    }
}

/// Formats a blank volume. The superblocks come last, so the volume counts as blank until then.
fn make(blocks: &Arc<dyn Blocks>, layout: Layout) -> io::Result<()> {
    TableLog::create(blocks.clone(), layout)?;
    for block in Layout::superblocks(layout.shape) {
        blocks.write(block, &layout.encode())?;
        blocks.flush()?;
    }
    Ok(())
}

/// Makes a volume blank. All its files are lost.
///
/// # Errors
/// Errors of the volume.
pub fn clear(blocks: &dyn Blocks) -> io::Result<()> {
    let shape = blocks.shape();
    let all = (shape.blocks as usize).min((1 << 20) / BLOCK);
    blocks.write(0, &vec![0; all * BLOCK])?;
    for block in Layout::superblocks(shape)
        .into_iter()
        .filter(|&block| block < shape.blocks)
    {
        blocks.write(block, &[0; BLOCK])?;
    }
    blocks.flush()
}

impl Shared {
    fn directory(&self) -> MutexGuard<'_, Directory> {
        // A panic cannot leave a change half made: each change is a single step.
        self.directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn table_log(&self) -> MutexGuard<'_, TableLog> {
        self.table_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the table cannot be written any more; from then on nothing counts as durable.
    pub fn check(&self) -> io::Result<()> {
        self.table_log().check()
    }

    /// Takes units for a growing file, directly behind its last extent if there is space.
    ///
    /// # Errors
    /// `StorageFull`.
    pub fn grow(&self, behind: Option<Extent>, units: u64) -> io::Result<Vec<Extent>> {
        let near = behind.map(|last| last.start + last.units);
        self.take(near, units, self.layout.kept())
    }

    /// Takes units for data that must not be changed in place. May use the units kept for that purpose.
    ///
    /// # Errors
    /// `StorageFull`.
    pub fn replace(&self, units: u64) -> io::Result<Vec<Extent>> {
        self.take(None, units, 0)
    }

    fn take(&self, near: Option<u64>, units: u64, kept: u64) -> io::Result<Vec<Extent>> {
        let attempt = || {
            let space = &mut self.directory().space;
            (units.saturating_add(kept) <= space.free())
                .then(|| space.take(near, units))
                .flatten()
        };
        if let Some(extents) = attempt() {
            return Ok(extents);
        }
        // Units of removed files become free when the table records the removal.
        self.commit(None, Vec::new())?;
        // Other threads may still be freeing units.
        let waits = |directory: &mut Directory| {
            directory.being_freed > 0 && units.saturating_add(kept) > directory.space.free()
        };
        drop(self.freed.wait_while(self.directory(), waits));
        attempt().ok_or_else(|| {
            let text = format!(
                "the volume has no space for {} more bytes",
                units * self.layout.unit_bytes()
            );
            io::Error::new(io::ErrorKind::StorageFull, text)
        })
    }

    /// Frees units that no table has listed.
    pub fn release(&self, extents: &[Extent]) {
        let mut directory = self.directory();
        extents
            .iter()
            .for_each(|&extent| directory.space.free_units(extent));
    }

    /// Writes all pending changes durably to the table, with the new contents of one file. Then trims and frees
    /// `loose` and the units of removed files.
    ///
    /// # Errors
    /// Errors of the volume. After an error nothing is written any more.
    pub fn commit(
        &self,
        body: Option<(FileId, FileContents)>,
        loose: Vec<Extent>,
    ) -> io::Result<()> {
        let mut table_log = self.table_log();
        table_log.check()?;
        let mut directory = self.directory();
        let mut changes = std::mem::take(&mut directory.pending);
        if let Some((file, body)) = body {
            changes.extend(directory.note(file, body));
        }
        let mut freed = std::mem::take(&mut directory.pending_free);
        freed.extend(loose);
        let being_freed: u64 = freed.iter().map(|extent| extent.units).sum();
        directory.being_freed += being_freed;
        let mut record = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut record));
        let written = if !table_log.has_space(record.len()) {
            let snapshot = directory.snapshot();
            drop(directory);
            table_log.rewrite(&snapshot)
        } else {
            drop(directory);
            match record.is_empty() {
                true => Ok(()),
                false => table_log.append(&record),
            }
        };
        // The lock is released first: other threads need not wait for the trim.
        drop(table_log);
        if written.is_ok() {
            self.trim(&mut freed);
        } else {
            freed.clear();
        }
        let mut directory = self.directory();
        freed
            .into_iter()
            .for_each(|extent| directory.space.free_units(extent));
        directory.being_freed -= being_freed;
        self.freed.notify_all();
        written
    }

    /// Trims free units. No file may take them before this returns.
    fn trim(&self, units: &mut Vec<Extent>) {
        // Adjacent extents are joined: together they may contain whole stripes.
        units.sort_by_key(|extent| extent.start);
        units.dedup_by(|next, last| {
            let joined = last.start + last.units == next.start;
            last.units += if joined { next.units } else { 0 };
            joined
        });
        let unit = self.layout.unit_blocks;
        for extent in units {
            let start = self.layout.block(extent.start);
            self.blocks.trim(start, extent.units * unit);
        }
    }

    /// Makes all bytes written to files durable. A failure is permanent.
    pub fn flush(&self) -> io::Result<()> {
        let flushed = self.blocks.flush();
        self.table_log().note(flushed)
    }

    /// Closes a handle.
    pub fn close(&self, file: FileId) {
        let mut directory = self.directory();
        let entry = directory
            .files
            .get_mut(&file)
            .expect("an open file has an entry");
        entry.handles -= 1;
        directory.forget(file);
    }
}

impl Directory {
    /// Sets the contents of a file for the next record and returns the change; `None` if the file has no name.
    fn note(&mut self, file: FileId, body: FileContents) -> Option<Change> {
        let entry = self.files.get_mut(&file)?;
        entry.name.as_ref()?;
        let before = entry.weight();
        let change = Change::Body {
            file,
            len: body.len,
            extents: body.extents.clone(),
        };
        entry.durable = Some(body);
        self.weight = self.weight + entry.weight() - before;
        Some(change)
    }

    /// Returns a snapshot: the present names, and the durable contents of their files.
    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, &file) in &self.names {
            let name = name.clone();
            Change::Name { file, name }.encode(&mut bytes);
            if let Some(FileContents { len, extents }) = self.files[&file].durable.clone() {
                Change::Body { file, len, extents }.encode(&mut bytes);
            }
        }
        bytes
    }

    /// Takes the name from a file.
    fn unlink(&mut self, file: FileId) {
        let entry = self.files.get_mut(&file).expect("named files are listed");
        self.weight -= entry.weight();
        entry.name = None;
        self.weight += entry.weight();
        self.forget(file);
    }

    /// Removes a file that has neither a name nor a handle.
    fn forget(&mut self, file: FileId) {
        let entry = &self.files[&file];
        if entry.handles == 0 && entry.name.is_none() {
            let entry = self.files.remove(&file).expect("the file was just found");
            self.weight -= entry.weight();
            // No other thread has the inode, so its lock is free.
            self.pending_free.extend(entry.inode.all_extents());
        }
    }
}

impl VolumeDisk {
    /// Fails if the table has no space for another file.
    fn check_table(&self, directory: &Directory) -> io::Result<()> {
        let most = self.shared.layout.table_blocks as usize * BLOCK / 2;
        match directory.weight + 64 + LONGEST_NAME < most {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "the table of files is full with {} files: larger segments reduce their number",
                    directory.files.len()
                ),
            )),
        }
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{name}: no such file on the volume"),
    )
}

fn check_name(name: &str) -> io::Result<()> {
    match name.len() {
        1..=LONGEST_NAME => Ok(()),
        len => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a name of {len} bytes; give one of 1 to {LONGEST_NAME}"),
        )),
    }
}

impl Disk for VolumeDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.directory().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut directory = self.shared.directory();
        let file = *directory.names.get(name).ok_or_else(|| not_found(name))?;
        Ok(self.handle(&mut directory, file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut directory = self.shared.directory();
        if let Some(&file) = directory.names.get(name) {
            let handle = self.handle(&mut directory, file);
            drop(directory);
            handle.set_len(0)?;
            return Ok(handle);
        }
        self.check_table(&directory)?;
        let file = directory.next;
        directory.next += 1;
        directory.names.insert(name.to_string(), file);
        let entry = Entry {
            inode: Arc::new(Inode::new(file, FileContents::default())),
            name: Some(name.to_string()),
            durable: None,
            handles: 0,
        };
        directory.weight += entry.weight();
        directory.files.insert(file, entry);
        let name = name.to_string();
        directory.pending.push(Change::Name { file, name });
        Ok(self.handle(&mut directory, file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut directory = self.shared.directory();
        let file = directory
            .names
            .remove(name)
            .ok_or_else(|| not_found(name))?;
        directory.pending.push(Change::Gone { file });
        directory.unlink(file);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut directory = self.shared.directory();
        let file = directory
            .names
            .remove(from)
            .ok_or_else(|| not_found(from))?;
        let name = to.to_string();
        if let Some(before) = directory.names.insert(name.clone(), file)
            && before != file
        {
            directory.unlink(before);
        }
        let entry = directory
            .files
            .get_mut(&file)
            .expect("named files are listed");
        let weight = entry.weight();
        entry.name = Some(name.clone());
        let weight = entry.weight() as isize - weight as isize;
        directory.weight = directory.weight.saturating_add_signed(weight);
        directory.pending.push(Change::Name { file, name });
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.commit(None, Vec::new())
    }

    fn free(&self) -> io::Result<Option<u64>> {
        let directory = self.shared.directory();
        let pending_free: u64 = directory
            .pending_free
            .iter()
            .map(|extent| extent.units)
            .sum();
        let waiting = pending_free + directory.being_freed;
        let free = (directory.space.free() + waiting).saturating_sub(self.shared.layout.kept());
        Ok(Some(free * self.shared.layout.unit_bytes()))
    }

    fn unit(&self) -> u64 {
        self.shared.layout.unit_bytes()
    }
}

/// Shows the shape. It is stored on the volume, so a volume cannot be opened with another shape.
impl std::fmt::Debug for VolumeDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let VolumeShape {
            blocks,
            stripe_blocks,
        } = self.shared.layout.shape;
        write!(
            formatter,
            "VolumeDisk of {blocks} blocks in stripes of {stripe_blocks}"
        )
    }
}
