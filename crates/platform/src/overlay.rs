//! A disk that keeps all changes in memory.

use crate::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PAGE: u64 = 4096;

/// Copy-on-write view of another disk, the base. Written bytes, new files and new names stay in memory, and the
/// base is never changed.
///
/// Code that writes, such as recovery, can therefore run on files that must not change.
pub struct Overlay {
    base: Arc<dyn Disk>,
    entries: Mutex<BTreeMap<String, Entry>>,
}

/// A file with a name.
#[derive(Clone)]
struct Entry {
    /// Name of the file on the base; `None` if the file was created on the overlay.
    base: Option<String>,
    changes: Arc<Mutex<Changes>>,
}

/// Changes of a file relative to the base.
#[derive(Default)]
struct Changes {
    /// Length in bytes, if it was changed.
    len: Option<u64>,
    /// Number of the base's bytes that are still valid, if the file was truncated.
    cut: Option<u64>,
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Overlay {
    /// Creates a disk that begins with the files of `base`.
    ///
    /// # Errors
    /// If `base` cannot be listed.
    pub fn new(base: Arc<dyn Disk>) -> io::Result<Overlay> {
        let names = base.list()?.into_iter();
        let entry = |name: String| Entry {
            base: Some(name),
            changes: Arc::default(),
        };
        let entries = names.map(|name| (name.clone(), entry(name))).collect();
        Ok(Overlay {
            base,
            entries: Mutex::new(entries),
        })
    }

    fn file(&self, entry: &Entry) -> io::Result<Arc<dyn File>> {
        let base = entry.base.as_ref().map(|name| self.base.open(name));
        Ok(Arc::new(Layered {
            base: base.transpose()?,
            changes: entry.changes.clone(),
        }))
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name}: no such file"))
}

impl Disk for Overlay {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(locked(&self.entries).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let entry = locked(&self.entries).get(name).cloned();
        self.file(&entry.ok_or_else(|| missing(name))?)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let entry = Entry {
            base: None,
            changes: Arc::default(),
        };
        locked(&self.entries).insert(name.to_string(), entry.clone());
        self.file(&entry)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = locked(&self.entries).remove(name);
        removed.map(|_| ()).ok_or_else(|| missing(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut entries = locked(&self.entries);
        let entry = entries.remove(from).ok_or_else(|| missing(from))?;
        entries.insert(to.to_string(), entry);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) -> io::Result<Option<u64>> {
        self.base.free()
    }

    fn unit(&self) -> u64 {
        self.base.unit()
    }
}

/// A file of the base together with its changes.
struct Layered {
    base: Option<Arc<dyn File>>,
    changes: Arc<Mutex<Changes>>,
}

impl Layered {
    fn length(&self, changes: &Changes) -> io::Result<u64> {
        match (changes.len, &self.base) {
            (Some(len), _) => Ok(len),
            (None, Some(base)) => base.len(),
            (None, None) => Ok(0),
        }
    }

    /// Fills a buffer from the base. Bytes past the base's end become zeros.
    fn read_base(&self, changes: &Changes, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0);
        let Some(base) = &self.base else {
            return Ok(());
        };
        let end = base.len()?.min(changes.cut.unwrap_or(u64::MAX));
        let len = end.saturating_sub(offset).min(buffer.len() as u64) as usize;
        match len {
            0 => Ok(()),
            len => base.read_at(offset, &mut buffer[..len]),
        }
    }
}

impl File for Layered {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let changes = locked(&self.changes);
        let end = offset + buffer.len() as u64;
        if end > self.length(&changes)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_base(&changes, offset, buffer)?;
        let pages = changes.pages.range(offset / PAGE..end.div_ceil(PAGE));
        for (&number, page) in pages {
            let (start, stop) = (number * PAGE, (number + 1) * PAGE);
            let (from, to) = (start.max(offset), stop.min(end));
            buffer[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut changes = locked(&self.changes);
        let end = offset + bytes.len() as u64;
        let len = self.length(&changes)?.max(end);
        for number in offset / PAGE..end.div_ceil(PAGE) {
            let start = number * PAGE;
            if !changes.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE as usize]);
                self.read_base(&changes, start, &mut page[..])?;
                changes.pages.insert(number, page);
            }
            let page = changes
                .pages
                .get_mut(&number)
                .expect("the page was just inserted");
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            page[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
        changes.len = Some(len);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = locked(&self.changes);
        if len < self.length(&changes)? {
            changes.cut = Some(changes.cut.unwrap_or(u64::MAX).min(len));
            changes.pages.split_off(&len.div_ceil(PAGE));
            if let Some(page) = changes.pages.get_mut(&(len / PAGE)) {
                page[(len % PAGE) as usize..].fill(0);
            }
        }
        changes.len = Some(len);
        Ok(())
    }

    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.length(&locked(&self.changes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;
    use seiner_random::Rng;

    fn bytes(disk: &dyn Disk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    /// An overlay and a separate disk that receive the same random changes read the same. The base keeps its
    /// bytes.
    #[test]
    fn an_overlay_reads_like_a_separate_disk_and_keeps_its_base_unchanged() {
        let mut rng = Rng::new(7);
        let (base, own) = (SimDisk::new(1), SimDisk::new(1));
        for disk in [&base, &own] {
            let file = disk.create("a").unwrap();
            file.write_at(0, &vec![7; 10_000]).unwrap();
            disk.create("b").unwrap().write_at(5, b"five").unwrap();
        }
        let before = (base.files(), bytes(&base, "a"), base.operations());
        let over = Overlay::new(Arc::new(base.clone())).unwrap();
        let disks: [&dyn Disk; 2] = [&over, &own];
        for round in 0..400 {
            let (kind, offset) = (rng.below(8), rng.below(20_000));
            let some = vec![round as u8; rng.below(9000) as usize];
            for disk in disks {
                match kind {
                    0 => disk.open("a").unwrap().set_len(offset).unwrap(),
                    1 => {
                        disk.rename("a", "c").unwrap();
                        disk.rename("b", "a").unwrap();
                        disk.rename("c", "b").unwrap();
                    }
                    2 if round % 7 == 0 => drop(disk.create("b").unwrap()),
                    _ => disk.open("a").unwrap().write_at(offset, &some).unwrap(),
                }
            }
            for name in ["a", "b"] {
                assert_eq!(bytes(&over, name), bytes(&own, name), "round {round}");
            }
        }
        over.remove("a").unwrap();
        assert_eq!(over.list().unwrap(), ["b"]);
        assert_eq!((base.files(), bytes(&base, "a")), (before.0, before.1));
    }
}
