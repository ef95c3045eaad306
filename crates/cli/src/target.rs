//! Where data go to: a server, or a directory that no server has open.

use crate::failure::Failure;
use crate::remote::Remote;
use anyhow::Context;
use clap::Args;
use seiner_engine::Engine;
use seiner_server::Layers;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a server listens that was started without arguments.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7670";

/// Where data go to.
#[derive(Args)]
pub struct Target {
    /// The server that takes the data.
    #[arg(long, value_name = "URL", default_value = DEFAULT_SERVER, conflicts_with = "data")]
    to: String,
    /// Write straight into this directory instead, which is made if it is missing. Faster, and no
    /// server is needed; none may have the directory open. Settings are those that a server started
    /// here would have: of ./seiner.toml and the environment.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// A target that is ready.
pub enum Open {
    /// A store in this process.
    Store(Arc<Engine>),
    /// A server.
    Server(Remote),
}

impl Target {
    /// Gets it ready.
    pub fn open(&self) -> Result<Open, Failure> {
        Ok(match &self.data {
            Some(directory) => Open::Store(open_directory(directory)?),
            None => Open::Server(Remote::new(&self.to)),
        })
    }
}

/// Opens the store in a directory, with the budget and the classes that a server started here would
/// have: with others it would keep more, or less.
pub fn open_directory(directory: &Path) -> anyhow::Result<Arc<Engine>> {
    let settings = Layers::gather(None, |_| None, &[])?.settings()?;
    Engine::open_directory(directory, settings.options())
        .with_context(|| format!("the directory {} was not opened", directory.display()))
}
