//! Objects of a backup as a disk, for reading.

use crate::bucket::client::{Client, PART};
use crate::bucket::manifest::Entry;
use crate::joined::read_only;
use bytes::Bytes;
use seiner_platform::{Disk, File};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Files of a backup in a bucket.
pub struct Contents {
    /// Client of the bucket.
    pub client: Arc<Client>,
    /// Objects by the name of the file.
    pub files: BTreeMap<String, Entry>,
}

impl Disk for Contents {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let entry = self.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(Object {
            client: self.client.clone(),
            entry: entry.clone(),
            ahead: Mutex::new((0, Bytes::new())),
        }))
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        read_only()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        read_only()
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_names(&self) -> io::Result<()> {
        read_only()
    }
}

/// Object as a file. A request reads ahead, because files are read from their beginning to their end.
struct Object {
    client: Arc<Client>,
    entry: Entry,
    /// Offset and bytes of the latest request.
    ahead: Mutex<(u64, Bytes)>,
}

impl Object {
    /// Returns the bytes from an offset: at least one, at most `wanted`.
    fn piece(&self, offset: u64, wanted: usize) -> io::Result<Bytes> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = offset >= ahead.0 && offset < ahead.0 + ahead.1.len() as u64;
        if !is_there {
            let end = self.entry.bytes.min(offset + PART.max(wanted as u64));
            let bytes = self.client.range(&self.entry.object, offset..end);
            *ahead = (offset, bytes.map_err(io::Error::other)?);
        }
        let from = (offset - ahead.0) as usize;
        Ok(ahead.1.slice(from..ahead.1.len().min(from + wanted)))
    }
}

impl File for Object {
    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(buffer.len() as u64) > self.entry.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !buffer.is_empty() {
            let piece = self.piece(offset, buffer.len())?;
            let (filled, rest) = buffer.split_at_mut(piece.len());
            filled.copy_from_slice(&piece);
            offset += piece.len() as u64;
            buffer = rest;
        }
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.entry.bytes)
    }
}
