//! Destination of written data: a server, or a directory that no server has open.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::Context;
use clap::Args;
use seiner_engine::{Engine, Given, Options};
use seiner_model::parse_bytes;
use seiner_server::Layers;
use seiner_store::Store;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

// Destination flags. Not a doc comment: it would remove the description of the command from its help.
#[derive(Args)]
pub struct Target {
    #[command(flatten)]
    access: ServerAccess,
    /// Old name of --server.
    #[arg(long, value_name = "URL", hide = true, conflicts_with_all = ["server", "data"])]
    to: Option<String>,
    /// Directory of a store to write to instead of a server. It is created if it is missing. Faster
    /// than a server, but no server may have the directory open. The store applies the rules that
    /// are stored with its data, and ignores ./seiner.toml.
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data: Option<PathBuf>,
}

// Flags of a store that an import creates. Not a doc comment, as above.
#[derive(Args)]
pub struct Archive {
    /// Size of a block in a store that this command creates, from 256 to 64KiB. Large blocks
    /// compress better and are cheaper to read. A server that opens the directory later uses the
    /// same size, unless its `block_bytes` states another one [default: 64KiB]
    #[arg(long, value_name = "SIZE", requires = "data", value_parser = block_bytes)]
    pub block_bytes: Option<u32>,
}

fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_bytes(text)?).ok();
    bytes
        .filter(|bytes| Options::BLOCK_BYTES.contains(bytes))
        .ok_or_else(|| format!("{text} is not between 256 bytes and 64 KiB"))
}

/// An opened destination.
pub enum Open {
    /// A store in this process.
    Store(Arc<dyn Store>),
    /// A server.
    Server(Remote),
}

impl Target {
    fn remote(&self) -> anyhow::Result<Remote> {
        match &self.to {
            Some(address) => Remote::new(address, &self.access),
            None => Remote::of(&self.access),
        }
    }

    /// Opens the destination.
    pub fn open(&self) -> Result<Open, Failure> {
        Ok(match &self.data {
            Some(directory) => Open::Store(open_directory(directory)?),
            None => Open::Server(self.remote()?),
        })
    }

    /// Opens the destination. If this creates a store, its blocks are as large as possible, or have `block_bytes`
    /// bytes.
    pub fn open_archive(&self, block_bytes: Option<u32>) -> Result<Open, Failure> {
        let Some(directory) = &self.data else {
            return self.open();
        };
        let mut options = process_options()?;
        if is_new(directory) {
            options.block_bytes = block_bytes.unwrap_or(*Options::BLOCK_BYTES.end());
        } else if block_bytes.is_some() {
            eprintln!(
                "note: --block-bytes is not used: {} exists and keeps its rules",
                directory.display()
            );
        }
        Ok(Open::Store(open_with(directory, options)?))
    }

    /// Returns true if the destination is a directory.
    pub fn is_directory(&self) -> bool {
        self.data.is_some()
    }
}

/// Opens the store in a directory, under the rules stored there. A new store gets the default rules.
pub fn open_directory(directory: &Path) -> anyhow::Result<Arc<dyn Store>> {
    open_with(directory, process_options()?)
}

fn open_with(directory: &Path, options: Options) -> anyhow::Result<Arc<dyn Store>> {
    let store = Engine::open_directory(directory, options)
        .with_context(|| format!("the directory {} was not opened", directory.display()))?;
    Ok(store)
}

/// Returns true if a directory does not exist or is empty.
fn is_new(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Opens the store in a directory for reading. Nothing in the directory changes, and a server may have it open.
pub fn read_directory(directory: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(open_to_read(directory)?))
}

/// Opens the store in a directory for reading, as an engine.
pub fn open_to_read(directory: &Path) -> anyhow::Result<Engine> {
    let engine = Engine::open_to_read(directory, process_options()?)
        .with_context(|| format!("the directory {} was not opened", directory.display()))?;
    for (file, why) in &engine.recovery().set_aside {
        eprintln!("warning: {file}: {why}");
    }
    Ok(engine)
}

/// Returns the settings of this process that the environment sets. None of them is a stored rule.
fn process_options() -> anyhow::Result<Options> {
    let mut layers = Layers::default();
    layers.environment(|variable| std::env::var(variable).ok())?;
    let settings = layers.settings()?;
    Ok(Options {
        durability: settings.durability,
        memory: settings.options().memory,
        idle_seal: settings.idle_seal,
        given: Given::NONE,
        ..Options::default()
    })
}
