//! Bucket as a target.

use crate::bucket::client::{Client, Listed};
use crate::bucket::contents::Contents;
use crate::bucket::manifest::{self, Entry, Manifest};
use crate::copy::{self, Copier, failed};
use crate::error::{Error, folder_error};
use crate::sealed;
use crate::target::Target;
use seiner_engine::inspect::FileKind;
use seiner_platform::{Directory, Disk};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Backup that is being written to a bucket. It is one as soon as its manifest is written.
pub struct BucketTarget {
    client: Arc<Client>,
    name: String,
    /// Keys of the segments in the latest backup.
    earlier: BTreeSet<String>,
    /// Lengths of the segments in the bucket, by key.
    present: Mutex<BTreeMap<String, u64>>,
    /// Objects of this backup by the name of the file.
    files: Mutex<BTreeMap<String, Entry>>,
    /// Copies of the files that change, until they are sent.
    scratch: Directory,
    /// Removes the directory of the copies at the end.
    _folder: TempDir,
}

impl BucketTarget {
    /// Begins a backup. `latest` is the latest one, `present` are the segments in the bucket.
    ///
    /// # Errors
    /// If no folder for the files that change can be created.
    pub fn begin(
        client: Arc<Client>,
        name: &str,
        latest: Option<&Manifest>,
        present: &[Listed],
    ) -> Result<BucketTarget, Error> {
        let context = || "creating a folder in TMPDIR for the files that change".to_string();
        let folder = tempfile::tempdir().map_err(folder_error(context))?;
        let earlier = latest.iter().flat_map(|latest| latest.files.values());
        let present = present
            .iter()
            .map(|listed| (listed.key.clone(), listed.bytes));
        Ok(BucketTarget {
            client,
            name: name.to_string(),
            earlier: earlier.map(|entry| entry.object.clone()).collect(),
            present: Mutex::new(present.collect()),
            files: Mutex::default(),
            scratch: Directory::open(folder.path()).map_err(folder_error(context))?,
            _folder: folder,
        })
    }

    /// Writes the manifest, if all segments are still in the bucket.
    ///
    /// # Errors
    /// If a request fails, or another run removed segments meanwhile.
    pub fn finish(&self, store: u64) -> Result<(), Error> {
        let present = self.client.list(manifest::SEGMENTS)?;
        let present: BTreeMap<&str, u64> = { present.iter() }
            .map(|listed| (listed.key.as_str(), listed.bytes))
            .collect();
        let files = self.files().clone();
        for (name, Entry { object, bytes }) in &files {
            let is_segment = FileKind::of(name) == FileKind::Segment;
            if is_segment && present.get(object.as_str()) != Some(bytes) {
                return Err(Error::Request(format!(
                    "{object} was removed or replaced during the backup; let one backup run at a time, and run this one again"
                )));
            }
        }
        let text = Manifest::new(store, files).encode()?;
        self.client.put(&manifest::key(&self.name), text.into())
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a segment a part of this backup if `is_wanted` is true for its key and the bucket has it.
    fn adopt(
        &self,
        source: &dyn Disk,
        name: &str,
        is_wanted: impl FnOnce(&str) -> bool,
    ) -> Result<bool, seiner_engine::Error> {
        let entry = entry(source, name)?;
        let is_there =
            is_wanted(&entry.object) && self.present().get(&entry.object) == Some(&entry.bytes);
        if is_there {
            self.files().insert(name.to_string(), entry);
        }
        Ok(is_there)
    }

    /// Sends a file to an object.
    fn upload(
        &self,
        disk: &dyn Disk,
        name: &str,
        entry: &Entry,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let context = || format!("reading {name}");
        let file = disk.open(name).map_err(failed(context))?;
        let mut read = |offset, buffer: &mut [u8]| {
            let read = copy::read(&*file, offset, buffer);
            Ok(read.map_err(failed(context))?)
        };
        self.client
            .upload(&entry.object, entry.bytes, &mut read, advance)?;
        self.files().insert(name.to_string(), entry.clone());
        Ok(())
    }
}

impl Target for BucketTarget {
    fn changing(&self) -> &dyn Disk {
        &self.scratch
    }

    fn keep(&self, source: &dyn Disk) -> Result<BTreeSet<String>, seiner_engine::Error> {
        self.files().clear();
        let copier = Copier {
            source,
            target: &self.scratch,
        };
        copier.tidy()?;
        let context = || "listing the segments".to_string();
        let mut kept = BTreeSet::new();
        for name in sealed::names(source)
            .map_err(failed(context))?
            .into_values()
        {
            if self.adopt(source, &name, |key| !self.earlier.contains(key))? {
                kept.insert(name);
            }
        }
        Ok(kept)
    }

    fn reuse(&self, source: &dyn Disk, name: &str) -> Result<bool, Error> {
        Ok(self.adopt(source, name, |key| self.earlier.contains(key))?)
    }

    fn send(
        &self,
        source: &dyn Disk,
        name: &str,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let entry = entry(source, name)?;
        self.upload(source, name, &entry, advance)?;
        self.present().insert(entry.object, entry.bytes);
        Ok(())
    }

    fn pending(&self, changing: u64) -> u64 {
        changing
    }

    fn complete(&self, advance: &mut dyn FnMut(u64)) -> Result<Arc<dyn Disk>, Error> {
        let context = || "listing the files that change".to_string();
        for name in self.scratch.list().map_err(failed(context))? {
            let length = self.scratch.open(&name).and_then(|file| file.len());
            let entry = Entry {
                object: manifest::own_key(&self.name, &name),
                bytes: length.map_err(failed(context))?,
            };
            self.upload(&self.scratch, &name, &entry, advance)?;
        }
        Ok(Arc::new(Contents {
            client: self.client.clone(),
            files: self.files().clone(),
        }))
    }

    fn free(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Returns the object of a sealed segment.
fn entry(source: &dyn Disk, name: &str) -> Result<Entry, seiner_engine::Error> {
    let read = || -> io::Result<Entry> {
        let file = source.open(name)?;
        let bytes = file.len()?;
        let tail = sealed::tail(&*file, bytes)?;
        let stem = sealed::stem(name).unwrap_or(name);
        Ok(Entry {
            object: manifest::segment_key(stem, bytes, &tail),
            bytes,
        })
    };
    read().map_err(failed(|| format!("reading {name}")))
}
