//! `seiner serve`: runs the server.

use crate::failure::Failure;
use crate::flags::SettingFlags;
use clap::{ArgAction, Args};
use seiner_server::{Extensions, Server, Settings};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Run the server: ports for writes and queries, the web page, and the host's own sensors.
///
/// Works without arguments: the server stores data in ./seiner-data, listens on loopback, and
/// records the host's own sensors every second. SIGTERM and SIGINT stop it without loss. With
/// --array, the server stores data without a file system on an array that `seiner raid create`
/// made: docs/raid.md. With --cluster, the server
/// is a port of a cluster: docs/cluster.md.
#[derive(Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "All settings: seiner serve --help-all, or docs/config.md")]
pub struct Serve {
    /// Print help with the most important settings.
    #[arg(short, long, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Print help with all settings.
    #[arg(long, action = ArgAction::HelpLong)]
    help_all: Option<bool>,
    #[command(flatten)]
    settings: SettingFlags,
    /// Apply retention rules that drop data sooner than the rules stored with the data.
    ///
    /// Retention classes, `disk` and other rules are stored in the data directory and apply where
    /// no setting is given. If settings would drop data sooner, the server prints the data that
    /// would be dropped, and starts only with this flag. Dropped data cannot be restored.
    #[arg(long)]
    apply_retention: bool,
}

impl Serve {
    /// Runs the server until a signal arrives.
    pub fn run(self) -> Result<(), Failure> {
        let mut settings = self
            .settings
            .layers()?
            .settings()
            .map_err(|error| Failure::Usage(error.to_string()))?;
        settings.apply_retention = self.apply_retention;
        settings.check_exposure().map_err(Failure::Usage)?;
        seiner_server::access::check(&settings).map_err(Failure::Usage)?;
        let filter = EnvFilter::builder().parse(&settings.log).map_err(|error| {
            Failure::Usage(format!("log: {:?} is not a filter ({error}); write info, or a list such as info,seiner_server=debug", settings.log))
        })?;
        tracing_subscriber::fmt()
            .with_env_filter(quiet_driver(filter, &settings.log))
            .with_writer(stderr)
            .with_ansi(stderr().is_terminal())
            .init();
        match settings.array.is_empty() {
            _ if !settings.cluster.is_empty() => on_cluster(settings),
            true => Ok(seiner_server::run(extensions(), settings, announce)?),
            false => on_array(settings),
        }
    }
}

/// Limits the messages of the driver of Cassandra to warnings, unless the setting `log` names the driver: it reports every
/// connection.
fn quiet_driver(filter: EnvFilter, log: &str) -> EnvFilter {
    match log.contains("scylla") {
        true => filter,
        false => filter.add_directive("scylla=warn".parse().expect("a valid directive")),
    }
}

/// Returns the parts that this program contains besides the store.
fn extensions() -> Extensions {
    Extensions {
        target: None,
        #[cfg(feature = "plan")]
        planner: Some(std::sync::Arc::new(crate::planner::PagePlanner)),
        #[cfg(not(feature = "plan"))]
        planner: None,
        store: None,
        cluster: None,
    }
}

#[cfg(feature = "cluster")]
fn on_cluster(settings: Settings) -> Result<(), Failure> {
    let extensions = crate::cluster::extend(extensions(), &settings)?;
    Ok(seiner_server::run(extensions, settings, announce)?)
}

#[cfg(not(feature = "cluster"))]
fn on_cluster(_: Settings) -> Result<(), Failure> {
    Err(Failure::Usage(
        "cluster: this program was built without the feature `cluster`; build it with the feature, or leave the setting out"
            .to_string(),
    ))
}

#[cfg(feature = "raid")]
fn on_array(settings: Settings) -> Result<(), Failure> {
    let store = crate::raid::store::ArrayStore::start(&settings)?;
    let extensions = Extensions {
        target: Some(store.target()),
        ..extensions()
    };
    let served = seiner_server::run(extensions, settings, announce);
    // The array is stopped cleanly even if the server failed.
    let stopped = store.stop();
    served?;
    stopped
}

#[cfg(not(feature = "raid"))]
fn on_array(_: Settings) -> Result<(), Failure> {
    Err(Failure::Usage(
        "array: this program was built without the feature `raid`; build it with the feature, or use a directory (data)"
            .to_string(),
    ))
}

fn announce(server: &Server) {
    let scheme = match server.is_encrypted() {
        true => "https",
        false => "http",
    };
    eprintln!(
        "The page is at {scheme}://{}/ and takes writes at {scheme}://{0}/write",
        server.address()
    );
    if let Some(address) = server.line_address() {
        eprintln!("Line protocol is taken over TCP at {address}");
    }
}
