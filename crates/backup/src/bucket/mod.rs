//! Backups in an object store.
//!
//! Sealed segments are objects that backups share. The files that change are objects of one backup. Its manifest lists
//! all of them. It is written last, and makes them a backup.

mod address;
mod client;
mod contents;
mod manifest;
mod removal;
#[cfg(test)]
mod tests;
mod upload;

use crate::error::Error;
use crate::moment::Source;
use crate::name::{self, is_name};
use crate::run::{self, Plan, Progress, Work};
use client::Client;
use contents::Contents;
use manifest::Manifest;
use object_store::ObjectStore;
use object_store::path::Path as Prefix;
use seiner_engine::Damage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use upload::BucketTarget;

/// Backups of one store below a prefix of an object store.
pub struct Bucket {
    client: Arc<Client>,
    /// URL of the prefix, without a slash at its end.
    url: String,
    /// Name of the backup at the end of the URL, if it has one.
    chosen: Option<String>,
}

impl Bucket {
    /// Opens the bucket of a URL, which may end with the name of a backup.
    ///
    /// # Errors
    /// If the URL names no object store.
    pub fn open(url: &str) -> Result<Bucket, Error> {
        let (store, prefix) = address::connect(url)?;
        Bucket::new(store, prefix, url)
    }

    fn new(store: Arc<dyn ObjectStore>, mut prefix: Prefix, url: &str) -> Result<Bucket, Error> {
        let mut url = url.trim_end_matches('/').to_string();
        let chosen = { prefix.filename() }
            .filter(|name| is_name(name))
            .map(str::to_string);
        if let Some(name) = &chosen {
            prefix = prefix.parent().unwrap_or_default();
            url.truncate(url.len() - name.len() - 1);
        }
        Ok(Bucket {
            client: Arc::new(Client::new(store, prefix)?),
            url,
            chosen,
        })
    }

    /// Copies the store in a directory into a new backup. Returns its URL and the work.
    ///
    /// # Errors
    /// If the bucket belongs to another store, the store's files change faster than they can be copied, or a disk or a
    /// request fails. The next call continues.
    pub fn back_up(
        &self,
        data: &Path,
        store: u64,
        plan: &Plan<'_>,
        progress: Progress<'_>,
    ) -> Result<(String, Work), Error> {
        if let Some(name) = &self.chosen {
            return Err(Error::Request(format!(
                "{name} is the name of a backup; name what is before it: {}",
                self.url
            )));
        }
        let latest = self.names()?.pop();
        let name = name::next(latest.as_deref(), plan.clock.now())?;
        let latest = latest.map(|name| self.manifest(&name)).transpose()?;
        if let Some(latest) =
            { latest.as_ref() }.filter(|latest| latest.store != manifest::digits(store))
        {
            return Err(Error::Request(format!(
                "{} has backups of another store ({}) than {} ({}); name a prefix of its own for each store",
                self.url,
                latest.store,
                data.display(),
                manifest::digits(store)
            )));
        }
        let present = self.client.list(manifest::SEGMENTS)?;
        let target = BucketTarget::begin(self.client.clone(), &name, latest.as_ref(), &present)?;
        let work = run::copy(&Source::Live(data), &target, plan, progress)?;
        target.finish(store)?;
        Ok((format!("{}/{name}", self.url), work))
    }

    /// Returns the files of the chosen or the latest backup, and those whose objects are missing.
    ///
    /// # Errors
    /// If there is no such backup, or a request fails.
    pub fn contents(&self) -> Result<(Source<'static>, Vec<Damage>), Error> {
        let name = match &self.chosen {
            Some(name) => name.clone(),
            None => self.names()?.pop().ok_or_else(|| {
                Error::Request(format!(
                    "{} has no complete backup; name a URL that `seiner backup` wrote to",
                    self.url
                ))
            })?,
        };
        let mut files = self.manifest(&name)?.files;
        let mut present = self.client.list(manifest::SEGMENTS)?;
        present.extend(self.client.list(&name)?);
        let lengths: BTreeMap<_, _> = { present.into_iter() }
            .map(|object| (object.key, object.bytes))
            .collect();
        let mut missing = Vec::new();
        files.retain(|file, entry| {
            let found = lengths.get(&entry.object);
            let is_there = found == Some(&entry.bytes);
            if !is_there {
                missing.push(Damage {
                    file: file.clone(),
                    offset: 0,
                    what: absent(&entry.object, entry.bytes, found.copied()),
                });
            }
            is_there
        });
        let client = self.client.clone();
        Ok((Source::Still(Arc::new(Contents { client, files })), missing))
    }

    /// Removes the oldest backups but the latest `keep`, and what no backup needs. Returns their names.
    ///
    /// # Errors
    /// If a request fails.
    pub fn remove_old(&self, keep: usize) -> Result<Vec<String>, Error> {
        removal::remove_old(&self.client, keep)
    }

    /// Returns the names of the complete backups, oldest first.
    fn names(&self) -> Result<Vec<String>, Error> {
        let (objects, _) = self.client.top().map_err(|error| match error {
            Error::Bucket { context, error } => Error::Bucket {
                context: context + &address::note(&self.url),
                error,
            },
            other => other,
        })?;
        let names = objects
            .iter()
            .filter_map(|object| manifest::name_of(&object.key));
        let mut names: Vec<String> = names.map(str::to_string).collect();
        names.sort();
        Ok(names)
    }

    fn manifest(&self, name: &str) -> Result<Manifest, Error> {
        let key = manifest::key(name);
        match self.client.get(&key)? {
            Some(bytes) => Manifest::decode(&key, &bytes),
            None => Err(Error::Request(format!(
                "{} has no backup {name}; it has: {}",
                self.url,
                self.names()?.join(", ")
            ))),
        }
    }
}

fn absent(object: &str, bytes: u64, found: Option<u64>) -> String {
    match found {
        None => format!("the object {object} is missing in the bucket"),
        Some(found) => format!("the object {object} has {found} of {bytes} bytes"),
    }
}
