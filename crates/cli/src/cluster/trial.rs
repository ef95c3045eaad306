//! `seiner cluster try`: a cluster of Cassandra and ports on this machine.

use crate::failure::Failure;
use anyhow::{Context, bail};
use clap::Args;
use seiner_cassandra::local::{LocalCluster, Options, obstacle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// First number of the ports of HTTP.
const FIRST_HTTP_PORT: u16 = 7670;
/// Interval at which signals and ports are checked.
const POLL: Duration = Duration::from_millis(200);
/// Time before a port is started again.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of restarts of a port.
const MAX_RESTARTS: u32 = 5;

/// Run a cluster on this machine: nodes of Cassandra and a server for each.
///
/// Needs Java 17. Cassandra is fetched by Maven the first time (70 MB). Three nodes take about 3 GB of memory and half a
/// minute to start. Ctrl-C stops everything; the data stays in the directory.
#[derive(Args)]
pub struct Try {
    /// Directory of the nodes and ports.
    #[arg(long, value_name = "DIR", default_value = "seiner-cluster")]
    data: PathBuf,
    /// Number of nodes, and of ports. Rows are on up to three nodes.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=7))]
    nodes: u16,
    /// Interval at which the ports record the sensors of this host, or off.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    host_sensors: String,
    /// Only report whether this machine can run the cluster.
    #[arg(long)]
    check: bool,
}

impl Try {
    /// Runs the cluster until a signal arrives.
    pub fn run(self) -> Result<(), Failure> {
        let options = Options::new(usize::from(self.nodes), self.data.join("cassandra"));
        if let Some(obstacle) = obstacle(&options) {
            return Err(Failure::Failed(anyhow::anyhow!(obstacle)));
        }
        if self.check {
            return Ok(());
        }
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        eprintln!(
            "Starting {} nodes of Cassandra in {}",
            self.nodes,
            self.data.display()
        );
        let cluster = LocalCluster::start(options).context("Cassandra was not started")?;
        let hosts: Vec<String> = (1..=usize::from(self.nodes))
            .map(|node| cluster.address(node).to_string())
            .collect();
        let replicas = self.nodes.min(3);
        let url = format!("cassandra://{}/seiner?rf={replicas}", hosts.join(","));
        let mut ports = Vec::new();
        for number in 1..=self.nodes {
            ports.push(self.start_port(number, &url)?);
        }
        eprintln!("The cluster is {url}");
        eprintln!("The page is at http://127.0.0.1:{FIRST_HTTP_PORT}/. Ctrl-C stops the cluster.");
        let ended = supervise(&mut signals, &mut ports);
        match &ended {
            Ok(signal) => eprintln!("Stopping after signal {signal}"),
            Err(error) => eprintln!("Stopping: {error}"),
        }
        // All ports are stopped before the nodes, even if one of them fails.
        let stopped: Vec<anyhow::Result<()>> = ports.into_iter().map(Port::stop).collect();
        let nodes = cluster.stop();
        nodes.context("Cassandra was not stopped cleanly")?;
        ended?;
        for port in stopped {
            port?;
        }
        Ok(())
    }

    /// Starts a server in a process of its own. The first port records the sensors of the host.
    fn start_port(&self, number: u16, url: &str) -> anyhow::Result<Port> {
        let name = format!("port{number}");
        let address = format!("127.0.0.1:{}", FIRST_HTTP_PORT + number - 1);
        let sensors = if number == 1 {
            &self.host_sensors
        } else {
            "off"
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "serve",
            "--cluster",
            url,
            "--port-name",
            &name,
            "--listen",
            &address,
        ]);
        command.args([
            "--handover",
            "1m",
            // The nodes stop in good order after the ports.
            "--replica-sync",
            "none",
            "--memory",
            "128 MiB",
            "--host-sensors",
            sensors,
        ]);
        command.arg("--data").arg(self.data.join(&name));
        let child = command
            .spawn()
            .with_context(|| format!("{name} was not started"))?;
        Ok(Port {
            name,
            command,
            child,
            restarts: 0,
        })
    }
}

/// Starts ports again that fail, as a service manager does, until a signal arrives. Returns the signal.
fn supervise(signals: &mut Signals, ports: &mut [Port]) -> anyhow::Result<i32> {
    loop {
        if let Some(signal) = signals.pending().next() {
            return Ok(signal);
        }
        for port in ports.iter_mut() {
            port.revive()?;
        }
        crate::time::sleep(POLL);
    }
}

/// Server of the trial.
struct Port {
    name: String,
    command: Command,
    child: Child,
    restarts: u32,
}

impl Port {
    /// Starts the server again if it has failed: a node that is still starting may have answered too late. A server that
    /// was killed stays down, so that its takeover can be tried out.
    fn revive(&mut self) -> anyhow::Result<()> {
        let status = match self.child.try_wait()? {
            Some(status) if status.code().is_some_and(|code| code != 0) => status,
            _ => return Ok(()),
        };
        if self.restarts == MAX_RESTARTS {
            bail!(
                "{} failed more than {MAX_RESTARTS} times; the last time it ended with {status}",
                self.name
            );
        }
        self.restarts += 1;
        eprintln!("{} ended with {status}; it is started again", self.name);
        crate::time::sleep(PAUSE);
        self.child = self.command.spawn()?;
        Ok(())
    }

    /// Stops the server and waits until it has handed its rows over.
    fn stop(mut self) -> anyhow::Result<()> {
        // The signal of the terminal has reached the server already; this one is for other signals.
        if self.child.try_wait()?.is_none() {
            let id = rustix::process::Pid::from_child(&self.child);
            // A server that ends now gets no signal.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }
}
