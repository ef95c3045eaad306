//! Destination of written data: a server, or a directory that no server has open.

use crate::failure::Failure;
use crate::login::Login;
use crate::remote::Remote;
use anyhow::Context;
use clap::Args;
use seiner_engine::{Engine, Given, Options};
use seiner_server::Layers;
use seiner_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Address of a server that was started without arguments.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7670";

// Destination flags. Not a doc comment: it would remove the description of the command from its help.
#[derive(Args)]
pub struct Target {
    /// Address of the server to write to.
    #[arg(long, value_name = "URL", default_value = DEFAULT_SERVER, conflicts_with = "data")]
    to: String,
    #[command(flatten)]
    login: Login,
    /// Directory of a store to write to instead of a server. It is created if it is missing. Faster
    /// than a server, but no server may have the directory open. The store applies the rules that
    /// are stored with its data, and ignores ./seiner.toml.
    #[arg(long, value_name = "DIR")]
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
    /// Opens the destination.
    pub fn open(&self) -> Result<Open, Failure> {
        Ok(match &self.data {
            Some(directory) => Open::Store(open_directory(directory)?),
            None => Open::Server(Remote::new(&self.to, &self.login)?),
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
