//! Requests to an object store, each of which blocks its caller.

use crate::error::Error;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, WriteMultipart};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Bytes of a part of an upload. S3 takes parts of at least 5 MiB, and at most 10,000 of them.
pub const PART: u64 = 8 << 20;
/// Maximum number of parts that are on their way at a time.
const PARTS: usize = 4;

/// Objects below a prefix of an object store. Keys are relative to it.
pub struct Client {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
}

/// Object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Key of the object.
    pub key: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Time at which it was written by the clock of the object store, s since 1970.
    pub written: i64,
}

/// Function that fills a buffer with the bytes from an offset.
pub type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> Result<(), Error>;

impl Client {
    /// Creates a client of the objects below a prefix.
    ///
    /// # Errors
    /// If the threads of the requests cannot be started.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path) -> Result<Client, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::Request(format!("starting threads for requests: {error}")))?;
        Ok(Client {
            store,
            prefix,
            runtime,
        })
    }

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// If the request fails.
    pub fn get(&self, key: &str) -> Result<Option<Bytes>, Error> {
        let location = self.at(key)?;
        let result = self
            .runtime
            .block_on(async { self.store.get(&location).await?.bytes().await });
        match result {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            result => result.map(Some).map_err(failed(|| reading(key))),
        }
    }

    /// Reads a range of an object.
    ///
    /// # Errors
    /// If the request fails, or the object has fewer bytes.
    pub fn range(&self, key: &str, range: Range<u64>) -> Result<Bytes, Error> {
        let location = self.at(key)?;
        let wanted = range.end - range.start;
        let bytes = self.wait(|| reading(key), self.store.get_range(&location, range))?;
        match bytes.len() as u64 == wanted {
            true => Ok(bytes),
            false => Err(Error::Request(format!(
                "{key} ends after {} of {wanted} bytes",
                bytes.len()
            ))),
        }
    }

    /// Writes an object.
    ///
    /// # Errors
    /// If the request fails.
    pub fn put(&self, key: &str, bytes: Bytes) -> Result<(), Error> {
        let location = self.at(key)?;
        self.wait(|| writing(key), self.store.put(&location, bytes.into()))?;
        Ok(())
    }

    /// Writes an object of `length` bytes from a file. `advance` is called with the bytes of each part that is sent.
    ///
    /// # Errors
    /// If a request or `read` fails. The object is unchanged then.
    pub fn upload(
        &self,
        key: &str,
        length: u64,
        read: Read<'_>,
        advance: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if length <= PART {
            self.put(key, part(0, length, read)?)?;
            advance(length);
            return Ok(());
        }
        let location = self.at(key)?;
        let upload = self.wait(|| writing(key), self.store.put_multipart(&location))?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART as usize);
        let sent = self.runtime.block_on(async {
            let mut offset = 0;
            while offset < length {
                let bytes = (length - offset).min(PART);
                let room = parts.wait_for_capacity(PARTS).await;
                room.map_err(failed(|| writing(key)))?;
                parts.put(part(offset, bytes, read)?);
                offset += bytes;
                advance(bytes);
            }
            Ok(())
        });
        match sent {
            Ok(()) => self.wait(|| writing(key), parts.finish()).map(drop),
            Err(error) => {
                // The first error counts. Parts that stay are the business of the bucket's rules.
                _ = self.runtime.block_on(parts.abort());
                Err(error)
            }
        }
    }

    /// Lists the objects in a folder, and in the folders in it.
    ///
    /// # Errors
    /// If a request fails.
    pub fn list(&self, folder: &str) -> Result<Vec<Listed>, Error> {
        let location = self.at(folder)?;
        let objects = self.store.list(Some(&location)).try_collect::<Vec<_>>();
        let objects = self.wait(|| format!("listing {folder}"), objects)?;
        Ok({ objects.iter() }
            .filter_map(|object| self.listed(object))
            .collect())
    }

    /// Lists the objects that are in no folder, and the names of the folders.
    ///
    /// # Errors
    /// If a request fails.
    pub fn top(&self) -> Result<(Vec<Listed>, Vec<String>), Error> {
        let list = self.store.list_with_delimiter(Some(&self.prefix));
        let list = self.wait(|| "listing the backups".to_string(), list)?;
        let objects = { list.objects.iter() }.filter_map(|object| self.listed(object));
        let folders = list.common_prefixes.iter();
        let folders = folders.filter_map(|folder| folder.filename().map(str::to_string));
        Ok((objects.collect(), folders.collect()))
    }

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// If the request fails.
    pub fn remove(&self, key: &str) -> Result<(), Error> {
        let location = self.at(key)?;
        match self.runtime.block_on(self.store.delete(&location)) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            result => result.map_err(failed(|| format!("removing {key}"))),
        }
    }

    fn listed(&self, object: &ObjectMeta) -> Option<Listed> {
        let parts: Vec<_> = object.location.prefix_match(&self.prefix)?.collect();
        let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
        Some(Listed {
            key: parts.join("/"),
            bytes: object.size,
            written: object.last_modified.timestamp(),
        })
    }

    /// Returns the full path of a key.
    fn at(&self, key: &str) -> Result<Path, Error> {
        let relative = Path::parse(key)
            .map_err(|error| Error::Request(format!("{key} is no name of an object: {error}")))?;
        Ok(self.prefix.parts().chain(relative.parts()).collect())
    }

    fn wait<T>(
        &self,
        context: impl Fn() -> String,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Error> {
        self.runtime.block_on(request).map_err(failed(context))
    }
}

/// Reads a part of a file.
fn part(offset: u64, bytes: u64, read: Read<'_>) -> Result<Bytes, Error> {
    let mut part = vec![0; bytes as usize];
    read(offset, &mut part)?;
    Ok(part.into())
}

fn reading(key: &str) -> String {
    format!("reading {key}")
}

fn writing(key: &str) -> String {
    format!("writing {key}")
}

/// Adds the failed operation to an error of the object store.
pub fn failed<C: Fn() -> String>(context: C) -> impl FnOnce(object_store::Error) -> Error {
    move |error| Error::Bucket {
        context: context(),
        error: Box::new(error),
    }
}
