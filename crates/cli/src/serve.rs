//! `seiner serve`: runs the server.

use crate::failure::Failure;
use crate::flags::SettingFlags;
use crate::log_lines::LogLines;
use clap::{ArgAction, Args};
use seiner_server::settings::LogFormat;
use seiner_server::{Extensions, Server, Settings};
use std::backtrace::{Backtrace, BacktraceStatus};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, registry};

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
        let format = settings.log_format;
        registry()
            .with(layer(filter, &settings.log))
            .with(LogLines::on_stderr(format))
            .init();
        if format == LogFormat::Json {
            std::panic::set_hook(Box::new(log_panic));
        }
        let served = match settings.array.is_empty() {
            _ if !settings.cluster.is_empty() => on_cluster(settings),
            true => {
                seiner_server::run(extensions(), settings, announcer(format)).map_err(Failure::from)
            }
            false => on_array(settings),
        };
        match served {
            // Every line is JSON, the last one as well.
            Err(Failure::Failed(error)) if format == LogFormat::Json => {
                tracing::error!("{error:#}");
                Err(Failure::Rejected)
            }
            served => served,
        }
    }
}

/// Logs a panic as one line.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let trace = Backtrace::capture();
    let is_captured = trace.status() == BacktraceStatus::Captured;
    tracing::error!(
        target: "panic",
        thread = thread.name(),
        backtrace = is_captured.then(|| trace.to_string()),
        "{panic}"
    );
}

/// Returns the filter as a layer. A filter of levels and parts costs less per request than one that looks at spans.
///
/// The messages of the driver of Cassandra are limited to warnings, unless the setting `log` names the driver: it reports
/// every connection.
fn layer(filter: EnvFilter, log: &str) -> Box<dyn Layer<Registry> + Send + Sync> {
    let is_quiet = !log.contains("scylla");
    match log.parse::<Targets>() {
        Ok(targets) if is_quiet => targets.with_target("scylla", LevelFilter::WARN).boxed(),
        Ok(targets) => targets.boxed(),
        Err(_) if is_quiet => {
            let quiet = "scylla=warn".parse().expect("a valid directive");
            filter.add_directive(quiet).boxed()
        }
        Err(_) => filter.boxed(),
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
    let announce = announcer(settings.log_format);
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
    let announce = announcer(settings.log_format);
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

/// Returns a function that prints the addresses of a server: for people, or as lines of the log in JSON.
fn announcer(format: LogFormat) -> impl FnOnce(&Server) {
    let print = move |text: String| match format {
        LogFormat::Text => eprintln!("{text}"),
        LogFormat::Json => tracing::info!("{text}"),
    };
    move |server| {
        let scheme = match server.is_encrypted() {
            true => "https",
            false => "http",
        };
        print(format!(
            "The page is at {scheme}://{}/ and takes writes at {scheme}://{0}/write",
            server.address()
        ));
        if let Some(address) = server.line_address() {
            print(format!("Line protocol is taken over TCP at {address}"));
        }
    }
}
