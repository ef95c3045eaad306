//! Destination of written data: a server, or a directory that no server has open.

use crate::failure::Failure;
use crate::remote::Remote;
use crate::server_access::ServerAccess;
use anyhow::Context;
use clap::Args;
use seiner_engine::{Engine, Given, Options};
use seiner_server::Layers;
use seiner_store::Store;
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
}

/// Opens the store in a directory, under the rules stored there. A new store gets the default rules.
pub fn open_directory(directory: &Path) -> anyhow::Result<Arc<dyn Store>> {
    let store = Engine::open_directory(directory, process_options()?)
        .with_context(|| format!("the directory {} was not opened", directory.display()))?;
    Ok(store)
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
