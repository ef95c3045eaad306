//! The directory of a volume: names, room, and the way of changes to the table.

use crate::blocks::{BLOCK, Blocks, Shape};
use crate::file::{Inode, OpenFile};
use crate::format::{self, Change, Extent, LONGEST_NAME, Layout};
use crate::journal::{Journal, Unreadable};
use crate::space::Space;
use crate::table::{Durable, FileId};
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Bytes at the beginning of a volume that must be zeroes for it to count as blank: file systems, partition tables and our
/// own superblock have their marks there.
const LOOKED_AT: usize = 128 << 10;

/// Why a volume cannot be used. Nothing was written to it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The volume failed.
    #[error("the volume cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It holds something else.
    #[error(
        "the volume holds something that is no store: it is made one only if its first 128 KiB are zeroes; give another \
         array, or clear this one, which loses what it holds"
    )]
    Foreign,
    /// It is a store's, but not as it must be.
    #[error("the volume {0}")]
    Superblock(String),
    /// It has no room for a single file.
    #[error(
        "the volume has {blocks} blocks of 4 KiB in stripes of {stripe_blocks}, too few for a store: take larger members"
    )]
    TooSmall {
        /// Its blocks.
        blocks: u64,
        /// Blocks of a stripe.
        stripe_blocks: u64,
    },
    /// The table of files is damaged.
    #[error("block {block} of the volume: {what}; restore the store from a copy")]
    Damage {
        /// Where.
        block: u64,
        /// What.
        what: String,
    },
}

impl From<Unreadable> for OpenError {
    fn from(why: Unreadable) -> OpenError {
        match why {
            Unreadable::Io(error) => OpenError::Io(error),
            Unreadable::Damage { block, what } => OpenError::Damage { block, what },
        }
    }
}

/// Files on a volume of blocks.
pub struct VolumeDisk {
    shared: Arc<Shared>,
}

/// What all handles share. Locks are taken in this order: a file's, `journal`, `directory`.
pub struct Shared {
    /// The volume.
    pub blocks: Arc<dyn Blocks>,
    /// How it is divided.
    pub layout: Layout,
    journal: Mutex<Journal>,
    directory: Mutex<Directory>,
    /// Units that were leaving are free.
    freed: Condvar,
}

/// What is seen, and what the table on the volume does not have yet.
struct Directory {
    names: BTreeMap<String, FileId>,
    files: BTreeMap<FileId, Entry>,
    next: FileId,
    space: Space,
    /// Changes that are not on the volume.
    pending: Vec<Change>,
    /// Room of files that are gone: free when all of `pending` is durable.
    limbo: Vec<Extent>,
    /// Units of which a record is being written that they are free, or that are being trimmed.
    leaving: u64,
    /// Bytes of a snapshot, about.
    weight: usize,
}

/// A file that has a name, or is open.
struct Entry {
    inode: Arc<Inode>,
    name: Option<String>,
    /// What the table on the volume says, or will with the record that is being written.
    durable: Option<Durable>,
    handles: usize,
}

impl Entry {
    /// Bytes in a snapshot.
    fn weight(&self) -> usize {
        let name = self.name.as_ref().map_or(0, String::len);
        let extents = self.durable.as_ref().map_or(0, |body| body.extents.len());
        64 + name + 16 * extents
    }
}

impl VolumeDisk {
    /// Opens the files of a volume; a blank one is made a volume of files first, and gets this name.
    ///
    /// # Errors
    /// Why it cannot be used.
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
        let (journal, mut table) = Journal::read(blocks.clone(), layout)?;
        let space = table.settle(&layout).map_err(|what| OpenError::Damage {
            block: layout.table(0),
            what,
        })?;
        // Seen is not durable: a process that was killed may have written without flushing.
        blocks.flush()?;
        let mut files = BTreeMap::new();
        for (file, told) in table.files {
            let entry = Entry {
                inode: Arc::new(Inode::new(file, told.body.clone())),
                name: told.name,
                durable: Some(told.body),
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
            limbo: Vec::new(),
            leaving: 0,
        };
        let shared = Arc::new(Shared {
            blocks,
            layout,
            journal: Mutex::new(journal),
            directory: Mutex::new(directory),
            freed: Condvar::new(),
        });
        Ok(VolumeDisk { shared })
    }

    /// Bytes that files can take together, in whole units.
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

/// The layout that a volume says it has; none if it is blank.
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
    let mut start = vec![0; LOOKED_AT];
    blocks.read(0, &mut start)?;
    match why {
        Some(why) => Err(OpenError::Superblock(why)),
        None if start.iter().all(|&byte| byte == 0) => Ok(None),
        None => Err(OpenError::Foreign),
    }
}

/// Makes a blank volume one of files: it is blank as long as no superblock is there.
fn make(blocks: &Arc<dyn Blocks>, layout: Layout) -> io::Result<()> {
    Journal::create(blocks.clone(), layout)?;
    for block in Layout::superblocks(layout.shape) {
        blocks.write(block, &layout.encode())?;
        blocks.flush()?;
    }
    Ok(())
}

/// Makes a volume blank: whatever it held is lost.
///
/// # Errors
/// The volume's.
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
        // Every change is made in one go.
        self.directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the table can still be written: if not, nothing counts as durable any more.
    pub fn check(&self) -> io::Result<()> {
        self.journal().check()
    }

    /// Takes units for a file to grow, behind those that it has if there is room.
    ///
    /// # Errors
    /// `StorageFull`.
    pub fn grow(&self, behind: Option<Extent>, units: u64) -> io::Result<Vec<Extent>> {
        let near = behind.map(|last| last.start + last.units);
        self.take(near, units, self.layout.kept())
    }

    /// Takes units for what may not be changed in place: also those that are kept for that.
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
        // What files had that are gone is free when the table says that they are.
        self.commit(None, Vec::new())?;
        // Others may not have done with what they free.
        let waits = |directory: &mut Directory| {
            directory.leaving > 0 && units.saturating_add(kept) > directory.space.free()
        };
        drop(self.freed.wait_while(self.directory(), waits));
        attempt().ok_or_else(|| {
            let text = format!(
                "there is no room for {} more bytes on the volume",
                units * self.layout.unit_bytes()
            );
            io::Error::new(io::ErrorKind::StorageFull, text)
        })
    }

    /// Gives back what no table ever knew.
    pub fn give_back(&self, extents: &[Extent]) {
        let mut directory = self.directory();
        extents
            .iter()
            .for_each(|&extent| directory.space.give(extent));
    }

    /// Puts all changes on the volume, durably, and with them what a file has. `loose` is trimmed then, and free.
    ///
    /// # Errors
    /// The volume's; then nothing is written any more.
    pub fn commit(&self, body: Option<(FileId, Durable)>, loose: Vec<Extent>) -> io::Result<()> {
        let mut journal = self.journal();
        journal.check()?;
        let mut directory = self.directory();
        let mut changes = std::mem::take(&mut directory.pending);
        if let Some((file, body)) = body {
            changes.extend(directory.note(file, body));
        }
        let mut freed = std::mem::take(&mut directory.limbo);
        freed.extend(loose);
        let leaving: u64 = freed.iter().map(|extent| extent.units).sum();
        directory.leaving += leaving;
        let mut record = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut record));
        let written = if !journal.has_room(record.len()) {
            let snapshot = directory.snapshot();
            drop(directory);
            journal.rewrite(&snapshot)
        } else {
            drop(directory);
            match record.is_empty() {
                true => Ok(()),
                false => journal.append(&record),
            }
        };
        // Others need not wait for what the volume does with room.
        drop(journal);
        if written.is_ok() {
            self.trim(&mut freed);
        } else {
            freed.clear();
        }
        let mut directory = self.directory();
        freed
            .into_iter()
            .for_each(|extent| directory.space.give(extent));
        directory.leaving -= leaving;
        self.freed.notify_all();
        written
    }

    /// Tells the volume that units are nobody's. They must not be given to anybody before this has ended.
    fn trim(&self, units: &mut Vec<Extent>) {
        // Side by side they may have whole stripes that neither has alone.
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

    /// Makes durable what was written to files. What fails once has failed for good.
    pub fn flush(&self) -> io::Result<()> {
        let flushed = self.blocks.flush();
        self.journal().note(flushed)
    }

    /// A handle is closed.
    pub fn close(&self, file: FileId) {
        let mut directory = self.directory();
        let entry = directory
            .files
            .get_mut(&file)
            .expect("it stays while it is open");
        entry.handles -= 1;
        directory.forget(file);
    }
}

impl Directory {
    /// What a file has from the next record on; a file without a name is not worth one.
    fn note(&mut self, file: FileId, body: Durable) -> Option<Change> {
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

    /// All that is seen: the names as they are, and of files what is durable.
    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, &file) in &self.names {
            let name = name.clone();
            Change::Name { file, name }.encode(&mut bytes);
            if let Some(Durable { len, extents }) = self.files[&file].durable.clone() {
                Change::Body { file, len, extents }.encode(&mut bytes);
            }
        }
        bytes
    }

    /// A file has no name any more.
    fn unlink(&mut self, file: FileId) {
        let entry = self.files.get_mut(&file).expect("named files are listed");
        self.weight -= entry.weight();
        entry.name = None;
        self.weight += entry.weight();
        self.forget(file);
    }

    /// A file that has neither a name nor a handle is gone.
    fn forget(&mut self, file: FileId) {
        let entry = &self.files[&file];
        if entry.handles == 0 && entry.name.is_none() {
            let entry = self.files.remove(&file).expect("seen a moment ago");
            self.weight -= entry.weight();
            // Nobody else has it, so nobody else can have its lock.
            self.limbo.extend(entry.inode.all_extents());
        }
    }
}

impl VolumeDisk {
    /// Whether the table has room for another file.
    fn check_table(&self, directory: &Directory) -> io::Result<()> {
        let most = self.shared.layout.table_blocks as usize * BLOCK / 2;
        match directory.weight + 64 + LONGEST_NAME < most {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "the table of files is full with {}: larger segments make fewer of them",
                    directory.files.len()
                ),
            )),
        }
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{name}: there is no such file on the volume"),
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
            inode: Arc::new(Inode::new(file, Durable::default())),
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
        let limbo: u64 = directory.limbo.iter().map(|extent| extent.units).sum();
        let waiting = limbo + directory.leaving;
        let free = (directory.space.free() + waiting).saturating_sub(self.shared.layout.kept());
        Ok(Some(free * self.shared.layout.unit_bytes()))
    }

    fn unit(&self) -> u64 {
        self.shared.layout.unit_bytes()
    }
}

/// The shape is part of what is on the volume, so that it cannot be opened with another.
impl std::fmt::Debug for VolumeDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape {
            blocks,
            stripe_blocks,
        } = self.shared.layout.shape;
        write!(
            formatter,
            "VolumeDisk of {blocks} blocks in stripes of {stripe_blocks}"
        )
    }
}
