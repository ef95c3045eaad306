//! `seiner raid serve`: runs an array and exports it.

use super::control::Control;
use super::monitor::RunningArray;
use super::running::RunningFlags;
use crate::failure::Failure;
use anyhow::anyhow;
use clap::Args;
use seiner_nbd::{Address, Limits, Offer, Server};
use seiner_raid::Array;
use seiner_server::array::Panel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run an array, and export it as a network block device (NBD).
///
/// The array runs until `seiner raid stop`, SIGTERM or SIGINT. Everything is then durable, and the
/// next start has nothing to repair. Clients: nbd-client, qemu, nbdfuse, nbdcopy, fio.
#[derive(Args)]
pub struct Serve {
    /// Address of the export: a path with a `/` for a Unix socket, or an address such as
    /// 127.0.0.1:10809. May be given several times.
    ///
    /// NBD has neither encryption nor authentication, so only addresses of this machine are
    /// accepted.
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<String>,
    /// Name of the export. Clients that name no export get this one too.
    #[arg(long, value_name = "NAME", default_value = "array")]
    name: String,
    /// Path of the control socket, which the other commands use to control this process.
    #[arg(long, value_name = "PATH", default_value = "seiner-raid.sock")]
    control: PathBuf,
    /// Address of this machine for the status page, /metrics for Prometheus and /status as JSON,
    /// such as 127.0.0.1:10810.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    running: RunningFlags,
}

impl Serve {
    /// Runs until a request or a signal orders the end.
    pub fn run(self) -> Result<(), Failure> {
        let addresses = self.nbd.iter().map(|text| text.parse::<Address>());
        let addresses = addresses.collect::<Result<Vec<Address>, _>>();
        let addresses = addresses.map_err(|error| Failure::Usage(error.to_string()))?;
        let control = Control::listen(&self.control)?;
        let over = watch_signals(&self.control)?;
        let array = Arc::new(self.running.assemble()?);
        let server = export(&array, &self.name, &addresses)?;
        let exports: Vec<String> = server
            .iter()
            .flat_map(|server| server.addresses())
            .map(|at| uri(at, &self.name))
            .collect();
        for export in &exports {
            eprintln!("The volume is at {export}");
        }
        let panel = self.panel(&array, &exports)?;
        eprintln!("The control socket is {}", self.control.display());
        control.serve(&array, &exports, || over.load(Ordering::SeqCst));
        // Clients are closed first, after their requests in flight are answered.
        drop(server);
        drop(panel);
        let stopped = array.stop();
        drop(control);
        Ok(stopped.map_err(|failure| anyhow!("the last flush failed: {failure}"))?)
    }
}

impl Serve {
    /// Starts the status page if an address was given.
    fn panel(&self, array: &Arc<Array>, exports: &[String]) -> Result<Option<Panel>, Failure> {
        let Some(address) = self.http else {
            return Ok(None);
        };
        let monitored = RunningArray {
            array: array.clone(),
            exports: exports.to_vec(),
        };
        let panel = Panel::listen(address, Arc::new(monitored))?;
        eprintln!("The status page is at http://{}/", panel.address());
        Ok(Some(panel))
    }
}

/// Exports the array; returns `None` if no address is given.
fn export(
    array: &Arc<Array>,
    name: &str,
    addresses: &[Address],
) -> Result<Option<Server>, Failure> {
    if addresses.is_empty() {
        return Ok(None);
    }
    let description = array
        .uuid()
        .map_or_else(String::new, |uuid| format!("array {uuid}"));
    let offer = Offer::new(name, &description, array.clone());
    Ok(Some(Server::start(
        vec![offer],
        addresses,
        Limits::default(),
    )?))
}

/// Returns the URI of an export for clients.
fn uri(address: &Address, name: &str) -> String {
    match address {
        Address::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
        Address::Tcp(address) => format!("nbd://{address}/{name}"),
    }
}

/// Starts a thread that, on a signal, sets the returned flag and connects to the control socket to wake it.
fn watch_signals(control: &Path) -> Result<Arc<AtomicBool>, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (flag, control) = (over.clone(), control.to_path_buf());
    let watch = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                // A second signal ends the process at once.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            flag.store(true, Ordering::SeqCst);
            let _ = UnixStream::connect(&control);
        }
    };
    std::thread::Builder::new()
        .name("signals".to_string())
        .spawn(watch)?;
    Ok(over)
}
